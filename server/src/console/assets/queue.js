// A queue as it changes: counts and messages are fetched again while the page is looked at, and hidden messages count down.

import { all, one } from "./console.js";

const FETCH_MS = 3000;
const skew = Date.now() - Date.parse(document.querySelector('meta[name="lazurite-now"]')?.content ?? new Date().toISOString());

/** `1 d 3 h`, `5 min 2 s`, `0 s`: as the server writes it. */
function duration(seconds) {
  const parts = [[Math.floor(seconds / 86400), "d"], [Math.floor(seconds / 3600) % 24, "h"], [Math.floor(seconds / 60) % 60, "min"], [seconds % 60, "s"]];
  const first = Math.max(parts.findIndex(([number]) => number > 0), 0);
  const shown = (seconds === 0 ? [parts[3]] : parts.slice(first, first + 2)).filter(([number, unit]) => number > 0 || unit === "s");
  return shown.map(([number, unit]) => `${number} ${unit}`).join(" ");
}

function countDown() {
  for (const until of all("[data-until]")) {
    const left = Date.parse(until.dataset.until) - (Date.now() - skew);
    until.textContent = left > 0 ? duration(Math.ceil(left / 1000)) : "0 s";
  }
}

/** Whether somebody is at work in a part of the page, which must not change under the hands. */
const isBusy = (part) => part.contains(document.activeElement) || (!getSelection().isCollapsed && part.contains(getSelection().anchorNode));

async function refresh() {
  if (document.hidden || one("dialog[open]")) return;
  const answer = await fetch(location.href, { headers: { accept: "text/html" } }).catch(() => undefined);
  if (!answer?.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of all("[data-fresh]")) {
    const newer = one(`[data-fresh="${part.dataset.fresh}"]`, fresh);
    if (newer && !isBusy(part) && newer.textContent !== part.textContent) part.replaceWith(document.adoptNode(newer));
  }
  countDown();
}

countDown();
setInterval(countDown, 1000);
if (one("[data-fresh]")) setInterval(refresh, FETCH_MS);
