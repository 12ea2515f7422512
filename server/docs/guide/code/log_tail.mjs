// Log tail: the newest entities first.

import assert from "node:assert/strict";
import { all, compare, insertAll, newTable } from "./store.mjs";

const [ascending, inverted] = [await newTable("Ascending"), await newTable("Inverted")];
const claims = { filter: "PartitionKey eq 'claims'" };

// #region naive
/** Steps of 100 ns since the year 1, as .NET counts time. */
const ticks = (moment) =>
  (BigInt(moment.getTime()) - BigInt(new Date("0001-01-01T00:00:00Z").getTime())) * 10_000n;

const ascendingKey = (moment) => String(ticks(moment)).padStart(19, "0");

async function newestAtTheEnd(count) {
  // The newest are last, and a query reads forwards only: all are read.
  const found = await all(ascending.listEntities({ queryOptions: claims }));
  return found
    .slice(-count)
    .reverse()
    .map((one) => one.claim);
}
// #endregion

// #region advised
const TICKS_MAX = ticks(new Date("9999-12-31T23:59:59.999Z"));

// The later the moment, the smaller the number: new entities come first in the partition.
const invertedKey = (moment) => String(TICKS_MAX - ticks(moment)).padStart(19, "0");

async function newestFirst(count) {
  // One page of `count` entities; the rest is not read.
  const pages = inverted.listEntities({ queryOptions: claims }).byPage({ maxPageSize: count });
  const { value: page } = await pages.next();
  return page.map((one) => one.claim);
}
// #endregion

const start = Date.UTC(2026, 0, 1);
for (const [table, key] of [
  [ascending, ascendingKey],
  [inverted, invertedKey],
]) {
  const entity = (_, claim) => ({
    partitionKey: "claims",
    rowKey: key(new Date(start + claim * 17_000)),
    claim,
  });
  await insertAll(table, Array.from({ length: 200 }, entity));
}
await compare(
  () => newestAtTheEnd(10),
  () => newestFirst(10),
  "examined",
);
assert.deepEqual(await newestFirst(3), [199, 198, 197]);
