"use strict";
// Starts and stops a server, and names the stores that it serves.

const { spawn } = require("node:child_process");
const { randomBytes } = require("node:crypto");
const fs = require("node:fs/promises");
const http = require("node:http");
const https = require("node:https");
const os = require("node:os");
const path = require("node:path");
const { programPath } = require("./program.js");

const DEVELOPMENT_ACCOUNT = "devstoreaccount1";
// Public by design: every client library knows it.
const DEVELOPMENT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const POLL_MILLISECONDS = 5;
const STOP_MILLISECONDS = 10_000;
const ANSWER_MILLISECONDS = 60_000;
// How long a fork lives without requests, if no flag says otherwise: longer than a debugger stops a test, and than failed tests are kept.
const FORK_LIFETIME_SECONDS = 3600;
// Most requests of a fork in one list: as many as a server keeps, if no flag says otherwise.
const REQUESTS_MAX = 2000;

/** An account of a running server. */
class Store {
  constructor(accountName, accountKey, ports, scheme) {
    const host = scheme === "https" ? "localhost" : "127.0.0.1";
    const endpoint = (port) => `${scheme}://${host}:${port}/${accountName}`;
    this.accountName = accountName;
    this.accountKey = accountKey;
    this.blobEndpoint = endpoint(ports.blob);
    this.queueEndpoint = endpoint(ports.queue);
    this.tableEndpoint = endpoint(ports.table);
    this.connectionString =
      `DefaultEndpointsProtocol=${scheme};AccountName=${accountName};AccountKey=${accountKey};` +
      `BlobEndpoint=${this.blobEndpoint};QueueEndpoint=${this.queueEndpoint};TableEndpoint=${this.tableEndpoint};`;
  }
}

/** A store of its own on the ports of a server. */
class Fork extends Store {
  #ask;

  constructor(name, origin, ports, scheme, ask) {
    super(`${origin.accountName}--${name}`, origin.accountKey, ports, scheme);
    this.name = name;
    const page = (path) => new URL(`/_lazurite/${path}`, this.blobEndpoint).href;
    this.consoleUrl = page(`blobs/${this.accountName}`);
    this.requestsUrl = page(`requests?filter=${encodeURIComponent(`/${this.accountName}`)}`);
    this.#ask = ask;
  }

  /** Ends the fork, with everything in it. */
  async release() {
    await this.#ask("DELETE", `state/forks/${this.name}`);
  }

  /** What differs from the snapshot that the fork began as, or from the store of the server. */
  diff(limit = 1000) {
    return this.#ask("GET", `state/diff?fork=${this.name}&limit=${limit}`);
  }

  /** The latest requests to the fork, at most 2,000, oldest first. */
  async requests() {
    // The filter finds the name anywhere in a request.
    const filter = encodeURIComponent(`/${this.accountName}`);
    const accounts = [this.accountName, `${this.accountName}-secondary`];
    let requests = [];
    for (let after = 0; ; ) {
      const { requests: found, next } = await this.#ask("GET", `api/requests?filter=${filter}&after=${after}`);
      const ours = found.filter(({ target }) => accounts.includes(target.split(/[/?]/)[1]));
      requests = [...requests, ...ours].slice(-REQUESTS_MAX);
      // A page may be empty although later ones are not.
      if (next === after) return requests;
      after = next;
    }
  }

  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    try {
      await this.release();
    } catch (error) {
      // It has ended already: it was released, or no request has used it for its lifetime.
      if (error.code !== "ForkNotFound") throw error;
    }
  }
}

/** A running server. Its own properties are those of its first account. */
class Lazurite extends Store {
  #child;
  #isHandedOver = false;
  #stores;
  #keepsNothing;
  #ports;
  #scheme;

  constructor(child, keys, ports, scheme, keepsNothing) {
    const [[name, key]] = keys;
    super(name, key, ports, scheme);
    this.#child = child;
    this.#keepsNothing = keepsNothing;
    this.#ports = ports;
    this.#scheme = scheme;
    this.#stores = new Map([...keys].map(([account, secret]) => [account, new Store(account, secret, ports, scheme)]));
  }

  /** Starts a server; the promise is fulfilled once it serves requests, and rejected with its output if it does not start. */
  static async start(options = {}) {
    const { location, port = 0, accounts, args = [], program = programPath(), timeout = 30_000 } = options;
    const keys = keysOf(accounts);
    const scratch = await fs.mkdtemp(path.join(os.tmpdir(), "lazurite-"));
    try {
      const portFile = path.join(scratch, "ports.json");
      const words = ["--port", String(port), "--port-file", portFile, "--silent", "--until-stdin-ends"];
      words.push("--fork-lifetime", String(FORK_LIFETIME_SECONDS));
      words.push(...(location === undefined ? ["--inMemoryPersistence"] : ["--location", location]), ...args);
      const child = spawn(program, words, { stdio: ["pipe", "ignore", "pipe"], env: environment(accounts, keys) });
      const ports = await ready(child, portFile, timeout);
      // Neither a server nor its pipes keep this process alive; the server ends when the process does.
      child.unref();
      child.stdin.unref();
      child.stderr.unref();
      const scheme = args.some((word) => word === "--cert" || word.startsWith("--cert=")) ? "https" : "http";
      return new Lazurite(child, keys, ports, scheme, location === undefined && args.length === 0);
    } finally {
      await fs.rm(scratch, { recursive: true, force: true });
    }
  }

