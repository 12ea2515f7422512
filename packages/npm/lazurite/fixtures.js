"use strict";
// An empty store for each test. Accounts of one server are handed out, because nothing has to be started between tests then.

const { Lazurite } = require("./index.js");

// How many tests one server serves. Every account takes some memory of the server.
const ACCOUNTS_OF_SERVER = 256;

/** Servers, and the accounts that no test has had. */
class Pool {
  #options;
  #isolation;
  #servers = [];
  #unused = [];

  constructor({ isolation = "account", ...options } = {}) {
    if (isolation !== "account" && isolation !== "server") {
      throw new Error(`isolation is "account" or "server", not ${JSON.stringify(isolation)}`);
    }
    this.#isolation = isolation;
    this.#options = options;
  }

  /** A store with nothing in it. With isolation by server, the server before is stopped. */
  async take() {
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

  async stop() {
    const servers = this.#servers;
    this.#servers = [];
    this.#unused = [];
    await Promise.all(servers.map((server) => server.stop()));
  }
}

/** `useLazurite` in terms of the hooks of a test runner. */
function useLazuriteWith({ beforeEach, afterAll }) {
  return function useLazurite(options) {
    const pool = new Pool(options);
    let store;
    beforeEach(async () => {
      store = await pool.take();
    });
    afterAll(() => pool.stop());
    const current = (name) => ({
      enumerable: true,
      get() {
        if (store === undefined) throw new Error(`${name} is there inside a test only`);
        return store[name];
      },
    });
    const names = ["accountName", "accountKey", "blobEndpoint", "queueEndpoint", "tableEndpoint", "connectionString"];
    return Object.defineProperties({}, Object.fromEntries(names.map((name) => [name, current(name)])));
  };
}

module.exports = { Pool, useLazuriteWith };
