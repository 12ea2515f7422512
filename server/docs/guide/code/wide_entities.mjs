// Wide entities: 400 properties in two entities of one partition.

import { odata } from "@azure/data-tables";
import { all, compare, insertAll, newTable } from "./store.mjs";

const PROPERTIES = 400;
const [tall, wide] = [await newTable("Tall"), await newTable("Wide")];
// #region naive
const rowsOf = (table, subject) =>
  all(table.listEntities({ queryOptions: { filter: odata`PartitionKey eq ${subject}` } }));
const padded = (number) => String(number).padStart(3, "0");

// An entity for each property, because one entity holds at most 252.
const storeRows = (subject, values) =>
  insertAll(
    tall,
    values.map((value, number) => ({ partitionKey: subject, rowKey: padded(number), value })),
  );

const readRows = async (subject) => (await rowsOf(tall, subject)).map((row) => row.value);
// #endregion

// #region advised
const PROPERTIES_A_ROW = 200;

async function store(subject, values) {
  const rows = [];
  for (let start = 0; start < values.length; start += PROPERTIES_A_ROW) {
    const some = values.slice(start, start + PROPERTIES_A_ROW);
    const properties = some.map((value, number) => [`P${padded(start + number)}`, value]);
    rows.push({
      partitionKey: subject,
      rowKey: padded(rows.length),
      ...Object.fromEntries(properties),
    });
  }
  // One transaction: no reader finds rows of different versions.
  await wide.submitTransaction(rows.map((row) => ["upsert", row, "Replace"]));
}

async function read(subject) {
  const properties = (await rowsOf(wide, subject)).flatMap((row) => Object.entries(row));
  const values = properties
    .filter(([key]) => /^P\d+$/.test(key))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return values.map(([, value]) => value);
}
// #endregion

const figures = Array.from({ length: PROPERTIES }, (_, number) => (number * number) % 977);
await storeRows("sensor", figures);
await store("sensor", figures);
await compare(
  () => readRows("sensor"),
  () => read("sensor"),
  "examined",
);