  /** The names of the accounts, in the order in which they were given. */
  get accounts() {
    return [...this.#stores.keys()];
  }

  /** The store of one account. */
  account(name) {
    const store = this.#stores.get(name);
    if (store === undefined) throw new Error(`the server has no account ${name}; it has ${this.accounts.join(", ")}`);
    return store;
  }

  /** Makes a fork of the store, or of a snapshot. Without a name it has a random one. */
  async fork(source, name) {
    const ask = (...words) => this.#ask(...words);
    const body = { from: source ?? null, name: name ?? null, account: this.accountName };
    const made = await ask("POST", "state/forks", body);
    return new Fork(made.name, this, this.#ports, this.#scheme, ask);
  }

  /** Keeps the store as it is now under a name. */
  async snapshot(name) {
    await this.#ask("PUT", `state/snapshots/${encodeURIComponent(name)}`);
  }

  /** Puts a copy of a snapshot in the place of the store. */
  async restore(name) {
    await this.#ask("POST", `state/snapshots/${encodeURIComponent(name)}/restore`);
  }

  /** Deletes everything in the store. Snapshots and forks stay. */
  async reset() {
    await this.#ask("POST", "state/reset");
  }

  /** The JSON that a page of the server answers. */
  async #ask(method, page, body) {
    const what = `${method} /_lazurite/${page}`;
    const { status, text } = await answer(this.#scheme, this.#ports.blob, method, `/_lazurite/${page}`, body);
    if (status >= 300) throw Object.assign(new Error(`${what}: ${status} ${text}`), { code: codeOf(text) });
    return JSON.parse(text);
  }

  /** Stops the server. A store in a directory is closed; one in memory is just gone. */
  async stop() {
    const child = this.#child;
    if (this.#isHandedOver || child.exitCode !== null || child.signalCode !== null) return;
    child.ref();
    const ended = new Promise((resolve) => child.once("exit", resolve));
    // Nothing outlives a server in memory, so it need not wait for idle connections of clients.
    if (this.#keepsNothing) child.kill("SIGKILL");
    child.stdin.end();
    const late = setTimeout(() => child.kill("SIGKILL"), STOP_MILLISECONDS);
    await ended;
    clearTimeout(late);
  }

  /** The pipe that keeps the server alive: it runs as long as any process holds it, and `stop` does nothing any more. For fixtures only. */
  handOver() {
    this.#isHandedOver = true;
    return this.#child.stdin;
  }

  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    await this.stop();
  }
}

/** Asks this machine's server, whose certificate may be one that nobody knows. */
function answer(scheme, port, method, path, body) {
  const secure = scheme === "https";
  const options = { host: secure ? "localhost" : "127.0.0.1", port, method, path, agent: false, timeout: ANSWER_MILLISECONDS };
  return new Promise((resolve, reject) => {
    const request = (secure ? https : http).request({ ...options, rejectUnauthorized: false }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk) => (text += chunk));
      response.on("end", () => resolve({ status: response.statusCode, text }));
      response.on("error", reject);
    });
    request.on("timeout", () => request.destroy(new Error(`${method} ${path}: no answer`)));
    request.on("error", reject);
    request.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** The code of a refusal, or undefined if the text is not one of ours. */
function codeOf(text) {
  try {
    return JSON.parse(text).error?.code;
  } catch {
    return undefined;
  }
}

function keysOf(accounts) {
  if (accounts === undefined) return new Map([[DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY]]);
  const keys = Array.isArray(accounts)
    ? new Map(accounts.map((name) => [name, randomBytes(64).toString("base64")]))
    : new Map(Object.entries(accounts));
  if (keys.size === 0) throw new Error("a server needs at least one account");
  return keys;
}

/** This process's environment, without settings of other servers. */
function environment(accounts, keys) {
  const others = Object.entries(process.env).filter(([name]) => !/^(LAZURITE|AZURITE)_/.test(name));
  const result = Object.fromEntries(others);
  if (accounts !== undefined) result.AZURITE_ACCOUNTS = [...keys].map((pair) => pair.join(":")).join(";");
  return result;
}

async function ready(child, portFile, timeout) {
  let said = "";
  let failure;
  child.stderr.on("data", (chunk) => (said = (said + chunk).slice(-16_384)));
  child.on("error", (error) => (failure = error.message));
  // A server that ends by itself closes its side of the pipe.
  child.stdin.on("error", () => {});
  child.on("close", (code, signal) => (failure ??= `it ended with ${signal ?? `status ${code}`}`));
  const deadline = Date.now() + timeout;
  for (;;) {
    try {
      return JSON.parse(await fs.readFile(portFile, "utf8"));
    } catch (error) {
      if (error.code !== "ENOENT") throw error;
    }
    if (failure === undefined && Date.now() > deadline) {
      child.kill("SIGKILL");
      failure = `it was not ready after ${timeout} ms`;
    }
    if (failure !== undefined) throw new Error(`Lazurite did not start: ${failure}\n${said.trim()}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MILLISECONDS));
  }
}

module.exports = { FORK_LIFETIME_SECONDS, Fork, Lazurite, Store, programPath };
