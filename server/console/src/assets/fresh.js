// Pages that change by themselves: while a page is looked at, it is fetched again, and its parts that differ are replaced.

import { all, one, readPage } from "./console.js";

const FETCH_MS = 3000;

/** Whether somebody is at work in a part of the page, which must not change under the hands. */
const isBusy = (part) => one(".pick input:checked", part) !== null || part.contains(document.activeElement) || (!getSelection().isCollapsed && part.contains(getSelection().anchorNode));

async function refresh() {
  if (document.hidden || one("dialog[open]")) return;
  const fresh = await readPage(location.href);
  if (!fresh) return;
  for (const part of all("[data-fresh]")) {
    const newer = one(`[data-fresh="${part.dataset.fresh}"]`, fresh);
    if (newer && !isBusy(part) && newer.textContent !== part.textContent) {
      part.replaceWith(document.adoptNode(newer));
      document.dispatchEvent(new CustomEvent("lazurite-fresh"));
    }
  }
}

/** Keeps the parts with `data-fresh` as they are on the server; calls `then` after each time. */
export function keepFresh(then = () => {}) {
  if (one("[data-fresh]")) setInterval(() => refresh().then(then), FETCH_MS);
}
