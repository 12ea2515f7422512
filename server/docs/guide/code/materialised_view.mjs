// Materialised view: a worker keeps the number of orders of each product, each order counted once.

import assert from "node:assert/strict";
import { odata } from "@azure/data-tables";
import { all, compare, newQueue, newTable } from "./store.mjs";

const PRODUCTS = ["bolt", "nut", "gear"];
const orders = await newTable("Orders");
const view = await newTable("View");
const events = await newQueue("events");

// #region naive
async function countByScan(product) {
  // Each question reads every order.
  const filter = odata`product eq ${product}`;
  const found = await all(orders.listEntities({ queryOptions: { filter } }));
  return [found.length, found.reduce((sum, one) => sum + one.pieces, 0)];
}
// #endregion

// #region advised
const DELIVERIES_MAX = 5;

async function place(customer, order, product, pieces) {
  // The event first: an order that is stored always has its event.
  await events.sendMessage(`${customer}/${order}`);
  await orders.createEntity({ partitionKey: customer, rowKey: order, product, pieces });
}

/** The entity, or undefined if there is none. */
async function find(table, partitionKey, rowKey) {
  try {
    return await table.getEntity(partitionKey, rowKey);
  } catch (error) {
    if (error.statusCode !== 404) throw error;
  }
}

async function countOf(product, counts = view) {
  const row = await find(counts, product, "count");
  return [row?.orders ?? 0, row?.pieces ?? 0];
}

/** Counts an order, once however often it is called. */
async function apply(order, counts = view) {
  const { product, pieces } = order;
  const mark = { partitionKey: product, rowKey: `event_${order.partitionKey}_${order.rowKey}` };
  for (;;) {
    const row = await find(counts, product, "count");
    const changed = {
      partitionKey: product,
      rowKey: "count",
      orders: (row?.orders ?? 0) + 1,
      pieces: (row?.pieces ?? 0) + pieces,
    };
    const change =
      row === undefined ? ["create", changed] : ["update", changed, "Replace", { etag: row.etag }];
    try {
      // The mark and the count in one transaction: the mark exists if the order is counted.
      await counts.submitTransaction([["create", mark], change]);
      return;
    } catch (error) {
      // Counted before: the message came twice.
      if (error.statusCode === 409 && error.message.startsWith("0:")) return;
      if (error.statusCode !== 409 && error.statusCode !== 412) throw error;
    }
  }
}

async function handle(message, reached = () => {}) {
  const found = await find(orders, ...message.messageText.split("/"));
  // Not stored yet: the message comes back. After the last time, the program has died before it
  // stored the order.
  if (found === undefined && message.dequeueCount <= DELIVERIES_MAX) return;
  if (found !== undefined) {
    await apply(found);
    reached("applied");
  }
  await events.deleteMessage(message.messageId, message.popReceipt);
}
// #endregion

// #region rebuild
/** Counts all orders into another table, while the worker may count new ones there, too. */
async function rebuild(counts) {
  for await (const order of orders.listEntities()) await apply(order, counts);
}
// #endregion

class Death extends Error {}

const die = () => {
  throw new Death();
};

for (let number = 0; number < 30; number += 1)
  await place(
    `c${number % 7}`,
    String(number).padStart(4, "0"),
    PRODUCTS[number % 3],
    1 + (number % 5),
  );
// An event whose order was never stored.
await events.sendMessage("c1/none");
let deliveries = 0;
for (; ; deliveries += 1) {
  const [message] = (await events.receiveMessages({ visibilityTimeout: 30 })).receivedMessageItems;
  if (message === undefined) break;
  const { messageId, popReceipt, messageText } = message;
  try {
    await handle(message, deliveries % 3 === 0 ? die : undefined);
  } catch (error) {
    if (!(error instanceof Death)) throw error;
  }
  try {
    // Makes the message visible at once, as the end of the timeout would.
    await events.updateMessage(messageId, popReceipt, messageText, 0);
  } catch (error) {
    // The worker has deleted it.
    if (error.statusCode !== 404) throw error;
  }
}
assert.ok(deliveries > 31);
for (const product of PRODUCTS)
  await compare(
    () => countByScan(product),
    () => countOf(product),
    "examined",
  );

const again = await newTable("Rebuilt");
await apply(await orders.getEntity("c0", "0000"), again);
await rebuild(again);
for (const product of PRODUCTS)
  assert.deepEqual(await countOf(product, again), await countOf(product));
console.log(`30 orders counted once each, from ${deliveries} deliveries`);
