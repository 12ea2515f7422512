// Queries over the contents of blobs.

const assert = require("node:assert/strict");
const { readFile } = require("node:fs/promises");
const path = require("node:path");
const { before, describe, it } = require("node:test");
const { BlobServiceClient } = require("@azure/storage-blob");
const { connection, fails, once, unique } = require("./harness.js");

const container = BlobServiceClient.fromConnectionString(connection, once).getContainerClient(unique("con"));
const NUMBERS = "100,200,300,400\n150,250,350,450\n";

async function blobOf(content) {
  const blob = container.getBlockBlobClient(unique("blob"));
  await blob.upload(content, Buffer.byteLength(content));
  return blob;
}

async function text(response) {
  const chunks = [];
  for await (const chunk of response.readableStreamBody) {
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

describe("queries", () => {
  before(() => container.create());

  it("of delimited text", async () => {
    const blob = await blobOf(NUMBERS);
    const ask = async (sql, options) => text(await blob.query(sql, options));
    assert.equal(await ask("select * from BlobStorage"), NUMBERS);
    assert.equal(await ask("select _2 from BlobStorage where _1 > 100"), "250\n");
    assert.equal(await ask("select _2 from BlobStorage where _1 > 200"), "");
    const csv = { kind: "csv", recordSeparator: "\n", columnSeparator: ",", hasHeaders: true };
    assert.equal(await ask('select "200" from BlobStorage', { inputTextConfiguration: csv }), "200\n250\n");
    const other = { kind: "csv", recordSeparator: "!", columnSeparator: ".", fieldQuote: '"' };
    assert.equal(await ask("select _1, _2 from BlobStorage", { outputTextConfiguration: other }), "100.200!150.250!");
  });

  it("of JSON, and into it", async () => {
    const lines = { kind: "json", recordSeparator: "\n" };
    const blob = await blobOf('{"a":{"b":[1,2.5]},"c":"x"}\n{"c":"y"}\n');
    const response = await blob.query("select c, a.b[1] as n from BlobStorage where c like '_'", {
      inputTextConfiguration: lines,
      outputTextConfiguration: lines,
    });
    assert.equal(await text(response), '{"c":"x","n":2.5}\n{"c":"y"}\n');
  });

  it("tell progress and errors", async () => {
    const blob = await blobOf("100,pizza\n300,400\n");
    const [progress, errors] = [[], []];
    const options = { onProgress: ({ loadedBytes }) => progress.push(loadedBytes), onError: (error) => errors.push(error) };
    assert.equal(await text(await blob.query("select _1 from BlobStorage where _2 > 250", options)), "300\n");
    assert.equal(progress.at(-1), 18);
    assert.deepEqual(errors.map((e) => [e.name, e.isFatal, e.position]), [["InvalidTypeConversion", false, 0]]);
    errors.length = 0;
    const fatal = await blob.query("select * from BlobStorage", { ...options, inputTextConfiguration: { kind: "json", recordSeparator: "\n" } });
    assert.equal(await text(fatal), "");
    assert.deepEqual(errors.map((e) => [e.name, e.isFatal, e.position]), [["ParseError", true, 0]]);
  });

  it("of snapshots, on conditions, and refused ones", async () => {
    const blob = await blobOf(NUMBERS);
    const { snapshot } = await blob.createSnapshot();
    await blob.upload("", 0);
    assert.equal(await text(await blob.withSnapshot(snapshot).query("select * from BlobStorage")), NUMBERS);
    assert.equal(await text(await blob.query("select * from BlobStorage")), "");
    const conditions = { ifMatch: '"0x1"' };
    await fails(() => blob.query("select * from BlobStorage", { conditions }), 412, "ConditionNotMet");
    await fails(() => blob.query("select * from Other"), 400, "InvalidInput");
  });

  it("of Parquet, and in Arrow", async () => {
    const file = await readFile(path.join(__dirname, "../../query/tests/data/people-zstd-v2.parquet"));
    const blob = await blobOf(file);
    const parquet = { inputTextConfiguration: { kind: "parquet" } };
    assert.equal(await text(await blob.query("select id, name from BlobStorage where age > 10", parquet)), "1,Ann\n");
    const schema = [{ type: "int64", name: "n" }];
    const arrow = { ...parquet, outputTextConfiguration: { kind: "arrow", schema } };
    const stream = await blob.query("select id from BlobStorage", arrow);
    const chunks = [];
    for await (const chunk of stream.readableStreamBody) chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    assert.equal(bytes.readUInt32LE(0), 0xffffffff);
    assert.equal(bytes.subarray(-8).toString("hex"), "ffffffff00000000");
  });
});
