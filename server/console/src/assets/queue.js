// A queue as it changes: counts and messages are fetched again while the page is looked at, and hidden messages count down.

import { all } from "./console.js";
import { keepFresh } from "./fresh.js";

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

countDown();
setInterval(countDown, 1000);
keepFresh(countDown);
