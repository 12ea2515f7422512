// What the console does beside links and forms: copy, keys, the palette, live requests. Everything is built with textContent:
// names and texts of the store never become markup.

export const token = document.querySelector('meta[name="lazurite-token"]')?.content;
export const all = (selector, within = document) => [...within.querySelectorAll(selector)];
export const one = (selector, within = document) => within.querySelector(selector);

const read = (address, accept, whole) =>
  fetch(address, { headers: { accept } })
    .then(async (answer) => (answer.ok ? whole(await answer.text()) : undefined))
    .catch(() => undefined);

/** The JSON at an address. Nothing if it is refused, or cut off: by a server that stops, or because the page is left meanwhile. */
export const readJson = (address) => read(address, "application/json", JSON.parse);

/** The page at an address, or nothing, like `readJson`. */
export const readPage = (address) => read(address, "text/html", (text) => new DOMParser().parseFromString(text, "text/html"));

/** An element with attributes and children; strings become text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

for (const shown of all("[data-copy], [data-act], .only-script, [data-upload-open]")) shown.hidden = false;

// Copy.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Press Ctrl C";
    getSelection().selectAllChildren(button.previousElementSibling);
  }
  setTimeout(() => (button.textContent = "Copy"), 1500);
});

// Theme.
one('[data-act="theme"]')?.addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("lazurite-theme", root.dataset.theme);
  } catch {
    // For this page only, then.
  }
});

// Lists: j and k choose a row, Enter opens it, and coming back finds it again.
const rowKey = `lazurite-row ${location.pathname}${location.search}`;
const rows = () => all("[data-list] tbody > tr, [data-list] > li");
const chosen = () => one("[data-list] .chosen");

function choose(row) {
  chosen()?.classList.remove("chosen");
  row.classList.add("chosen");
  const link = one("a:not(.sort)", row);
  (link ?? row).focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
  try {
    sessionStorage.setItem(rowKey, link?.getAttribute("href") ?? String(rows().indexOf(row)));
  } catch {
    // The row is not found again.
  }
}

function step(by) {
  const list = rows();
  if (list.length === 0) return;
  const at = list.indexOf(chosen());
  choose(list[Math.min(Math.max(at + by, 0), list.length - 1)]);
}

try {
  const last = sessionStorage.getItem(rowKey);
  const row = last && rows().find((row, index) => one("a", row)?.getAttribute("href") === last || String(index) === last);
  if (row) row.classList.add("chosen");
} catch {
  // Nothing was kept.
}
document.addEventListener("click", (event) => {
  const row = event.target.closest("[data-list] tbody > tr");
  if (row && event.target.closest("a")) choose(row);
});

// Dialogs: the keys, and the palette.
function dialog(title, ...content) {
  const heading = element("h2", { id: "dialog-title" }, title);
  const made = element("dialog", { "aria-labelledby": "dialog-title" }, heading, ...content);
  made.addEventListener("close", () => made.remove());
  made.addEventListener("click", (event) => event.target === made && made.close());
  document.body.append(made);
  made.showModal();
  return made;
}

const KEYS = [
  ["Ctrl K", "go to a page, a container, a queue, a table, or a request by its id"],
  ["/", "filter"],
  ["j, k", "next and previous row"],
  ["x", "select the row"],
  ["Ctrl A", "select all rows of the page"],
  ["Delete", "ask to delete the selected rows"],
  ["Enter", "open the row"],
  ["Esc", "back, to the same row"],
  ["n", "next page"],
  ["p", "pause live requests"],
  ["b", "to the button that breaks a lease; Enter breaks it"],
  ["?", "these keys"],
];

function showKeys() {
  const list = element("dl", {}, ...KEYS.flatMap(([key, meaning]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, meaning)]));
  dialog("Keys", list, element("p", {}, element("button", { type: "button", class: "quiet" }, "Close")));
  one("dialog button").addEventListener("click", () => one("dialog").close());
}

/** Pages that the navigation does not name. */
const MORE_PAGES = [{ name: "Heat map", kind: "page", path: "/_lazurite/advisor/heat" }];

