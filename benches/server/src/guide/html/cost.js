"use strict";
// The cost model of the crate `lazurite-cost`, with the same formulas: the bill of a month, and where
// one design becomes cheaper than another. A test compares the results of both.

const GIB = 2 ** 30;
const PRICED_TRANSACTIONS = 10_000;
const STEPS_A_DECADE = 20;
const HALVINGS = 60;
const SAME_SHARE = 0.01;
const ROUNDING_SHARE = 1e-9;

/** A figure that grows with the items. */
function growthAt({ shape }, items) {
  const [[kind, fitted]] = Object.entries(shape);
  const figures = {
    constant: ({ value }) => value,
    linear: ({ base, by_item }) => base + by_item * items,
    power: ({ factor, exponent }) => factor * items ** exponent,
  };
  return Math.max(0, figures[kind](fitted));
}

/** Pages of a scan: `PageRules::pages`. */
function pagesOf(rules, rowsASecond, examined, returned, boundaries) {
  const parts = (whole, most) => Math.max(1, Math.ceil(whole / Math.max(1, most)));
  const ranges = Math.floor(boundaries) + 1;
  const byEntities = parts(returned / ranges, rules.entities_max);
  const byTime = parts(examined / ranges, rowsASecond * rules.seconds_max);
  return ranges * Math.max(byEntities, byTime);
}

/** The class of a step and its transactions for each write or read. */
function unitsOf(work, items, prices, rules, counting) {
  const [[kind, sent]] = Object.entries(work);
  const times = growthAt(sent.times, items);
  if (kind === "requests") return [sent.class, times];
  if (kind === "batches") {
    return ["table_batch_write", counting === "entities" ? times * sent.entities : times];
  }
  const rows = [sent.examined, sent.returned, sent.boundaries].map((of) => growthAt(of, items));
  return ["table_scan", times * pagesOf(rules, prices.scan_rows_a_second, ...rows)];
}

/** The sums of the parts of a bill, and of all of it: `Design::bill`. */
function bill(design, load, prices, rules, counting = prices.batch_is_billed_as) {
  const transactions = (steps, operations) => {
    const amount = (step) => {
      const [of, each] = unitsOf(step.work, load.items, prices, rules, counting);
      const units = operations * each;
      return (units / PRICED_TRANSACTIONS) * prices.per_10_000_transactions[of];
    };
    return sum(steps.map(amount));
  };
  const capacity = ({ service, bytes }) =>
    ((load.items * bytes) / GIB) * prices.per_gib_and_month[service];
  const transfer = prices.per_gib_transferred;
  const parts = {
    writes: transactions(design.write, load.writes),
    reads: transactions(design.read, load.reads),
    capacity: sum(design.item.map(capacity)),
    transfer:
      ((load.writes * design.written_bytes) / GIB) * transfer.geo_replication +
      ((load.reads * design.received_bytes) / GIB) * transfer.egress,
  };
  return { ...parts, total: sum(Object.values(parts)) };
}

const sum = (amounts) => amounts.reduce((total, amount) => total + amount, 0);

/** Whether the bill depends on how batches are counted. */
const hasBatches = (design) =>
  [...design.write, ...design.read].some((step) => "batches" in step.work);

/** Figures from the least to the greatest, evenly spread by their logarithms. */
function spread([least, most], stepsADecade) {
  const steps = Math.round(Math.log10(most / least) * stepsADecade);
  return Array.from({ length: steps + 1 }, (_, step) => least * (most / least) ** (step / steps));
}

/** Reverses what holds for a while between two others, if `isSame` all the while. */
function closeGaps(cheaper, isSame) {
  const closed = [...cheaper];
  for (let begin = 0, end; begin < closed.length; begin = end) {
    end = closed.findIndex((one, at) => at > begin && one !== closed[begin]);
    if (end < 0) break;
    const gap = Array.from({ length: end - begin }, (_, step) => begin + step);
    if (begin > 0 && gap.every(isSame)) closed.fill(closed[begin - 1], begin, end);
  }
  return closed;
}

/** Where the first of two prices is lower: `BreakEven`, as a kind and its figures. */
function breakEven(range, pricesAt) {
  const points = spread(range, STEPS_A_DECADE);
  const all = points.map(pricesAt);
  const isSame = ([a, b]) => Math.abs(a - b) <= SAME_SHARE * Math.max(a, b);
  if (all.every(isSame)) return ["same"];
  const isCheaper = ([ours, theirs]) => ours < theirs * (1 - ROUNDING_SHARE);
  const cheaper = closeGaps(all.map(isCheaper), (at) => isSame(all[at]));
  const crossings = [];
  for (let at = 1; at < points.length; at += 1) {
    if (cheaper[at] === cheaper[at - 1]) continue;
    let [low, high] = [points[at - 1], points[at]];
    for (let halving = 0; halving < HALVINGS; halving += 1) {
      const middle = Math.sqrt(low * high);
      if (isCheaper(pricesAt(middle)) === cheaper[at - 1]) low = middle;
      else high = middle;
    }
    crossings.push(high);
  }
  const [begins, ends] = [cheaper[0], cheaper.at(-1)];
  if (crossings.length === 0) return [begins ? "always" : "never"];
  if (ends) return ["from", crossings.at(-1)];
  if (begins) return ["up to", crossings[0]];
  return ["between", crossings[0], crossings.at(-1)];
}

/** The loads along an axis: a ratio of reads to writes, or a number of items. */
const along = {
  ratio: (load, ratio) => ({ ...load, reads: ratio * load.writes }),
  items: (load, items) => ({ ...load, items }),
};

/** Where the advised design costs less than the naive one, along both axes. */
function breakEvens([naive, advised], load, { prices, page_rules: rules, ratios, items }) {
  const over = (axis, range) =>
    breakEven(range, (figure) =>
      [advised, naive].map(
        (design) => bill(design, along[axis](load, figure), prices, rules).total,
      ),
    );
  return { ratio: over("ratio", ratios), items: over("items", items) };
}
