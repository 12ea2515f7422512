// Eventually consistent transactions: employees move to the archive, although the worker dies after
// every step.

import assert from "node:assert/strict";
import { employees } from "./staff.mjs";
import { all, insertAll, newQueue, newTable } from "./store.mjs";

const table = await newTable("Staff");
const [moves, poison] = [await newQueue("moves"), await newQueue("poison")];

// #region archive
// Ten partitions by the last digit: one alone would take all writes to the archive.
const archiveOf = (id) => `Archive_${id.at(-1)}`;
// #endregion

// #region naive
async function moveDirectly(department, id) {
  const entity = await table.getEntity(department, id);
  await table.upsertEntity({ ...entity, partitionKey: archiveOf(id) }, "Replace");
  // A program that dies here leaves the employee in both partitions, and nothing that says so.
  await table.deleteEntity(department, id);
}
// #endregion

// #region advised
const DELIVERIES_MAX = 5;

const requestMove = (department, id) => moves.sendMessage(JSON.stringify({ department, id }));

async function carryOut(message, reached = () => {}) {
  if (message.dequeueCount > DELIVERIES_MAX) {
    // No worker can carry it out. Put aside, it does not hold up the others.
    await poison.sendMessage(message.messageText);
  } else {
    const { department, id } = JSON.parse(message.messageText);
    try {
      const entity = await table.getEntity(department, id);
      await table.upsertEntity({ ...entity, partitionKey: archiveOf(id) }, "Replace");
      reached("copied");
      // Fails if the employee has changed in the meantime. The message then comes back, and a
      // worker copies again.
      await table.deleteEntity(department, id, { etag: entity.etag });
      reached("deleted");
    } catch (error) {
      if (error.statusCode !== 404) throw error;
      // A worker moved it, and died before it deleted the message.
      await table.getEntity(archiveOf(id), id);
    }
  }
  // Last of all: until then the message comes back if this worker dies.
  await moves.deleteMessage(message.messageId, message.popReceipt);
}

async function work() {
  for (;;) {
    const { receivedMessageItems } = await moves.receiveMessages({ visibilityTimeout: 30 });
    if (receivedMessageItems.length === 0) return;
    for (const message of receivedMessageItems) await carryOut(message);
  }
}
// #endregion

class Death extends Error {}

const dieAt = (lastStep) => (step) => {
  if (step === lastStep) throw new Death();
};

const staff = employees(9);
await insertAll(
  table,
  staff.map((one) => ({ partitionKey: one.department, rowKey: one.id, ...one })),
);
await moveDirectly("Sales", "000000");
for (const one of staff.slice(1)) await requestMove(one.department, one.id);
await moves.sendMessage("no JSON at all");
let attempts = 0;
for (;;) {
  const [message] = (await moves.receiveMessages({ visibilityTimeout: 30 })).receivedMessageItems;
  if (message === undefined) break;
  try {
    await carryOut(message, dieAt(["copied", "deleted", "never"][attempts % 3]));
  } catch (error) {
    if (!(error instanceof Death || error instanceof SyntaxError)) throw error;
    // What the end of the visibility timeout does, at once.
    await moves.updateMessage(message.messageId, message.popReceipt, message.messageText, 0);
  }
  attempts += 1;
}
await work();
assert.ok(attempts > staff.length);
const archived = await all(table.listEntities());
assert.deepEqual(
  archived.map((one) => [one.partitionKey, one.rowKey]),
  staff.map((one) => [archiveOf(one.id), one.id]),
);
const aside = (await poison.receiveMessages()).receivedMessageItems;
assert.deepEqual(
  aside.map((message) => message.messageText),
  ["no JSON at all"],
);
console.log(`${staff.length} employees moved in ${attempts} deliveries, 1 message put aside`);
