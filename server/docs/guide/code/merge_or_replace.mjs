// Merge or replace: writes of absent and present entities, and their effect on other properties.

import assert from "node:assert/strict";
import { compare, newTable } from "./store.mjs";

const DEPARTMENT = "Sales";
const replaced = await newTable("Replaced");
const merged = await newTable("Merged");
const table = await newTable("Writes");
const seats = await newTable("Seats");
const years = Array.from({ length: 11 }, (_, index) => 2015 + index);
const employee = {
  partitionKey: DEPARTMENT,
  rowKey: "7",
  phone: "1",
  mail: "a@b.c",
  ...Object.fromEntries(years.map((year) => [`review${year}`, "good work ".repeat(30)])),
};

// #region naive
async function changePhoneByReplace(id, phone, hasRead = async () => {}) {
  // All properties travel twice, and a change that another program makes in between is lost.
  const entity = await replaced.getEntity(DEPARTMENT, id);
  await hasRead();
  await replaced.updateEntity({ ...entity, phone }, "Replace");
}
// #endregion

// #region advised
// The other properties stay as they are. The write fails if there is no such employee.
const changePhone = (id, phone) =>
  merged.updateEntity({ partitionKey: DEPARTMENT, rowKey: id, phone }, "Merge");
// #endregion

// #region trap
// Without a mode, upsertEntity and updateEntity merge: a property that the entity has lost stays in
// the copy.
const storeCopy = (copies, entity) => copies.upsertEntity(entity);

const storeTrueCopy = (copies, entity) => copies.upsertEntity(entity, "Replace");
// #endregion

// #region unique
/** Whether the user has the seat. */
async function take(event, seat, user) {
  try {
    // The insert fails if the seat is taken. Nothing is read first.
    await seats.createEntity({ partitionKey: event, rowKey: seat, user });
    return true;
  } catch (error) {
    if (error.statusCode !== 409) throw error;
    // The seat may be the user's own, if the answer to an earlier insert was lost.
    return (await seats.getEntity(event, seat)).user === user;
  }
}
// #endregion

const phoneOf = async (store) => (await store.getEntity(DEPARTMENT, "7")).phone;
const mailOf = async (store) => (await store.getEntity(DEPARTMENT, "7")).mail;
const changeMail = (store) =>
  store.updateEntity({ partitionKey: DEPARTMENT, rowKey: "7", mail: "new@b.c" }, "Merge");

for (const store of [replaced, merged]) await store.createEntity(employee);
await compare(
  async () => {
    await changePhoneByReplace("7", "2");
    return phoneOf(replaced);
  },
  async () => {
    await changePhone("7", "2");
    return phoneOf(merged);
  },
  "sent",
);

// Another program changes the mail address in between.
await changePhoneByReplace("7", "3", () => changeMail(replaced));
await changeMail(merged);
await changePhone("7", "3");
// The change of the address is lost.
assert.equal(await mailOf(replaced), "a@b.c");
assert.equal(await mailOf(merged), "new@b.c");

const writes = {
  insert: (one) => table.createEntity(one),
  replace: (one) => table.updateEntity(one, "Replace"),
  merge: (one) => table.updateEntity(one, "Merge"),
  "insert or replace": (one) => table.upsertEntity(one, "Replace"),
  "insert or merge": (one) => table.upsertEntity(one, "Merge"),
};

const propertiesOf = async (rowKey) =>
  Object.keys(await table.getEntity("p", rowKey))
    .filter((key) => "AB".includes(key))
    .sort()
    .join("");

/** The status of a write of property B, or the properties that the entity has after it. */
async function outcome(write, rowKey) {
  try {
    await write({ partitionKey: "p", rowKey, B: 2 });
  } catch (error) {
    return error.statusCode;
  }
  return propertiesOf(rowKey);
}

for (const [label, write] of Object.entries(writes)) {
  const present = `present ${label}`;
  await table.createEntity({ partitionKey: "p", rowKey: present, A: 1, B: 1 });
  console.log(
    `${label}: absent: ${await outcome(write, `absent ${label}`)}; ` +
      `present with A and B: ${await outcome(write, present)}`,
  );
}

for (const [storeIt, expected] of [
  [storeCopy, "AB"],
  [storeTrueCopy, "B"],
]) {
  await storeIt(table, { partitionKey: "p", rowKey: "copy", A: 1, B: 1 });
  await storeIt(table, { partitionKey: "p", rowKey: "copy", B: 1 });
  assert.equal(await propertiesOf("copy"), expected);
}

// Many users want the same seat at the same time.
const users = Array.from({ length: 8 }, (_, number) => `user${number}`);
const won = await Promise.all(users.map((user) => take("e", "12C", user)));
const winners = users.filter((_, index) => won[index]);
assert.equal(winners.length, 1);
// A repeated insert is not refused to the owner.
assert.ok(await take("e", "12C", winners[0]));
