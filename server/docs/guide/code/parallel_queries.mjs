// Parallel queries: one question to every partition at once.

import assert from "node:assert/strict";
import { odata } from "@azure/data-tables";
import { departments, employees } from "./staff.mjs";
import { all, insertAll, newTable } from "./store.mjs";

const table = await newTable("Staff");
await insertAll(
  table,
  employees().map((one) => ({ partitionKey: one.department, rowKey: one.id, ...one })),
);

// #region naive
async function olderThan(department, age) {
  const filter = odata`PartitionKey eq ${department} and age gt ${age}`;
  return (await all(table.listEntities({ queryOptions: { filter } }))).map((one) => one.mail);
}

async function oneAfterTheOther(age) {
  const mails = [];
  for (const department of departments) mails.push(...(await olderThan(department, age)));
  return mails;
}
// #endregion

// #region advised
const allAtOnce = async (age) =>
  (await Promise.all(departments.map((department) => olderThan(department, age)))).flat();
// #endregion

assert.deepEqual(await allAtOnce(55), await oneAfterTheOther(55));
assert.equal((await allAtOnce(55)).length, employees().filter((one) => one.age > 55).length);
