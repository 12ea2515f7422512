// ETag contention: many writers of one counter, and a counter in shards.

import assert from "node:assert/strict";
import { odata } from "@azure/data-tables";
import { all, insertAll, newTable } from "./store.mjs";

const [WRITERS, INCREMENTS] = [8, 10];
const table = await newTable("Counters");
const shardName = (writer) => String(writer).padStart(2, "0");

// #region naive
/** Reads, adds one, and writes under the ETag; returns how often another writer was faster. */
async function increment(partitionKey, rowKey) {
  for (let lost = 0; ; lost += 1) {
    const { count, etag } = await table.getEntity(partitionKey, rowKey);
    try {
      await table.updateEntity({ partitionKey, rowKey, count: count + 1 }, "Replace", { etag });
      return lost;
    } catch (error) {
      if (error.statusCode !== 412) throw error;
    }
  }
}

async function countTo(increments, once) {
  let lost = 0;
  for (let number = 0; number < increments; number += 1) lost += await once();
  return lost;
}

// All writers read and write the same entity.
const countInOne = () => countTo(INCREMENTS, () => increment("one", "00"));
// #endregion

// #region advised
// Each writer has an entity of its own, and meets no other.
const countInShards = (writer) => countTo(INCREMENTS, () => increment("shards", shardName(writer)));

async function total(partition) {
  const shards = await all(
    table.listEntities({ queryOptions: { filter: odata`PartitionKey eq ${partition}` } }),
  );
  return shards.reduce((sum, shard) => sum + shard.count, 0);
}
// #endregion

const writers = Array.from({ length: WRITERS }, (_, writer) => writer);
const sum = (counts) => counts.reduce((a, b) => a + b, 0);
await insertAll(table, [{ partitionKey: "one", rowKey: "00", count: 0 }]);
await insertAll(
  table,
  writers.map((writer) => ({ partitionKey: "shards", rowKey: shardName(writer), count: 0 })),
);
const lostInOne = sum(await Promise.all(writers.map(countInOne)));
const lostInShards = sum(await Promise.all(writers.map(countInShards)));
assert.deepEqual(
  [await total("one"), await total("shards")],
  [WRITERS * INCREMENTS, WRITERS * INCREMENTS],
);
assert.equal(lostInShards, 0);
console.log(`${WRITERS} writers: ${lostInOne} lost races for one entity, none for ${WRITERS}`);
