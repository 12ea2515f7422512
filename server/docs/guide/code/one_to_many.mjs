// One-to-many: a department and its employees in one partition.

import assert from "node:assert/strict";
import { odata } from "@azure/data-tables";
import { departments as names, employees } from "./staff.mjs";
import { all, compare, insertAll, newTable } from "./store.mjs";

const [departments, staff, combined] = [
  await newTable("Departments"),
  await newTable("Staff"),
  await newTable("Combined"),
];

// #region naive
async function departmentFromTwoTables(name) {
  const { budget } = await departments.getEntity(name, "department");
  const found = await all(
    staff.listEntities({ queryOptions: { filter: odata`PartitionKey eq ${name}` } }),
  );
  return { budget, mails: found.map((one) => one.mail) };
}
// #endregion

// #region advised
async function departmentFromOnePartition(name) {
  const found = { budget: undefined, mails: [] };
  for await (const row of combined.listEntities({
    queryOptions: { filter: odata`PartitionKey eq ${name}` },
  })) {
    // Each kind has a RowKey of its own form.
    if (row.rowKey === "department") found.budget = row.budget;
    else if (row.rowKey.startsWith("employee_")) found.mails.push(row.mail);
  }
  return found;
}

// The employee and the changed budget in one transaction: both are in the partition of the
// department.
const hire = (department, budget, one) =>
  combined.submitTransaction([
    ["create", { partitionKey: department, rowKey: `employee_${one.id}`, ...one }],
    ["upsert", { partitionKey: department, rowKey: "department", budget }],
  ]);
// #endregion

for (const name of names) {
  await departments.upsertEntity({ partitionKey: name, rowKey: "department", budget: 1000 });
  await combined.upsertEntity({ partitionKey: name, rowKey: "department", budget: 1000 });
}
await insertAll(
  staff,
  employees().map((one) => ({ partitionKey: one.department, rowKey: one.id, ...one })),
);
await insertAll(
  combined,
  employees().map((one) => ({
    partitionKey: one.department,
    rowKey: `employee_${one.id}`,
    ...one,
  })),
);
await compare(
  () => departmentFromTwoTables("Sales"),
  () => departmentFromOnePartition("Sales"),
  "requests",
);
await hire("Sales", 900, { id: "999999", mail: "new@example.com" });
const { budget, mails } = await departmentFromOnePartition("Sales");
assert.deepEqual([budget, mails.at(-1)], [900, "new@example.com"]);
