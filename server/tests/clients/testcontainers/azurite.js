// `AzuriteContainer` of Testcontainers for Node.js, unchanged, against the image's command.

const assert = require("node:assert/strict");
const fs = require("node:fs");
const { describe, it } = require("node:test");
const { BlobServiceClient } = require("@azure/storage-blob");
const { QueueServiceClient } = require("@azure/storage-queue");
const { TableClient } = require("@azure/data-tables");
const { AzuriteContainer } = require("@testcontainers/azurite");
const { Wait } = require("testcontainers");

const image = process.env.LAZURITE_IMAGE;

async function use(container, name = "photos") {
  const connection = container.getConnectionString();
  const photos = BlobServiceClient.fromConnectionString(connection).getContainerClient(name);
  await photos.create();
  await photos.getBlockBlobClient("lake.txt").upload("blue", 4);
  assert.equal((await photos.getBlobClient("lake.txt").downloadToBuffer()).toString(), "blue");
  const work = QueueServiceClient.fromConnectionString(connection).getQueueClient(name);
  await work.create();
  await work.sendMessage("resize");
  assert.equal((await work.receiveMessages()).receivedMessageItems[0].messageText, "resize");
  const people = TableClient.fromConnectionString(connection, name, { allowInsecureConnection: true });
  await people.createTable();
  await people.createEntity({ partitionKey: "p", rowKey: "r", n: 1 });
  assert.equal((await people.getEntity("p", "r")).n, 1);
}

async function started(container, used) {
  const running = await container.start();
  try {
    await used(running);
  } finally {
    await running.stop();
  }
}

describe("AzuriteContainer", () => {
  it("starts as it is", () => started(new AzuriteContainer(image), (running) => use(running)));

  it("takes all settings", async () => {
    const container = new AzuriteContainer(image)
      .withAccountName("mine")
      .withAccountKey("bWluZQ==")
      .withBlobPort(13000)
      .withQueuePort(14000)
      .withTablePort(15000)
      .withInMemoryPersistence()
      .withExtentMemoryLimitInMegaBytes(64)
      .withSkipApiVersionCheck();
    await started(container, async (running) => {
      assert.match(running.getConnectionString(), /AccountName=mine;AccountKey=bWluZQ==/);
      await use(running);
    });
  });

  it("serves HTTPS and tokens with a PEM certificate", async () => {
    const [certificate, key] = ["cert.pem", "key.pem"].map((name) => fs.readFileSync(`${process.env.CERTIFICATES}/${name}`, "utf8"));
    await started(new AzuriteContainer(image).withSsl(certificate, key).withOAuth(), async (running) => {
      assert.match(running.getBlobEndpoint(), /^https:/);
      await use(running);
    });
  });

  it("serves HTTPS with a PFX certificate", async () => {
    const certificate = fs.readFileSync(`${process.env.CERTIFICATES}/cert.pfx`);
    await started(new AzuriteContainer(image).withSslPfx(certificate, "secret"), (running) => use(running));
  });

  it("keeps what it has over a restart", async () => {
    await started(new AzuriteContainer(image), async (running) => {
      await use(running, "before");
      await running.restart();
      const service = BlobServiceClient.fromConnectionString(running.getConnectionString());
      assert.ok(await service.getContainerClient("before").exists());
      await use(running, "after");
    });
  });

  it("is found healthy by the image's own check", async () => {
    const container = new AzuriteContainer(image).withWaitStrategy(Wait.forHealthCheck());
    await started(container, async (running) => {
      const { exitCode, output } = await running.exec(["lazurite", "health"]);
      assert.equal(exitCode, 0, output);
    });
  });
});
