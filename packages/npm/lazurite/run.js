"use strict";
// The commands of this package: the program under one of its names, with this process's arguments, output and signals.

const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { programPath } = require("./program.js");

const FORWARDED = ["SIGINT", "SIGTERM", "SIGHUP"];

/** Runs the program under `name` and ends this process as it ends. */
function run(name) {
  let program;
  try {
    program = programPath();
  } catch (error) {
    console.error(error.message);
    process.exit(1);
  }
  const child = spawn(program, process.argv.slice(2), {
    argv0: name,
    // The pipe is closed when this process ends, also by a signal that it cannot forward, and the server stops then.
    stdio: ["pipe", "inherit", "inherit"],
    env: { ...process.env, LAZURITE_UNTIL_STDIN_ENDS: "1" },
  });
  for (const signal of FORWARDED) process.on(signal, () => child.kill(signal));
  child.on("error", (error) => {
    console.error(`${program}: ${error.message}`);
    process.exit(1);
  });
  child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}

module.exports = { run };
