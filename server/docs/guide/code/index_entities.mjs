// Index entities: the ids of all employees of one last name.

import assert from "node:assert/strict";
import { odata } from "@azure/data-tables";
import { employees } from "./staff.mjs";
import { all, compare, insertAll, newContainer, newTable } from "./store.mjs";

const PARTITION = "Sales";
const [scanned, indexed, indexTable] = [
  await newTable("Scanned"),
  await newTable("Indexed"),
  await newTable("Index"),
];
const copied = await newTable("Copied");
const container = await newContainer("index");

// #region naive
async function byScan(lastName) {
  const filter = odata`PartitionKey eq ${PARTITION} and lastName eq ${lastName}`;
  return (await all(scanned.listEntities({ queryOptions: { filter } }))).map((one) => one.id);
}
// #endregion

// #region advised
/** The employee and the index in one transaction; again if another writer changed the index. */
async function storeWithIndex(one) {
  const keys = { partitionKey: PARTITION, rowKey: `index_${one.lastName}` };
  const employee = { partitionKey: PARTITION, rowKey: one.id, ...one };
  for (;;) {
    const index = await indexed.getEntity(keys.partitionKey, keys.rowKey).catch(unlessMissing);
    // A repeated call finds its id in the list.
    const ids = [...new Set([...(index?.ids.split(",") ?? []), one.id])].sort().join(",");
    const change = index
      ? ["update", { ...keys, ids }, "Replace", { etag: index.etag }]
      : ["create", { ...keys, ids }];
    try {
      return await indexed.submitTransaction([["upsert", employee], change]);
    } catch (error) {
      if (error.statusCode !== 409 && error.statusCode !== 412) throw error;
    }
  }
}

function unlessMissing(error) {
  if (error.statusCode !== 404) throw error;
}

async function byIndex(lastName) {
  const index = await indexed.getEntity(PARTITION, `index_${lastName}`);
  const found = await Promise.all(
    index.ids.split(",").map((id) => indexed.getEntity(PARTITION, id)),
  );
  return found.map((one) => one.id);
}
// #endregion

// #region blob
/** Option 1: the list in a blob, under the ETag that was read. It may be of any length. */
async function addToBlob(lastName, id) {
  const blob = container.getBlockBlobClient(lastName);
  for (;;) {
    const download = await blob.download().catch(unlessMissing);
    const old = download ? (await text(download.readableStreamBody)).split(",") : [];
    const ids = [...new Set([...old, id])].sort().join(",");
    const conditions = download ? { ifMatch: download.etag } : { ifNoneMatch: "*" };
    try {
      return await blob.upload(ids, ids.length, { conditions });
    } catch (error) {
      if (error.statusCode !== 409 && error.statusCode !== 412) throw error;
    }
  }
}

const text = async (stream) => Buffer.concat(await all(stream)).toString();
// #endregion

// #region table
/** Option 3: an entity for each entry, in a table whose PartitionKey is the last name. Nothing is
 * read first. */
const addToTable = (lastName, id) =>
  indexTable.upsertEntity({ partitionKey: lastName, rowKey: id });
// #endregion

// #region copies
function storeWithCopy(one) {
  const rowKeys = [one.id, `name_${one.lastName}_${one.id}`];
  const rows = rowKeys.map((rowKey) => ({ partitionKey: PARTITION, rowKey, ...one }));
  return copied.submitTransaction(rows.map((row) => ["upsert", row, "Replace"]));
}

async function byCopies(lastName) {
  // The id makes the key of a copy unique. '`' is the character after '_'.
  const keys = odata`RowKey ge ${`name_${lastName}_`} and RowKey lt ${`name_${lastName}\``}`;
  const filter = odata`PartitionKey eq ${PARTITION} and ` + keys;
  return (await all(copied.listEntities({ queryOptions: { filter } }))).map((one) => one.id);
}
// #endregion

const sales = employees().filter((one) => one.department === "Sales");
await insertAll(
  scanned,
  sales.map((one) => ({ partitionKey: PARTITION, rowKey: one.id, ...one })),
);
for (const one of sales) {
  await storeWithIndex(one);
  await addToBlob(one.lastName, one.id);
  await addToTable(one.lastName, one.id);
  await storeWithCopy(one);
}
await compare(
  () => byScan("Jones"),
  () => byIndex("Jones"),
  "examined",
);
await compare(
  () => byIndex("Jones"),
  () => byCopies("Jones"),
  "requests",
);
const expected = await byIndex("Jones");
assert.deepEqual(
  (await text((await container.getBlobClient("Jones").download()).readableStreamBody)).split(","),
  expected,
);
const entries = await all(
  indexTable.listEntities({ queryOptions: { filter: "PartitionKey eq 'Jones'" } }),
);
assert.deepEqual(
  entries.map((entry) => entry.rowKey),
  expected,
);