async function showPalette() {
  const input = element("input", { "aria-label": "Go to", placeholder: "A name, or the id of a request", autocomplete: "off", spellcheck: "false" });
  const list = element("ul", { "aria-label": "Places" });
  const box = dialog("Go to", input, list);
  input.focus();
  let places = all(".bar nav a").map((link) => ({ name: link.textContent, kind: "page", path: link.getAttribute("href") })).concat(MORE_PAGES);
  let at = 0;
  const draw = () => {
    const wanted = input.value.trim().toLowerCase();
    let found = places.filter((place) => place.name.toLowerCase().includes(wanted)).slice(0, 12);
    if (/^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(wanted)) {
      found = [{ name: wanted, kind: "request", path: `/_lazurite/requests/${wanted}` }];
    }
    at = Math.min(at, Math.max(found.length - 1, 0));
    if (found.length === 0) {
      list.replaceChildren(element("li", { class: "limits" }, "No page or resource has this name. Blobs and entities are found on the pages of their container or table."));
      return;
    }
    list.replaceChildren(...found.map((place, index) => element("li", {}, element("a", { href: place.path, "aria-selected": index === at ? "true" : null }, place.name, element("small", {}, place.kind)))));
  };
  input.addEventListener("input", () => { at = 0; draw(); });
  box.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      at = Math.max(at + (event.key === "ArrowDown" ? 1 : -1), 0);
      draw();
      event.preventDefault();
    } else if (event.key === "Enter") {
      const link = one('a[aria-selected="true"]', list);
      if (link) location.assign(link.href);
      event.preventDefault();
    }
  });
  draw();
  const found = await readJson("/_lazurite/api/names");
  if (found) {
    places = places.concat(found.names);
    draw();
  }
}

one('[data-act="palette"]')?.addEventListener("click", showPalette);

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    if (!one("dialog[open]")) showPalette();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || one("dialog[open]")) return;
  const typing = event.target.closest("input:not([type=checkbox]), textarea, select");
  if (event.key === "Escape") {
    if (typing) typing.blur();
    else one(".trail a:last-of-type")?.click();
    return;
  }
  if (typing) return;
  const act = {
    "?": showKeys,
    "/": () => one("[data-filter]")?.focus(),
    j: () => step(1),
    k: () => step(-1),
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    n: () => one('a[rel="next"]')?.click(),
    p: () => one('[data-act="pause"]')?.click(),
    b: () => one('[data-key="b"]')?.focus(),
  }[event.key];
  const isArrow = event.key.startsWith("Arrow");
  if (!act || (isArrow && !chosen())) return;
  event.preventDefault();
  act();
});

export const size = (bytes) => (bytes === null ? "" : bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);

/** A request, in the form of the server's JSON, as a row of a table of requests. */
export const requestRow = (request) =>
  element("tr", { class: "new", "data-number": request.number },
    element("td", {}, element("time", { datetime: request.at, title: request.at }, request.at.slice(11, 23))),
    element("td", {}, element("span", { class: `status s${Math.floor(request.status / 100)}` }, String(request.status))),
    element("td", {}, element("a", { href: request.href ?? `/_lazurite/requests/${encodeURIComponent(request.request_id)}` }, request.operation || request.method), request.plan ? element("small", {}, ` ${request.plan}`) : null),
    element("td", { class: "resource" },
      element("span", { class: "path" }, `${request.method} ${request.target.slice(0, 160)}`),
      request.partition ? element("span", { class: "partition" }, `partition ${request.partition.slice(0, 80)}`) : null,
      request.code ? element("small", {}, element("b", {}, request.code), ` ${(request.reason ?? "").slice(0, 200)}`) : null,
      request.ended === "whole" ? null : element("small", {}, element("b", {}, request.ended))),
    element("td", { class: "number" }, `${request.duration_ms.toFixed(1)} ms`),
    element("td", { class: "number" }, size(request.response_bytes)),
    element("td", {}, (request.client ?? "").slice(0, 80), request.version ? element("small", {}, ` ${request.version.slice(0, 20)}`) : null));

