// Keys, connection strings and shared access signatures, as the JavaScript clients make them.

const assert = require("node:assert/strict");
const { before, describe, it } = require("node:test");
const blobs = require("@azure/storage-blob");
const queues = require("@azure/storage-queue");
const tables = require("@azure/data-tables");
const { connection, settings, once, unique, fails, all } = require("./harness.js");

const insecure = { allowInsecureConnection: true, ...once };
const blobService = blobs.BlobServiceClient.fromConnectionString(connection, once);
const queueService = queues.QueueServiceClient.fromConnectionString(connection, once);
const tableService = tables.TableServiceClient.fromConnectionString(connection, insecure);
const tableKey = new tables.AzureNamedKeyCredential(settings.AccountName, settings.AccountKey);

const inHours = (hours) => new Date(Date.now() + hours * 3600_000);
const permission = "This request is not authorized to perform this operation using this permission.";

/** An account signature; it lasts an hour unless `times` say otherwise. */
const accountSas = (permissions, { services = "bqt", types = "sco", ...times } = {}) =>
  blobService
    .generateAccountSasUrl(times.expiresOn ?? inHours(1), blobs.AccountSASPermissions.parse(permissions), types, { services, ...times })
    .split("?")[1];

const blobClient = (sas) => new blobs.BlobServiceClient(`${settings.BlobEndpoint}?${sas}`, undefined, once);
const queueClient = (sas) => new queues.QueueServiceClient(`${settings.QueueEndpoint}?${sas}`, undefined, once);
const tableClient = (sas) => new tables.TableServiceClient(settings.TableEndpoint, new tables.AzureSASCredential(sas), insecure);
const entities = (sas, name) => new tables.TableClient(settings.TableEndpoint, name, new tables.AzureSASCredential(sas), insecure);

describe("a wrong key", () => {
  it("is refused", async () => {
    const wrong = connection.replace(settings.AccountKey, Buffer.from("some other key").toString("base64"));
    const message = "Server failed to authenticate the request. Make sure the value of the Authorization header is formed correctly";
    await fails(() => all(blobs.BlobServiceClient.fromConnectionString(wrong, once).listContainers()), 403, "AuthenticationFailed", message);
    await fails(() => all(queues.QueueServiceClient.fromConnectionString(wrong, once).listQueues()), 403, "AuthenticationFailed", message);
    await fails(() => all(tables.TableServiceClient.fromConnectionString(wrong, insecure).listTables()), 403, "AuthenticationFailed", message);
  });
});

describe("account signatures", () => {
  const name = unique("account");
  before(async () => {
    await put(await blobService.createContainer(name));
    await queueService.createQueue(name);
    await tableService.createTable(name);
  });
  const put = ({ containerClient }) => containerClient.uploadBlockBlob("b", "x", 1);

  it("allow what they name", async () => {
    const sas = accountSas("rwdlacup");
    await blobClient(sas).getContainerClient(name).uploadBlockBlob("new", "y", 1);
    assert.equal((await blobClient(sas).getContainerClient(name).getBlobClient("new").downloadToBuffer()).toString(), "y");
    assert.equal((await all(blobClient(sas).getContainerClient(name).listBlobsFlat())).length, 2);
    await blobClient(sas).getContainerClient(name).deleteBlob("new");
    await queueClient(sas).getQueueClient(name).sendMessage("x");
    const got = (await queueClient(sas).getQueueClient(name).receiveMessages()).receivedMessageItems[0];
    await queueClient(sas).getQueueClient(name).deleteMessage(got.messageId, got.popReceipt);
    const entity = { partitionKey: "p", rowKey: "r" };
    await entities(sas, name).createEntity(entity);
    await entities(sas, name).upsertEntity(entity);
    await entities(sas, name).submitTransaction([["delete", entity]]);
    await tableClient(sas).createTable(name + "x");
    await tableClient(sas).deleteTable(name + "x");
  });

  it("refuse what they do not permit", async () => {
    const sas = accountSas("r");
    for (const attempt of [
      () => blobClient(sas).createContainer("never"),
      () => all(blobClient(sas).listContainers()),
      () => blobClient(sas).getContainerClient(name).uploadBlockBlob("b", "y", 1),
      () => queueClient(sas).getQueueClient(name).sendMessage("y"),
      () => queueClient(sas).getQueueClient(name).receiveMessages(),
      () => entities(sas, name).createEntity({ partitionKey: "p", rowKey: "r" }),
      () => all(tableClient(sas).listTables()),
    ]) {
      await fails(attempt, 403, "AuthorizationPermissionMismatch", permission);
    }
  });

  it("are bound to services, resource types and time", async () => {
    const all3 = (options) => [
      () => all(blobClient(accountSas("rwdlacup", options)).listContainers()),
      () => all(queueClient(accountSas("rwdlacup", options)).listQueues()),
      () => entities(accountSas("rwdlacup", options), name).createEntity({ partitionKey: "p", rowKey: "never" }),
    ];
    await fails(all3({ services: "qt" })[0], 403, "AuthorizationServiceMismatch");
    await fails(all3({ services: "bt" })[1], 403, "AuthorizationServiceMismatch");
    await fails(all3({ services: "bq" })[2], 403, "AuthorizationServiceMismatch");
    await fails(all3({ types: "co" })[0], 403, "AuthorizationResourceTypeMismatch");
    await fails(all3({ types: "co" })[1], 403, "AuthorizationResourceTypeMismatch");
    await fails(all3({ types: "sc" })[2], 403, "AuthorizationResourceTypeMismatch");
    for (const times of [{ expiresOn: inHours(-1) }, { startsOn: inHours(1), expiresOn: inHours(2) }]) {
      for (const attempt of all3(times)) {
        await fails(attempt, 403, "AuthenticationFailed");
      }
    }
  });

  it("are made by the queue and table clients too", async () => {
    const expiry = inHours(1);
    const queueSas = queueService.generateAccountSasUrl(expiry, queues.AccountSASPermissions.parse("l"), "s").split("?")[1];
    await all(queueClient(queueSas).listQueues());
    const tableSas = tables.generateAccountSas(tableKey, { expiresOn: expiry, permissions: { list: true }, resourceTypes: "c" });
    await all(tableClient(tableSas).listTables());
    await fails(() => entities(tableSas, name).createEntity({ partitionKey: "p", rowKey: "r" }), 403, "AuthorizationResourceTypeMismatch");
  });
});

