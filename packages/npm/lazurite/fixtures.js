"use strict";
// A store for each test: a fork of one store, which may be filled once. The store of a failed test stays for a while, and its report leads
// there. With isolation by account, accounts of one server are handed out.

const { randomBytes } = require("node:crypto");
const { FORK_LIFETIME_SECONDS, Fork, Lazurite } = require("./index.js");
const keeper = require("./keeper.js");
const report = require("./report.js");

// The way in which `await using` ends a fork.
const DISPOSE = Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose");

// The snapshot that the forks begin as.
const SEED = "lazurite-seed";

// How many tests one server serves. Every account takes some memory of the server.
const ACCOUNTS_OF_SERVER = 256;

// Seconds for which the stores of failed tests are kept after the tests, and the number of tests whose stores are kept.
const KEEP_SECONDS = 900;
const KEPT_MAX = 50;
// Most characters of the name of a fork.
const FORK_NAME_MAX = 40;

const ONE_AT_A_TIME =
  "useLazurite serves one test at a time, and another test still runs: run the tests without concurrency, or make a fork in each test " +
  "with fork() of a server from Lazurite.start().";

/** A name for the fork of a test, which no other test has. */
function forkName(test) {
  const word = test.toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, FORK_NAME_MAX - 9).replace(/^-|-$/g, "");
  return `${word || "test"}-${randomBytes(4).toString("hex")}`;
}

/** Servers, and the accounts that no test has had. */
class Pool {
  #options;
  #isolation;
  #seed;
  #keepSeconds;
  // The file that says what is kept of these tests, once a test has begun.
  #marker;
  // Number of failed tests whose forks are kept.
  #kept = 0;
  #servers = [];
  #unused = [];
  // The start of the server of the forks, and of a server of further accounts. Concurrent takes await the same promise.
  #forForks;
  #forAccounts;

  constructor({ isolation = "fork", seed, keepFailed = process.env.CI ? 0 : KEEP_SECONDS, ...options } = {}) {
    if (!["account", "fork", "server"].includes(isolation)) {
      throw new Error(`isolation is "account", "fork" or "server", not ${JSON.stringify(isolation)}`);
    }
    if (seed !== undefined && isolation !== "fork") throw new Error('a seed needs isolation "fork"');
    if (!(keepFailed >= 0 && keepFailed <= FORK_LIFETIME_SECONDS)) {
      throw new Error(`keepFailed is a number of seconds up to ${FORK_LIFETIME_SECONDS}, not ${JSON.stringify(keepFailed)}`);
    }
    this.#keepSeconds = keepFailed;
    this.#isolation = isolation;
    this.#seed = seed;
    this.#options = options;
  }

  /**
   * A fork of the seeded store, or an empty one. `test` is the name of the test, and `file` the file that it is in. If the seed fails, this
   * call and all later ones are rejected with its error.
   */
  async take(test = "", file = "") {
    if (this.#isolation === "fork") {
      if (this.#marker === undefined) keeper.endEarlier((this.#marker = keeper.markerOf(file)));
      this.#forForks ??= this.#startForForks();
      const server = await this.#forForks;
      return server.fork(SEED, forkName(test));
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
   * Ends the store of a test: releases a fork, which may be gone already, and stops a server of one test. If the test has failed, keeps its
   * fork, unless many are kept already, and returns a report of what happened in it.
   */
  async giveBack(store, hasFailed) {
    if (store instanceof Lazurite) {
      this.#servers = this.#servers.filter((server) => server !== store);
      await store.stop();
    }
    if (!(store instanceof Fork)) return undefined;
    const isKept = hasFailed && this.#keepSeconds > 0 && this.#kept < KEPT_MAX;
    const text = hasFailed ? await report.ofFork(store, isKept ? this.#keepSeconds : 0) : undefined;
    if (isKept) this.#kept += 1;
    else await store[DISPOSE]();
    return text;
  }

  async stop() {
    const servers = this.#servers;
    this.#servers = [];
    this.#unused = [];
    this.#forForks = undefined;
    if (this.#kept > 0) {
      this.#kept = 0;
      const pipes = servers.map((server) => server.handOver());
      keeper.keep(pipes, this.#marker, this.#keepSeconds);
      for (const pipe of pipes) pipe.destroy();
    }
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
      entry.store = await this.#pool.take(this.#runner.nameOf(context), this.#runner.fileOf(context));
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
 * - `nameOf(context)`, `fileOf(context)`: the name of the test, and the file that it is in.
 */
function useLazuriteWith(hooks) {
  const defaults = {
    hasFailed: () => false,
    show: () => {},
    isSubtest: () => false,
    hasEnded: () => false,
    nameOf: () => "",
    fileOf: () => process.argv[1] ?? "",
  };
  const runner = { ...defaults, ...hooks };
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
