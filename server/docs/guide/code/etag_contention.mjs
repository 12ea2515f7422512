// ETag contention: many writers of one counter, and a counter in shards.

import assert from "node:assert/strict";
import { odata } from "@azure/data-tables";
import { all, newTable } from "./store.mjs";

const [WRITERS, INCREMENTS] = [8, 10];
const table = await newTable("Counters");

// #region naive
/** Reads, adds one, and writes under the ETag; returns how often another writer was faster. */
async function increment(partitionKey) {
  const rowKey = "count";
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
const countInOne = () => countTo(INCREMENTS, () => increment("whole_00"));
// #endregion

// #region advised
// Each writer has an entity of its own, and meets no other. The entity has a partition of its own,
// so the writers do not share the target of a partition either.
const shardName = (writer) => `shards_${String(writer).padStart(2, "0")}`;
const countInShards = (writer) => countTo(INCREMENTS, () => increment(shardName(writer)));

async function total(counter) {
  // The partitions of a counter are a range: '`' is the character after '_'.
  const filter = odata`PartitionKey ge ${`${counter}_`} and PartitionKey lt ${`${counter}\``}`;
  const shards = await all(table.listEntities({ queryOptions: { filter } }));
  return shards.reduce((sum, shard) => sum + shard.count, 0);
}
// #endregion

const writers = Array.from({ length: WRITERS }, (_, writer) => writer);
const sum = (counts) => counts.reduce((a, b) => a + b, 0);
for (const partitionKey of ["whole_00", ...writers.map(shardName)])
  await table.createEntity({ partitionKey, rowKey: "count", count: 0 });
const lostInOne = sum(await Promise.all(writers.map(countInOne)));
const lostInShards = sum(await Promise.all(writers.map(countInShards)));
assert.deepEqual(
  [await total("whole"), await total("shards")],
  [WRITERS * INCREMENTS, WRITERS * INCREMENTS],
);
assert.equal(lostInShards, 0);
console.log(`${WRITERS} writers: ${lostInOne} lost races for one entity, none for ${WRITERS}`);
