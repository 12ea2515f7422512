// Continuation: a read goes on where it was, in another program or after a restart of the server.

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compare, insertAll, newTable, tableClient } from "./store.mjs";

const [ENTITIES, PAGE] = [90, 10];
const table = await newTable("Rows");
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

const directory = await mkdtemp(join(tmpdir(), "guide-"));
const state = join(directory, "state");
const first = await readPages(table, state, 5);
// A client of its own: the token is all that is left of the first one.
const readOn = async () => [...first, ...(await readPages(tableClient(table.tableName), state))];
await compare(startOver, readOn, "requests");
await rm(directory, { recursive: true });
