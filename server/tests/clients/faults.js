// Faults as @azure/storage-blob and its siblings see them, and the clock from JavaScript.

const assert = require("node:assert/strict");
const { afterEach, before, describe, it } = require("node:test");
const { BlobServiceClient } = require("@azure/storage-blob");
const { QueueServiceClient } = require("@azure/storage-queue");
const { connection, once, settings, unique } = require("./harness.js");

const server = new URL(settings.BlobEndpoint).origin;
const fast = { retryOptions: { maxTries: 4, retryDelayInMs: 1, maxRetryDelayInMs: 10 } };
const service = BlobServiceClient.fromConnectionString(connection, once);
const name = unique("faults");

async function ask(method, page, body) {
  const answer = await fetch(`${server}/_lazurite/${page}`, { method, body: body && JSON.stringify(body) });
  assert.equal(answer.status, 200);
  return answer.json();
}

const faults = async (...rules) => (await ask("PUT", "faults", { rules })).rules;
const hits = async () => (await ask("GET", "faults")).rules[0].hits;
const blob = (options = fast) =>
  BlobServiceClient.fromConnectionString(connection, options).getContainerClient(name).getBlockBlobClient("b");

describe("faults", () => {
  before(async () => {
    const { containerClient } = await service.createContainer(name);
    await containerClient.getBlockBlobClient("b").upload("0123456789", 10);
  });
  afterEach(() => ask("DELETE", "faults"));

  it("that are errors are tried again", async () => {
    for (const fault of ["503", "500 OperationTimedOut", "500 InternalError"]) {
      await faults({ operation: "GetBlobProperties", count: 2, fault });
      assert.equal((await blob().getProperties()).contentLength, 10);
      assert.equal(await hits(), 2);
    }
    await faults({ operation: "GetBlobProperties", fault: "503" });
    await assert.rejects(blob().getProperties(), { statusCode: 503 });
    assert.equal(await hits(), 4);
  });

  it("that reset the connection are tried again", async () => {
    await faults({ operation: "GetBlobProperties", count: 1, fault: "reset" });
    assert.equal((await blob().getProperties()).contentLength, 10);
    await faults({ operation: "GetBlobProperties", fault: "reset" });
    await assert.rejects(blob(once).getProperties(), { code: "ECONNRESET" });
  });

  it("that cut a body abort the download, which this client does not try again", async () => {
    await faults({ operation: "GetBlob", count: 1, fault: "cut-body" });
    await assert.rejects(blob().downloadToBuffer(), { name: "AbortError" });
    assert.equal(await hits(), 1);
    assert.equal((await blob().downloadToBuffer()).toString(), "0123456789");
  });

  it("that lose the answer leave what was written", async () => {
    await faults({ operation: "PutBlob", count: 1, fault: "lose-answer" });
    await assert.rejects(blob(once).upload("changed", 7), { code: "ECONNRESET" });
    assert.equal((await blob().downloadToBuffer()).toString(), "changed");
  });
});

describe("the clock", () => {
  it("brings a hidden message back", async () => {
    const queue = QueueServiceClient.fromConnectionString(connection, once).getQueueClient(unique("queue"));
    await queue.create();
    await queue.sendMessage("a");
    const receive = async () => (await queue.receiveMessages({ visibilityTimeout: 30 })).receivedMessageItems.length;
    assert.deepEqual([await receive(), await receive()], [1, 0]);
    await ask("PUT", "clock", { advance: "PT30S" });
    assert.equal(await receive(), 1);
  });
});
