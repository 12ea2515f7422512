// The services over HTTPS; the runtime trusts the server's certificate by NODE_EXTRA_CA_CERTS.

const assert = require("node:assert/strict");
const { describe, it } = require("node:test");
const { BlobServiceClient } = require("@azure/storage-blob");
const { QueueServiceClient } = require("@azure/storage-queue");
const { TableClient } = require("@azure/data-tables");
const { connection, once, unique } = require("./harness.js");

describe("https", () => {
  it("serves every service", async () => {
    const container = BlobServiceClient.fromConnectionString(connection, once).getContainerClient(unique("con"));
    await container.create();
    await container.getBlockBlobClient("b").upload("hello", 5);
    assert.equal((await container.getBlobClient("b").downloadToBuffer()).toString(), "hello");
    const queue = QueueServiceClient.fromConnectionString(connection, once).getQueueClient(unique("queue"));
    await queue.create();
    await queue.sendMessage("hello");
    assert.equal((await queue.receiveMessages()).receivedMessageItems[0].messageText, "hello");
    const table = TableClient.fromConnectionString(connection, unique("table"), once);
    await table.createTable();
    await table.createEntity({ partitionKey: "p", rowKey: "r", n: 1 });
    assert.equal((await table.getEntity("p", "r")).n, 1);
  });
});
