// Figures in words: the same as `words.rs` and `break_even.rs`. A test compares both.

const thousands = (whole) => String(whole).replace(/\B(?=(\d{3})+$)/g, ",");

/** A figure with at most four significant digits. */
function number(figure) {
  if (!Number.isFinite(figure)) return "never";
  if (figure >= 10_000) {
    const unit = 10 ** (Math.floor(Math.log10(figure)) - 3);
    return thousands(Math.round(Math.round(figure / unit) * unit));
  }
  if (figure >= 1000) return thousands(Math.round(figure));
  if (figure >= 100) return figure.toFixed(0);
  if (figure >= 10) return figure.toFixed(1);
  return figure >= 0.1 || figure === 0 ? figure.toFixed(2) : figure.toFixed(4);
}

/** Two significant digits. */
function about(figure) {
  const unit = 10 ** (Math.floor(Math.log10(figure) + 1e-9) - 1);
  const rounded = Math.round(figure / unit) * unit;
  const isWhole = rounded >= 10 || Math.abs(rounded - Math.round(rounded)) < 1e-9;
  return isWhole ? thousands(Math.round(rounded)) : rounded.toFixed(1);
}

function times(ratio, what) {
  if (ratio >= 0.1) return `${number(ratio)}x ${what}`;
  return ratio >= 1e-3 - 1e-9 ? `1/${about(1 / ratio)} of ${what}` : `less than 1/1,000 of ${what}`;
}

const price = (amount, currency) =>
  amount > 0 && amount < 1e-4 ? `less than 0.0001 ${currency}` : `${number(amount)} ${currency}`;

/** The change of a price; empty if it stays as it was. */
const change = (before, after, what) =>
  before > 0 && number(after / before) !== "1.00" ? [times(after / before, what)] : [];

const priceChanges = (naive, advised) => [
  ...change(naive.writes, advised.writes, "the price of a write"),
  ...change(naive.reads, advised.reads, "the price of a question"),
];

function ratioText(questions) {
  const [many, few] = [about(Math.max(1, questions)), about(Math.max(1, 1 / questions))];
  if (many !== "1") return `${many} questions for each write`;
  return few === "1" ? "1 question for each write" : `1 question for each ${few} writes`;
}

const itemsText = (items) => `${about(items)} items`;

function paysOver([kind, first, last], everywhere, whatever, text, between) {
  const sentences = {
    same: () => `costs the same at ${everywhere}`,
    always: () => `pays at ${everywhere}`,
    never: () => `never pays, whatever ${whatever}`,
    from: () => `pays from ${text(first)}`,
    "up to": () => `pays up to ${text(first)}`,
    between: () => `pays between ${between(first)} and ${text(last)}`,
  };
  return sentences[kind]();
}

/** When the advised design pays; and, if it pays at no ratio, what it changes beside the price. */
function breakEvenSentence(found, models, beside, load, prices, rules) {
  const text = paysSentence(found, models, load, prices, rules);
  const isBeside = beside && ["same", "never"].includes(found.ratio[0]);
  return isBeside ? `${text} What it changes is not in the price: ${beside}.` : text;
}

function paysSentence({ ratio, items }, [naive, advised], load, prices, rules) {
  if (ratio[0] === "same" && items[0] === "same") {
    return "Both designs cost the same at every ratio of questions to writes and at every size: the price is no reason to choose.";
  }
  const byRatio = paysOver(
    ratio,
    "every ratio of questions to writes",
    "the ratio of questions to writes",
    ratioText,
    ratioText,
  );
  const bySize = paysOver(items, "every size", "the size", itemsText, about);
  const total = (design) => price(bill(design, load, prices, rules).total, prices.currency);
  const [ours, theirs] = [total(advised), total(naive)];
  const compared = ours === theirs ? ", as the naive one does" : ` instead of ${theirs}`;
  return (
    `With ${number(load.items)} items, the advised design ${byRatio}. ` +
    `With ${number(load.reads)} questions and ${number(load.writes)} writes a month, it costs ` +
    `${ours}${compared}, and ${bySize}.`
  );
}

/** The prices of the designs with batches under both countings; empty if none has any. */
function batchSentence(designs, load, prices, rules) {
  const batched = designs.filter((design) => hasBatches(design.model));
  const under = (counting) => {
    const total = ({ name, model }) =>
      `${name} ${price(bill(model, load, prices, rules, counting).total, prices.currency)}`;
    return batched.map(total).join(", ");
  };
  if (batched.length === 0) return "";
  return `Price if a batch is billed as its entities: ${under("entities")}; as one request: ${under("request")}`;
}
