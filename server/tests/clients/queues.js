// The Queue service through @azure/storage-queue.

const assert = require("node:assert/strict");
const { describe, it } = require("node:test");
const { QueueServiceClient } = require("@azure/storage-queue");
const { connection, once, unique, fails, all, eventually, setsPropertiesPartByPart } = require("./harness.js");

const service = QueueServiceClient.fromConnectionString(connection, once);
const week = 7 * 24 * 60 * 60;

async function newQueue(metadata) {
  const queue = service.getQueueClient(unique("queue"));
  const answer = await queue.create({ metadata });
  assert.equal(answer._response.status, 201);
  return queue;
}

const texts = (messages) => messages.map((message) => message.messageText);
const peek = async (queue, numberOfMessages = 32) => (await queue.peekMessages({ numberOfMessages })).peekedMessageItems;
const receive = async (queue, options) => (await queue.receiveMessages(options)).receivedMessageItems;

describe("queues", () => {
  it("are created, listed and deleted", async () => {
    const prefix = unique("list-") + "-";
    for (const letter of ["c", "a", "b"]) {
      await service.createQueue(prefix + letter, { metadata: { letter } });
    }
    const names = ["a", "b", "c"].map((letter) => prefix + letter);
    const listed = await all(service.listQueues({ prefix, includeMetadata: true }));
    assert.deepEqual(listed.map((q) => [q.name, q.metadata.letter]), names.map((name) => [name, name.at(-1)]));
    assert.equal((await all(service.listQueues({ prefix })))[0].metadata, undefined);
    const pages = await all(service.listQueues({ prefix }).byPage({ maxPageSize: 1 }));
    assert.deepEqual(pages.map((page) => page.queueItems.map((q) => q.name)), names.map((name) => [name]));
    const first = (await service.listQueues({ prefix }).byPage({ maxPageSize: 2 }).next()).value;
    const rest = await all(service.listQueues({ prefix }).byPage({ continuationToken: first.continuationToken }));
    assert.deepEqual(rest.map((page) => page.queueItems.map((q) => q.name)), [[names[2]]]);
    const answer = await service.deleteQueue(names[0]);
    assert.equal(answer._response.status, 204);
    assert.equal((await all(service.listQueues({ prefix }))).length, 2);
  });

  it("may be created again only as they are", async () => {
    const queue = await newQueue({ a: "1" });
    assert.equal((await queue.create({ metadata: { a: "1" } }))._response.status, 204);
    await fails(() => queue.create({ metadata: { a: "2" } }), 409, "QueueAlreadyExists", "The specified queue already exists.");
    assert.equal((await queue.createIfNotExists({ metadata: { b: "1" } })).succeeded, false);
    assert.equal(await queue.exists(), true);
    assert.equal((await queue.deleteIfExists()).succeeded, true);
    assert.equal((await queue.deleteIfExists()).succeeded, false);
    assert.equal(await queue.exists(), false);
  });

  it("are named when missing", async () => {
    const { popReceipt } = await (await newQueue()).sendMessage("x");
    const missing = service.getQueueClient("no-such-queue");
    for (const attempt of [
      () => missing.delete(),
      () => missing.getProperties(),
      () => missing.setMetadata({}),
      () => missing.getAccessPolicy(),
      () => missing.setAccessPolicy([]),
      () => missing.sendMessage("x"),
      () => missing.receiveMessages(),
      () => missing.peekMessages(),
      () => missing.clearMessages(),
      () => missing.updateMessage("5974b586-0df3-4e2d-ad0c-18e3892bfca2", popReceipt, "y"),
      () => missing.deleteMessage("5974b586-0df3-4e2d-ad0c-18e3892bfca2", popReceipt),
    ]) {
      await fails(attempt, 404, "QueueNotFound");
    }
  });

  it("refuse bad names", async () => {
    await fails(() => service.createQueue("ab"), 400, "OutOfRangeInput");
    await fails(() => service.createQueue("Upper"), 400, "InvalidResourceName", "The specified resource name contains invalid characters.");
  });

  it("have metadata, replaced as a whole", async () => {
    const queue = await newQueue({ old: "1" });
    await queue.setMetadata({ first: "with blank", second: "2" });
    const found = await queue.getProperties();
    assert.deepEqual(found.metadata, { first: "with blank", second: "2" });
    assert.equal(found.approximateMessagesCount, 0);
    await queue.setMetadata();
    assert.deepEqual((await queue.getProperties()).metadata, {});
  });

  it("have access policies", async () => {
    const queue = await newQueue();
    const startsOn = new Date("2024-03-01T00:00:00Z");
    const accessPolicy = { startsOn, expiresOn: new Date("2024-03-02T00:00:00Z"), permissions: "raup" };
    await queue.setAccessPolicy([{ id: "full", accessPolicy }, { id: "bare", accessPolicy: { permissions: "r" } }]);
    const found = (await queue.getAccessPolicy()).signedIdentifiers;
    assert.deepEqual(found.map((p) => [p.id, p.accessPolicy.permissions]), [["full", "raup"], ["bare", "r"]]);
    assert.equal(found[0].accessPolicy.startsOn.getTime(), startsOn.getTime());
    const six = [..."123456"].map((id) => ({ id, accessPolicy }));
    await fails(() => queue.setAccessPolicy(six), 400, "InvalidXmlDocument", "XML specified is not syntactically valid.");
    await queue.setAccessPolicy([]);
    assert.deepEqual((await queue.getAccessPolicy()).signedIdentifiers, []);
  });

  it("have service properties that are set part by part", () => setsPropertiesPartByPart(service));
});

