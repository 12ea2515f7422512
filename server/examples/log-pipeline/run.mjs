// Log pipeline: web servers send log records through a queue, collectors store them in a blob for
// each hour, each record exactly once, and keep the newest in a table.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { odata, TableClient, TableServiceClient } from "@azure/data-tables";
import { BlobServiceClient } from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";
import {
  Kills,
  parse,
  patiently,
  STORAGE_RETRIES,
  TABLE_RETRIES,
  withStore,
} from "../launch.mjs";

const SERVERS = ["web-1", "web-2", "web-3"];
const BATCHES = 30;
const BATCH_RECORDS = 10;
const COLLECTORS = 2;
/** The web servers of this program log three hours in seconds. */
const START = Date.UTC(2026, 10, 25, 21);
const HOUR = 3_600_000;
const RECORD_EVERY = (3 * HOUR) / (BATCHES * BATCH_RECORDS);
/** Seconds after which a message returns whose collector has died. */
const HIDDEN_FOR = 1;
const [PAUSE_MIN, PAUSE_MAX] = [20, 640];

class Pipeline {
  constructor(connection) {
    const suffix = randomBytes(4).toString("hex");
    this.tableOptions = { allowInsecureConnection: true, ...TABLE_RETRIES };
    this.connection = connection;
    this.tailPrefix = `Tail${suffix}`;
    this.tables = TableServiceClient.fromConnectionString(connection, this.tableOptions);
    this.log = BlobServiceClient.fromConnectionString(connection, STORAGE_RETRIES).getContainerClient(
      `log-${suffix}`,
    );
    this.batches = QueueServiceClient.fromConnectionString(connection, STORAGE_RETRIES).getQueueClient(
      `batches-${suffix}`,
    );
    this.newestHour = "";
  }

  async create() {
    await this.log.createIfNotExists();
    await this.batches.createIfNotExists();
  }

  async delete() {
    await this.log.deleteIfExists();
    await this.batches.deleteIfExists();
    for (const hour of await this.tailHours()) await this.dropTail(hour);
  }

  // The web servers

  send(batch) {
    return this.batches.sendMessage(JSON.stringify(batch));
  }

  // The collectors

  /** Receives one batch and stores it; false if there is none. */
  async collect() {
    const receive = () => this.batches.receiveMessages({ visibilityTimeout: HIDDEN_FOR });
    const [message] = (await patiently(receive)).receivedMessageItems;
    if (message === undefined) return false;
    const batch = JSON.parse(message.messageText);
    for (const [hour, records] of byHour(batch.records)) {
      await patiently(() => this.addToBlob(hour, batch.id, records));
      await patiently(() => this.addToTail(hour, batch.id, records));
    }
    // Last of all: if this collector dies before, another stores the batch again, and finds that it
    // is stored. A message that another collector has received meanwhile is that collector's to
    // delete.
    const { messageId, popReceipt } = message;
    await patiently(() =>
      this.batches.deleteMessage(messageId, popReceipt).catch(unless(400, 404)),
    );
    return true;
  }

  /** A batch is a block of the hour's blob, and the id of the batch is the id of the block: it is
   * there or it is not. */
  async addToBlob(hour, batchId, records) {
    const blob = this.log.getBlockBlobClient(blobName(hour));
    const blockId = Buffer.from(batchId.padEnd(32)).toString("base64");
    const text = records.map((record) => `${record}\n`).join("");
    for (;;) {
      const properties = await blob.getProperties().catch(unless(404));
      const blockIds = properties ? await committedBlocks(blob) : [];
      if (blockIds.includes(blockId)) return;
      await blob.stageBlock(blockId, text, Buffer.byteLength(text));
      const count = Number(properties?.metadata.records ?? 0) + records.length;
      // Refused if another collector has changed the blob since: then its blocks are in another
      // list, and ours may be gone.
      const conditions = properties ? { ifMatch: properties.etag } : { ifNoneMatch: "*" };
      const options = { metadata: { records: String(count) }, conditions };
      const committed = await blob
        .commitBlockList([...blockIds, blockId], options)
        .catch(unless(400, 409, 412));
      if (committed) return;
    }
  }

  /** The newest records, newest first, in a table for each hour. */
  async addToTail(hour, batchId, records) {
    if (hour > this.newestHour) {
      this.newestHour = hour;
      await this.dropOldTails();
    }
    // The records of a batch that was delayed for hours are in the blob; the tail does without
    // them.
    if (hour < previous(this.newestHour)) return;
    const table = this.tail(hour);
    const row = (record, number) => [
      "upsert",
      { ...keysOf(record, batchId, number), record },
      "Replace",
    ];
    // Another collector may begin a new hour and drop this table before or in between: it is old
    // then, and is there no more (404) or is being deleted (409).
    await table.createTable().catch(unless(409));
    await table.submitTransaction(records.map(row)).catch(unless(404, 409));
  }

  /** Old tails go by whole tables. */
  async dropOldTails() {
    for (const hour of await this.tailHours()) {
      if (hour < previous(this.newestHour)) await this.dropTail(hour);
    }
  }

  /** Another collector, or a request whose answer was lost, may have begun to delete it. */
  dropTail(hour) {
    return this.tables.deleteTable(this.tailPrefix + hour).catch(unless(404, 409));
  }

  // The readers

  async newest(count) {
    const found = [];
    for (
      let hour = this.newestHour;
      found.length < count && hour >= previous(this.newestHour);
      hour = previous(hour)
    ) {
      const rows = this.tail(hour).listEntities({
        queryOptions: { filter: odata`PartitionKey eq 'web'` },
      });
      const { value: page } = await rows.byPage({ maxPageSize: count - found.length }).next();
      found.push(...page.map((row) => row.record));
    }
    return found;
  }

