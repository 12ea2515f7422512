// Intra-partition secondary index: each employee twice in the partition of the department.

import assert from "node:assert/strict";
import { odata } from "@azure/data-tables";
import { employees } from "./staff.mjs";
import { all, compare, newTable } from "./store.mjs";

const scanned = await newTable("Scanned");
const indexed = await newTable("Indexed");

// #region naive
const storeOnce = (one) =>
  scanned.upsertEntity({ partitionKey: one.department, rowKey: one.id, ...one });

async function findByScan(department, mail) {
  const filter = odata`PartitionKey eq ${department} and mail eq ${mail}`;
  const [found] = await all(scanned.listEntities({ queryOptions: { filter } }));
  return found.id;
}

async function mailsByScan(department, first, end) {
  const filter = odata`PartitionKey eq ${department} and mail ge ${first} and mail lt ${end}`;
  const found = await all(scanned.listEntities({ queryOptions: { filter } }));
  // They come in the order of the ids: the client sorts.
  return found.map((one) => one.mail).sort();
}
// #endregion

// #region advised
async function storeTwice(one) {
  const rowKeys = [`id_${one.id}`, `mail_${one.mail}`];
  const rows = rowKeys.map((rowKey) => ({ partitionKey: one.department, rowKey, ...one }));
  // Both copies or neither: they are in one partition.
  await indexed.submitTransaction(rows.map((row) => ["upsert", row, "Replace"]));
}

const findByMail = async (department, mail) =>
  (await indexed.getEntity(department, `mail_${mail}`)).id;

// A range of the copies under the mail addresses: no other is read, and they come in order.
async function mailsBetween(department, first, end) {
  const keys = odata`RowKey ge ${`mail_${first}`} and RowKey lt ${`mail_${end}`}`;
  const filter = odata`PartitionKey eq ${department} and ` + keys;
  const found = await all(indexed.listEntities({ queryOptions: { filter } }));
  return found.map((one) => one.mail);
}

// The prefix keeps the copies under the mail addresses out: '`' is the character after '_'.
const allOf = (department) =>
  all(
    indexed.listEntities({
      queryOptions: {
        filter: odata`PartitionKey eq ${department} and RowKey ge 'id_' and RowKey lt 'id\`'`,
      },
    }),
  );
// #endregion

for (const one of employees()) {
  await storeOnce(one);
  await storeTwice(one);
}
await compare(
  () => findByScan("Sales", "novak.3@example.com"),
  () => findByMail("Sales", "novak.3@example.com"),
  "examined",
);
await compare(
  () => mailsByScan("Sales", "c", "n"),
  () => mailsBetween("Sales", "c", "n"),
  "examined",
);
const sales = employees().filter((one) => one.department === "Sales");
assert.deepEqual(
  (await allOf("Sales")).map((one) => one.id),
  sales.map((one) => one.id),
);
