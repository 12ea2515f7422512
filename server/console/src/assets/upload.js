// Uploads: files and whole folders, chosen or dropped, a few at a time. A large file goes in blocks: what was sent of it stays in the
// server as uncommitted blocks, and the next attempt goes on behind them.

import { BLOCK_BYTES, blockIds } from "./blocks.js";
import { all, element, one, readJson, readPage, reasonOf, sendFile, size } from "./console.js";

const AT_A_TIME = 3;
/** Most items that are shown one by one. */
const ITEMS_MAX = 200;

const upload = one("[data-upload]");
const list = one(".progress", upload);
const summary = one("[data-upload-state]", upload);
const cancelAll = one("[data-cancel-all]", upload);
const directory = one("[data-upload-directory]", upload);
const opener = one("[data-upload-open]");
/** The directory that is shown, with its slash. */
const target = () => directory.value.trim().replace(/^\/+/, "").replace(/([^/])$/, "$1/");
const address = (name, more = {}) => `${upload.dataset.upload}?${new URLSearchParams({ name, ...more })}`;

let waiting = [];
let running = 0;
let counts = { all: 0, stored: 0, failed: 0 };

class Item {
  constructor(file, path) {
    this.file = file;
    this.name = target() + path;
    this.bar = element("progress", { max: String(Math.max(file.size, 1)), value: "0", "aria-label": path });
    this.text = element("span", {}, path);
    this.button = element("button", { type: "button", class: "quiet" }, "Cancel");
    this.button.addEventListener("click", () => (this.isOver ? start(this) : this.cancel()));
    this.shown = element("li", {}, this.text, this.button, this.bar);
    this.path = path;
  }

  cancel() {
    this.abort?.abort();
    if (waiting.includes(this)) {
      waiting = waiting.filter((item) => item !== this);
      this.end(false, "canceled");
    }
  }

  end(isStored, words) {
    this.isOver = true;
    counts[isStored ? "stored" : "failed"] += 1;
    this.bar.value = isStored ? this.bar.max : 0;
    this.text.textContent = `${this.path}: ${words}`;
    if (isStored) this.button.remove();
    else this.button.textContent = "Send again";
    say();
  }

  async run() {
    this.abort = new AbortController();
    const sent = this.file.size > 2 * BLOCK_BYTES ? await this.sendBlocks() : await this.put(this.file, {});
    const isCanceled = this.abort.signal.aborted;
    this.end(sent.status === 200, sent.status === 200 ? "stored" : isCanceled ? "canceled" : reasonOf(sent.answer));
  }

  put(content, more, done = 0) {
    if (this.abort.signal.aborted) return { status: 0 };
    return sendFile("PUT", address(this.name, more), content, this.bar, { done, signal: this.abort.signal });
  }

  /** Sends the blocks that the server does not have yet, and commits all. */
  async sendBlocks() {
    const held = await readJson(`${upload.dataset.upload}/blob/blocks.json?${new URLSearchParams({ name: this.name })}`);
    const uncommitted = held?.uncommitted ?? [];
    const ids = await blockIds(this.file);
    const known = new Set(uncommitted.map(({ id }) => atob(id)));
    // Blocks of another client, with ids of another length: this file cannot have blocks beside them.
    if ([...known].some((id) => id.length !== ids[0].length)) return this.put(this.file, {});
    if (ids.some((id) => known.has(id))) this.text.textContent = `${this.path}: goes on behind ${size(ids.filter((id) => known.has(id)).length * BLOCK_BYTES)}`;
    for (const [index, block] of ids.entries()) {
      const start = index * BLOCK_BYTES;
      if (!known.has(block)) {
        const sent = await this.put(this.file.slice(start, start + BLOCK_BYTES), { block }, start);
        if (sent.status !== 200) return sent;
      }
    }
    const blocks = new Blob([ids.join("\n")], { type: this.file.type });
    return this.put(blocks, { blocks: "commit" }, this.file.size - blocks.size);
  }
}

function say() {
  const open = counts.all - counts.stored - counts.failed;
  const failed = counts.failed > 0 ? `, ${counts.failed} not stored` : "";
  summary.textContent = `${counts.stored.toLocaleString("en")} of ${counts.all.toLocaleString("en")} stored${failed}.`;
  cancelAll.hidden = open < 2;
  if (open === 0 && counts.stored > 0) showList();
}

/** Shows what was stored: in the list of this page, if it is of the directory, else behind a link. */
async function showList() {
  const list = new URL(location);
  for (const name of ["from", "done", "job"]) list.searchParams.delete(name);
  const isHere = (list.searchParams.get("prefix") ?? "").replace(/[^/]*$/, "") === target();
  if (!isHere) {
    list.searchParams.set("prefix", target());
    summary.append(" ", element("a", { href: list.href }, "Show the directory"));
    return;
  }
  const fresh = (await readPage(list))?.getElementById("list");
  if (!fresh) return;
  const old = document.getElementById("list");
  old.replaceWith(document.adoptNode(fresh));
  document.dispatchEvent(new CustomEvent("lazurite-fresh"));
}

function start(item) {
  if (item.isOver) counts.failed -= 1;
  else counts.all += 1;
  item.isOver = false;
  item.text.textContent = item.path;
  item.button.textContent = "Cancel";
  if (!item.shown.isConnected && list.children.length < ITEMS_MAX) list.append(item.shown);
  waiting.push(item);
  say();
  next();
}

async function next() {
  if (running >= AT_A_TIME || waiting.length === 0) return;
  running += 1;
  const item = waiting.shift();
  if (!item.shown.isConnected) list.append(item.shown);
  await item.run().catch((error) => item.end(false, error.message));
  running -= 1;
  // Rows of files that are stored make room for the next ones.
  if (list.children.length >= ITEMS_MAX && item.bar.value === item.bar.max) item.shown.remove();
  next();
}

const open = () => {
  upload.hidden = false;
  opener.setAttribute("aria-expanded", "true");
};
opener.setAttribute("aria-expanded", "false");
opener.addEventListener("click", () => {
  if (upload.hidden) open();
  else upload.hidden = true;
  opener.setAttribute("aria-expanded", String(!upload.hidden));
});

const startAll = (files) => files.forEach(([file, path]) => start(new Item(file, path)));

/** The files below an entry that was dropped, with their paths. */
async function filesOf(entry) {
  if (entry.isFile) return [[await new Promise((resolve, reject) => entry.file(resolve, reject)), entry.fullPath.slice(1)]];
  const reader = entry.createReader();
  const found = [];
  // A reader answers a hundred entries at a time.
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return found;
    for (const child of some) found.push(...(await filesOf(child)));
  }
}

for (const input of all('input[type="file"]', upload)) {
  input.addEventListener("change", () => startAll([...input.files].map((file) => [file, file.webkitRelativePath || file.name])));
}
cancelAll.addEventListener("click", () => {
  for (const item of waiting) item.end(false, "canceled");
  waiting = [];
  for (const button of all(".progress button", upload)) if (button.textContent === "Cancel") button.click();
});
document.addEventListener("dragover", (event) => { event.preventDefault(); open(); upload.classList.add("over"); });
document.addEventListener("dragleave", () => upload.classList.remove("over"));
document.addEventListener("drop", async (event) => {
  event.preventDefault();
  upload.classList.remove("over");
  const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  for (const entry of entries) startAll(await filesOf(entry));
});
