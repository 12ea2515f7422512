"use strict";
// The installed packages: the commands, the API, the fixtures. Run by `cargo test` and by `.ci/package test`.

const assert = require("node:assert/strict");
const { execFileSync, spawn, spawnSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { describe, test } = require("node:test");
const { BlobServiceClient } = require("@azure/storage-blob");
const { QueueServiceClient } = require("@azure/storage-queue");
const { TableServiceClient } = require("@azure/data-tables");
const { Lazurite } = require("lazurite");
const { useLazurite } = require("lazurite/node-test");

const lazurite = useLazurite();
const bin = path.join(process.cwd(), "node_modules", ".bin");

/** Fails if the names are taken: each caller has a store of its own. */
async function createEverything(connectionString) {
  await BlobServiceClient.fromConnectionString(connectionString).getContainerClient("same").create();
  await QueueServiceClient.fromConnectionString(connectionString).getQueueClient("same").create();
  const tables = TableServiceClient.fromConnectionString(connectionString, { allowInsecureConnection: true });
  await tables.createTable("same");
}

async function containers(connectionString) {
  const names = [];
  for await (const container of BlobServiceClient.fromConnectionString(connectionString).listContainers()) names.push(container.name);
  return names;
}

for (const number of [1, 2, 3]) {
  test(`every test has an empty store (${number})`, () => createEverything(lazurite.connectionString));
}

describe("with isolation by fork", () => {
  const fork = useLazurite({ isolation: "fork", seed: (server) => createEverything(server.connectionString) });

  for (const number of [1, 2]) {
    test(`every test has a fork of the seed (${number})`, async () => {
      assert.match(fork.accountName, /^devstoreaccount1--/);
      assert.deepEqual(await containers(fork.connectionString), ["same"]);
      await BlobServiceClient.fromConnectionString(fork.connectionString).getContainerClient("other").create();
      const { count, changes } = await fork.diff();
      assert.deepEqual([count, changes[0].change, changes[0].container], [1, "created", "other"]);
    });
  }
});

test("a failed test with a fork reports its requests and its changes", () => {
  const code = `
    const { test } = require("node:test");
    const lazurite = require("lazurite/node-test").useLazurite({ isolation: "fork" });
    test("fails", async () => {
      const { BlobServiceClient } = require("@azure/storage-blob");
      await BlobServiceClient.fromConnectionString(lazurite.connectionString).getContainerClient("photos").create();
      throw new Error("on purpose");
    });`;
  const file = path.join(process.cwd(), "failing.js");
  fs.writeFileSync(file, code);
  const { NODE_TEST_CONTEXT, ...env } = process.env;
  const { status, stdout } = spawnSync(process.execPath, ["--test", "--test-reporter=tap", file], { encoding: "utf8", env });
  fs.rmSync(file);
  assert.equal(status, 1, stdout);
  assert.match(stdout, /201 PUT \/devstoreaccount1--\S+\/photos\S*  CreateContainer/);
  assert.match(stdout, /\+ container photos/);
});

test("forks and snapshots of a server are stores of their own", async () => {
  const server = await Lazurite.start();
  await createEverything(server.connectionString);
  await server.snapshot("full");
  await server.reset();
  const fork = await server.fork("full", "one");
  assert.equal(fork.accountName, "devstoreaccount1--one");
  assert.deepEqual(await containers(fork.connectionString), ["same"]);
  assert.deepEqual((await fork.requests()).map((request) => request.operation), ["ListContainers"]);
  assert.deepEqual(await containers(server.connectionString), []);
  await fork.release();
  await assert.rejects(fork.release(), /ForkNotFound/);
  await server.restore("full");
  assert.deepEqual(await containers(server.connectionString), ["same"]);
  await server.stop();
});

test("a server in memory serves all services", async () => {
  const server = await Lazurite.start();
  assert.equal(server.accountName, "devstoreaccount1");
  await createEverything(server.connectionString);
  assert.deepEqual(await containers(server.connectionString), ["same"]);
  await server.stop();
  await server.stop();
  await assert.rejects(fetch(server.blobEndpoint));
});

test("a directory keeps its data", async (context) => {
  const location = fs.mkdtempSync(path.join(os.tmpdir(), "lazurite-test-"));
  context.after(() => fs.rmSync(location, { recursive: true }));
  for (const expected of [[], ["same"]]) {
    const server = await Lazurite.start({ location });
    assert.deepEqual(await containers(server.connectionString), expected);
    if (expected.length === 0) await createEverything(server.connectionString);
    await server.stop();
  }
});

test("accounts are served by name", async () => {
  const server = await Lazurite.start({ accounts: ["one", "two"] });
  await createEverything(server.account("two").connectionString);
  assert.deepEqual(await containers(server.connectionString), []);
  assert.throws(() => server.account("three"), /one, two/);
  await server.stop();
});

test("a server that cannot start says why", async () => {
  await assert.rejects(Lazurite.start({ args: ["--nonsense"] }), /--nonsense/);
  await assert.rejects(Lazurite.start({ program: "/nowhere/lazurite" }), /ENOENT/);
});

test("the commands have the names and the versions of Azurite", () => {
  for (const name of ["azurite", "azurite-blob", "azurite-queue", "azurite-table"]) {
    assert.match(execFileSync(path.join(bin, name), ["--version"], { encoding: "utf8" }), /^3\.\d+\.\d+ /);
  }
  assert.match(execFileSync(path.join(bin, "lazurite"), ["--version"], { encoding: "utf8" }), /^lazurite 0\./);
});

// `kill -9` cannot be passed on: the server ends all the same.
for (const signal of ["SIGTERM", "SIGINT", "SIGKILL"]) {
  test(`a command ends its server on ${signal}`, async () => {
    const words = ["--inMemoryPersistence", "--blobPort", "0", "--silent"];
    const child = spawn(path.join(bin, "azurite-blob"), words, { stdio: ["ignore", "pipe", "ignore"] });
    let text = "";
    const listens = new Promise((resolve) => {
      child.stdout.on("data", (chunk) => {
        text += chunk;
        const url = text.match(/Azurite Blob service successfully listens on (\S+)/);
        if (url) resolve(url[1]);
      });
    });
    const url = await listens;
    const closed = new Promise((resolve) => child.once("close", resolve));
    child.kill(signal);
    const code = await closed;
    if (signal !== "SIGKILL") assert.equal(code, 0);
    assert.match(text, /Azurite Blob service successfully closed/);
    await assert.rejects(fetch(url));
  });
}

test("a process ends although its server runs", () => {
  const code = 'require("lazurite").Lazurite.start().then((server) => console.log(server.blobEndpoint));';
  const endpoint = execFileSync(process.execPath, ["-e", code], { encoding: "utf8", timeout: 30_000 }).trim();
  assert.match(endpoint, /^http:\/\/127\.0\.0\.1:\d+\/devstoreaccount1$/);
});
