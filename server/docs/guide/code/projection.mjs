// Projection: only the properties that are shown.

import assert from "node:assert/strict";
import { employees } from "./staff.mjs";
import { all, compare, insertAll, newTable } from "./store.mjs";

const table = await newTable("Staff");
const filter = "PartitionKey eq 'Sales'";

// #region naive
const showWholeEntities = async () =>
  (await all(table.listEntities({ queryOptions: { filter } }))).map((one) => [
    one.lastName,
    one.mail,
  ]);
// #endregion

// #region advised
// The service reads the entities whole, and sends these two properties of each.
const select = ["lastName", "mail"];
const show = async () =>
  (await all(table.listEntities({ queryOptions: { filter, select } }))).map((one) => [
    one.lastName,
    one.mail,
  ]);
// #endregion

const curriculum = "lorem ".repeat(300);
await insertAll(
  table,
  employees().map((one) => ({ partitionKey: "Sales", rowKey: one.id, ...one, curriculum })),
);
const [one] = await all(table.listEntities({ queryOptions: { filter, select } }));
// Keys come if they are selected.
assert.deepEqual([one.rowKey, one.partitionKey, one.timestamp], [undefined, undefined, undefined]);
await compare(showWholeEntities, show, "received");
