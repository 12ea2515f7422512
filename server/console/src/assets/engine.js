// The charts of the engine: the figures are fetched once a second and drawn as lines.

import { all, one, readJson, size } from "./console.js";

const POINTS = 120;
const WIDTH = 300;
const HEIGHT = 80;

const section = one("[data-charts]");
section.hidden = false;
const lines = new Map();
let before;

/** A counter's growth for each second since the figures before. */
const rate = (now, name, seconds) => (now[name] - before.figures[name]) / seconds;

/** What the charts show; `undefined` where there is nothing to show yet. */
function values(now, seconds) {
  const changes = before && now.changes - before.figures.changes;
  const syncs = before && now.syncs - before.figures.syncs;
  return {
    write_amplification: now.write_amplification,
    space_amplification: now.space_amplification ?? undefined,
    read_amplification: now.read_amplification,
    changes_a_sync: syncs > 0 ? changes / syncs : undefined,
    put: before && rate(now, "put_bytes", seconds),
    compacted: before && rate(now, "compacted_bytes", seconds),
    blocks_read: before && rate(now, "blocks_read", seconds),
    cache_bytes: now.cache_bytes,
  };
}

function text(value, unit) {
  if (unit.startsWith("B")) return size(Math.round(value)) + unit.slice(1);
  return (value >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(2)) + unit;
}

function draw(chart, value) {
  const key = chart.dataset.chart;
  const points = lines.get(key) ?? [];
  lines.set(key, points);
  if (value === undefined) return;
  points.push(value);
  if (points.length > POINTS) points.shift();
  const top = Math.max(...points, Number.MIN_VALUE);
  const place = (point, index) => `${((index / (POINTS - 1)) * WIDTH).toFixed(1)},${(HEIGHT - 2 - (point / top) * (HEIGHT - 4)).toFixed(1)}`;
  one("polyline", chart).setAttribute("points", points.map(place).join(" "));
  one("[data-now]", chart).textContent = text(value, chart.dataset.unit);
  one("[data-top]", chart).textContent = text(Math.max(...points), chart.dataset.unit);
}

async function look() {
  if (document.hidden) {
    before = undefined;
    return;
  }
  const figures = await readJson(section.dataset.charts);
  if (!figures) return;
  const at = performance.now();
  const shown = values(figures, before ? (at - before.at) / 1000 : 1);
  before = { figures, at };
  for (const chart of all("[data-chart]", section)) draw(chart, shown[chart.dataset.chart]);
}

look();
setInterval(look, 1000);