  /** The records under a prefix such as `web/2026/11/25/`. */
  async records(prefix) {
    const found = [];
    for await (const { name } of this.log.listBlobsFlat({ prefix })) {
      found.push(
        ...String(await this.log.getBlobClient(name).downloadToBuffer())
          .trimEnd()
          .split("\n"),
      );
    }
    return found;
  }

  /** The number of records under a prefix, from the listing alone. */
  async count(prefix) {
    let count = 0;
    for await (const { metadata } of this.log.listBlobsFlat({ prefix, includeMetadata: true }))
      count += Number(metadata.records);
    return count;
  }

  tail(hour) {
    return TableClient.fromConnectionString(
      this.connection,
      this.tailPrefix + hour,
      this.tableOptions,
    );
  }

  async tailHours() {
    const filter = odata`TableName ge ${this.tailPrefix} and TableName lt ${`${this.tailPrefix}~`}`;
    const hours = [];
    for await (const { name } of this.tables.listTables({ queryOptions: { filter } }))
      hours.push(name.slice(this.tailPrefix.length));
    return hours;
  }
}

/** Ignores the error if it has one of these status codes. */
const unless =
  (...statusCodes) =>
  (error) => {
    if (!statusCodes.includes(error.statusCode)) throw error;
  };

const committedBlocks = async (blob) =>
  ((await blob.getBlockList("committed")).committedBlocks ?? []).map((block) => block.name);

/** Hours are written as in `2026112521`. */
const hourOf = (moment) => new Date(moment).toISOString().replace(/[-T]/g, "").slice(0, 10);
const previous = (hour) =>
  hourOf(Date.parse(hour.replace(/(....)(..)(..)(..)/, "$1-$2-$3T$4:00:00Z")) - HOUR);
const blobName = (hour) => hour.replace(/(....)(..)(..)(..)/, "web/$1/$2/$3/$400/000000.log");

/** The later the record, the smaller the number. */
function keysOf(record, batchId, number) {
  const moment = Date.parse(record.slice(0, 24));
  const inverted = String(9_999_999_999_999 - moment).padStart(13, "0");
  return {
    partitionKey: "web",
    rowKey: `${inverted}_${batchId}_${String(number).padStart(3, "0")}`,
  };
}

function byHour(records) {
  const hours = new Map();
  for (const record of records) {
    const hour = hourOf(Date.parse(record.slice(0, 24)));
    if (!hours.has(hour)) hours.set(hour, []);
    hours.get(hour).push(record);
  }
  return hours;
}

/** What a web server logs: a line for each request, in batches. */
function batchesOf(server) {
  const line = (number) =>
    `${new Date(START + number * RECORD_EVERY).toISOString()} ${server} GET /photos/${number} 200`;
  return Array.from({ length: BATCHES }, (_, batch) => ({
    id: `${server}-${String(batch).padStart(6, "0")}`,
    records: Array.from({ length: BATCH_RECORDS }, (_, number) =>
      line(batch * BATCH_RECORDS + number),
    ),
  }));
}

async function run(pipeline, kills) {
  const total = SERVERS.length * BATCHES * BATCH_RECORDS;
  let isComplete = false;

  async function serve(server) {
    for (const batch of batchesOf(server)) await patiently(() => pipeline.send(batch));
  }

  async function collect() {
    let pause = PAUSE_MIN;
    while (!isComplete) {
      if (await pipeline.collect()) {
        pause = PAUSE_MIN;
      } else {
        // Every look into an empty queue is a billed request: look less and less often.
        await sleep(pause);
        pause = Math.min(2 * pause, PAUSE_MAX);
      }
    }
  }

  async function watch() {
    const deadline = Date.now() + 120_000;
    for (let done = 0; done < total; done = await patiently(() => pipeline.count("web/"))) {
      assert.ok(Date.now() < deadline, `${done} records after two minutes`);
      await kills.at(done);
      await sleep(20);
    }
    // The last batches are in the blobs, and perhaps not in the tail; a batch that was sent twice
    // is still in the queue.
    while ((await pipeline.batches.getProperties()).approximateMessagesCount > 0) await sleep(20);
    isComplete = true;
  }

  await Promise.all([
    ...SERVERS.map(serve),
    ...Array.from({ length: COLLECTORS }, collect),
    watch(),
  ]);
}

/** Each record is in the blob of its hour, once; the tail has the newest, of the last two hours. */
async function check(pipeline) {
  const sent = SERVERS.flatMap((server) =>
    batchesOf(server).flatMap((batch) => batch.records),
  ).sort();
  const stored = await pipeline.records("web/");
  assert.deepEqual([...stored].sort(), sent);
  assert.equal(await pipeline.count("web/2026/11/25/"), sent.length);
  for (const hour of ["21", "22", "23"]) {
    const records = await pipeline.records(`web/2026/11/25/${hour}00/`);
    assert.ok(
      records.length > 0 && records.every((record) => record.startsWith(`2026-11-25T${hour}:`)),
      hour,
    );
  }
  // Records of the same moment come in the order of their batches.
  const newest = (await pipeline.newest(12)).sort();
  assert.deepEqual(newest, sent.slice(-12));
  await pipeline.dropOldTails();
  assert.deepEqual(await pipeline.tailHours(), ["2026112522", "2026112523"]);
  console.log(
    `${sent.length} records are in the blobs of their hours, each once; the tail has the newest; nothing is lost`,
  );
}

const options = parse();
await withStore(options, async (server) => {
  const pipeline = new Pipeline(server.connection);
  await pipeline.create();
  await run(pipeline, new Kills(server, SERVERS.length * BATCHES * BATCH_RECORDS, options.kill));
  await check(pipeline);
  await pipeline.delete();
});
