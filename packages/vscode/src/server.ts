// One server: a program that this window has started, or one that was started elsewhere and is used and never stopped.

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import * as http from "node:http";
import * as https from "node:https";
import * as readline from "node:readline";

const SERVICES = ["blob", "queue", "table"] as const;
type Service = (typeof SERVICES)[number];

// Public by design: every client library knows it.
const DEVELOPMENT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

// How long the program serves on for others that attached to it, after it was asked to stop.
const LEASE_MILLISECONDS = 2_000;
const STOP_MILLISECONDS = 10_000;
const ANSWER_MILLISECONDS = 10_000;
// How often a server that was started elsewhere is asked whether it still runs.
const WATCH_MILLISECONDS = 2_000;
const ERROR_LINES_MAX = 20;

const HEALTH = "/_lazurite/health";
const MESSAGE = /^(lazurite|error): /;
const LISTENING = /^Azurite (Blob|Queue|Table) service is successfully listening at (\S+)$/;

/** How to start the program. */
export interface Launch {
  program: string;
  args: string[];
  /** Settings that do not belong on a command line, which other users can read. */
  env: Record<string, string>;
  cwd: string;
}

export type State = "stopped" | "starting" | "running" | "adopted" | "stopping";

/** The facts of a running server. */
export interface Status {
  version: string;
  /** `null` if it keeps its data in memory. */
  directory: string | null;
  endpoints: { service: Service; address: string }[];
  /** Those with the well-known key; without a password the server shows no others. */
  accounts: { name: string; containers: number; queues: number; tables: number; has_more: boolean }[];
}

/** The program did not start. The message is a sentence. */
export class StartError extends Error {
  /** True if another program, or another Lazurite, has the ports or the directory. */
  readonly isConflict: boolean;

  constructor(message: string) {
    super(message);
    this.isConflict = /cannot listen on|already running/.test(message);
  }
}

/** The server was stopped while it started. */
export class Cancelled extends Error {}

/** The server refused a request. The code is its name of the reason. */
export class Refusal extends Error {
  constructor(
    message: string,
    readonly code: string | undefined,
  ) {
    super(message);
  }
}

export class Server {
  #state: State = "stopped";
  #child: ChildProcessWithoutNullStreams | undefined;
  #urls: Partial<Record<Service, URL>> = {};
  /** Counts starts and stops: a start that a later one has overtaken gives up. */
  #attempt = 0;
  #starting: Promise<void> | undefined;
  #ended: Promise<void> | undefined;
  #watch: NodeJS.Timeout | undefined;

  /**
   * @param log takes the lines of the program.
   * @param changed is called after each change of the state.
   * @param lost is called with a sentence if a server that was ready is gone.
   */
  constructor(
    private readonly log: (line: string) => void,
    private readonly changed: () => void,
    private readonly lost: (sentence: string) => void,
  ) {}

  get state(): State {
    return this.#state;
  }

  get isReady(): boolean {
    return this.#state === "running" || this.#state === "adopted";
  }

