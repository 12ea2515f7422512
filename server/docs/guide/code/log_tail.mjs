// Log tail: the newest entities first.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { odata } from "@azure/data-tables";
import { all, compare, insertAll, newTable } from "./store.mjs";

const [ascending, inverted] = [await newTable("Ascending"), await newTable("Inverted")];
const spread = await newTable("Spread");
const claims = { filter: "PartitionKey eq 'claims'" };

// #region naive
/** Steps of 100 ns since the year 1, as .NET counts time. */
const ticks = (moment) =>
  (BigInt(moment.getTime()) - BigInt(new Date("0001-01-01T00:00:00Z").getTime())) * 10_000n;

const keyOf = (number, claim) =>
  `${String(number).padStart(19, "0")}_${String(claim).padStart(6, "0")}`;

const ascendingKey = (moment, claim) => keyOf(ticks(moment), claim);

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

// The later the moment, the smaller the number: new entities come first in the partition. The claim
// makes the key unique.
const invertedKey = (moment, claim) => keyOf(TICKS_MAX - ticks(moment), claim);

async function newestFirst(count) {
  // One page of `count` entities; the rest is not read.
  const pages = inverted.listEntities({ queryOptions: claims }).byPage({ maxPageSize: count });
  const { value: page } = await pages.next();
  return page.map((one) => one.claim);
}
// #endregion

// #region buckets
const BUCKETS = 4;
const bucketName = (bucket) => `claims_${String(bucket).padStart(2, "0")}`;

// A hash: neighbours in time are in different buckets.
const bucketOf = (claim) =>
  bucketName(createHash("sha256").update(String(claim)).digest().readUInt32BE() % BUCKETS);

async function newestOfBucket(bucket, count) {
  const filter = odata`PartitionKey eq ${bucketName(bucket)}`;
  const pages = spread.listEntities({ queryOptions: { filter } }).byPage({ maxPageSize: count });
  return (await pages.next()).value;
}

async function newestOfAll(count) {
  // The newest of all are among the newest of each bucket.
  const ofBucket = (_, bucket) => newestOfBucket(bucket, count);
  const pages = await Promise.all(Array.from({ length: BUCKETS }, ofBucket));
  const sorted = pages.flat().sort((a, b) => (a.rowKey < b.rowKey ? -1 : 1));
  return sorted.slice(0, count).map((one) => one.claim);
}
// #endregion

const start = Date.UTC(2026, 0, 1);
const claimsOnly = () => "claims";
for (const [table, key, partitionOf] of [
  [ascending, ascendingKey, claimsOnly],
  [inverted, invertedKey, claimsOnly],
  [spread, invertedKey, bucketOf],
]) {
  const entity = (_, claim) => ({
    partitionKey: partitionOf(claim),
    // Claims 50 and 51 are of the same moment.
    rowKey: key(new Date(start + (claim === 51 ? 50 : claim) * 17_000), claim),
    claim,
  });
  await insertAll(table, Array.from({ length: 200 }, entity));
}
await compare(
  () => newestAtTheEnd(10),
  () => newestFirst(10),
  "examined",
);
await compare(
  () => newestAtTheEnd(10),
  () => newestOfAll(10),
  "examined",
);
assert.deepEqual(await newestFirst(3), [199, 198, 197]);
// No claim has taken the place of another.
assert.equal(new Set(await newestFirst(200)).size, 200);
assert.deepEqual(await newestOfAll(200), await newestFirst(200));
const partitions = (await all(spread.listEntities())).map((one) => one.partitionKey);
assert.equal(new Set(partitions).size, BUCKETS);
