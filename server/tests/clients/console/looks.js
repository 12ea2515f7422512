// Looks at pages of the console at four widths, dark and light: what is too wide, unreadable or refused. LAZURITE_SCREENSHOTS=DIR keeps
// pictures.

const fs = require("node:fs");
const path = require("node:path");
const axe = require("axe-core");
const { base, opened } = require("./setup.js");

const pictures = process.env.LAZURITE_SCREENSHOTS;
/** Pages that are looked at at a time. */
const TABS = 2;

const all = [375, 800, 1280, 2560].flatMap((width) => ["light", "dark"].map((colorScheme) => ({ width, colorScheme })));
// The full set is for pictures.
const modes = pictures ? all : all.filter(({ width, colorScheme }) => width !== 2560 && (width === 1280 || colorScheme === "light"));
const viewport = ({ width }) => ({ width, height: width === 375 ? 740 : 900 });

async function setMode(page, mode) {
  await page.setViewportSize(viewport(mode));
  await page.emulateMedia({ colorScheme: mode.colorScheme });
}

/** What is wrong with a page in one mode. */
async function look(page, name, mode) {
  const { width, colorScheme } = mode;
  const problems = [];
  const check = (what, found) => found.length > 0 && problems.push(`${name} ${width} ${colorScheme}: ${what}: ${found.join("\n    ")}`);
  await setMode(page, mode);
  const wide = await page.evaluate(() => [...document.querySelectorAll("body, body *")].filter((shown) => !shown.closest(".scroll, .hidden, .skip, nav, .tree") && shown.getBoundingClientRect().right > innerWidth + 1).map((shown) => shown.outerHTML.slice(0, 120)));
  check("wider than the window", wide.slice(0, 3));
  if (pictures) {
    fs.mkdirSync(pictures, { recursive: true });
    await page.screenshot({ path: path.join(pictures, `${name}-${width}-${colorScheme}.png`), fullPage: name !== "table" && name !== "requests" });
  }
  const scrolled = await page.evaluate(() => [document.documentElement.scrollWidth - innerWidth].filter((more) => more > 0));
  check("scrolls sideways by", scrolled);
  // Every rule once, with the tree beside the page; of the same page in other colours, their contrast.
  const rules = colorScheme === "light" && width === 1280 ? undefined : { type: "rule", values: ["color-contrast"] };
  const { violations } = await page.evaluate((runOnly) => axe.run({ resultTypes: ["violations"], ...(runOnly && { runOnly }) }), rules);
  check("axe", violations.map((violation) => `${violation.id}: ${violation.nodes.map((node) => node.html + node.failureSummary).join("; ")}`));
  check("markup of the store ran", await page.evaluate(() => [document.documentElement.dataset.ran].filter(Boolean)));
  return problems;
}

/** What is wrong with these places: a name, an address, and the status, which is 200 if it is left out. */
async function lookAt(places) {
  const left = [...places];
  return (await Promise.all([...Array(TABS)].map(() => lookAtNext(left)))).flat();
}

/** What is wrong with the next places, page by page, until none is left. */
async function lookAtNext(left) {
  const problems = [];
  const { page, context, complaints } = await opened("", { viewport: viewport(modes[0]) });
  for (let place = left.shift(); place; place = left.shift()) {
    const [name, address, status = 200] = place;
    // Who runs this takes silence for a hang, and many pages are one test.
    console.error(name);
    await setMode(page, modes[0]);
    const response = await page.goto(base + address, { waitUntil: "load" });
    const bytes = (await response.body()).length;
    if (response.status() !== status) problems.push(`${name}: ${response.status()}`);
    if (bytes > 150 * 1024) problems.push(`${name}: ${bytes} bytes`);
    // What is folded is looked at, too.
    await page.evaluate(() => document.querySelectorAll("details").forEach((folded) => (folded.open = true)));
    await page.evaluate(axe.source);
    for (const mode of modes) problems.push(...(await look(page, name, mode)));
    // The browser complains of a page that is a refusal.
    const others = complaints.splice(0).filter((complaint) => !complaint.includes(` ${status} `));
    problems.push(...others.map((complaint) => `${name}: ${complaint}`));
  }
  await context.close();
  return problems;
}

module.exports = { lookAt };
