// A chart of the prices of two designs along an axis, both logarithmic, as SVG.

const CHART = { width: 320, left: 46, right: 10, top: 34, bottom: 150, height: 214 };
const TICKS_MAX = 5;
const POINTS_A_DECADE = 10;

const axes = {
  ratio: {
    title: "over questions to writes",
    tick: (ratio) =>
      ratio < 1 ? `1:${thousands(Math.round(1 / ratio))}` : `${thousands(Math.round(ratio))}:1`,
    crossing: (ratio) => (ratio < 1 ? `1:${about(1 / ratio)}` : `${about(ratio)}:1`),
  },
  items: { title: "over items", tick: short, crossing: about },
};

/** `100`, `10k`, `1M`: short enough for an axis. */
function short(figure) {
  const units = [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ];
  const unit = units.find(([size]) => figure >= size);
  return unit
    ? `${thousands(Math.round(figure / unit[0]))}${unit[1]}`
    : String(+figure.toPrecision(3));
}

const escaped = (text) => text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);

/** Powers of ten in a range, no more than fit. */
function decades(least, most) {
  const [first, last] = [Math.ceil(Math.log10(least) - 1e-9), Math.floor(Math.log10(most) + 1e-9)];
  const step = Math.max(1, Math.ceil((last - first) / (TICKS_MAX - 1)));
  const all = [];
  for (let exponent = first; exponent <= last; exponent += step) all.push(10 ** exponent);
  return all;
}

/** A scale from the logarithm of a figure to a coordinate. */
const scale = (least, most, from, to) => (figure) =>
  from +
  ((Math.log10(figure) - Math.log10(least)) / (Math.log10(most) - Math.log10(least))) * (to - from);

/** The chart of `designs` (names and `totalAt` a figure) along an axis, with the crossing marked. */
function lines(axis, range, designs, crossing, current, currency) {
  const { title, tick, crossing: crossingText } = axes[axis];
  const figures = spread(range, POINTS_A_DECADE);
  const totals = designs.map(({ totalAt }) =>
    figures.map((figure) => Math.max(1e-6, totalAt(figure))),
  );
  const least = 10 ** Math.floor(Math.log10(Math.min(...totals.flat())));
  const most =
    10 ** Math.max(Math.ceil(Math.log10(Math.max(...totals.flat()))), Math.log10(least) + 1);
  const x = scale(...range, CHART.left, CHART.width - CHART.right);
  const y = scale(least, most, CHART.bottom, CHART.top);
  const line = (from, to, name) =>
    `<line class="${name}" x1="${from[0].toFixed(1)}" y1="${from[1].toFixed(1)}" x2="${to[0].toFixed(1)}" y2="${to[1].toFixed(1)}"/>`;
  const label = (at, text, anchor = "middle", name = "") =>
    `<text class="${name}" x="${at[0].toFixed(1)}" y="${at[1].toFixed(1)}" text-anchor="${anchor}">${escaped(text)}</text>`;
  const heading = `Price a month in ${currency} ${title}`;
  const parts = [label([0, 15], heading, "start", "title")];
  for (const amount of decades(least, most)) {
    parts.push(line([CHART.left, y(amount)], [CHART.width - CHART.right, y(amount)], "grid"));
    parts.push(label([CHART.left - 5, y(amount) + 4], short(amount), "end"));
  }
  const ticks = axis === "ratio" ? [range[0], 1, range[1]] : decades(...range);
  ticks.forEach((figure) => {
    const anchor = figure === range[1] ? "end" : figure === range[0] ? "start" : "middle";
    parts.push(label([x(figure), CHART.bottom + 15], tick(figure), anchor));
  });
  if (current >= range[0] && current <= range[1]) {
    parts.push(line([x(current), CHART.bottom], [x(current), CHART.bottom - 6], "load"));
  }
  designs.forEach(({ name, kind }, at) => {
    const points = figures.map(
      (figure, step) => `${x(figure).toFixed(1)},${y(totals[at][step]).toFixed(1)}`,
    );
    parts.push(`<polyline class="line ${kind}" points="${points.join(" ")}"/>`);
    const row = CHART.bottom + 38 + 18 * at;
    parts.push(line([0, row - 4], [18, row - 4], `line ${kind}`));
    parts.push(label([24, row], name, "start"));
  });
  for (const figure of crossing.slice(1)) {
    parts.push(line([x(figure), CHART.top], [x(figure), CHART.bottom], "crossing"));
    const isRight = x(figure) > CHART.width / 2;
    parts.push(
      label(
        [x(figure) + (isRight ? -4 : 4), CHART.top - 4],
        crossingText(figure),
        isRight ? "end" : "start",
        "mark",
      ),
    );
  }
  return `<svg viewBox="0 0 ${CHART.width} ${CHART.height}" role="img" aria-label="${escaped(heading)}" font-size="12">${parts.join("")}</svg>`;
}