describe("service signatures", () => {
  let container, queue, table;
  before(async () => {
    ({ containerClient: container } = await blobService.createContainer(unique("service")));
    await container.uploadBlockBlob("dir/a b+c.txt", "one", 3);
    queue = queueService.getQueueClient(unique("service"));
    await queue.create();
    table = tables.TableClient.fromConnectionString(connection, unique("Service"), insecure);
    await table.createTable();
    for (const key of "abcde") {
      await table.createEntity({ partitionKey: key, rowKey: key });
    }
  });

  it("of a blob", async () => {
    const blob = container.getBlockBlobClient("dir/a b+c.txt");
    const open = async (letters, options = {}) =>
      new blobs.BlockBlobClient(await blob.generateSasUrl({ permissions: blobs.BlobSASPermissions.parse(letters), expiresOn: inHours(1), ...options }), undefined, once);
    assert.equal((await (await open("r")).downloadToBuffer()).toString(), "one");
    assert.equal((await (await open("r", { contentType: "text/sas" })).getProperties()).contentType, "text/sas");
    await fails(async () => (await open("r")).upload("x", 1), 403, "AuthorizationPermissionMismatch", permission);
    await fails(async () => (await open("r", { expiresOn: inHours(-1) })).downloadToBuffer(), 403, "AuthenticationFailed");
    const elsewhere = (await open("r")).url.replace("a%20b%2Bc.txt", "other");
    await fails(() => new blobs.BlobClient(elsewhere, undefined, once).downloadToBuffer(), 403, "AuthenticationFailed");
  });

  it("of a container", async () => {
    const open = async (options) => new blobs.ContainerClient(await container.generateSasUrl({ expiresOn: inHours(1), ...options }), undefined, once);
    const list = blobs.ContainerSASPermissions.parse("l");
    assert.equal((await all((await open({ permissions: list })).listBlobsFlat())).length, 1);
    await fails(async () => (await open({ permissions: list })).getBlobClient("dir/a b+c.txt").downloadToBuffer(), 403, "AuthorizationPermissionMismatch");
    await container.setAccessPolicy(undefined, [{ id: "readers", accessPolicy: { permissions: "r", startsOn: inHours(-1), expiresOn: inHours(1) } }]);
    const url = await container.generateSasUrl({ identifier: "readers" });
    const client = new blobs.ContainerClient(url, undefined, once);
    assert.equal((await client.getBlobClient("dir/a b+c.txt").downloadToBuffer()).toString(), "one");
    await container.setAccessPolicy();
    await fails(() => client.getBlobClient("dir/a b+c.txt").downloadToBuffer(), 403, "AuthenticationFailed");
  });

  it("of a queue", async () => {
    const open = (letters, expiresOn = inHours(1)) =>
      new queues.QueueClient(queue.generateSasUrl({ permissions: queues.QueueSASPermissions.parse(letters), expiresOn }), undefined, once);
    await open("a").sendMessage("x");
    assert.equal((await open("r").peekMessages()).peekedMessageItems[0].messageText, "x");
    const got = (await open("p").receiveMessages()).receivedMessageItems[0];
    const changed = await open("u").updateMessage(got.messageId, got.popReceipt, "y");
    await open("p").deleteMessage(got.messageId, changed.popReceipt);
    await fails(() => open("r").sendMessage("x"), 403, "AuthorizationPermissionMismatch", permission);
    await fails(() => open("raup").clearMessages(), 403, "AuthorizationFailure");
    await fails(() => open("raup", inHours(-1)).peekMessages(), 403, "AuthenticationFailed");
  });

  it("of a table", async () => {
    const open = (letters, options = {}, name = table.tableName) =>
      entities(tables.generateTableSas(table.tableName, tableKey, { permissions: letters, expiresOn: inHours(1), ...options }), name);
    const entity = { partitionKey: "p", rowKey: "r", n: 1 };
    await open({ add: true }).createEntity(entity);
    await open({ update: true }).updateEntity(entity);
    await open({ add: true, update: true }).upsertEntity(entity);
    assert.equal((await open({ query: true }).getEntity("p", "r")).n, 1);
    await open({ delete: true }).deleteEntity("p", "r");
    await fails(() => open({ query: true }).createEntity(entity), 403, "AuthorizationPermissionMismatch", permission);
    await fails(() => open({ query: true }, { expiresOn: inHours(-1) }).getEntity("a", "a"), 403, "AuthenticationFailed");
    await fails(() => open({ query: true }, {}, "othertable").getEntity("a", "a"), 403, "AuthorizationFailure");
    const range = { startPartitionKey: "b", endPartitionKey: "d" };
    const found = await all(open({ query: true }, range).listEntities());
    assert.deepEqual(found.map((e) => e.partitionKey), ["b", "c", "d"]);
    await fails(() => open({ query: true }, range).getEntity("e", "e"), 403, "AuthorizationFailure");
  });
});
