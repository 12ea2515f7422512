// Client-side joins: employees with the manager of their department, which is in another table.

import assert from "node:assert/strict";
import { departments as departmentNames, employees } from "./staff.mjs";
import { all, compare, costOf, insertAll, newTable } from "./store.mjs";

const staff = await newTable("Staff");
const departments = await newTable("Departments");

// #region naive
async function joinOneByOne() {
  const found = [];
  for await (const one of staff.listEntities()) {
    // A request for each employee, although there are three departments.
    const { manager } = await departments.getEntity("departments", one.department);
    found.push([one.mail, manager]);
  }
  return found;
}
// #endregion

// #region advised
async function joinInTheClient() {
  const rows = await all(departments.listEntities());
  const managers = new Map(rows.map((one) => [one.rowKey, one.manager]));
  return (await all(staff.listEntities())).map((one) => [one.mail, managers.get(one.department)]);
}
// #endregion

// #region cached
/** The departments in memory, read again when they are older than `ageMax` milliseconds. */
class Managers {
  #rows = new Map();
  #readAt;

  constructor(ageMax, clock = () => performance.now()) {
    Object.assign(this, { ageMax, clock });
  }

  async of(department) {
    const isOld = this.#readAt === undefined || this.clock() - this.#readAt > this.ageMax;
    // A department that is not there may be a new one.
    if (isOld || !this.#rows.has(department)) {
      this.#readAt = this.clock();
      const rows = await all(departments.listEntities());
      this.#rows = new Map(rows.map((one) => [one.rowKey, one.manager]));
    }
    return this.#rows.get(department) ?? "none";
  }
}

async function joinWithCache(managers) {
  const found = [];
  for await (const one of staff.listEntities())
    found.push([one.mail, await managers.of(one.department)]);
  return found;
}
// #endregion

const department = (rowKey, manager) => ({ partitionKey: "departments", rowKey, manager });

await insertAll(
  staff,
  employees().map((one) => ({ partitionKey: "staff", rowKey: one.id, ...one })),
);
await insertAll(
  departments,
  departmentNames.map((name) => department(name, `head of ${name}`)),
);
await compare(joinOneByOne, joinInTheClient, "requests");

let now = 0;
const managers = new Managers(60_000, () => now);
await joinWithCache(managers);
await compare(joinInTheClient, () => joinWithCache(managers), "requests");

await departments.upsertEntity(department("Sales", "Ada"));
// The copy in memory is a minute old at most.
assert.equal(await managers.of("Sales"), "head of Sales");
now = 60_001;
assert.equal(await managers.of("Sales"), "Ada");
await departments.createEntity(department("Research", "Grace"));
assert.equal(await managers.of("Research"), "Grace");
const [, cost] = await costOf(async () => {
  for (let question = 0; question < 1000; question += 1) await managers.of("Research");
});
assert.equal(cost.requests, 0);
