// Retry: a shop takes orders although the server refuses requests, resets connections and loses
// answers.

import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { TableClient } from "@azure/data-tables";
import { QueueServiceClient } from "@azure/storage-queue";
import { all, connection, newQueue, newTable, queues } from "./store.mjs";

const [SHOP, ORDERS, PARTS, STOCK] = ["shop", 10, 3, 1000];

// #region faults
/** Gives the server rules while `work` runs, and tells `work` whether it takes them. Only Lazurite
 * does. */
async function withFaults(rules, work) {
  const page = new URL("/_lazurite/faults", queues.url);
  const named = rules.map((rule) => ({ seed: randomInt(2 ** 47), ...rule }));
  const body = JSON.stringify({ rules: named });
  const answer = await fetch(page, { method: "POST", body }).catch(() => undefined);
  if (!answer?.ok) return work(false);
  try {
    return await work(true);
  } finally {
    for (const { seed } of named) await fetch(`${page}?seed=${seed}`, { method: "DELETE" });
  }
}
// #endregion

// #region transient
/** Whether the same request may succeed later. Without a status there was no answer: the connection
 * was refused, reset or too slow. */
const isTransient = ({ name, statusCode }) =>
  name === "RestError" &&
  (statusCode === undefined || [408, 500, 502, 503, 504].includes(statusCode));

/** Calls `work` until it succeeds, fails for good, or has failed `tries` times. */
async function repeatedly(
  work,
  { tries = 6, first = 100, longest = 10_000, wait = setTimeout } = {},
) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (!isTransient(error) || attempt === tries - 1) throw error;
      // At random up to a bound that doubles: clients that failed together do not come back
      // together. `Retry-After` is the least that the service asks for.
      const least = 1000 * Number(error.response?.headers.get("retry-after") ?? 0);
      await wait(least + Math.random() * Math.min(longest, first * 2 ** attempt));
    }
  }
}
// #endregion

// #region clients
// The clients repeat by themselves. A program that repeats turns that off: otherwise each of its
// tries is several.
const once = { retryOptions: { maxRetries: 0 } };
const queuesOnce = QueueServiceClient.fromConnectionString(connection, {
  retryOptions: { maxTries: 1 },
});

// A program that leaves it to the clients sets how often, and how long they wait.
const repeating = {
  retryOptions: { maxRetries: 5, retryDelayInMs: 50, maxRetryDelayInMs: 2000 },
};
const queuesRepeating = QueueServiceClient.fromConnectionString(connection, {
  retryOptions: { maxTries: 6, retryDelayInMs: 50, maxRetryDelayInMs: 2000 },
});

const tableWith = (options, name) =>
  TableClient.fromConnectionString(connection, name, { allowInsecureConnection: true, ...options });
// #endregion

// #region naive
/** Stores an order, takes its parts from the stock, and tells the packers. */
async function placeOnce(shop, packers, order) {
  await store(shop, order);
  await take(shop);
  await packers.sendMessage(order);
}

/** The same. A step that fails is repeated, and the last answer counts. */
async function placeAgain(shop, packers, order) {
  await repeatedly(() => store(shop, order));
  await repeatedly(() => take(shop));
  await repeatedly(() => packers.sendMessage(order));
}

const store = (shop, order) =>
  shop.createEntity({ partitionKey: SHOP, rowKey: order, parts: PARTS });

async function take(shop) {
  const { parts } = await shop.getEntity(SHOP, "stock");
  await shop.updateEntity({ partitionKey: SHOP, rowKey: "stock", parts: parts - PARTS });
}

async function packEach(shop, packers, message) {
  await packers.deleteMessage(message.messageId, message.popReceipt);
  return true;
}
// #endregion

// #region advised
/** Has the effect of one call, however often it is called with the same order. */
async function place(shop, packers, order) {
  const entity = { partitionKey: SHOP, rowKey: order, parts: PARTS };
  for (;;) {
    const { parts, etag } = await repeatedly(() => shop.getEntity(SHOP, "stock"));
    const left = { partitionKey: SHOP, rowKey: "stock", parts: parts - PARTS };
    // The order and its parts in one transaction: the order is stored if its parts are taken.
    const steps = [
      ["create", entity],
      ["update", left, "Replace", { etag }],
    ];
    try {
      await repeatedly(() => shop.submitTransaction(steps));
      break;
    } catch (error) {
      // An earlier try stored it, and its answer was lost.
      if (error.statusCode === 409 && error.message.startsWith("0:")) break;
      // 412: another order took parts. Read again.
      if (error.statusCode !== 412) throw error;
    }
  }
  // The message may be there twice: the packers tolerate it.
  await repeatedly(() => packers.sendMessage(order));
}

/** Whether this message is the first of its order. */
async function pack(shop, packers, { messageId, messageText, popReceipt }) {
  const mark = { partitionKey: SHOP, rowKey: `packed_${messageText}`, message: messageId };
  let isFirst = true;
  try {
    await repeatedly(() => shop.createEntity(mark));
  } catch (error) {
    if (error.statusCode !== 409) throw error;
    // Another message, or an earlier try of this one.
    const found = await repeatedly(() => shop.getEntity(SHOP, mark.rowKey));
    isFirst = found.message === messageId;
  }
  try {
    await repeatedly(() => packers.deleteMessage(messageId, popReceipt));
  } catch (error) {
    if (error.statusCode !== 404) throw error; // An earlier try deleted it.
  }
  return isFirst;
}
// #endregion

