// What the programs of the guide share: clients, tables with names of their own, and a comparison
// of two designs.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { TableClient } from "@azure/data-tables";
import { BlobServiceClient, newPipeline as newBlobPipeline } from "@azure/storage-blob";
import { newPipeline as newQueuePipeline, QueueServiceClient } from "@azure/storage-queue";

export const connection =
  process.env.AZURE_STORAGE_CONNECTION_STRING ?? "UseDevelopmentStorage=true";

/** What the requests so far cost: their number, the bytes of bodies that were sent and that came
 * back, and the entities that the server examined. */
const total = { requests: 0, sent: 0, received: 0, examined: 0 };
// Azure does not report the entities that it examined.
let isExaminedKnown = false;

function count(request, response) {
  total.requests += 1;
  total.sent += Buffer.byteLength(request.body ?? "");
  // Azure sends the answers of tables in chunks, without their length.
  total.received += Number(
    response.headers.get("content-length") ?? response.bodyAsText?.length ?? 0,
  );
  const examined = response.headers.get("x-lazurite-examined");
  isExaminedKnown ||= examined !== undefined;
  const isGetEntity = request.method === "GET" && request.url.includes("(PartitionKey=");
  total.examined += Number(examined ?? (isGetEntity ? 1 : 0));
  return response;
}

/** Counts the requests of a table client. */
const tableCounter = {
  name: "counter",
  sendRequest: async (request, next) => count(request, await next(request)),
};

/** Counts the requests of the other clients. */
const storageCounter = {
  create: (next) => ({
    sendRequest: async (request) => count(request, await next.sendRequest(request)),
  }),
};

function counted(Client, newPipeline) {
  const { url, credential } = Client.fromConnectionString(connection);
  const pipeline = newPipeline(credential);
  pipeline.factories.push(storageCounter);
  return new Client(url, pipeline);
}

export const blobs = counted(BlobServiceClient, newBlobPipeline);
export const queues = counted(QueueServiceClient, newQueuePipeline);

/** A name that no other run uses. */
export const name = (prefix) => prefix + randomBytes(4).toString("hex");

const cleanup = [];
process.once("beforeExit", async () => {
  for (const remove of cleanup) await remove();
});

/** The client of a table; the table need not exist. */
export function tableClient(tableName) {
  const table = TableClient.fromConnectionString(connection, tableName, {
    allowInsecureConnection: true,
  });
  table.pipeline.addPolicy(tableCounter);
  return table;
}

/** A table that is deleted when the program ends. */
export async function newTable(prefix) {
  const table = tableClient(name(prefix));
  await table.createTable();
  cleanup.push(() => table.deleteTable());
  return table;
}

export async function newContainer(prefix) {
  const container = blobs.getContainerClient(name(`${prefix}-`));
  await container.create();
  cleanup.push(() => container.deleteIfExists());
  return container;
}

export async function newQueue(prefix) {
  const queue = queues.getQueueClient(name(`${prefix}-`));
  await queue.create();
  cleanup.push(() => queue.deleteIfExists());
  return queue;
}

/** Stores entities in transactions of up to 100; a transaction stays in one partition. */
export async function insertAll(table, entities) {
  const partitions = new Map();
  for (const entity of entities) {
    if (!partitions.has(entity.partitionKey)) partitions.set(entity.partitionKey, []);
    partitions.get(entity.partitionKey).push(entity);
  }
  for (const rows of partitions.values()) {
    for (let start = 0; start < rows.length; start += 100) {
      await table.submitTransaction(
        rows.slice(start, start + 100).map((row) => ["upsert", row, "Replace"]),
      );
    }
  }
}

/** All that an asynchronous iterator yields. */
export async function all(iterator) {
  const items = [];
  for await (const item of iterator) items.push(item);
  return items;
}

/** Runs `work`: what it returned, and what its requests cost. */
export async function costOf(work) {
  const before = { ...total };
  const answer = await work();
  const cost = Object.fromEntries(
    Object.keys(total).map((measure) => [measure, total[measure] - before[measure]]),
  );
  return [answer, cost];
}

/** Runs both designs, checks that they answer alike, and that the advised one needs less:
 * `requests`, `sent`, `received` or `examined`. */
export async function compare(naive, advised, fewer) {
  const [expected, before] = await costOf(naive);
  const [found, after] = await costOf(advised);
  assert.deepEqual(found, expected);
  if (fewer === "examined" && !isExaminedKnown) return;
  assert.ok(
    after[fewer] < before[fewer],
    `${fewer}: ${after[fewer]}, and ${before[fewer]} with the naive design`,
  );
  console.log(
    `the answers are equal; ${fewer}: ${before[fewer]} with the naive design, ${after[fewer]} with the advised one`,
  );
}
