// Prepend/append anti-pattern: writes in the order of time, to one partition or to ten.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { odata } from "@azure/data-tables";
import { all, newTable } from "./store.mjs";

const JOBS = 100;
const [single, spread] = [await newTable("Single"), await newTable("Spread")];
// #region naive
const rowKey = (job) => String(job).padStart(8, "0");

// Each key is greater than all before it: every write goes to the end of the same partition.
const recordInOrder = (job) =>
  single.upsertEntity({ partitionKey: "jobs", rowKey: rowKey(job), job });
// #endregion

// #region advised
const PARTITIONS = 10;
const partitionName = (partition) => String(partition).padStart(2, "0");

// A hash, so that neighbours in time are in different partitions.
const partitionOf = (job) =>
  partitionName(createHash("sha256").update(String(job)).digest().readUInt32BE() % PARTITIONS);

const record = (job) =>
  spread.upsertEntity({ partitionKey: partitionOf(job), rowKey: rowKey(job), job });

async function jobsInOrder() {
  const ofPartition = (_, partition) =>
    all(
      spread.listEntities({
        queryOptions: { filter: odata`PartitionKey eq ${partitionName(partition)}` },
      }),
    );
  const found = await Promise.all(Array.from({ length: PARTITIONS }, ofPartition));
  return found.flat().sort((a, b) => (a.rowKey < b.rowKey ? -1 : 1));
}
// #endregion

const jobs = Array.from({ length: JOBS }, (_, job) => job);
for (const job of jobs) {
  await recordInOrder(job);
  await record(job);
}
assert.deepEqual(
  (await all(single.listEntities())).map((one) => one.job),
  jobs,
);
assert.deepEqual(
  (await jobsInOrder()).map((one) => one.job),
  jobs,
);
const counts = new Map();
for (const { partitionKey } of await all(spread.listEntities()))
  counts.set(partitionKey, (counts.get(partitionKey) ?? 0) + 1);
const hottest = Math.max(...counts.values());
assert.ok(hottest < JOBS / 4, `${hottest}`);
console.log(`${JOBS} jobs in order; at most ${hottest} of them in one partition`);
