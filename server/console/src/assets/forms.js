// Forms that help: a refused form stays as it is, with the message at its field; afterwards one stays where one was. Lists: boxes that
// select the page, ranges, and all. Jobs: their progress.

import { all, element, one, readJson, token } from "./console.js";

const scrollKey = `lazurite-scroll ${location.pathname}`;

// A form is sent by script, so that a refusal does not take what was typed. Without script, the server shows the form again.
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.method !== "post" || form.hasAttribute("data-plain")) return;
  const button = event.submitter;
  if (button?.hasAttribute("data-plain")) return;
  event.preventDefault();
  if (form.dataset.sending) return;
  form.dataset.sending = "yes";
  // The note is about the write before this one.
  for (const note of all("main > .note")) note.remove();
  const values = new URLSearchParams(new FormData(form, button));
  const action = button?.getAttribute("formaction") ?? form.getAttribute("action") ?? location.href;
  const headers = { accept: "text/html", "x-lazurite-token": token };
  const answer = await fetch(action, { method: "POST", body: values, headers }).catch(() => undefined);
  delete form.dataset.sending;
  if (answer?.ok && answer.redirected) {
    leave(answer.url);
    return;
  }
  const page = new DOMParser().parseFromString((await answer?.text().catch(() => undefined)) ?? "", "text/html");
  if (answer?.ok) show(page);
  else refused(form, page, answer);
});

/** Shows a page that is an answer, without an address of its own. Back leads to the page that it was asked for. */
function show(page) {
  history.pushState(null, "", location.href);
  addEventListener("popstate", () => location.reload(), { once: true });
  one("main").replaceChildren(...document.adoptNode(one("main", page)).childNodes);
  one("main").focus();
  scrollTo(0, 0);
}

/** Goes to the page behind a write. If it is this one, it is shown where it was scrolled to. */
function leave(url) {
  const target = new URL(url);
  try {
    if (target.pathname === location.pathname) sessionStorage.setItem(scrollKey, String(scrollY));
  } catch {
    // The page begins at its top.
  }
  if (target.href === location.href) location.reload();
  else location.assign(target);
}

try {
  const scrolled = sessionStorage.getItem(scrollKey);
  sessionStorage.removeItem(scrollKey);
  if (scrolled !== null && !location.hash) scrollTo({ top: Number(scrolled), behavior: "instant" });
} catch {
  // Nothing was kept.
}

/** Shows why a form was refused: at the field that the server names, else above the form's buttons. */
function refused(form, page, answer) {
  for (const old of all(".refused", form)) old.remove();
  for (const field of all("[aria-invalid]", form)) field.removeAttribute("aria-invalid");
  const whole = one("[data-conflict]", page);
  if (whole) {
    show(page);
    return;
  }
  const reason = one("[role=alert]", page)?.textContent ?? "The server did not answer. Nothing is known about the write.";
  const name = one("[data-field]", page)?.dataset.field;
  const [field, index] = name?.split(":") ?? [];
  const named = field ? [...form.elements].filter((element) => element.name === field && element.type !== "hidden") : [];
  const at = named[Number(index ?? 0)];
  const note = element("p", { class: "refused alert", role: "alert", id: "refused" }, `${answer ? `${answer.status} ` : ""}${one("h1", page)?.textContent.replace(/^\d+ /, "") ?? ""}: `.replace(/^: /, ""), reason);
  if (at) {
    at.setAttribute("aria-invalid", "true");
    at.setAttribute("aria-describedby", "refused");
    (at.closest("label") ?? at).after(note);
    at.focus();
  } else {
    form.append(note);
    note.scrollIntoView({ block: "nearest" });
  }
}

// Selection.
const list = document.getElementById("list");
const boxes = () => all('#list td.pick input[type="checkbox"]');
const everything = one("[data-all]");
let last;

function count() {
  const selected = boxes().filter((box) => box.checked).length;
  const has = selected > 0 || everything?.checked;
  const state = one("[data-selected]");
  if (state) state.textContent = everything?.checked ? "All selected" : selected > 0 ? `${selected.toLocaleString("en")} selected` : "";
  for (const button of all("[data-for-selected]")) button.disabled = !has;
  const head = one("[data-pick-page]");
  if (head) {
    head.checked = selected > 0 && selected === boxes().length;
    head.indeterminate = selected > 0 && !head.checked;
  }
  for (const row of all("#list tbody tr")) row.classList.toggle("picked", Boolean(one(".pick input:checked", row)) || Boolean(everything?.checked));
}

function watchList() {
  const head = one("[data-pick-all]");
  if (!head || one("[data-pick-page]", head)) return;
  const box = element("input", { type: "checkbox", "data-pick-page": "", "aria-label": "Select the rows of this page" });
  box.addEventListener("change", () => {
    for (const other of boxes()) other.checked = box.checked;
    count();
  });
  head.replaceChildren(box);
}

if (list || one(".actionbar")) {
  watchList();
  count();
  document.addEventListener("click", (event) => {
    const box = event.target.closest?.("#list td.pick input");
    if (!box) return;
    const known = boxes();
    const [from, to] = [known.indexOf(last), known.indexOf(box)];
    if (event.shiftKey && from >= 0) for (const other of known.slice(Math.min(from, to), Math.max(from, to) + 1)) other.checked = box.checked;
    last = box;
    count();
  });
  document.addEventListener("change", (event) => event.target.closest?.("#list td.pick input, [data-all]") && count());
  document.addEventListener("lazurite-fresh", () => {
    watchList();
    count();
  });
  // Back from another page, browsers restore the boxes after the script has run.
  addEventListener("pageshow", () => setTimeout(count));
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input:not([type=checkbox]), textarea, select") || one("dialog[open]")) return;
    if (event.key === "a" && (event.ctrlKey || event.metaKey) && boxes().length > 0) {
      event.preventDefault();
      const all = boxes().every((box) => box.checked);
      for (const box of boxes()) box.checked = !all;
      count();
    } else if (event.key === "x" && !event.ctrlKey && !event.metaKey && !event.altKey) {
      one("[data-list] .chosen td.pick input")?.click();
    } else if (event.key === "Delete") {
      one(".actionbar button.danger[data-for-selected]:enabled")?.click();
    }
  });
}

// A panel of the bar closes when something else is clicked, or by Escape.
document.addEventListener("click", (event) => {
  for (const open of all("details.drop[open]")) if (!open.contains(event.target)) open.open = false;
});
document.addEventListener("keydown", (event) => {
  const open = event.key === "Escape" && event.target.closest?.("details.drop[open]");
  if (!open) return;
  open.open = false;
  one("summary", open).focus();
  event.stopPropagation();
}, true);

// Jobs.
const job = one("[data-job]");
if (job) {
  const bar = one("progress", job);
  const watch = async () => {
    const state = await readJson(job.dataset.job);
    if (state?.ended) {
      leave(location.href);
      return;
    }
    if (state) {
      bar.max = Math.max(state.planned, 1);
      bar.value = state.done;
      one("[data-job-report]", job).textContent = state.report;
    }
    setTimeout(watch, 400);
  };
  setTimeout(watch, 400);
}
