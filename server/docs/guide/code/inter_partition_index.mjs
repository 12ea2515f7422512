// Inter-partition secondary index: copies in other partitions, kept alike by way of a queue.

import { odata } from "@azure/data-tables";
import { employees } from "./staff.mjs";
import { all, compare, newQueue, newTable } from "./store.mjs";

const table = await newTable("Staff");
const changes = await newQueue("changes");

// #region naive
async function findByScan(mail) {
  // The department is not known: all partitions of departments are read. Their keys begin with
  // 'department_', those of the copies do not; '`' is the character after '_'.
  const partitions = "PartitionKey ge 'department_' and PartitionKey lt 'department`'";
  const filter = `${partitions} and ${odata`mail eq ${mail}`}`;
  const [found] = await all(table.listEntities({ queryOptions: { filter } }));
  return found.id;
}
// #endregion

// #region advised
const departmentKey = (department) => `department_${department}`;

async function store(one) {
  const keys = [one.department, one.id];
  // The message first, hidden while this writer may live. If it dies on the way, the message
  // appears, and a worker does the rest.
  const message = await changes.sendMessage(JSON.stringify(keys), { visibilityTimeout: 30 });
  const original = { partitionKey: departmentKey(one.department), rowKey: one.id, ...one };
  await table.upsertEntity(original, "Replace");
  await updateCopy(...keys);
  await changes.deleteMessage(message.messageId, message.popReceipt);
}

async function updateCopy(department, id) {
  for (;;) {
    const one = await table.getEntity(departmentKey(department), id);
    const copy = { ...one, partitionKey: `mail_${one.mail[0]}`, rowKey: one.mail };
    // A merge would keep properties that the original has no longer.
    await table.upsertEntity(copy, "Replace");
    // Another writer may have stored a newer copy, which this one just replaced.
    const now = await table.getEntity(departmentKey(department), id);
    if (now.etag === one.etag) return;
  }
}

async function work() {
  const { receivedMessageItems } = await changes.receiveMessages({
    numberOfMessages: 32,
    visibilityTimeout: 30,
  });
  for (const message of receivedMessageItems) {
    await updateCopy(...JSON.parse(message.messageText)).catch((error) => {
      // A writer that died before it stored anything leaves nothing to copy.
      if (error.statusCode !== 404) throw error;
    });
    await changes.deleteMessage(message.messageId, message.popReceipt);
  }
}

const findByMail = async (mail) => (await table.getEntity(`mail_${mail[0]}`, mail)).id;
// #endregion

const staff = employees();
// "operations" is behind "mail_" in the order of text: a scan of the keys before "mail_" misses it.
const last = { ...staff.pop(), department: "operations" };
for (const one of staff) await store(one);
// A writer that dies between the two writes.
await changes.sendMessage(JSON.stringify([last.department, last.id]));
const partitionKey = departmentKey(last.department);
await table.upsertEntity({ partitionKey, rowKey: last.id, ...last });
await work();
for (const mail of ["chen.8@example.com", last.mail]) {
  await compare(
    () => findByScan(mail),
    () => findByMail(mail),
    "examined",
  );
}
