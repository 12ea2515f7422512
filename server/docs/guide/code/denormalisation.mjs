// Denormalisation: the manager of the department in the entity of the employee.

import assert from "node:assert/strict";
import { odata } from "@azure/data-tables";
import { departments, employees } from "./staff.mjs";
import { all, compare, insertAll, newTable } from "./store.mjs";

const [normal, denormal] = [await newTable("Normal"), await newTable("Denormal")];
const managerOf = (department) => `manager of ${department}`;

// #region naive
async function showWithTwoRequests(department, id) {
  const employee = await normal.getEntity(department, id);
  // There is no join: the department takes a request of its own.
  const { manager } = await normal.getEntity(department, "department");
  return [employee.mail, manager];
}
// #endregion

// #region advised
const store = (one) =>
  denormal.upsertEntity(
    {
      partitionKey: one.department,
      rowKey: one.id,
      ...one,
      manager: managerOf(one.department),
    },
    "Replace",
  );

async function show(department, id) {
  const employee = await denormal.getEntity(department, id);
  return [employee.mail, employee.manager];
}

/** Every copy changes, a hundred in a transaction. */
async function changeManager(department, manager) {
  const queryOptions = {
    filter: odata`PartitionKey eq ${department}`,
    select: ["PartitionKey", "RowKey"],
  };
  const keys = await all(denormal.listEntities({ queryOptions }));
  for (let start = 0; start < keys.length; start += 100) {
    const some = keys.slice(start, start + 100);
    const changed = some.map(({ partitionKey, rowKey }) => ({ partitionKey, rowKey, manager }));
    await denormal.submitTransaction(changed.map((entity) => ["update", entity, "Merge"]));
  }
}
// #endregion

await insertAll(
  normal,
  employees().map((one) => ({ partitionKey: one.department, rowKey: one.id, ...one })),
);
await insertAll(
  normal,
  departments.map((name) => ({
    partitionKey: name,
    rowKey: "department",
    manager: managerOf(name),
  })),
);
for (const one of employees()) await store(one);
await compare(
  () => showWithTwoRequests("Sales", "000033"),
  () => show("Sales", "000033"),
  "requests",
);
await changeManager("Sales", "Ann");
assert.deepEqual(await show("Sales", "000033"), ["smith.33@example.com", "Ann"]);
assert.equal((await show("Finance", "000032"))[1], managerOf("Finance"));
