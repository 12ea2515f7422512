// Wide entities: 400 properties in two entities of one partition.

import assert from "node:assert/strict";
import { odata } from "@azure/data-tables";
import { all, compare, newTable } from "./store.mjs";

const PROPERTIES = 400;
const left = await newTable("Left");
const right = await newTable("Right");
const wide = await newTable("Wide");
// #region parts
const PROPERTIES_A_ROW = 200;
const padded = (number) => String(number).padStart(3, "0");

/** The properties of each entity, because one entity holds at most 252. */
function parts(values) {
  const found = [];
  for (const [number, value] of values.entries()) {
    if (number % PROPERTIES_A_ROW === 0) found.push({});
    found.at(-1)[`P${padded(number)}`] = value;
  }
  return found;
}

function joined(rows) {
  const properties = rows.flatMap((row) => Object.entries(row));
  const values = properties
    .filter(([key]) => /^P\d+$/.test(key))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return values.map(([, value]) => value);
}
// #endregion

// #region naive
async function storeInTwoTables(subject, values, reached = () => {}) {
  const keys = { partitionKey: subject, rowKey: "" };
  const [first, second] = parts(values);
  await left.upsertEntity({ ...keys, ...first }, "Replace");
  // A program that dies here leaves halves of different versions.
  reached("half");
  await right.upsertEntity({ ...keys, ...second }, "Replace");
}

const readFromTwoTables = async (subject) =>
  joined([await left.getEntity(subject, ""), await right.getEntity(subject, "")]);
// #endregion

// #region advised
// One transaction: no reader finds rows of different versions.
const store = (subject, values) =>
  wide.submitTransaction(
    parts(values).map((part, number) => [
      "upsert",
      { partitionKey: subject, rowKey: padded(number), ...part },
      "Replace",
    ]),
  );

const read = async (subject) =>
  joined(
    await all(wide.listEntities({ queryOptions: { filter: odata`PartitionKey eq ${subject}` } })),
  );
// #endregion

class Death extends Error {}

const figures = Array.from({ length: PROPERTIES }, (_, number) => (number * number) % 977);
await storeInTwoTables("sensor", figures);
await store("sensor", figures);
await compare(
  () => readFromTwoTables("sensor"),
  () => read("sensor"),
  "requests",
);
const changed = figures.map((figure) => figure + 1);
const die = () => {
  throw new Death();
};
await assert.rejects(storeInTwoTables("sensor", changed, die), Death);
// Halves of two versions.
const halves = await readFromTwoTables("sensor");
assert.notDeepEqual(halves, figures);
assert.notDeepEqual(halves, changed);
await store("sensor", changed);
assert.deepEqual(await read("sensor"), changed);
