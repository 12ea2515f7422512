"use strict";
// A store for each test. Accounts of one server are handed out, because nothing has to be started between tests then. With isolation by
// fork, each test has a fork of one store, which is filled once.

const { Fork, Lazurite } = require("./index.js");
const report = require("./report.js");

// The snapshot that the forks begin as.
const SEED = "lazurite-seed";

// How many tests one server serves. Every account takes some memory of the server.
const ACCOUNTS_OF_SERVER = 256;

/** Servers, and the accounts that no test has had. */
class Pool {
  #options;
  #isolation;
  #seed;
  #servers = [];
  #unused = [];

  constructor({ isolation = "account", seed, ...options } = {}) {
    if (!["account", "fork", "server"].includes(isolation)) {
      throw new Error(`isolation is "account", "fork" or "server", not ${JSON.stringify(isolation)}`);
    }
    if (seed !== undefined && isolation !== "fork") throw new Error('a seed needs isolation "fork"');
    this.#isolation = isolation;
    this.#seed = seed;
    this.#options = options;
  }

  /** A store with nothing in it, or a fork with what the seed has written. With isolation by server, the server before is stopped. */
  async take() {
    if (this.#isolation === "fork") {
      if (this.#servers.length === 0) await this.#startForForks();
      return this.#servers[0].fork(SEED);
    }
    if (this.#isolation === "server") {
      await this.stop();
      const server = await Lazurite.start(this.#options);
      this.#servers.push(server);
      return server;
    }
    if (this.#unused.length === 0) {
      const accounts = Array.from({ length: ACCOUNTS_OF_SERVER }, (_, index) => `test${String(index).padStart(5, "0")}`);
      const server = await Lazurite.start({ ...this.#options, accounts });
      this.#servers.push(server);
      this.#unused = accounts.reverse().map((name) => server.account(name));
    }
    return this.#unused.pop();
  }

  async #startForForks() {
    const server = await Lazurite.start(this.#options);
    this.#servers.push(server);
    await this.#seed?.(server);
    await server.snapshot(SEED);
  }

  /** Ends the store of a test. Returns a report of what happened in a fork, if the test has failed. */
  async giveBack(store, hasFailed) {
    if (!(store instanceof Fork)) return undefined;
    const text = hasFailed ? await report.ofFork(store) : undefined;
    await store.release();
    return text;
  }

  async stop() {
    const servers = this.#servers;
    this.#servers = [];
    this.#unused = [];
    await Promise.all(servers.map((server) => server.stop()));
  }
}

/**
 * `useLazurite` in terms of the hooks of a test runner. `hasFailed` takes what the runner hands to `afterEach`, and `show` that and the
 * report of a failed test.
 */
function useLazuriteWith({ beforeEach, afterEach, afterAll, hasFailed = () => false, show = () => {} }) {
  return function useLazurite(options) {
    const pool = new Pool(options);
    let store;
    beforeEach(async () => {
      store = await pool.take();
    });
    afterEach(async (...handed) => {
      const ended = store;
      store = undefined;
      const text = await pool.giveBack(ended, hasFailed(...handed));
      if (text !== undefined) show(text, ...handed);
    });
    afterAll(() => pool.stop());
    const current = (name) => ({
      enumerable: true,
      get() {
        if (store === undefined) throw new Error(`${name} is there inside a test only`);
        return store[name];
      },
    });
    const methods = ["diff", "requests"].map((name) => [name, { value: (...words) => current(name).get().apply(store, words) }]);
    const names = ["accountName", "accountKey", "blobEndpoint", "queueEndpoint", "tableEndpoint", "connectionString"];
    return Object.defineProperties({}, Object.fromEntries([...names.map((name) => [name, current(name)]), ...methods]));
  };
}

module.exports = { Pool, useLazuriteWith };
