// The tree of resources at the left: names and counts, a filter, groups and a drawer that stay as they were left.

import { all, element, one, readJson, token } from "./console.js";

const tree = one("aside[data-tree]");
const remember = (name, value) => {
  try {
    localStorage.setItem(`lazurite-${name}`, value);
  } catch {
    // For this page only, then.
  }
};
const recall = (name) => {
  try {
    return localStorage.getItem(`lazurite-${name}`);
  } catch {
    return null;
  }
};

if (tree) {
  const drawer = one('[data-act="tree"]');
  const narrow = matchMedia("(max-width: 800px)");
  const filter = one("[data-tree-filter]", tree);
  const account = tree.dataset.tree;
  const kept = `lazurite-tree ${account}`;
  const isOpen = () => (narrow.matches ? tree.classList.contains("open") : document.documentElement.dataset.tree !== "closed");
  const say = () => drawer.setAttribute("aria-expanded", String(isOpen()));
  let asked = 0;
  let timer;

  drawer.addEventListener("click", () => {
    if (narrow.matches) {
      tree.classList.toggle("open");
      if (isOpen()) filter.focus();
    } else {
      document.documentElement.dataset.tree = isOpen() ? "closed" : "open";
      remember("tree", document.documentElement.dataset.tree);
    }
    say();
  });
  narrow.addEventListener("change", say);
  document.addEventListener("click", (event) => {
    if (narrow.matches && isOpen() && !tree.contains(event.target) && !drawer.contains(event.target)) drawer.click();
  });
  const escape = (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    if (filter.value) {
      filter.value = "";
      load();
    } else if (narrow.matches && isOpen()) {
      drawer.click();
      drawer.focus();
    }
  };
  for (const place of [tree, drawer]) place.addEventListener("keydown", escape);

  for (const group of all("[data-group]", tree)) {
    if (recall(`group-${group.dataset.group}`) === "closed") group.open = false;
    group.addEventListener("toggle", () => remember(`group-${group.dataset.group}`, group.open ? "open" : "closed"));
  }

  const counted = ({ count, more }) => (count === null ? "" : `${count.toLocaleString("en")}${more ? "+" : ""}`);
  const here = decodeURIComponent(location.pathname);
  const isHere = (path) => here === decodeURIComponent(path) || here.startsWith(`${decodeURIComponent(path)}/`);

  function draw({ groups, snapshots }) {
    for (const { folder, items, more } of groups) {
      const group = one(`[data-group="${folder}"]`, tree);
      one("[data-group-count]", group).textContent = `${items.length.toLocaleString("en")}${more ? "+" : ""}`;
      const rows = items.map((item) => element("li", {}, element("a", { href: item.path, title: item.name, "aria-current": isHere(item.path) ? "page" : null }, element("span", {}, item.name), element("small", {}, counted(item)))));
      if (more) rows.push(element("li", { class: "limits" }, "More: filter by name."));
      one("ul", group).replaceChildren(...rows);
    }
    const place = one("[data-snapshots]", tree);
    place.replaceChildren();
    if (snapshots.length === 0) return;
    const list = snapshots.slice(0, 30).map((name) => element("li", {}, element("form", { method: "post", action: "/_lazurite/state", "data-plain": "" },
      element("input", { type: "hidden", name: "token", value: token }),
      element("input", { type: "hidden", name: "name", value: name }),
      element("input", { type: "hidden", name: "account", value: account }),
      element("button", { class: "quiet", name: "act", value: "look", title: "Opens a fork of this snapshot" }, name))));
    place.append(element("h2", {}, "Snapshots"), element("ul", { "aria-label": "Snapshots" }, ...list));
  }

  async function load() {
    const number = ++asked;
    const words = filter.value.trim();
    const found = await readJson(`/_lazurite/api/tree/${encodeURIComponent(account)}?${new URLSearchParams({ filter: words })}`);
    // Kept even if another answer is shown by now: the next page shows it before it has its own, and does not move then.
    if (found && words === "") sessionStorage.setItem(kept, JSON.stringify(found).slice(0, 200_000));
    if (found && number === asked) draw(found);
  }

  filter.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(load, 150);
  });
  try {
    draw(JSON.parse(sessionStorage.getItem(kept)));
  } catch {
    // Nothing was kept, or only a part.
  }
  say();
  load();
}
