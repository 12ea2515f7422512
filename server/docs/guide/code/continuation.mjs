// Continuation: a read goes on where it was, in another program or after a restart of the server.

import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compare, insertAll, newTable, tableClient } from "./store.mjs";

const [ENTITIES, PAGE] = [90, 10];
const [table, scattered] = [await newTable("Rows"), await newTable("Scattered")];
const row = (_, number) => ({ partitionKey: "all", rowKey: String(number).padStart(6, "0") });
await insertAll(table, Array.from({ length: ENTITIES }, row));
const queryOptions = { filter: "PartitionKey eq 'all'" };

// #region naive
async function startOver() {
  // A program that stopped in the middle reads everything again.
  const rowKeys = [];
  for await (const page of table.listEntities({ queryOptions }).byPage({ maxPageSize: PAGE })) {
    rowKeys.push(...page.map((row) => row.rowKey));
  }
  return rowKeys;
}
// #endregion

// #region advised
/** Reads on from the token in the file `state`, and writes the next token after each page;
 * returns the RowKeys. */
async function readPages(client, state, pagesMax = Infinity) {
  const continuationToken = await readFile(state, "utf8").catch(() => undefined);
  const pages = client
    .listEntities({ queryOptions })
    .byPage({ maxPageSize: PAGE, continuationToken });
  const rowKeys = [];
  for (let number = 0; number < pagesMax; number += 1) {
    const { value: page, done } = await pages.next();
    if (done) break;
    rowKeys.push(...page.map((row) => row.rowKey));
    // After the work on the page is done: a program that dies in between repeats this page, and
    // skips none.
    if (page.continuationToken) await writeFile(state, page.continuationToken);
  }
  return rowKeys;
}
// #endregion

// #region empty
const urgentPages = () =>
  scattered.listEntities({ queryOptions: { filter: "isUrgent eq true" } }).byPage();

/** Takes a page without entities for the end. */
async function urgentByFullPages() {
  const found = [];
  for await (const page of urgentPages()) {
    if (page.length === 0) break;
    found.push(...page.map((row) => row.rowKey));
  }
  return found;
}

/** Reads on until there is no token; returns the RowKeys and the number of entities in each page. */
async function urgentByTokens() {
  const [found, sizes] = [[], []];
  for await (const page of urgentPages()) {
    found.push(...page.map((row) => row.rowKey));
    sizes.push(page.length);
  }
  return [found, sizes];
}
// #endregion

const directory = await mkdtemp(join(tmpdir(), "guide-"));
const state = join(directory, "state");
const first = await readPages(table, state, 5);
// A client of its own: the token is all that is left of the first one.
const readOn = async () => [...first, ...(await readPages(tableClient(table.tableName), state))];
await compare(startOver, readOn, "requests");
await rm(directory, { recursive: true });

// Partitions of ten jobs each; the only urgent one is in the last partition.
const job = (_, number) => ({
  partitionKey: `0${Math.floor(number / 10)}`,
  rowKey: String(number).padStart(2, "0"),
  isUrgent: number === 39,
});
await insertAll(scattered, Array.from({ length: 40 }, job));
const [found, sizes] = await urgentByTokens();
assert.deepEqual(found, ["39"]);
console.log(
  `pages until the token is missing: [${sizes}]; until a page is empty: [${await urgentByFullPages()}]`,
);
