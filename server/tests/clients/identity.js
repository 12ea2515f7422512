// `DefaultAzureCredential` as in production, with the environment that the server prints, and no way to Azure.

const assert = require("node:assert/strict");
const { afterEach, describe, it } = require("node:test");
const { DefaultAzureCredential, EnvironmentCredential, ManagedIdentityCredential, WorkloadIdentityCredential } = require("@azure/identity");
const { BlobServiceClient } = require("@azure/storage-blob");
const { QueueServiceClient } = require("@azure/storage-queue");
const { TableClient } = require("@azure/data-tables");
const { once, settings, unique } = require("./harness.js");

const at = (service) => settings[`${service}Endpoint`].replace("127.0.0.1", "localhost");
const port = new URL(at("Blob")).port;
const tenant = { AZURE_AUTHORITY_HOST: `https://localhost:${port}`, AZURE_TENANT_ID: "adfs", AZURE_CLIENT_ID: "any" };

async function use(credential) {
  const container = new BlobServiceClient(at("Blob"), credential, once).getContainerClient(unique("con"));
  await container.create();
  await container.getBlockBlobClient("b").upload("hello", 5);
  assert.equal((await container.getBlobClient("b").downloadToBuffer()).toString(), "hello");
  await new QueueServiceClient(at("Queue"), credential, once).getQueueClient(unique("queue")).create();
  await new TableClient(at("Table"), unique("table"), credential, once).createTable();
}

describe("identity", () => {
  afterEach(() => {
    for (const name of Object.keys(process.env)) {
      if (/^(AZURE_(AUTHORITY|TENANT|CLIENT|FEDERATED)|IDENTITY_)/.test(name)) delete process.env[name];
    }
  });

  it("of an application with a secret", async () => {
    Object.assign(process.env, tenant, { AZURE_CLIENT_SECRET: "any" });
    await use(new EnvironmentCredential());
    await use(new DefaultAzureCredential());
  });

  it("of a workload", async () => {
    Object.assign(process.env, tenant, { AZURE_FEDERATED_TOKEN_FILE: __filename });
    await use(new WorkloadIdentityCredential());
  });

  it("of a managed application", async () => {
    Object.assign(process.env, { IDENTITY_ENDPOINT: `http://localhost:${port}/_lazurite/identity`, IDENTITY_HEADER: "any" });
    await use(new ManagedIdentityCredential());
    await use(new DefaultAzureCredential());
  });
});