  /** The addresses of a server that is ready, as far as they are known. */
  get urls(): [Service, URL][] {
    return SERVICES.flatMap((service) => (this.#urls[service] === undefined ? [] : [[service, this.#urls[service]]]));
  }

  /** An address of the server's own pages. */
  page(path: string): URL {
    if (this.#urls.blob === undefined) throw new Error("Lazurite does not run.");
    return new URL(`/_lazurite/${path}`, this.#urls.blob);
  }

  /**
   * Fulfilled once a server serves requests: one that runs already, else a new one. Calls at the same time share one start.
   *
   * @param blobService is where a server that runs would answer; `undefined` if the system chooses the port.
   */
  start(blobService: URL | undefined, launch: () => Launch): Promise<void> {
    if (this.#starting !== undefined) return this.#starting;
    const starting = this.#start(blobService, launch).finally(() => {
      if (this.#starting === starting) this.#starting = undefined;
    });
    this.#starting = starting;
    return starting;
  }

  async #start(blobService: URL | undefined, launch: () => Launch): Promise<void> {
    const attempt = ++this.#attempt;
    const checkWanted = () => {
      if (attempt !== this.#attempt) throw new Cancelled();
    };
    if (this.isReady) return;
    await this.#ended;
    checkWanted();
    this.#set("starting");
    try {
      if (await this.adopt(blobService)) return;
      checkWanted();
      await this.#spawn(launch());
    } catch (error) {
      checkWanted();
      // Another window may have been quicker.
      if (error instanceof StartError && error.isConflict && (await this.adopt(blobService))) return;
      if (this.#state === "starting") this.#leave();
      throw error;
    }
  }

  /** Uses the Lazurite that serves this address, if there is one. */
  async adopt(blobService: URL | undefined): Promise<boolean> {
    const attempt = this.#attempt;
    if (blobService === undefined || !(await isLazurite(blobService)) || attempt !== this.#attempt) return false;
    this.#urls = { blob: blobService };
    // A server with a password does not show its addresses.
    const status = await this.status().catch(() => undefined);
    for (const { service, address } of status?.endpoints ?? []) {
      this.#urls[service] = reachable(new URL(`${blobService.protocol}//${address}`));
    }
    this.#set("adopted");
    this.#watch = setInterval(async () => {
      const error = await answer(new URL(HEALTH, blobService), "GET").then(() => undefined, (error: NodeJS.ErrnoException) => error);
      if (error?.code !== "ECONNREFUSED" || this.#state !== "adopted") return;
      this.#leave();
      this.lost("The Lazurite that was started elsewhere has ended.");
    }, WATCH_MILLISECONDS);
    this.#watch.unref();
    return true;
  }

  async #spawn(launch: Launch): Promise<void> {
    // The program ends when its standard input does, so it cannot outlive the editor.
    const child = spawn(launch.program, [...launch.args, "--until-stdin-ends"], {
      cwd: launch.cwd,
      env: { ...process.env, ...launch.env },
    });
    this.#child = child;
    this.#urls = {};
    let errors: string[] = [];
    let failure: string | undefined;
    // A program that ends by itself closes its side of the pipe.
    child.stdin.on("error", () => {});
    child.on("error", (error) => (failure = `${launch.program} cannot be started: ${error.message}`));
    readline.createInterface({ input: child.stderr }).on("line", (line) => {
      this.log(line);
      // Once it serves, the program prints the connection string, and warnings.
      if (this.#state !== "running" || MESSAGE.test(line)) errors = [...errors, line].slice(-ERROR_LINES_MAX);
    });
    const isReady = new Promise<boolean>((resolve) => {
      readline.createInterface({ input: child.stdout }).on("line", (line) => {
        this.log(line);
        const announced = this.#state === "starting" && LISTENING.exec(line);
        if (!announced) return;
        this.#urls[announced[1]!.toLowerCase() as Service] = reachable(new URL(announced[2]!));
        if (Object.keys(this.#urls).length < SERVICES.length) return;
        errors = [];
        this.#set("running");
        resolve(true);
      });
      this.#ended = new Promise((ended) => {
        child.on("close", (code, signal) => {
          failure ??= lastMessage(errors) ?? `${launch.program} ended with ${signal ?? `status ${code}`}.`;
          const wasRunning = this.#state === "running";
          this.#leave();
          resolve(false);
          ended();
          if (wasRunning) this.lost(`Lazurite has ended: ${failure}`);
        });
      });
    });
    if (await isReady) return;
    throw new StartError(`Lazurite did not start: ${failure}`);
  }

  /** Stops the program that this window has started, also while it starts. Leaves other servers alone. */
  async stop(): Promise<void> {
    this.#attempt += 1;
    this.#starting = undefined;
    const child = this.#child;
    if (child === undefined) {
      if (this.#state === "starting") this.#leave();
      return;
    }
    this.#set("stopping");
    // Windows has no SIGTERM. Where there is one, a second request right after it would cut the orderly stop short.
    const isAsked = process.platform !== "win32" && child.kill("SIGTERM");
    const leases = setTimeout(() => child.stdin.end(), isAsked ? LEASE_MILLISECONDS : 0);
    const late = setTimeout(() => child.kill("SIGKILL"), STOP_MILLISECONDS);
    await this.#ended;
    clearTimeout(leases);
    clearTimeout(late);
  }

  /** Stops what this window has started, and forgets the rest. */
  async dispose(): Promise<void> {
    await this.stop();
    this.#leave();
  }

  /** The connection string of the first account, or of a fork of it. The error is a sentence. */
  async connectionString(fork?: string): Promise<string> {
    const { accounts } = await this.status();
    const account = accounts[0];
    if (account === undefined) {
      throw new Error(
        "The accounts of this server have keys of their own, which it does not show: put name and key into a connection string by hand.",
      );
    }
    const name = fork === undefined ? account.name : `${account.name}--${fork}`;
    const endpoints = this.urls.map(([service, known]) => {
      const url = new URL(known);
      // The name in a certificate.
      if (url.protocol === "https:" && url.hostname === "127.0.0.1") url.hostname = "localhost";
      return `${service[0]!.toUpperCase()}${service.slice(1)}Endpoint=${url.origin}/${name};`;
    });
    const scheme = this.page("").protocol.slice(0, -1);
    return `DefaultEndpointsProtocol=${scheme};AccountName=${name};AccountKey=${DEVELOPMENT_KEY};${endpoints.join("")}`;
  }

  async status(): Promise<Status> {
    return (await this.ask("GET", "api/status")) as Status;
  }

  /** The JSON that a page of the server answers. The error is a sentence. */
  async ask(method: string, page: string, body?: unknown): Promise<unknown> {
    const { status, text } = await answer(this.page(page), method, body, process.env.LAZURITE_CONSOLE_PASSWORD);
    const document = json(text);
    if (status < 300) return document;
    const refused = (document as { error?: { code?: string; message?: string } } | undefined)?.error;
    throw new Refusal(`${method} /_lazurite/${page}: ${refused?.message ?? `${status} ${text}`}`, refused?.code);
  }

  #set(state: State): void {
    this.#state = state;
    this.changed();
  }

  #leave(): void {
    clearInterval(this.#watch);
    this.#child = undefined;
    this.#ended = undefined;
    this.#urls = {};
    this.#set("stopped");
  }
}

/** The address by which this machine reaches a listener. */
export function reachable(url: URL): URL {
  if (url.hostname === "0.0.0.0") url.hostname = "127.0.0.1";
  if (url.hostname === "[::]") url.hostname = "[::1]";
  return url;
}

/** True if a Lazurite answers at this address. */
export async function isLazurite(blobService: URL): Promise<boolean> {
  try {
    const health = json((await answer(new URL(HEALTH, blobService), "GET")).text);
    return typeof health === "object" && health !== null && "durability" in health && "version" in health;
  } catch {
    return false;
  }
}

/** The last message of a program, or everything that it said; `undefined` if it said nothing. */
function lastMessage(lines: string[]): string | undefined {
  const start = lines.findLastIndex((line) => MESSAGE.test(line));
  const said = lines.slice(Math.max(start, 0)).join("\n").trim();
  return said === "" ? undefined : said.replace(/^lazurite: /, "");
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Asks a server of this machine, whose certificate may be one that nobody knows. */
function answer(page: URL, method: string, body?: unknown, password?: string): Promise<{ status: number; text: string }> {
  const auth = password ? { auth: `lazurite:${password}` } : {};
  const options = { method, agent: false, timeout: ANSWER_MILLISECONDS, rejectUnauthorized: false, ...auth };
  return new Promise((resolve, reject) => {
    const send = page.protocol === "https:" ? https.request : http.request;
    const request = send(page, options, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => (text += chunk));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
      response.on("error", reject);
    });
    request.on("timeout", () => request.destroy(new Error(`${method} ${page}: no answer`)));
    request.on("error", reject);
    request.end(body === undefined ? undefined : JSON.stringify(body));
  });
}
