// One-to-one: the details of an employee in an entity beside the employee's.

import assert from "node:assert/strict";
import { odata } from "@azure/data-tables";
import { employees } from "./staff.mjs";
import { all, compare, newTable } from "./store.mjs";

const [together, apart] = [await newTable("Together"), await newTable("Apart")];

// #region naive
const storeTogether = (one, details) =>
  together.upsertEntity({ partitionKey: one.id, rowKey: "employee", mail: one.mail, details });

const mailWithDetails = async (id) => (await together.getEntity(id, "employee")).mail;
// #endregion

// #region advised
// One partition, so that a transaction changes both.
const store = (one, details) =>
  apart.submitTransaction([
    ["upsert", { partitionKey: one.id, rowKey: "contact", mail: one.mail }],
    ["upsert", { partitionKey: one.id, rowKey: "details", details }],
  ]);

const mail = async (id) => (await apart.getEntity(id, "contact")).mail;

async function both(id) {
  const [contact, details] = await all(
    apart.listEntities({ queryOptions: { filter: odata`PartitionKey eq ${id}` } }),
  );
  return [contact.mail, details.details];
}
// #endregion

const details = "lorem ipsum ".repeat(200);
for (const one of employees(10)) {
  await storeTogether(one, details);
  await store(one, details);
}
await compare(
  () => mailWithDetails("000003"),
  () => mail("000003"),
  "received",
);
assert.deepEqual(await both("000003"), ["novak.3@example.com", details]);
