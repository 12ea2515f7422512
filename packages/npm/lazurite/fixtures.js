"use strict";
// A store for each test. Accounts of one server are handed out, because nothing has to be started between tests then. With isolation by
// fork, each test has a fork of one store, which is filled once.

const { Fork, Lazurite } = require("./index.js");
const report = require("./report.js");

// The way in which `await using` ends a fork.
const DISPOSE = Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose");

// The snapshot that the forks begin as.
const SEED = "lazurite-seed";

// How many tests one server serves. Every account takes some memory of the server.
const ACCOUNTS_OF_SERVER = 256;

const ONE_AT_A_TIME =
  "useLazurite serves one test at a time, and another test still runs: run the tests without concurrency, or make a fork in each test " +
  "with fork() of a server from Lazurite.start().";

/** Servers, and the accounts that no test has had. */
class Pool {
  #options;
  #isolation;
  #seed;
  #servers = [];
  #unused = [];
  // The start of the server of the forks, and of a server of further accounts. Concurrent takes await the same promise.
  #forForks;
  #forAccounts;

  constructor({ isolation = "account", seed, ...options } = {}) {
    if (!["account", "fork", "server"].includes(isolation)) {
      throw new Error(`isolation is "account", "fork" or "server", not ${JSON.stringify(isolation)}`);
    }
    if (seed !== undefined && isolation !== "fork") throw new Error('a seed needs isolation "fork"');
    this.#isolation = isolation;
    this.#seed = seed;
    this.#options = options;
  }

  /** An empty store, or a fork of the seeded store. If the seed fails, this call and all later ones are rejected with its error. */
  async take() {
    if (this.#isolation === "fork") {
      this.#forForks ??= this.#startForForks();
      const server = await this.#forForks;
      return server.fork(SEED);
    }
    if (this.#isolation === "server") return this.#start(this.#options);
    while (this.#unused.length === 0) {
      this.#forAccounts ??= this.#startForAccounts().finally(() => (this.#forAccounts = undefined));
      await this.#forAccounts;
    }
    return this.#unused.pop();
  }

  async #start(options) {
    const server = await Lazurite.start(options);
    this.#servers.push(server);
    return server;
  }

  async #startForForks() {
    const server = await this.#start(this.#options);
    await this.#seed?.(server);
    await server.snapshot(SEED);
    return server;
  }

  async #startForAccounts() {
    const accounts = Array.from({ length: ACCOUNTS_OF_SERVER }, (_, index) => `test${String(index).padStart(5, "0")}`);
    const server = await this.#start({ ...this.#options, accounts });
    this.#unused = accounts.reverse().map((name) => server.account(name));
  }

  /**
   * Ends the store of a test: releases a fork, which may be gone already, and stops a server of one test. Returns a report of what happened
   * in a fork, if the test has failed.
   */
  async giveBack(store, hasFailed) {
    if (store instanceof Lazurite) {
      this.#servers = this.#servers.filter((server) => server !== store);
      await store.stop();
    }
    if (!(store instanceof Fork)) return undefined;
    const text = hasFailed ? await report.ofFork(store) : undefined;
    await store[DISPOSE]();
    return text;
  }

  async stop() {
    const servers = this.#servers;
    this.#servers = [];
    this.#unused = [];
    this.#forForks = undefined;
    await Promise.all(servers.map((server) => server.stop()));
  }
}

/** Holds the stores of the running tests of one `useLazurite`: a test, its subtest, and so on. */
class RunningTests {
  #runner;
  #pool;
  // Outermost test first. `store` is undefined until the pool has handed it out.
  #taken = [];

  constructor(runner, pool) {
    this.#runner = runner;
    this.#pool = pool;
  }

  get store() {
    return this.#taken.at(-1)?.store;
  }

  /** Takes a store for the test of `context`. Throws if another test has one: a property could not know which of the two reads it. */
  async begin(context) {
    await this.#endSkipped();
    const outer = this.#taken.at(-1);
    if (outer !== undefined && !this.#runner.isSubtest(context, outer.context)) throw new Error(ONE_AT_A_TIME);
    const entry = { context, store: undefined };
    this.#taken.push(entry);
    try {
      entry.store = await this.#pool.take();
    } catch (error) {
      this.#remove(entry);
      throw error;
    }
  }

  /** Gives back the store of the test of `context`, if it has one. Returns the report of a failed test. */
  async end(context, hasFailed) {
    const entry = this.#taken.find((one) => one.context === context);
    if (entry === undefined) return undefined;
    this.#remove(entry);
    return this.#pool.giveBack(entry.store, hasFailed);
  }

  /** node:test has no `afterEach` for a test that skips itself while it runs. */
  async #endSkipped() {
    const ended = this.#taken.filter(({ context }) => this.#runner.hasEnded(context));
    await Promise.all(ended.map(({ context }) => this.end(context, false)));
  }

  #remove(entry) {
    this.#taken = this.#taken.filter((one) => one !== entry);
  }
}

/**
 * `useLazurite` for a test runner, which passes the context of the test to its hooks, or nothing (Jest):
 * - `hasFailed(context)`, in `afterEach`: whether the test has failed.
 * - `show(text, context)`: shows the report of a failed test.
 * - `isSubtest(context, outer)`: whether a test is part of another that runs.
 * - `hasEnded(context)`: whether the test has ended.
 */
function useLazuriteWith(hooks) {
  const runner = { hasFailed: () => false, show: () => {}, isSubtest: () => false, hasEnded: () => false, ...hooks };
  return function useLazurite(options) {
    const pool = new Pool(options);
    const tests = new RunningTests(runner, pool);
    // Hooks declare no parameters: Jest takes the first one for a callback, and Vitest parses it for the names of fixtures.
    runner.beforeEach(async function () {
      await tests.begin(arguments[0]);
    });
    runner.afterEach(async function () {
      const [context] = arguments;
      const text = await tests.end(context, runner.hasFailed(context));
      if (text !== undefined) runner.show(text, context);
    });
    runner.afterAll(() => pool.stop());
    const current = (name) => ({
      enumerable: true,
      get() {
        const { store } = tests;
        if (store === undefined) throw new Error(`${name} is there inside a test only`);
        return store[name];
      },
    });
    const methods = ["diff", "requests"].map((name) => [name, { value: (...words) => current(name).get().apply(tests.store, words) }]);
    const names = ["accountName", "accountKey", "blobEndpoint", "queueEndpoint", "tableEndpoint", "connectionString"];
    return Object.defineProperties({}, Object.fromEntries([...names.map((name) => [name, current(name)]), ...methods]));
  };
}

module.exports = { Pool, useLazuriteWith };
