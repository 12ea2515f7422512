// Choosing a PartitionKey: one for all orders, one for each order, and one for each customer.

import assert from "node:assert/strict";
import { odata } from "@azure/data-tables";
import { all, compare, costOf, insertAll, newTable } from "./store.mjs";

const [CUSTOMERS, ORDERS] = [["ann", "bob", "cem", "dora"], 50];
const alone = await newTable("Alone");
const each = await newTable("Each");
const byCustomer = await newTable("ByCustomer");
const numbers = (start, end) => Array.from({ length: end - start }, (_, index) => start + index);
const padded = (order) => String(order).padStart(4, "0");

// #region naive
// Transactions and ranges reach everything, and one server of the service does all the work.
const oneForAll = (customer, order) => ["orders", `${customer}_${padded(order)}`];

// The work can be spread over all servers, and no two orders share a transaction.
const oneForEach = (customer, order) => [`${customer}_${padded(order)}`, ""];

const rangeOverPartitions = (first, end) =>
  all(
    each.listEntities({
      queryOptions: { filter: odata`PartitionKey ge ${first} and PartitionKey lt ${end}` },
    }),
  );
// #endregion

// #region advised
// Orders that are changed or listed together share a partition.
const oneForEachCustomer = (customer, order) => [customer, padded(order)];

const rangeInPartition = (table, partition, first, end) =>
  all(
    table.listEntities({
      queryOptions: {
        filter: odata`PartitionKey eq ${partition} and RowKey ge ${first} and RowKey lt ${end}`,
      },
    }),
  );
// #endregion

// #region change
/** Changes orders that exist, in one transaction for each partition. */
async function cancel(table, keys, customer, orders) {
  const partitions = new Map();
  for (const order of orders) {
    const [partitionKey, rowKey] = keys(customer, order);
    if (!partitions.has(partitionKey)) partitions.set(partitionKey, []);
    const changed = { partitionKey, rowKey, state: "cancelled" };
    partitions.get(partitionKey).push(["update", changed, "Merge"]);
  }
  for (const operations of partitions.values()) await table.submitTransaction(operations);
}
// #endregion

function fill(keys) {
  const ofCustomer = (customer) =>
    numbers(0, ORDERS).map((order) => {
      const [partitionKey, rowKey] = keys(customer, order);
      return { partitionKey, rowKey, order, state: "open" };
    });
  return CUSTOMERS.flatMap(ofCustomer);
}

const cancelled = async (table) =>
  (await all(table.listEntities())).filter((one) => one.state === "cancelled").length;

/** Of these 20 orders the last 10 do not exist. */
async function cancelledOfAChangeThatFails(table, keys) {
  const before = await cancelled(table);
  await assert.rejects(cancel(table, keys, "dora", numbers(ORDERS - 10, ORDERS + 10)), {
    statusCode: 404,
  });
  return (await cancelled(table)) - before;
}

async function fullestPartition(table) {
  const counts = {};
  for (const { partitionKey } of await all(table.listEntities()))
    counts[partitionKey] = (counts[partitionKey] ?? 0) + 1;
  return Math.max(...Object.values(counts));
}

const designs = [
  ["one for all", alone, oneForAll],
  ["one for each customer", byCustomer, oneForEachCustomer],
  ["one for each order", each, oneForEach],
];
const ranges = {
  "one for all": () => rangeInPartition(alone, "orders", "bob_0010", "bob_0030"),
  "one for each customer": () => rangeInPartition(byCustomer, "bob", "0010", "0030"),
  "one for each order": () => rangeOverPartitions("bob_0010", "bob_0030"),
};
for (const [label, table, keys] of designs) {
  await insertAll(table, fill(keys));
  const [, change] = await costOf(() => cancel(table, keys, "ann", numbers(0, 20)));
  const [found, answer] = await costOf(ranges[label]);
  assert.deepEqual(
    found.map((one) => one.order),
    numbers(10, 30),
  );
  console.log(
    `${label}: ${change.requests} requests to change 20 orders, ${answer.examined} examined in ` +
      `${answer.requests} requests for a range of 20, ${await cancelledOfAChangeThatFails(table, keys)} changed by a change that ` +
      `fails, ${await fullestPartition(table)} of 200 orders in the fullest partition`,
  );
}
await compare(
  () => cancel(each, oneForEach, "cem", numbers(0, 20)),
  () => cancel(byCustomer, oneForEachCustomer, "cem", numbers(0, 20)),
  "requests",
);
