// Entity group transactions: parts move between the bins of a warehouse, in one request or not at
// all.

import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";
import { all, compare, newTable } from "./store.mjs";

const [WAREHOUSE, BINS, PARTS] = ["north", 100, 50];
const single = await newTable("Single");
const together = await newTable("Together");
const numbers = (count) => Array.from({ length: count }, (_, number) => number);
const binName = (number) => `bin_${String(number).padStart(3, "0")}`;
const bins = numbers(BINS).map((number) => ({
  partitionKey: WAREHOUSE,
  rowKey: binName(number),
  parts: PARTS,
}));

// #region naive
async function storeOneByOne(entities) {
  for (const entity of entities) await single.createEntity(entity);
}

async function moveInTwoWrites(origin, target, parts, reached = () => {}) {
  const one = await single.getEntity(WAREHOUSE, origin);
  const other = await single.getEntity(WAREHOUSE, target);
  await single.updateEntity({ ...one, parts: one.parts - parts }, "Replace");
  // A program that dies here has lost the parts.
  reached("taken");
  await single.updateEntity({ ...other, parts: other.parts + parts }, "Replace");
}
// #endregion

// #region advised
async function store(entities) {
  for (let start = 0; start < entities.length; start += 100) {
    const some = entities.slice(start, start + 100);
    await together.submitTransaction(some.map((entity) => ["create", entity]));
  }
}

const replaced = ({ partitionKey, rowKey, parts, etag }, change) => [
  "update",
  { partitionKey, rowKey, parts: parts + change },
  "Replace",
  { etag },
];

/** Takes from one bin and puts into the other; returns the bins that others had changed. */
async function move(origin, target, parts, hasRead = async () => {}) {
  for (const lost = []; ;) {
    const one = await together.getEntity(WAREHOUSE, origin);
    const other = await together.getEntity(WAREHOUSE, target);
    await hasRead();
    try {
      await together.submitTransaction([replaced(one, -parts), replaced(other, parts)]);
      return lost;
    } catch (error) {
      if (error.statusCode !== 412) throw error;
      // The index names the operation that was refused. No operation has had an effect.
      lost.push([origin, target][indexOf(error)]);
      await setTimeout(Math.random() * 10 * Math.min(lost.length, 10));
    }
  }
}

// The service puts the index before its message.
const indexOf = (error) => Number(/^(\d+):/.exec(error.message)?.[1]);
// #endregion

class Death extends Error {}

const die = () => {
  throw new Death();
};
const partsIn = async (table) =>
  (await all(table.listEntities())).reduce((sum, one) => sum + one.parts, 0);
const rowKeys = async () => (await all(together.listEntities())).map((one) => one.rowKey);

/** The status and the code of a transaction that is refused, and the operation it names. */
async function refusal(operations) {
  const before = await rowKeys();
  try {
    await together.submitTransaction(operations);
  } catch (error) {
    assert.deepEqual(await rowKeys(), before);
    // An error without a status comes from the client, which did not send the transaction.
    if (error.statusCode === undefined) return "refused by the client";
    const index = indexOf(error);
    const operation = Number.isNaN(index) ? "" : `, operation ${index}`;
    return `${error.statusCode} ${error.code}${operation}`;
  }
  throw new Error("the transaction was accepted");
}

const creation = (number, properties = {}) => [
  "create",
  { partitionKey: WAREHOUSE, rowKey: `new_${number}`, ...properties },
];

await compare(
  () => storeOneByOne(bins),
  () => store(bins),
  "requests",
);

// One program dies between its two writes. A transaction has no place between.
await assert.rejects(moveInTwoWrites("bin_000", "bin_001", 5, die), Death);
assert.deepEqual(await move("bin_000", "bin_001", 5), []);
assert.equal(await partsIn(single), BINS * PARTS - 5);
assert.equal(await partsIn(together), BINS * PARTS);

// Another writer changes the second bin after this one has read it.
const interruptions = [() => move("bin_001", "bin_002", 1)];
const lost = await move("bin_000", "bin_001", 5, async () => interruptions.pop()?.());
assert.deepEqual(lost, ["bin_001"]);

const [WRITERS, MOVES] = [4, 5];
const repetitions = {};
for (const [label, pairOf] of [
  ["the same two bins", () => [4, 5]],
  ["bins of their own", (writer) => [10 + 2 * writer, 11 + 2 * writer]],
]) {
  const write = async (writer) => {
    const [origin, target] = pairOf(writer).map(binName);
    let count = 0;
    for (const _ of numbers(MOVES)) count += (await move(origin, target, 1)).length;
    return count;
  };
  const counts = await Promise.all(numbers(WRITERS).map(write));
  repetitions[label] = counts.reduce((a, b) => a + b, 0);
  assert.equal(await partsIn(together), BINS * PARTS);
  console.log(
    `${WRITERS} writers of ${label}: ${repetitions[label]} repetitions in ${WRITERS * MOVES} moves`,
  );
}
assert.equal(repetitions["bins of their own"], 0);

const large = Object.fromEntries(numbers(16).map((p) => [`p${p}`, "x".repeat(30_000)]));
const refused = {
  "101 operations": numbers(101).map((number) => creation(number)),
  "an entity twice": [creation(1), creation(2), creation(2)],
  "two partitions": [creation(1), ["create", { partitionKey: "south", rowKey: "new_2" }]],
  "an entity that exists": [creation(1), creation(2), ["create", bins[0]]],
  "5 MB": numbers(10).map((number) => creation(number, large)),
};
for (const [label, operations] of Object.entries(refused))
  console.log(`${label}: ${await refusal(operations)}`);