describe("messages", () => {
  it("are sent, received and deleted", async () => {
    const queue = await newQueue();
    const sent = await queue.sendMessage("text");
    assert.match(sent.messageId, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
    assert.equal(sent.expiresOn - sent.insertedOn, week * 1000);
    assert.equal((await queue.getProperties()).approximateMessagesCount, 1);
    const [got] = await receive(queue);
    assert.deepEqual([got.messageId, got.messageText, got.dequeueCount], [sent.messageId, "text", 1]);
    assert.deepEqual(await receive(queue), []);
    const answer = await queue.deleteMessage(got.messageId, got.popReceipt);
    assert.equal(answer._response.status, 204);
    assert.equal((await queue.getProperties()).approximateMessagesCount, 0);
    await fails(() => queue.deleteMessage(got.messageId, got.popReceipt), 404, "MessageNotFound", "The specified message does not exist.");
  });

  it("come in order, up to 32 at once", async () => {
    const queue = await newQueue();
    const sent = [...Array(40).keys()].map((n) => `${n}`);
    for (const text of sent) {
      await queue.sendMessage(text);
    }
    assert.deepEqual(texts(await peek(queue)), sent.slice(0, 32));
    assert.deepEqual(texts((await queue.peekMessages()).peekedMessageItems), ["0"]);
    assert.deepEqual(texts(await receive(queue, { numberOfMessages: 32, visibilityTimeout: 60 })), sent.slice(0, 32));
    assert.deepEqual(texts(await receive(queue, { numberOfMessages: 32, visibilityTimeout: 60 })), sent.slice(32));
    for (const numberOfMessages of [0, 33]) {
      await fails(() => receive(queue, { numberOfMessages }), 400, "OutOfRangeQueryParameterValue");
      await fails(() => peek(queue, numberOfMessages), 400, "OutOfRangeQueryParameterValue");
    }
  });

  it("keep their text", async () => {
    const queue = await newQueue();
    for (const text of ["&<>\"'", "<a>b</a>", "🦀 日本語", " blanks ", "", "]]>", "&amp;", "{}"]) {
      await queue.sendMessage(text);
      const [got] = await receive(queue);
      assert.equal(got.messageText, text);
      await queue.deleteMessage(got.messageId, got.popReceipt);
    }
  });

  it("have a size limit that counts the text, not its XML", async () => {
    const queue = await newQueue();
    for (const letter of ["x", "<"]) {
      await queue.sendMessage(letter.repeat(65536));
      const [got] = await receive(queue);
      assert.equal(got.messageText, letter.repeat(65536));
      await fails(() => queue.sendMessage(letter.repeat(65537)), 413, "RequestBodyTooLarge");
      await fails(() => queue.updateMessage(got.messageId, got.popReceipt, letter.repeat(65537)), 413, "RequestBodyTooLarge");
      await queue.deleteMessage(got.messageId, got.popReceipt);
    }
  });

  it("are invisible for a time", async () => {
    const queue = await newQueue();
    await queue.sendMessage("hidden", { visibilityTimeout: week - 1 });
    assert.deepEqual(await receive(queue), []);
    await queue.sendMessage("soon");
    const [first] = await receive(queue, { visibilityTimeout: 1 });
    const [again] = await eventually(async () => {
      const items = await receive(queue, { visibilityTimeout: 60 });
      return items.length > 0 && items;
    });
    assert.deepEqual([again.messageId, again.dequeueCount], [first.messageId, 2]);
    await fails(() => queue.deleteMessage(first.messageId, first.popReceipt), 400, "PopReceiptMismatch");
    for (const visibilityTimeout of [-1, week + 1]) {
      await fails(() => receive(queue, { visibilityTimeout }), 400, "OutOfRangeQueryParameterValue");
      await fails(() => queue.sendMessage("x", { visibilityTimeout }), 400, "OutOfRangeQueryParameterValue");
    }
    await fails(() => receive(queue, { visibilityTimeout: 0 }), 400, "OutOfRangeQueryParameterValue");
    await fails(() => queue.sendMessage("x", { visibilityTimeout: 9, messageTimeToLive: 9 }), 400, "InvalidQueryParameterValue");
  });

  it("live for a time, or for ever", async () => {
    const queue = await newQueue();
    const forever = await queue.sendMessage("forever", { messageTimeToLive: -1 });
    assert.equal(forever.expiresOn.getUTCFullYear(), 9999);
    await queue.sendMessage("short", { messageTimeToLive: 1 });
    await eventually(async () => texts(await peek(queue)).join() === "forever");
    assert.equal((await queue.getProperties()).approximateMessagesCount, 1);
    for (const messageTimeToLive of [0, -2]) {
      await fails(() => queue.sendMessage("x", { messageTimeToLive }), 400, "InvalidQueryParameterValue");
    }
  });

  it("are updated with a new text or without", async () => {
    const queue = await newQueue();
    await queue.sendMessage("old");
    const [got] = await receive(queue);
    const kept = await queue.updateMessage(got.messageId, got.popReceipt, undefined, 0);
    assert.deepEqual(texts(await peek(queue)), ["old"]);
    const changed = await queue.updateMessage(got.messageId, kept.popReceipt, "new & <improved>", 0);
    assert.deepEqual(texts(await peek(queue)), ["new & <improved>"]);
    await queue.updateMessage(got.messageId, changed.popReceipt, "", 0);
    const [again] = await receive(queue);
    assert.deepEqual([again.messageText, again.dequeueCount], ["", 2]);
    for (const receipt of [got.popReceipt, kept.popReceipt, changed.popReceipt]) {
      await fails(() => queue.updateMessage(got.messageId, receipt, "x"), 400, "PopReceiptMismatch");
      await fails(() => queue.deleteMessage(got.messageId, receipt), 400, "PopReceiptMismatch");
    }
    await fails(() => queue.deleteMessage(got.messageId, "no receipt"), 400, "InvalidQueryParameterValue");
    const changedLast = await queue.updateMessage(again.messageId, again.popReceipt, "last", 60);
    await queue.deleteMessage(again.messageId, changedLast.popReceipt);
  });

  it("are cleared", async () => {
    const queue = await newQueue();
    await queue.sendMessage("a");
    await queue.sendMessage("b");
    await receive(queue);
    await queue.clearMessages();
    assert.equal((await queue.getProperties()).approximateMessagesCount, 0);
    assert.deepEqual(await receive(queue), []);
  });
});
