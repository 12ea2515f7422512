// Parallel queries: one question to every partition at once; writes by several workers.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { odata } from "@azure/data-tables";
import { departments, employees } from "./staff.mjs";
import { all, insertAll, newTable } from "./store.mjs";

const [table, loaded] = [await newTable("Staff"), await newTable("Loaded")];
await insertAll(
  table,
  employees().map((one) => ({ partitionKey: one.department, rowKey: one.id, ...one })),
);

// #region naive
async function olderThan(department, age) {
  const filter = odata`PartitionKey eq ${department} and age gt ${age}`;
  return (await all(table.listEntities({ queryOptions: { filter } }))).map((one) => one.mail);
}

async function oneAfterTheOther(age) {
  const mails = [];
  for (const department of departments) mails.push(...(await olderThan(department, age)));
  return mails;
}
// #endregion

// #region advised
const allAtOnce = async (age) =>
  (await Promise.all(departments.map((department) => olderThan(department, age)))).flat();
// #endregion

// #region writes
const WORKERS = 4;

/** Writes the partitions of one worker; returns the names of those that failed. */
async function writeShare(share, send) {
  const failed = new Set();
  const longest = Math.max(0, ...share.map(([, entities]) => entities.length));
  for (let start = 0; start < longest; start += 100) {
    // A transaction of each partition in turn: one partition alone would soon reach its target.
    for (const [name, entities] of share) {
      const some = entities.slice(start, start + 100);
      if (some.length === 0 || failed.has(name)) continue;
      await send(some.map((entity) => ["upsert", entity, "Replace"])).catch(() => failed.add(name));
    }
  }
  return [...failed];
}

/** Divides the partitions among workers; returns the names of those that failed. */
async function writeAll(partitions, send) {
  const share = (_, worker) => [...partitions].filter((_, number) => number % WORKERS === worker);
  const shares = Array.from({ length: WORKERS }, share);
  return (await Promise.all(shares.map((share) => writeShare(share, send)))).flat();
}
// #endregion

// #region owners
// A hash: the changes of a partition always have the same worker. They stay in order, and no two
// workers change one entity.
const workerOf = (partition) =>
  createHash("sha256").update(partition).digest().readUInt32BE() % WORKERS;

/** Gives each change to the worker of its partition. */
async function applyAll(changes, apply) {
  const work = async (_, worker) => {
    for (const change of changes) if (workerOf(change.partitionKey) === worker) await apply(change);
  };
  await Promise.all(Array.from({ length: WORKERS }, work));
}
// #endregion

assert.deepEqual(await allAtOnce(55), await oneAfterTheOther(55));
assert.equal((await allAtOnce(55)).length, employees().filter((one) => one.age > 55).length);

const dayName = (day) => `day_${String(day).padStart(2, "0")}`;
const row = (day, number) => ({
  partitionKey: dayName(day),
  rowKey: String(number).padStart(4, "0"),
  count: 0,
});
const partitions = new Map(
  Array.from({ length: 8 }, (_, day) => [
    dayName(day),
    Array.from({ length: 150 }, (_, number) => row(day, number)),
  ]),
);

/** Transactions that are under way, in all and in a partition, and the most that ever were. */
const [now, most] = [new Map(), new Map()];
async function send(operations) {
  const places = ["all", operations[0][1].partitionKey];
  for (const place of places) {
    now.set(place, (now.get(place) ?? 0) + 1);
    most.set(place, Math.max(most.get(place) ?? 0, now.get(place)));
  }
  await loaded.submitTransaction(operations);
  for (const place of places) now.set(place, now.get(place) - 1);
}

assert.deepEqual(await writeAll(partitions, send), []);
assert.equal((await all(loaded.listEntities())).length, 8 * 150);
const atOnce = most.get("all");
most.delete("all");
console.log(
  `${partitions.size} partitions by ${WORKERS} workers: at most ${atOnce} transactions at a time, ${Math.max(...most.values())} in a partition`,
);

const fail = async ([[, { partitionKey }]]) => {
  if (partitionKey === "day_03") throw new Error("this partition cannot be written");
};
assert.deepEqual(await writeAll(partitions, fail), ["day_03"]);

async function increment({ partitionKey, rowKey }) {
  // Fails with 412 if another worker has changed the entity in the meantime.
  const { count, etag } = await loaded.getEntity(partitionKey, rowKey);
  await loaded.updateEntity({ partitionKey, rowKey, count: count + 1 }, "Merge", { etag });
}

const changes = Array.from({ length: 24 }, (_, n) => row(n % 6, 0));
await applyAll(changes, increment);
for (let day = 0; day < 6; day += 1)
  assert.equal((await loaded.getEntity(dayName(day), "0000")).count, 4);
console.log(`${changes.length} changes of 6 entities by ${WORKERS} workers: none met another`);
