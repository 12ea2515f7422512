// Opens a HAR file in the page: its requests as rows, and one of them with headers and bodies. Texts of the file never become markup.

import { all, element, one, requestRow } from "./console.js";

const ROWS_MAX = 5000;
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
  body.append(...entries.slice(0, ROWS_MAX).map((entry, index) => requestRow(request(entry, index))));
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
