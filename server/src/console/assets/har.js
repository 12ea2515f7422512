// Opens a HAR file in the page: its requests as rows, and one of them with headers and bodies. Texts of the file never become markup.

import { all, element, one, requestRow } from "./console.js";

const ROWS_MAX = 100_000;
/** Rows that are in the page at a time, and rows that come and go together. */
const ROWS_DRAWN = 300;
const ROWS_STEP = 100;
const BODY_MAX = 65536;

const section = one("[data-har]");
const state = one("[data-har-state]", section);
const list = one(".scroll", section);
const body = one("tbody", section);
const shown = one("[data-har-entry]", section);
section.hidden = false;

const header = (message, wanted) => (message.headers ?? []).find(({ name }) => String(name).toLowerCase() === wanted)?.value;

/** An entry of the file in the form of the server's own JSON. */
function request(entry, index) {
  const { request: asked = {}, response: answer = {} } = entry;
  const url = String(asked.url ?? "");
  const agent = String(header(asked, "user-agent") ?? "").split(/\s+/);
  const [code, reason] = String(entry.comment ?? "").split(/: (.*)/s);
  return {
    number: index, at: String(entry.startedDateTime ?? ""), status: Number(answer.status) || 0, operation: String(entry._operation ?? ""),
    method: String(asked.method ?? ""), target: url.replace(/^[a-z]+:\/\/[^/]*/, ""), duration_ms: Number(entry.time) || 0,
    response_bytes: answer.bodySize >= 0 ? answer.bodySize : null, client: agent.find((word) => word.startsWith("azsdk-")) ?? agent[0],
    code, reason, href: `#${index}`,
  };
}

function headers(title, message) {
  const rows = (message?.headers ?? []).map(({ name, value }) =>
    element("tr", {}, element("th", { scope: "row" }, String(name)), element("td", {}, element("code", {}, String(value).slice(0, 4096)))));
  return element("section", {}, element("h2", {}, title), element("table", { class: "plain" }, element("tbody", {}, ...rows)));
}

function content(title, held) {
  const text = String(held?.text ?? "");
  if (text === "") return element("section", {}, element("h2", {}, title), element("p", { class: "empty" }, "Not in the file."));
  const note = [held.encoding === "base64" ? "In Base64" : null, text.length > BODY_MAX ? `the first ${BODY_MAX} characters` : null, held.comment];
  return element("section", {}, element("h2", {}, title),
    element("p", { class: "limits" }, note.filter(Boolean).join(", ")),
    element("pre", { class: "text", tabindex: "0", role: "region", "aria-label": title }, text.slice(0, BODY_MAX)));
}

function show(entry) {
  const { request: asked = {}, response: answer = {} } = entry;
  const title = element("h2", { tabindex: "-1" }, `${entry._operation || asked.method} ${answer.status}`);
  shown.replaceChildren(title, element("p", { class: "path" }, `${asked.method} ${asked.url}`),
    entry.comment ? element("p", { class: "alert" }, String(entry.comment)) : "",
    element("div", { class: "columns" }, headers("Request headers", asked), headers("Response headers", answer)),
    element("div", { class: "columns" }, content("Request body", asked.postData), content("Response body", answer.content)));
  title.focus();
}

let entries = [];
let first = 0;

const rowsFrom = (start, end) => entries.slice(start, Math.min(end, entries.length, ROWS_MAX)).map((entry, index) => requestRow(request(entry, start + index)));

/** Takes rows out at one end, and keeps their height, so that the rest of the list stays where it is. */
function moveWindow() {
  const [above, below] = [one("[data-above]", section), one("[data-below]", section)];
  const last = first + body.children.length;
  const total = Math.min(entries.length, ROWS_MAX);
  if (below.getBoundingClientRect().top < innerHeight * 2 && last < total) {
    body.append(...rowsFrom(last, last + ROWS_STEP));
    if (body.children.length > ROWS_DRAWN) {
      const gone = all("tr", body).slice(0, ROWS_STEP);
      const height = gone.reduce((sum, row) => sum + row.getBoundingClientRect().height, 0);
      above.style.height = `${above.getBoundingClientRect().height + height}px`;
      gone.forEach((row) => row.remove());
      first += gone.length;
    }
  } else if (above.getBoundingClientRect().bottom > -innerHeight && first > 0) {
    const rows = rowsFrom(Math.max(first - ROWS_STEP, 0), first);
    body.prepend(...rows);
    first -= rows.length;
    const height = rows.reduce((sum, row) => sum + row.getBoundingClientRect().height, 0);
    above.style.height = first === 0 ? "0" : `${Math.max(above.getBoundingClientRect().height - height, 0)}px`;
    all("tr", body).slice(ROWS_DRAWN).forEach((row) => row.remove());
  } else {
    return;
  }
  // Until the window has rows all over: a jump may need more than one step.
  requestAnimationFrame(moveWindow);
}

async function open(file) {
  body.replaceChildren();
  shown.replaceChildren();
  list.hidden = true;
  try {
    entries = JSON.parse(await file.text()).log.entries;
    if (!Array.isArray(entries)) throw new Error("it has no entries");
  } catch (error) {
    entries = [];
    state.textContent = `${file.name} is not a HAR file: ${error.message}.`;
    return;
  }
  first = 0;
  one("[data-above]", section).style.height = "0";
  body.append(...rowsFrom(0, ROWS_STEP));
  list.hidden = entries.length === 0;
  state.textContent = `Showing ${Math.min(entries.length, ROWS_MAX).toLocaleString("en")} of ${entries.length.toLocaleString("en")} requests of ${file.name}.`;
}

one('input[type="file"]', section).addEventListener("change", (event) => {
  if (event.target.files.length > 0) open(event.target.files[0]);
});
body.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link) return;
  event.preventDefault();
  show(entries[Number(link.getAttribute("href").slice(1))]);
});
addEventListener("scroll", moveWindow, { passive: true });
