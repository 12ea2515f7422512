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
// The package exports only what suites use.
const { Pool, useLazuriteWith } = require(path.join(path.dirname(require.resolve("lazurite")), "fixtures.js"));

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

describe("with a seed", () => {
  const fork = useLazurite({ seed: (server) => createEverything(server.connectionString) });

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

/** Runs a file of tests in a process of its own. Each file has a name of its own, because files run at the same time. */
function runTests(name, code, more = {}) {
  const file = path.join(process.cwd(), `${name}.js`);
  fs.writeFileSync(file, code);
  const { NODE_TEST_CONTEXT, ...env } = { ...process.env, CI: "true", ...more };
  const { status, stdout } = spawnSync(process.execPath, ["--test", "--test-reporter=tap", file], { encoding: "utf8", env });
  fs.rmSync(file);
  return { status, stdout };
}

const FAILING = `
    const { test } = require("node:test");
    const { useLazurite } = require("lazurite/node-test");
    for (const lazurite of [useLazurite()]) {
      test("Fails on purpose", async () => {
        const { BlobServiceClient } = require("@azure/storage-blob");
        await BlobServiceClient.fromConnectionString(lazurite.connectionString).getContainerClient("photos").create();
        if (process.env.PASSES !== "yes") throw new Error("on purpose");
      });
    }`;

test("a failed test reports its requests and changes, and a link to its store that works until the next run", async () => {
  const first = runTests("failing", FAILING, { CI: "" });
  assert.equal(first.status, 1, first.stdout);
  assert.match(first.stdout, /201 PUT \/devstoreaccount1--fails-on-purpose-\S+\/photos\S*  CreateContainer/);
  assert.match(first.stdout, /\+ container photos/);
  const [store, requests] = first.stdout.match(/http:\S+/g);
  assert.match(await (await fetch(store)).text(), /photos/);
  assert.match(await (await fetch(requests)).text(), /CreateContainer/);
  assert.equal(runTests("failing", FAILING, { PASSES: "yes" }).status, 0);
  for (const deadline = Date.now() + 60_000; ; ) {
    if (await fetch(store).then(() => false, () => true)) break;
    assert.ok(Date.now() < deadline, "the server of the failed test still runs");
  }
});

test("where CI is set, nothing is kept of a failed test", () => {
  const { status, stdout } = runTests("failing-in-ci", FAILING, { CI: "true" });
  assert.equal(status, 1, stdout);
  assert.match(stdout, /\+ container photos/);
  assert.doesNotMatch(stdout, /Kept until/);
});

test("the hooks of Jest find the failure in the state of its runner", async (context) => {
  const runner = {};
  const names = ["beforeEach", "afterEach", "afterAll"];
  const globals = { ...Object.fromEntries(names.map((name) => [name, (hook) => (runner[name] = hook)])), expect: { getState: () => ({ currentTestName: "it", testPath: "it.js" }) } };
  const state = Symbol("JEST_STATE_SYMBOL");
  Object.assign(globalThis, globals, { [state]: { currentlyRunningTest: { errors: [] } } });
  const shown = context.mock.method(console, "error", () => {});
  const current = require("lazurite/jest").useLazurite({ keepFailed: 0 });
  for (const errors of [[], [new Error("on purpose")]]) {
    globalThis[state].currentlyRunningTest.errors = errors;
    await runner.beforeEach();
    await createEverything(current.connectionString);
    await runner.afterEach();
    assert.equal(shown.mock.callCount(), errors.length);
  }
  assert.match(shown.mock.calls[0].arguments[0], /\+ container same/);
  await runner.afterAll();
  for (const name of [...names, "expect", state]) delete globalThis[name];
});

test("a wrong time for failed tests is refused", () => {
  assert.throws(() => new Pool({ keepFailed: "long" }), /keepFailed is a number of seconds up to 3600, not "long"/);
});

test("tests that run at once are refused", () => {
  const { stdout } = runTests("concurrent", `
    const { describe, test } = require("node:test");
    const { useLazurite } = require("lazurite/node-test");
    describe("concurrent", { concurrency: true }, () => {
      const lazurite = useLazurite({ isolation: "fork" });
      test("slow", async () => {
        await new Promise((resolve) => setTimeout(resolve, 300));
        await lazurite.diff();
      });
      test("quick", () => {});
    });`);
  // node:test keeps the error of a hook in one place, so it may fail both.
  assert.match(stdout, /not ok 2 - quick/);
  assert.match(stdout, /useLazurite serves one test at a time/);
  assert.doesNotMatch(stdout, /ForkNotFound|inside a test only/);
});

test("a refused test leaves the fork of the other one", async (context) => {
  const runner = {};
  const hooks = Object.fromEntries(["beforeEach", "afterEach", "afterAll"].map((name) => [name, (hook) => (runner[name] = hook)]));
  const current = useLazuriteWith(hooks)({ isolation: "fork" });
  context.after(() => runner.afterAll());
  const [slow, quick] = [{}, {}];
  await runner.beforeEach(slow);
  const name = current.accountName;
  await assert.rejects(runner.beforeEach(quick), /one test at a time/);
  await runner.afterEach(quick);
  assert.equal(current.accountName, name);
  assert.equal((await current.diff()).count, 0);
  await runner.afterEach(slow);
  assert.throws(() => current.accountName, /inside a test only/);
  await runner.beforeEach(quick);
  assert.notEqual(current.accountName, name);
  await runner.afterEach(quick);
});

test("a test that skips itself does not hold up the next one", () => {
  const { status, stdout } = runTests("skipping", `
    const { test } = require("node:test");
    const lazurite = require("lazurite/node-test").useLazurite({ isolation: "fork" });
    let name;
    test("skips itself", (context) => {
      name = lazurite.accountName;
      context.skip();
    });
    test("next", async () => {
      if (lazurite.accountName === name) throw new Error("the fork of another test");
      const { forks } = await (await fetch(new URL("/_lazurite/state/forks", lazurite.blobEndpoint))).json();
      if (forks.length !== 1) throw new Error(JSON.stringify(forks));
    });`);
  assert.equal(status, 0, stdout);
});

test("a subtest has a store of its own, and its test has its own again afterwards", async (context) => {
  const name = lazurite.accountName;
  await context.test("subtest", () => assert.notEqual(lazurite.accountName, name));
  assert.equal(lazurite.accountName, name);
  await createEverything(lazurite.connectionString);
});

test("every test after a failed seed has the error of the seed", () => {
  const { status, stdout } = runTests("seedless", `
    const { test } = require("node:test");
    const { useLazurite } = require("lazurite/node-test");
    useLazurite({ isolation: "fork", seed: async () => { throw new Error("the seed is broken"); } });
    for (const name of ["one", "two", "three"]) test(name, () => {});`);
  assert.equal(status, 1, stdout);
  assert.equal(stdout.match(/error: '?the seed is broken/g)?.length, 3, stdout);
  assert.doesNotMatch(stdout, /SnapshotNotFound/);
});

test("forks that are taken at once begin with the whole seed", async (context) => {
  let pool;
  const forks = [];
  const seed = async (server) => {
    forks.push(pool.take());
    await new Promise((resolve) => setTimeout(resolve, 50));
    await createEverything(server.connectionString);
  };
  pool = new Pool({ isolation: "fork", seed });
  context.after(() => pool.stop());
  forks.push(pool.take(), pool.take());
  await forks[0];
  // The seed has run once.
  assert.equal(forks.length, 3);
  for (const fork of await Promise.all(forks)) assert.deepEqual(await containers(fork.connectionString), ["same"]);
});

test("a test passes although its fork has ended already", () => {
  const { status, stdout } = runTests("released", `
    const { test } = require("node:test");
    const lazurite = require("lazurite/node-test").useLazurite({ isolation: "fork" });
    test("releases its fork", async () => {
      const [, name] = lazurite.accountName.split("--");
      const page = new URL("/_lazurite/state/forks/" + name, lazurite.blobEndpoint);
      const { status } = await fetch(page, { method: "DELETE" });
      if (status !== 200) throw new Error(String(status));
    });`);
  assert.equal(status, 0, stdout);
});

test("the requests of a fork are those of its account, and the latest ones", async (context) => {
  const server = await Lazurite.start({ args: ["--requests-kept", "4000"] });
  context.after(() => server.stop());
  const fork = await server.fork(undefined, "ta");
  const longer = await server.fork(undefined, "tab");
  const send = async (store, count, path) => {
    for (let sent = 0; sent < count; sent += 50) {
      await Promise.all(Array.from({ length: Math.min(50, count - sent) }, () => fetch(`${store.blobEndpoint}/${path}`)));
    }
  };
  await send(longer, 600, "devstoreaccount1--ta/photo");
  assert.deepEqual(await fork.requests(), []);
  await send(fork, 1, "first");
  await send({ blobEndpoint: `${fork.blobEndpoint}-secondary` }, 1, "second");
  const targets = async () => (await fork.requests()).map((request) => request.target);
  assert.deepEqual(await targets(), ["/devstoreaccount1--ta/first", "/devstoreaccount1--ta-secondary/second"]);
  await send(fork, 2000, "third");
  assert.deepEqual([(await targets()).length, new Set(await targets()).size], [2000, 1]);
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
  await assert.rejects(fork.release(), { code: "ForkNotFound" });
  // As `await using` does.
  await fork[Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]();
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