// Live requests. New rows go to the top; while the view is paused, or its reader has scrolled down, they are only counted.
const live = one("[data-live]");
if (live) {
  const ROWS_MAX = 300;
  const body = one("tbody", live);
  const state = one("[data-live-state]");
  const pause = one('[data-act="pause"]');
  let after = live.dataset.after;
  let waiting = [];
  let missed = 0;
  let source;
  const paused = () => pause.getAttribute("aria-pressed") === "true";
  function draw() {
    const fresh = waiting.splice(0).slice(-ROWS_MAX);
    body.prepend(...fresh.reverse().map(requestRow));
    while (body.children.length > ROWS_MAX) body.lastElementChild.remove();
    one("[data-empty]")?.remove();
    one("[data-shown]").textContent = String(body.children.length);
  }

  function say() {
    const parts = [];
    if (waiting.length > 0) parts.push(`${waiting.length} new`);
    if (missed > 0) parts.push(`${missed.toLocaleString("en")} came too fast to be shown`);
    state.textContent = parts.length > 0 ? ` ${parts.join(", ")}.` : "";
  }

  function listen() {
    const address = new URL(live.dataset.live, location);
    for (const [name, value] of new URLSearchParams(location.search)) address.searchParams.set(name, value);
    address.searchParams.set("after", after);
    source = new EventSource(address);
    source.addEventListener("error", () => (state.textContent = " The server does not answer. Trying again."));
    source.addEventListener("open", say);
    source.addEventListener("requests", (event) => {
      const { requests, missed: more, seen } = JSON.parse(event.data);
      after = event.lastEventId;
      missed += more;
      waiting = waiting.concat(requests).slice(-ROWS_MAX);
      one("[data-seen]").textContent = seen.toLocaleString("en");
      if (!paused() && scrollY < 200) draw();
      say();
    });
  }

  pause.addEventListener("click", () => {
    pause.setAttribute("aria-pressed", String(!paused()));
    pause.textContent = paused() ? "Continue" : "Pause";
    if (!paused()) draw();
    say();
  });
  // A hidden page holds no connection: browsers have six for each host.
  document.addEventListener("visibilitychange", () => {
    source?.close();
    if (!document.hidden) listen();
  });
  listen();
}

// Empty fields stay out of addresses, and so does a condition that has no property yet.
document.addEventListener("submit", ({ target: form }) => {
  if (form.method !== "get") return;
  const isUnused = ({ name, type, value }) => name && type !== "submit" && (value === "" || (["joint", "o", "t", "v"].includes(name) && form.elements.p?.value.trim() === ""));
  const unused = [...form.elements].filter(isUnused).filter((field) => !field.disabled);
  for (const field of unused) field.disabled = true;
  // The address is made after this event, and the page may come back from the history.
  setTimeout(() => unused.forEach((field) => (field.disabled = false)));
});

// A file of text goes into its field.
document.addEventListener("change", async (event) => {
  const into = event.target.dataset?.textInto;
  if (into && event.target.files.length > 0) event.target.form.elements[into].value = await event.target.files[0].text();
});

/** Sends a file, and shows its progress in a bar, behind `done` bytes. The status, and the answer if it is JSON. */
export function sendFile(method, address, file, bar, { done = 0, signal } = {}) {
  const request = new XMLHttpRequest();
  request.open(method, address);
  request.setRequestHeader("x-lazurite-token", token);
  if (file.type) request.setRequestHeader("content-type", file.type);
  request.upload.addEventListener("progress", (event) => (bar.value = done + event.loaded));
  // From here on, the server works without a known end.
  request.upload.addEventListener("load", () => done + file.size >= bar.max && bar.removeAttribute("value"));
  signal?.addEventListener("abort", () => request.abort());
  return new Promise((resolve) => {
    request.addEventListener("loadend", () => {
      let answer;
      try {
        answer = JSON.parse(request.responseText);
      } catch {
        // No answer, or none of the console.
      }
      resolve({ status: request.status, answer });
    });
    request.send(file);
  });
}

/** The reason of an answer that is a refusal, or of none. */
export const reasonOf = (answer) => answer?.error?.message ?? "the connection broke off";
