// Forks by account name, as @azure/storage-blob and its siblings take it. The server was started with --forks.

const assert = require("node:assert/strict");
const { describe, it } = require("node:test");
const { BlobClient, BlobSASPermissions, BlobServiceClient, StorageSharedKeyCredential, generateBlobSASQueryParameters } = require("@azure/storage-blob");
const { QueueServiceClient } = require("@azure/storage-queue");
const { TableClient } = require("@azure/data-tables");
const { connection, once, settings, unique } = require("./harness.js");

const account = settings.AccountName;
const fork = (name) => connection.replaceAll(account, `${account}--${name}`);

describe("a fork", () => {
  it("has all services apart from those of the store", async () => {
    const name = unique("fork");
    for (const text of [fork("one"), fork("other")]) {
      const { containerClient } = await BlobServiceClient.fromConnectionString(text, once).createContainer(name);
      await containerClient.getBlockBlobClient("b").upload(text, text.length);
      const queue = QueueServiceClient.fromConnectionString(text, once).getQueueClient(name);
      await queue.create();
      await queue.sendMessage("text");
      const table = TableClient.fromConnectionString(text, name, { allowInsecureConnection: true });
      await table.createTable();
      await table.createEntity({ partitionKey: "p", rowKey: "r" });
      const read = await containerClient.getBlockBlobClient("b").downloadToBuffer();
      assert.equal(read.toString(), text);
      assert.equal((await queue.receiveMessages()).receivedMessageItems.length, 1);
    }
    const main = BlobServiceClient.fromConnectionString(connection, once).getContainerClient(name);
    assert.equal(await main.exists(), false);
  });

  it("is opened by a SAS of its own", async () => {
    const name = unique("sas");
    const service = BlobServiceClient.fromConnectionString(fork("sas"), once);
    const { containerClient } = await service.createContainer(name);
    await containerClient.getBlockBlobClient("b").upload("text", 4);
    const credential = new StorageSharedKeyCredential(`${account}--sas`, settings.AccountKey);
    const sas = generateBlobSASQueryParameters(
      { containerName: name, blobName: "b", permissions: BlobSASPermissions.parse("r"), expiresOn: new Date(Date.now() + 3_600_000) },
      credential,
    );
    const url = `${containerClient.url}/b?${sas}`;
    assert.equal((await new BlobClient(url).downloadToBuffer()).toString(), "text");
    await assert.rejects(new BlobClient(url.replace("--sas/", "/")).downloadToBuffer(), { statusCode: 403 });
  });
});
