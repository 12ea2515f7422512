// The services over HTTPS; the runtime trusts the server's certificate by NODE_EXTRA_CA_CERTS.

const assert = require("node:assert/strict");
const { describe, it } = require("node:test");
const { BlobClient, BlobSASPermissions, BlobServiceClient, generateBlobSASQueryParameters } = require("@azure/storage-blob");
const { QueueServiceClient } = require("@azure/storage-queue");
const { TableClient } = require("@azure/data-tables");
const { connection, fails, once, settings, unique } = require("./harness.js");

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

/** A token as an issuer would write it, but for its signature. */
function token(changes = {}) {
  const now = Math.floor(Date.now() / 1000);
  const claims = {
    iss: "https://sts.windows.net/tenant/", aud: "https://storage.azure.com", oid: "object", tid: "tenant",
    nbf: now - 60, iat: now - 60, exp: now + 600, ...changes,
  };
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  return `${part({ alg: "RS256" })}.${part(claims)}.c2ln`;
}

const credential = (changes) => ({
  getToken: async () => ({ token: token(changes), expiresOnTimestamp: Date.now() + 600_000 }),
});

describe("tokens", () => {
  it("open all services", async () => {
    const container = new BlobServiceClient(settings.BlobEndpoint, credential(), once).getContainerClient(unique("con"));
    await container.create();
    const queue = new QueueServiceClient(settings.QueueEndpoint, credential(), once).getQueueClient(unique("queue"));
    await queue.create();
    const table = new TableClient(settings.TableEndpoint, unique("table"), credential(), once);
    await table.createTable();
    await table.createEntity({ partitionKey: "p", rowKey: "r" });
  });

  it("must be what they say", async () => {
    const service = new BlobServiceClient(settings.BlobEndpoint, credential({ aud: "https://example.com" }), once);
    await fails(() => service.getProperties(), 401, "InvalidAuthenticationInfo");
  });

  it("give keys that sign", async () => {
    const service = new BlobServiceClient(settings.BlobEndpoint, credential(), once);
    const container = service.getContainerClient(unique("con"));
    await container.create();
    await container.getBlockBlobClient("b").upload("hello", 5);
    const [startsOn, expiresOn] = [-1, 1].map((hours) => new Date(Date.now() + hours * 3_600_000));
    const key = await service.getUserDelegationKey(startsOn, expiresOn);
    const values = { containerName: container.containerName, blobName: "b", permissions: BlobSASPermissions.parse("r"), startsOn, expiresOn };
    const sas = generateBlobSASQueryParameters(values, key, settings.AccountName);
    const blob = new BlobClient(`${container.url}/b?${sas}`, undefined, once);
    assert.equal((await blob.downloadToBuffer()).toString(), "hello");
    await fails(() => blob.delete(), 403, "AuthorizationPermissionMismatch");
  });
});
