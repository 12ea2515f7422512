// Imports: the archive is streamed by the browser, and the answer of the server is shown.

import { element, one, reasonOf, sendFile, size } from "./console.js";

const form = one("[data-import]");
const state = one("[data-import-state]");
const button = one("button", form);

/** `2 containers, 1 blob (5 B)`: what is not 0. */
function counted(imported) {
  const { bytes, ...counts } = imported;
  const shown = Object.entries(counts).filter(([, count]) => count > 0).map(([name, count]) => {
    const noun = count === 1 ? (name === "entities" ? "entity" : name.slice(0, -1)) : name;
    return `${count.toLocaleString("en")} ${noun}${name === "blobs" ? ` (${size(bytes)})` : ""}`;
  });
  return shown.join(", ") || "nothing";
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const values = new FormData(form);
  const file = values.get("archive");
  values.delete("archive");
  const bar = element("progress", { max: String(Math.max(file.size, 1)), value: "0", "aria-label": file.name });
  state.replaceChildren(element("span", {}, file.name), bar);
  button.disabled = true;
  const { status, answer } = await sendFile("POST", `${form.dataset.import}?${new URLSearchParams(values)}`, file, bar);
  button.disabled = false;
  if (status === 200) {
    const notes = element("ul", {}, ...answer.notes.map((note) => element("li", {}, note)));
    state.replaceChildren(element("p", { class: "note" }, `Imported ${counted(answer.imported)}.`), notes);
  } else {
    state.replaceChildren(element("p", { class: "alert", role: "alert" }, reasonOf(answer)));
  }
});
