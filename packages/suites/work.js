"use strict";
// Ten kinds of work, as in `test_work.py`. Each needs an empty store: all of them use the same names.

const assert = require("node:assert/strict");
const { TableClient, TableTransaction } = require("@azure/data-tables");
const { BlobServiceClient } = require("@azure/storage-blob");
const { QueueServiceClient } = require("@azure/storage-queue");

const TESTS_OF_A_KIND = 20;

async function photosOf(connection) {
  const photos = BlobServiceClient.fromConnectionString(connection).getContainerClient("photos");
  await photos.create();
  return photos;
}

async function workOf(connection) {
  const work = QueueServiceClient.fromConnectionString(connection).getQueueClient("work");
  await work.create();
  return work;
}

async function ordersOf(connection) {
  const orders = TableClient.fromConnectionString(connection, "Orders", { allowInsecureConnection: true });
  await orders.createTable();
  return orders;
}

async function namesOf(items, name) {
  const names = [];
  for await (const item of items) names.push(item[name]);
  return names;
}

const upload = (container, name, content) => container.getBlockBlobClient(name).upload(content, Buffer.byteLength(content));
const isRefused = (status) => (error) => error.statusCode === status;

const kinds = {
  async "photos are listed by prefix and read"(connection, number) {
    const photos = await photosOf(connection);
    for (const month of ["2026/10", "2026/11"])
      for (const name of ["lake", "wood"]) await upload(photos, `${month}/${name}.txt`, `${month} ${name} ${number}`);
    const names = await namesOf(photos.listBlobsFlat({ prefix: "2026/11/" }), "name");
    assert.deepEqual(names, ["2026/11/lake.txt", "2026/11/wood.txt"]);
    const content = await photos.getBlobClient(names[0]).downloadToBuffer();
    assert.equal(content.toString(), `2026/11 lake ${number}`);
  },

  async "a blob is replaced only by who knows its etag"(connection) {
    const photos = await photosOf(connection);
    const { etag } = await upload(photos, "lake.txt", "blue");
    const blob = photos.getBlockBlobClient("lake.txt");
    await blob.upload("green", 5, { conditions: { ifMatch: etag } });
    await assert.rejects(blob.upload("grey", 4, { conditions: { ifMatch: etag } }), isRefused(412));
    assert.equal((await blob.downloadToBuffer()).toString(), "green");
  },

  async "blocks become a blob"(connection, number) {
    const blob = (await photosOf(connection)).getBlockBlobClient("film.bin");
    const blocks = [0, 1, 2, 3].map((place) => Buffer.alloc(65_536, number + place));
    const ids = blocks.map((_, place) => Buffer.from(`000${place}`).toString("base64"));
    for (const [place, block] of blocks.entries()) await blob.stageBlock(ids[place], block, block.length);
    await blob.commitBlockList(ids);
    const middle = await blob.downloadToBuffer(65_530, 12);
    assert.deepEqual(middle, Buffer.concat(blocks).subarray(65_530, 65_542));
    assert.deepEqual(await blob.downloadToBuffer(), Buffer.concat(blocks));
  },

  async "lines are appended to a log"(connection, number) {
    const log = (await photosOf(connection)).getAppendBlobClient("access.log");
    await log.create();
    for (let line = 0; line < 5; line++) {
      const text = `line ${line} of ${number}\n`;
      await log.appendBlock(text, text.length);
    }
    assert.equal((await log.downloadToBuffer()).toString().trim().split("\n").at(-1), `line 4 of ${number}`);
  },

  async "a lease keeps others out"(connection, number) {
    const photos = await photosOf(connection);
    await upload(photos, "lake.txt", "blue");
    const blob = photos.getBlobClient("lake.txt");
    const lease = blob.getBlobLeaseClient();
    const { leaseId } = await lease.acquireLease(15);
    await assert.rejects(blob.delete(), isRefused(412));
    await blob.setMetadata({ number: `${number}` }, { conditions: { leaseId } });
    await lease.releaseLease();
    assert.deepEqual((await blob.getProperties()).metadata, { number: `${number}` });
    await blob.delete();
  },

  async "messages are received once and deleted"(connection, number) {
    const work = await workOf(connection);
    for (let place = 0; place < 4; place++) await work.sendMessage(`${number}.${place}`);
    const { receivedMessageItems } = await work.receiveMessages({ numberOfMessages: 4, visibilityTimeout: 60 });
    assert.deepEqual(receivedMessageItems.map((message) => message.messageText).sort(), [0, 1, 2, 3].map((place) => `${number}.${place}`));
    assert.equal((await work.receiveMessages()).receivedMessageItems.length, 0);
    for (const { messageId, popReceipt } of receivedMessageItems) await work.deleteMessage(messageId, popReceipt);
    assert.equal((await work.getProperties()).approximateMessagesCount, 0);
  },

  async "a message is changed and comes back"(connection, number) {
    const work = await workOf(connection);
    await work.sendMessage("begun");
    const { receivedMessageItems: [message] } = await work.receiveMessages({ visibilityTimeout: 60 });
    await work.updateMessage(message.messageId, message.popReceipt, `half done ${number}`, 0);
    const { receivedMessageItems: [again] } = await work.receiveMessages();
    assert.deepEqual([again.messageText, again.dequeueCount], [`half done ${number}`, 2]);
  },

  async "entities are found by their properties"(connection, number) {
    const orders = await ordersOf(connection);
    const batch = new TableTransaction();
    for (let row = 0; row < 20; row++)
      batch.createEntity({ partitionKey: "2026", rowKey: `${row}`.padStart(3, "0"), total: row * 10, number });
    await orders.submitTransaction(batch.actions);
    const filter = "PartitionKey eq '2026' and total ge 150";
    const found = orders.listEntities({ queryOptions: { filter, select: ["RowKey"] } });
    assert.deepEqual(await namesOf(found, "rowKey"), ["015", "016", "017", "018", "019"]);
  },

  async "a transaction is all or nothing"(connection, number) {
    const orders = await ordersOf(connection);
    await orders.createEntity({ partitionKey: "2026", rowKey: "1", number });
    const batch = ["0", "1", "2"].map((rowKey) => ["create", { partitionKey: "2026", rowKey }]);
    await assert.rejects(orders.submitTransaction(batch), isRefused(409));
    assert.deepEqual(await namesOf(orders.listEntities(), "number"), [number]);
  },

  async "an order goes through all services"(connection, number) {
    const [photos, work, orders] = [await photosOf(connection), await workOf(connection), await ordersOf(connection)];
    await upload(photos, `${number}.txt`, "a photo");
    await orders.createEntity({ partitionKey: "2026", rowKey: `${number}`, state: "open" });
    await work.sendMessage(`${number}`);
    const { receivedMessageItems: [message] } = await work.receiveMessages();
    const photo = await photos.getBlobClient(`${message.messageText}.txt`).downloadToBuffer();
    const order = { partitionKey: "2026", rowKey: message.messageText, state: "printed", bytes: photo.length };
    await orders.updateEntity(order, "Replace");
    await work.deleteMessage(message.messageId, message.popReceipt);
    assert.equal((await orders.getEntity("2026", `${number}`)).bytes, 7);
  },
};

/** The tests of a suite: name and function of a connection string. */
const tests = Object.entries(kinds).flatMap(([kind, work]) =>
  Array.from({ length: TESTS_OF_A_KIND }, (_, number) => [`${kind} (${number})`, (connection) => work(connection, number)]),
);

module.exports = { tests };
