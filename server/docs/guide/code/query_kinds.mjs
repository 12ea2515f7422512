// Query kinds: one employee, found with less and with more of the keys.

import assert from "node:assert/strict";
import { odata } from "@azure/data-tables";
import { employees } from "./staff.mjs";
import { all, compare, insertAll, newTable } from "./store.mjs";

const table = await newTable("Staff");
await insertAll(
  table,
  employees().map((one) => ({ partitionKey: one.department, rowKey: one.id, ...one })),
);

// #region naive
const query = (filter) => all(table.listEntities({ queryOptions: { filter } }));

// id is no key: the service reads every entity of the table.
const byScan = (id) => query(odata`id eq ${id}`);

// Two alternatives are no key either: the hosted service reads the whole partition.
const byOr = (department, one, other) =>
  query(odata`PartitionKey eq ${department} and (RowKey eq ${one} or RowKey eq ${other})`);
// #endregion

// #region advised
// One partition and a range of RowKeys: the service reads what it returns.
const byRange = (department, first, end) =>
  query(odata`PartitionKey eq ${department} and RowKey ge ${first} and RowKey lt ${end}`);

// Both keys: one entity is read.
const byKeys = async (department, id) => [await table.getEntity(department, id)];

// A range of PartitionKeys: the service reads these partitions and no others.
const byPartitions = (first, end) =>
  query(odata`PartitionKey ge ${first} and PartitionKey lt ${end}`);
// #endregion

const ids = async (found) => (await found).map((one) => one.id);
await compare(
  () => ids(byScan("000033")),
  () => ids(byKeys("Sales", "000033")),
  "examined",
);
await compare(
  () => ids(byScan("000033")),
  () => ids(byRange("Sales", "000033", "000034")),
  "examined",
);
const departments = (await byPartitions("F", "N")).map((one) => one.department);
assert.deepEqual([...new Set(departments)], ["Finance", "Marketing"]);
assert.deepEqual(await ids(byOr("Sales", "000033", "000036")), ["000033", "000036"]);
