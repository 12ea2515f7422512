// The grid of a table: completion in the filter, its conditions and its plan while it is written, and rows sorted within the page, which is
// said to be no more than that. The form of an entity: what a change of type does to filters.

import { all, element, one } from "./console.js";

// The filter completes names of properties, then operators, then the form of a value of the property's type.
const filter = one("#filter");
const properties = all("#properties option").map((option) => ({ name: option.value, types: option.dataset.types }));
const OPERATORS = ["eq", "ne", "gt", "ge", "lt", "le"];
const VALUES = { String: "''", Int32: "0", Int64: "0L", Double: "0.0", Boolean: "true", DateTime: "datetime'2026-01-01T00:00:00Z'", Guid: "guid'00000000-0000-0000-0000-000000000000'", Binary: "X''" };

/** What may come at the end of a filter: the word that is being written, and the words that complete it. */
function completions(text) {
  const word = /[A-Za-z_][A-Za-z0-9_]*$/.exec(text)?.[0] ?? "";
  const before = text.slice(0, text.length - word.length).trimEnd();
  if ((before.match(/'/g)?.length ?? 0) % 2 === 1) return { word, found: [] };
  const last = /[^\s()]+$/.exec(before)?.[0] ?? "";
  const fits = (candidate) => candidate.toLowerCase().startsWith(word.toLowerCase());
  if (before === "" || before.endsWith("(") || ["and", "or", "not"].includes(last)) {
    return { word, found: [...properties.map(({ name }) => name), "not"].filter(fits) };
  }
  if (properties.some(({ name }) => name === last)) return { word, found: OPERATORS.filter(fits) };
  if (OPERATORS.includes(last)) {
    const name = /([^\s()]+)\s+\S+$/.exec(before)?.[1];
    const types = properties.find((property) => property.name === name)?.types ?? "";
    return { word, found: types.split(", ").map((type) => VALUES[type]).filter(Boolean).filter(fits) };
  }
  return { word, found: ["and", "or"].filter(fits) };
}

if (filter && properties.length > 0) {
  const list = element("ul", { id: "completions", role: "listbox", "aria-label": "Completions", class: "completions" });
  list.hidden = true;
  const holder = element("div", { class: "completed" });
  filter.replaceWith(holder);
  holder.append(filter, list);
  for (const [name, value] of Object.entries({ role: "combobox", "aria-expanded": "false", "aria-controls": "completions", "aria-autocomplete": "list" })) filter.setAttribute(name, value);
  let at = -1;

  function close() {
    list.hidden = true;
    at = -1;
    filter.setAttribute("aria-expanded", "false");
    filter.removeAttribute("aria-activedescendant");
  }

  function choose(index) {
    at = index;
    all("li", list).forEach((item, place) => item.setAttribute("aria-selected", String(place === at)));
    if (at >= 0) filter.setAttribute("aria-activedescendant", `completion-${at}`);
    else filter.removeAttribute("aria-activedescendant");
  }

  function take(text) {
    const start = filter.selectionStart;
    const { word } = completions(filter.value.slice(0, start));
    filter.setRangeText(text + (text.endsWith("'") ? "" : " "), start - word.length, start, "end");
    const inside = text.endsWith("''") ? 1 : 0;
    filter.setSelectionRange(filter.selectionStart - inside, filter.selectionStart - inside);
    open();
  }

  function open() {
    const { found } = completions(filter.value.slice(0, filter.selectionStart));
    const shown = found.slice(0, 12);
    list.replaceChildren(...shown.map((text, index) => element("li", { id: `completion-${index}`, role: "option", "aria-selected": "false" }, text)));
    list.hidden = shown.length === 0;
    filter.setAttribute("aria-expanded", String(!list.hidden));
    choose(-1);
  }

  filter.addEventListener("input", open);
  filter.addEventListener("blur", close);
  list.addEventListener("mousedown", (event) => {
    event.preventDefault();
    const item = event.target.closest("li");
    if (item) take(item.textContent);
  });
  filter.addEventListener("keydown", (event) => {
    const items = all("li", list);
    if (event.key === "ArrowDown" && list.hidden) open();
    else if (list.hidden) return;
    else if (event.key === "ArrowDown") choose(Math.min(at + 1, items.length - 1));
    else if (event.key === "ArrowUp") choose(Math.max(at - 1, -1));
    else if ((event.key === "Enter" || event.key === "Tab") && at >= 0) take(items[at].textContent);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}

// The conditions and the plan of a filter while it is written. The server reads the filter, so that there is one reader of the language.
const form = one("[data-plan]");
if (form) {
  const state = one("[data-plan-state]", form);
  const chips = one("[data-chips]");
  const builder = one("[data-builder]", form);
  const { p: property, t: type, v: value } = form.elements;
  let timer;
  let asked = 0;

  /** The plan of the filter; with the condition of the form behind it if `more`. */
  async function look(more) {
    const fields = new FormData(form);
    if (!more) fields.delete("p");
    // A question that the timer asks later would discard the answer to this one, and a new condition with it.
    clearTimeout(timer);
    const number = (asked += 1);
    const answer = await fetch(`${form.dataset.plan}?${new URLSearchParams(fields)}`, { headers: { accept: "application/json" } }).catch(() => undefined);
    const found = await answer?.json().catch(() => undefined);
    if (!found || number !== asked) return;
    if (answer.ok) show(found, more);
    else state.textContent = found.error.message;
  }

  function show({ filter: text, terms, plan, azurePlan }, more) {
    const azure = azurePlan && azurePlan !== plan ? ` On Azure: ${azurePlan}.` : "";
    state.textContent = text.trim() === "" ? "" : `Plan: ${plan}.${azure}`;
    if (more) {
      filter.value = text;
      property.value = "";
      value.value = "";
      filter.focus();
    }
    chips.replaceChildren(...(terms.length > 1 ? terms.map((term) => chip(term, terms)) : []));
  }

  function chip(term, terms) {
    const button = element("button", { type: "button", class: "quiet", "aria-label": `Remove ${term}` }, "×");
    button.addEventListener("click", () => {
      filter.value = terms.filter((other) => other !== term).join(" and ");
      look(false);
    });
    return element("li", {}, element("code", {}, term.slice(0, 200)), button);
  }

  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(() => look(false), 250);
  };
  filter.addEventListener("input", later);
  filter.addEventListener("blur", later);
  property.addEventListener("change", () => {
    const types = properties.find(({ name }) => name === property.value)?.types;
    if (types) type.value = types.split(", ")[0];
  });
  builder.addEventListener("click", (event) => {
    if (property.value.trim() === "") return;
    event.preventDefault();
    look(true);
  });
}

// A change of type, and the filters that find the entity before and after it.
const hint = one("[data-type-hint]");
if (hint) {
  // A literal of the first type finds values of the others as well.
  const WIDENED = { Int32: ["Int64", "Double"], Int64: ["Double"] };
  for (const select of all('.edit select[name="type"]')) {
    const before = select.value;
    select.addEventListener("change", () => {
      const name = one('input[name="name"]', select.closest("tr")).value;
      hint.hidden = name === "" || select.value === before;
      const still = WIDENED[before]?.includes(select.value);
      hint.textContent = `${name} becomes ${select.value}: a filter writes it as ${VALUES[select.value]}. One that writes ${VALUES[before]} (${before}) ` +
        (still ? "finds the entity as before: its value is widened." : "no longer finds the entity with eq, gt or ge; with ne, lt and le it does, whatever the value.") +
        " Entities that keep the old type are compared as before.";
    });
  }
}

// Columns sort the rows of the page. The order of storage is one click away.
const grid = one("table.grid");
if (grid) {
  const body = one("tbody", grid);
  const stored = all("tr", body);
  const note = element("p", { class: "limits", role: "status" });
  grid.closest(".scroll").before(note);
  const key = (row, column) => row.children[column].textContent.trim();
  const number = (text) => (/^-?[0-9.]+(e[-+]?[0-9]+)?$/i.test(text) ? Number(text) : NaN);

  function compare(one, other) {
    const [a, b] = [number(one), number(other)];
    return Number.isNaN(a) || Number.isNaN(b) ? one.localeCompare(other, "en") : a - b;
  }

  function sort(heading, column) {
    const before = heading.getAttribute("aria-sort");
    all("th[aria-sort]", grid).forEach((other) => other.removeAttribute("aria-sort"));
    if (before === "descending") {
      body.append(...stored);
      note.textContent = "";
      return;
    }
    const order = before === "ascending" ? "descending" : "ascending";
    heading.setAttribute("aria-sort", order);
    const sorted = [...stored].sort((one, other) => compare(key(one, column), key(other, column)) * (order === "ascending" ? 1 : -1));
    body.append(...sorted);
    note.textContent = `Sorted in this page only (${stored.length} rows), not in the table. Storage order is by PartitionKey, then RowKey.`;
  }

  all("thead th", grid).forEach((heading, column) => {
    if (heading.classList.contains("pick")) return;
    const name = heading.firstChild.textContent.trim();
    const button = element("button", { type: "button", class: "sort", title: "Sort this page" }, name);
    heading.firstChild.replaceWith(button);
    button.addEventListener("click", () => sort(heading, column));
  });
}
