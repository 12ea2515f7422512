// Log data in blobs: the records of an hour in one blob.

import assert from "node:assert/strict";
import { all, compare, newContainer, newTable } from "./store.mjs";

const table = await newTable("Log");
const container = await newContainer("log");

// #region naive
/** The parts of a moment: year, month, day and hour. */
const parts = (moment) => moment.toISOString().slice(0, 13).split(/[-T]/);

async function storeEntities(records) {
  for (const [number, { moment, text }] of records.entries()) {
    const rowKey = `${parts(moment).join("")}_${String(number).padStart(6, "0")}`;
    await table.upsertEntity({ partitionKey: "web", rowKey, text });
  }
}
// #endregion

// #region advised
// Names sort by time, and a prefix is a year, a month, a day or an hour.
const blobName = (service, hour) => `${service}/${parts(hour).join("/")}00/000000.log`;
const dayPrefix = (service, day) => `${service}/${parts(day).slice(0, 3).join("/")}/`;

async function storeBlob(service, hour, texts) {
  // The metadata says what is inside; a listing shows it without reading the blob.
  const metadata = { LogRecords: String(texts.length), StartTime: hour.toISOString() };
  await container
    .getBlockBlobClient(blobName(service, hour))
    .uploadData(Buffer.from(texts.join("\n")), { metadata });
}

async function recordsOf(service, day) {
  const records = [];
  for await (const { name } of container.listBlobsFlat({ prefix: dayPrefix(service, day) })) {
    records.push(...String(await container.getBlobClient(name).downloadToBuffer()).split("\n"));
  }
  return records;
}

async function countOf(service, day) {
  const blobs = await all(
    container.listBlobsFlat({ prefix: dayPrefix(service, day), includeMetadata: true }),
  );
  return blobs.reduce((count, blob) => count + Number(blob.metadata.LogRecords), 0);
}
// #endregion

// #region buffer
/** Stores a blob for `recordsMax` records, or fewer when the oldest is `ageMax` milliseconds old.
 * What is in the buffer is lost if the program is killed. */
class LogWriter {
  buffer = [];
  blobs = 0;

  constructor(name, recordsMax, ageMax, clock = () => performance.now()) {
    Object.assign(this, { name, recordsMax, ageMax, clock });
  }

  async log(text) {
    if (this.buffer.length === 0) this.oldest = this.clock();
    this.buffer.push(text);
    await this.tick();
  }

  // A timer calls it as well: otherwise the last records wait for the next one.
  async tick() {
    const isOld = this.buffer.length > 0 && this.clock() - this.oldest >= this.ageMax;
    if (isOld || this.buffer.length >= this.recordsMax) await this.flush();
  }

  // A program calls it before it ends, too.
  async flush() {
    const content = Buffer.from(this.buffer.join("\n"));
    const name = `${this.name}/${String(this.blobs).padStart(6, "0")}.log`;
    // Before the upload: a record that comes meanwhile is for the next blob.
    this.buffer = [];
    this.blobs += 1;
    await container.getBlockBlobClient(name).uploadData(content);
  }
}
// #endregion

const start = Date.UTC(2026, 6, 30, 22);
const log = Array.from({ length: 40 }, (_, number) => ({
  moment: new Date(start + number * 7 * 60_000),
  text: `GET /photos/${number} 200`,
}));

async function byBlobs() {
  const hours = new Map();
  for (const { moment, text } of log) {
    const hour = new Date(moment).setUTCMinutes(0);
    hours.set(hour, [...(hours.get(hour) ?? []), text]);
  }
  for (const [hour, texts] of hours) await storeBlob("web", new Date(hour), texts);
}

await compare(() => storeEntities(log), byBlobs, "requests");
const day = new Date(start + 86_400_000);
const expected = log
  .filter(({ moment }) => moment.getUTCDate() === day.getUTCDate())
  .map(({ text }) => text);
assert.deepEqual(await recordsOf("web", day), expected);
assert.equal(await countOf("web", day), expected.length);

// A writer is killed after its 987th record. The price of a blob in writes to a table is that of the
// example prices.
const [RECORDS, BLOB_WRITE] = [987, 153];

async function stored(prefix) {
  const records = [];
  for await (const { name } of container.listBlobsFlat({ prefix }))
    records.push(...String(await container.getBlobClient(name).downloadToBuffer()).split("\n"));
  return records;
}

for (const size of [50, 100, 500, 1000]) {
  const writer = new LogWriter(`killed_${size}`, size, 60_000, () => 0);
  for (let number = 0; number < RECORDS; number += 1) await writer.log(`record ${number}`);
  // Here it is killed: only what is in the store is left.
  const found = await stored(`killed_${size}/`);
  assert.deepEqual(
    found,
    found.map((_, number) => `record ${number}`),
  );
  console.log(
    `buffer of ${size}: ${RECORDS - found.length} of ${RECORDS} records lost, blobs: ${writer.blobs}, at the price of ${writer.blobs * BLOB_WRITE} entities`,
  );
}

// Fewer records than a blob holds wait for `ageMax` at most.
const moments = [0, 0, 59_000, 60_000];
const writer = new LogWriter("slow", 100, 60_000, () => moments.shift());
await writer.log("first");
await writer.tick();
assert.equal(writer.blobs, 0);
await writer.tick();
assert.deepEqual(await stored("slow/"), ["first"]);
