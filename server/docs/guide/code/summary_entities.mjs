// Summary entities: the number of employees and their pay, changed by the transaction that hires.

import assert from "node:assert/strict";
import { odata } from "@azure/data-tables";
import { departments, employees } from "./staff.mjs";
import { all, compare, insertAll, newTable } from "./store.mjs";

const plain = await newTable("Plain");
const summed = await newTable("Summed");
const sum = (rows) => rows.reduce((total, row) => total + row.pay, 0);

// #region naive
async function totalsByReadingAll(department) {
  const filter = odata`PartitionKey eq ${department}`;
  const found = await all(plain.listEntities({ queryOptions: { filter } }));
  return [found.length, sum(found)];
}
// #endregion

// #region advised
/** Carries out an operation on an employee and changes the summary, in one transaction. */
async function changeSummary(department, change, hasRead = async () => {}) {
  for (;;) {
    const summary = await summed.getEntity(department, "summary");
    // Read after the summary: each change of an employee changes the summary, so its ETag covers
    // the employee, too.
    const { employees, pay, operation } = await change();
    await hasRead();
    const changed = {
      partitionKey: department,
      rowKey: "summary",
      employees: summary.employees + employees,
      pay: summary.pay + pay,
    };
    try {
      await summed.submitTransaction([
        ["update", changed, "Merge", { etag: summary.etag }],
        operation,
      ]);
      return;
    } catch (error) {
      // 412 for the summary: another writer changed it. Other errors are for the caller: that the
      // employee exists already, for example.
      if (error.statusCode !== 412 || !error.message.startsWith("0:")) throw error;
    }
  }
}

function hire(department, id, pay, hasRead) {
  const row = { partitionKey: department, rowKey: `employee_${id}`, pay };
  const change = () => ({ employees: 1, pay, operation: ["create", row] });
  return changeSummary(department, change, hasRead);
}

const dismiss = (department, id) =>
  changeSummary(department, async () => {
    const row = await summed.getEntity(department, `employee_${id}`);
    return { employees: -1, pay: -row.pay, operation: ["delete", row] };
  });

async function totals(department) {
  const { employees, pay } = await summed.getEntity(department, "summary");
  return [employees, pay];
}
// #endregion

// #region check
/** Compares the summary with the employees, read by one query. */
async function isRight(department) {
  const filter = odata`PartitionKey eq ${department}`;
  const rows = await all(summed.listEntities({ queryOptions: { filter } }));
  const summary = rows.find((row) => row.rowKey === "summary");
  const staff = rows.filter((row) => row.rowKey.startsWith("employee_"));
  return summary.employees === staff.length && summary.pay === sum(staff);
}
// #endregion

const payOf = (one) => 1000 + one.age;
const staff = employees(30);

for (const partitionKey of departments)
  await summed.createEntity({ partitionKey, rowKey: "summary", employees: 0, pay: 0 });
await insertAll(
  plain,
  staff.map((one) => ({ partitionKey: one.department, rowKey: one.id, pay: payOf(one) })),
);
for (const one of staff) await hire(one.department, one.id, payOf(one));
await compare(
  () => totalsByReadingAll("Sales"),
  () => totals("Sales"),
  "examined",
);

// Another program hires after this one has read the summary.
const interruptions = [() => hire("Sales", "100", 2000)];
await hire("Sales", "101", 3000, async () => interruptions.pop()?.());
assert.equal((await totals("Sales"))[0], 12);
await assert.rejects(hire("Sales", "100", 9000), { statusCode: 409, message: /^1:/ });
await dismiss("Sales", "100");
assert.equal((await totals("Sales"))[0], 11);
assert.ok(await isRight("Sales"));
