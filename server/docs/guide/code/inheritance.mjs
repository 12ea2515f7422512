// Inheritance: managers, contractors and employees in one table.

import assert from "node:assert/strict";
import { odata } from "@azure/data-tables";
import { employees } from "./staff.mjs";
import { all, compare, insertAll, newTable } from "./store.mjs";

const KINDS = ["contractor", "employee", "manager"];
const tablesByKind = Object.fromEntries(
  await Promise.all(KINDS.map(async (kind) => [kind, await newTable(kind)])),
);
const people = await newTable("People");

function person(one) {
  const kind = KINDS[Number(one.id) % 3];
  const special = {
    manager: { reports: one.age },
    contractor: { company: "Contoso" },
    employee: {},
  }[kind];
  return { partitionKey: one.lastName, rowKey: one.id, mail: one.mail, kind, ...special };
}

// #region naive
async function fromThreeTables(partition) {
  const queryOptions = { filter: odata`PartitionKey eq ${partition}` };
  const found = await Promise.all(
    Object.values(tablesByKind).map((table) => all(table.listEntities({ queryOptions }))),
  );
  return found.flat().map(describe).sort();
}
// #endregion

// #region advised
// Kind and version say which other properties there are. A kind or a version that was added later
// gets a line, too.
function describe(one) {
  switch (`${one.kind} ${one.version ?? 1}`) {
    case "manager 1":
      return `${one.mail}: manager of ${one.reports}`;
    case "manager 2":
      return `${one.mail}: manager of ${one.reportIds.split(",").length}`;
    case "contractor 1":
      return `${one.mail}: contractor of ${one.company}`;
    default:
      return `${one.mail}: ${one.kind}`;
  }
}

async function fromOneTable(partition) {
  const queryOptions = { filter: odata`PartitionKey eq ${partition}` };
  return (await all(people.listEntities({ queryOptions }))).map(describe).sort();
}

// A merge keeps the properties that this program does not know.
const changeMail = (partition, id, mail) =>
  people.updateEntity({ partitionKey: partition, rowKey: id, mail }, "Merge");
// #endregion

for (const one of employees().map(person)) await tablesByKind[one.kind].upsertEntity(one);
await insertAll(people, employees().map(person));
await compare(
  () => fromThreeTables("Jones"),
  () => fromOneTable("Jones"),
  "requests",
);
await people.createEntity({
  partitionKey: "Jones",
  rowKey: "000999",
  mail: "new@example.com",
  kind: "manager",
  version: 2,
  reportIds: "000001,000002",
});
assert.ok((await fromOneTable("Jones")).includes("new@example.com: manager of 2"));
await changeMail("Jones", "000014", "j14@example.com");
assert.ok((await fromOneTable("Jones")).includes("j14@example.com: manager of 28"));
