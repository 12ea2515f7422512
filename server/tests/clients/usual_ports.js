// Clients that know the usual ports by themselves: no connection string names one.
const assert = require("node:assert");
const { BlobServiceClient } = require("@azure/storage-blob");
const { QueueClient } = require("@azure/storage-queue");
const { TableClient } = require("@azure/data-tables");

async function main() {
  const connection = "UseDevelopmentStorage=true";
  const container = BlobServiceClient.fromConnectionString(connection).getContainerClient("photos");
  await container.create();
  await container.getBlockBlobClient("lake.txt").upload("blue", 4);
  const found = await container.getBlobClient("lake.txt").downloadToBuffer();
  assert.strictEqual(found.toString(), "blue");
  const queue = new QueueClient(connection, "work");
  await queue.create();
  await queue.sendMessage("one");
  const { receivedMessageItems } = await queue.receiveMessages();
  assert.strictEqual(receivedMessageItems[0].messageText, "one");
  const people = TableClient.fromConnectionString(connection, "People");
  await people.createTable();
  await people.createEntity({ partitionKey: "Sales", rowKey: "1", name: "Don" });
  assert.strictEqual((await people.getEntity("Sales", "1")).name, "Don");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