/** Sells under faults; returns what the customers and the store say afterwards. */
async function sell(placeOrder, packMessage) {
  const [shop, packers] = [await newTable("Shop"), await newQueue("packers")];
  await shop.createEntity({ partitionKey: SHOP, rowKey: "stock", parts: STOCK });
  const clients = [tableWith(once, shop.tableName), queuesOnce.getQueueClient(packers.name)];
  let [confirmed, packed] = [0, 0];
  await withFaults(rulesOf(shop.tableName, packers.name), async () => {
    for (let number = 0; number < ORDERS; number += 1) {
      try {
        await placeOrder(...clients, `order_${String(number).padStart(4, "0")}`);
        confirmed += 1;
      } catch (error) {
        if (error.name !== "RestError") throw error; // Else the customer sees an error.
      }
    }
    const { receivedMessageItems } = await packers.receiveMessages({ numberOfMessages: 32 });
    for (const message of receivedMessageItems) packed += await packMessage(...clients, message);
  });
  const rows = await all(shop.listEntities());
  const stored = rows.filter((row) => row.rowKey.startsWith("order_")).length;
  const taken = (STOCK - (await shop.getEntity(SHOP, "stock")).parts) / PARTS;
  return [confirmed, stored, taken, packed];
}

// A request that is refused or reset has no effect. One whose answer is lost has. A transaction does
// not name its table in its path: those of other programs would be hit, too.
function rulesOf(shop, packers) {
  return [
    { resource: shop, fault: "503", count: 1 },
    { resource: shop, operation: "GetEntity", fault: "500 OperationTimedOut", count: 1 },
    { resource: shop, operation: "InsertEntity", fault: "lose-answer", count: 1 },
    { resource: shop, operation: "MergeEntity", fault: "lose-answer", count: 2 },
    { service: "table", operation: "Batch", fault: "lose-answer", count: 2 },
    { resource: packers, operation: "PutMessage", fault: "reset", count: 1 },
    { resource: packers, operation: "PutMessage", fault: "lose-answer", count: 2 },
  ];
}

let result;
for (const [label, ...designs] of [
  ["no repetition", placeOnce, packEach],
  ["the last answer counts", placeAgain, packEach],
  ["repetitions do no harm", place, pack],
]) {
  result = await sell(...designs);
  const [confirmed, stored, taken, packed] = result;
  console.log(
    `${label}: ${confirmed} of ${ORDERS} orders confirmed, ${stored} stored, parts taken for ${taken}, ${packed} packed`,
  );
}
assert.deepEqual(result, [ORDERS, ORDERS, ORDERS, ORDERS]);

// What the clients do by themselves when the answer to a write is lost.
const outcome = (work) =>
  work().then(
    () => "success",
    (error) => error.statusCode ?? "no answer",
  );

const [table, queue] = [await newTable("Lost"), await newQueue("lost")];
const alone = tableWith(repeating, table.tableName);
const [one, old, two] = ["one", "old", "two"].map((rowKey) => ({ partitionKey: "p", rowKey }));
const { etag } = await table.createEntity(old);
for (const [label, operation, work] of [
  ["insert", "InsertEntity", () => alone.createEntity(one)],
  ["merge", "MergeEntity", () => alone.updateEntity({ ...one, a: 1 })],
  ["replace", "UpdateEntity", () => alone.updateEntity({ ...one, a: 2 }, "Replace")],
  [
    "replace under an ETag",
    "UpdateEntity",
    () => alone.updateEntity({ ...old, a: 3 }, "Replace", { etag }),
  ],
  ["delete", "DeleteEntity", () => alone.deleteEntity("p", "old")],
  ["transaction of an insert", "Batch", () => alone.submitTransaction([["create", two]])],
  ["message", "PutMessage", () => queuesRepeating.getQueueClient(queue.name).sendMessage("m")],
]) {
  const places = { Batch: "$batch", PutMessage: queue.name };
  const resource = places[operation] ?? table.tableName;
  await withFaults([{ operation, resource, fault: "lose-answer", count: 1 }], async () =>
    console.log(`${label}: ${await outcome(work)}`),
  );
}
const rows = (await all(table.listEntities())).map((row) => [row.rowKey, row.a]);
assert.deepEqual(rows, [
  ["one", 2],
  ["two", undefined],
]);
const { receivedMessageItems } = await queue.receiveMessages({ numberOfMessages: 32 });
console.log(`messages: ${receivedMessageItems.length}`);

// The waits grow, and none is shorter than the service asks for.
const busy = { resource: table.tableName, fault: "503; retry-after=2" };
await withFaults([busy], async (isFaulty) => {
  if (!isFaulty) return;
  const client = tableWith(once, table.tableName);
  const waits = [];
  const options = { wait: async (time) => waits.push(time) };
  assert.equal(await outcome(() => repeatedly(() => client.getEntity("p", "one"), options)), 503);
  assert.equal(waits.length, 5);
  for (const [number, time] of waits.entries())
    assert.ok(time >= 2000 && time <= 2000 + 100 * 2 ** number, `${waits}`);
});
