// What the examples in JavaScript share: a server of their own, which they can kill, or one that is
// there already.

import { spawn } from "node:child_process";
import { closeSync, existsSync, openSync, rmSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const ANSWER_SECONDS_MAX = 30;

/** A store refuses some requests for a moment (503) and some answers are lost: the clients repeat
 * such requests. Their defaults wait for seconds each time, as suits a store far away that serves
 * many. */
const [TRIES, DELAY] = [50, { retryDelayInMs: 50, maxRetryDelayInMs: 500 }];
export const STORAGE_RETRIES = { retryOptions: { maxTries: TRIES, ...DELAY } };
export const TABLE_RETRIES = { retryOptions: { maxRetries: TRIES, ...DELAY } };

/** A server on free ports whose data outlives it. */
class Server {
  ports = { blob: 0, queue: 0, table: 0 };

  constructor(program, directory) {
    this.program = program;
    this.directory = directory;
  }

  async start() {
    const [portFile, log] = [
      join(this.directory, "ports.json"),
      join(this.directory, "server.log"),
    ];
    await rm(portFile, { force: true });
    const ports = Object.entries(this.ports).map(([service, port]) => `--${service}Port=${port}`);
    const flags = [
      "--silent",
      "--until-stdin-ends",
      "--port-file",
      portFile,
      "--location",
      join(this.directory, "data"),
    ];
    const descriptor = openSync(log, "a");
    // The server ends with this program, whatever ends it.
    this.process = spawn(this.program, [...flags, ...ports], {
      stdio: ["pipe", "ignore", descriptor],
    });
    closeSync(descriptor);
    this.ended = new Promise((resolve) =>
      this.process.once("close", resolve).once("error", resolve),
    );
    let end;
    this.ended.then((reason) => (end = reason ?? "killed"));
    while (!existsSync(portFile)) {
      if (end !== undefined) {
        console.error(`the server did not start: ${end.message ?? (await readFile(log, "utf8"))}`);
        rmSync(this.directory, { recursive: true });
        process.exit(1);
      }
      await sleep(10);
    }
    this.ports = JSON.parse(await readFile(portFile, "utf8"));
  }

  /** SIGKILL: the server cannot finish anything. Then it starts again, with the same ports and
   * data. */
  async kill() {
    this.process.kill("SIGKILL");
    await this.ended;
    await this.start();
  }

  async stop() {
    this.process.stdin.end();
    await this.ended;
  }

  get connection() {
    const endpoint = ([name, port]) =>
      `${name[0].toUpperCase()}${name.slice(1)}Endpoint=http://127.0.0.1:${port}/devstoreaccount1;`;
    const endpoints = Object.entries(this.ports).map(endpoint).join("");
    return `DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=${KEY};${endpoints}`;
  }
}

/** Kills the server each time that another quarter of the work is done. */
export class Kills {
  constructor(server, total, isWanted) {
    this.server = server;
    this.total = total;
    this.marks = isWanted ? [1, 2, 3].map((quarter) => (total * quarter) / 4) : [];
  }

  async at(done) {
    if (this.marks.length > 0 && done >= this.marks[0]) {
      this.marks.shift();
      await this.server.kill();
      console.log(`killed the server after ${done} of ${this.total}, and started it again`);
    }
  }
}

const USAGE = `Options:
  --connection-string STRING   use this store instead of a server of this program's own
  --server PROGRAM             the program lazurite [default: that on the PATH, or one that cargo built]
  --kill                       kill the server three times on the way, with SIGKILL`;

export function parse() {
  const options = {
    "connection-string": { type: "string" },
    server: { type: "string" },
    kill: { type: "boolean" },
    help: { type: "boolean" },
  };
  const { values } = parseArgs({ options });
  const refuse = (reason) => {
    console.error(`${reason}\n\n${USAGE}`);
    process.exit(2);
  };
  if (values.help) {
    console.log(USAGE);
    process.exit(0);
  }
  if (values.kill && values["connection-string"])
    refuse("--kill needs a server that this program starts itself");
  const server = values.server ?? program();
  if (!values["connection-string"] && server === undefined) {
    refuse(
      "there is no program lazurite on the PATH: name one with --server, or a store with --connection-string",
    );
  }
  return { connection: values["connection-string"], server, kill: values.kill ?? false };
}

function program() {
  const onPath = process.env.PATH.split(delimiter).map((directory) => join(directory, "lazurite"));
  const built = ["dist", "release", "debug"].map((profile) =>
    join(import.meta.dirname, "../../target", profile, "lazurite"),
  );
  return process.env.LAZURITE ?? [...onPath, ...built].find((path) => existsSync(path));
}

/** Runs `work` with a server, stopped at the end, or with the store that the options name. */
export async function withStore(options, work) {
  if (options.connection !== undefined) return useStore(options.connection, work);
  const directory = await mkdtemp(join(tmpdir(), "lazurite-"));
  const server = new Server(options.server, directory);
  try {
    await server.start();
    await work(server);
    await server.stop();
  } finally {
    server.process.kill("SIGKILL");
    await rm(directory, { recursive: true });
  }
}

async function useStore(connection, work) {
  try {
    await work({ connection });
  } catch (error) {
    if (!UNANSWERED.includes(error.code)) throw error;
    console.error(`the store does not answer: ${error.message}`);
    process.exitCode = 1;
  }
}

const UNANSWERED = ["ECONNREFUSED", "ECONNRESET", "EPIPE", "REQUEST_SEND_ERROR", "PARSE_ERROR"];

/** Repeats `work` while the server does not answer, after the client has given up. A write whose
 * answer was lost may have been made: every step in `work` must be one that may be repeated. */
export async function patiently(work) {
  const deadline = Date.now() + ANSWER_SECONDS_MAX * 1000;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!UNANSWERED.includes(error.code) || Date.now() > deadline) throw error;
      await sleep(20);
    }
  }
}
