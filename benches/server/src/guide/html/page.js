// The inputs of the page, and what they change: prices, sentences and lines.

const model = JSON.parse(document.getElementById("model").textContent);
const initial = structuredClone(model.prices);

const labels = {
  load_per_month: "Load of a month",
  per_10_000_transactions: "Price of 10,000 transactions",
  per_gib_and_month: "Price of a GiB kept for a month",
  per_gib_transferred: "Price of a GiB transferred",
  reads: "questions",
  scan_rows_a_second: "rows a second that a scan examines",
};
const labelOf = (name) => labels[name] ?? name.replaceAll("_", " ");

const element = (name, properties, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};

/** An input for a number of the price file. */
function field(owner, name) {
  const input = element("input", {
    type: "number",
    min: 0,
    step: "any",
    value: owner[name],
    required: true,
  });
  input.addEventListener("input", () => {
    if (!input.checkValidity()) return;
    owner[name] = input.valueAsNumber;
    update();
  });
  return element("label", {}, labelOf(name), input);
}

const group = (name) => {
  const fields = Object.keys(model.prices[name]).map((key) => field(model.prices[name], key));
  return element("fieldset", {}, element("legend", {}, labelOf(name)), ...fields);
};

function counting() {
  const options = ["entities", "request"].map((value) =>
    element("option", { value, selected: value === model.prices.batch_is_billed_as }, value),
  );
  const select = element("select", {}, ...options);
  select.addEventListener("change", () => {
    model.prices.batch_is_billed_as = select.value;
    update();
  });
  return element("label", {}, labelOf("batch_is_billed_as"), select);
}

function fillForm(form) {
  const others = element(
    "fieldset",
    {},
    element("legend", {}, "Counting"),
    counting(),
    field(model.prices, "scan_rows_a_second"),
  );
  const prices = ["per_10_000_transactions", "per_gib_and_month", "per_gib_transferred"].map(group);
  const reset = element("button", { type: "button" }, "Reset");
  reset.addEventListener("click", () => {
    model.prices = structuredClone(initial);
    fillForm(form);
    update();
  });
  const summary = element("summary", {}, `Prices in ${model.prices.currency}`);
  const isOpen = form.querySelector("details")?.open ?? false;
  const details = element("details", { open: isOpen }, summary, ...prices, others);
  form.replaceChildren(group("load_per_month"), details, reset);
}

function updatePattern({ name, beside, share, designs }) {
  const section = document.getElementById(name);
  if (designs.length === 0) return;
  const { prices, page_rules: rules } = model;
  const ofAll = prices.load_per_month;
  const load = { ...ofAll, reads: ofAll.reads * share };
  const total = (design, at = load) => bill(design.model, at, prices, rules).total;
  section.querySelectorAll("td.price").forEach((cell, at) => {
    cell.textContent = price(total(designs[at]), prices.currency);
  });
  const pair = [designs[0], designs.at(-1)];
  const changes = priceChanges(...pair.map((design) => bill(design.model, load, prices, rules)));
  section.querySelector("[data-change]").textContent = changes.map((text) => `, ${text}`).join("");
  const models = pair.map((design) => design.model);
  const found = breakEvens(models, load, model);
  const pays = breakEvenSentence(found, models, beside, load, prices, rules);
  section.querySelector("[data-break-even]").textContent = pays;
  section.querySelector("[data-items]").textContent = number(load.items);
  const batches = section.querySelector("[data-batches]");
  if (batches) batches.textContent = `${batchSentence(designs, load, prices, rules)}.`;
  const draw = (axis, range, current) => {
    const drawn = pair.map((design, at) => ({
      name: design.name,
      kind: ["naive", "advised"][at],
      totalAt: (figure) => total(design, along[axis](load, figure)),
    }));
    const figure = section.querySelector(`[data-lines=${axis}]`);
    figure.innerHTML = lines(axis, range, drawn, found[axis], current, prices.currency);
  };
  draw("ratio", model.ratios, load.reads / load.writes);
  draw("items", model.items, load.items);
}

const update = () => model.patterns.forEach(updatePattern);

fillForm(document.querySelector("#load form"));
update();
