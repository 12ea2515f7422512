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
