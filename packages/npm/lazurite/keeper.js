"use strict";
// Keeps the servers of failed tests alive after the tests, so that the links in their reports work.

const { spawn } = require("node:child_process");
const { createHash, randomBytes } = require("node:crypto");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

// Runs in a process of its own, which holds the pipes that keep the servers alive. It ends after some seconds, or once the file no longer
// holds its word, which is when the next run of the same tests begins.
const WAIT = `
const [file, word, seconds] = process.argv.slice(1);
const end = Date.now() + seconds * 1000;
setInterval(() => {
  let found;
  try {
    found = require("node:fs").readFileSync(file, "utf8");
  } catch {}
  if (found !== word || Date.now() > end) process.exit();
}, 500);`;

// Of all that this process keeps: a file of tests may have several servers.
const WORD = randomBytes(8).toString("hex");

/** The file that says what is kept of a file of tests. Without a directory for caches, a later run does not find what this one keeps. */
function markerOf(tests) {
  const name = `kept-${createHash("sha256").update(tests).digest("hex").slice(0, 16)}`;
  const modules = path.resolve("node_modules");
  const caches = fs.existsSync(modules) ? path.join(modules, ".cache", "lazurite") : fs.mkdtempSync(path.join(os.tmpdir(), "lazurite-"));
  fs.mkdirSync(caches, { recursive: true });
  return path.join(caches, name);
}

/** Lets what holds on to these pipes run on for some seconds, or until a later run calls `endEarlier` for the same marker. */
function keep(pipes, marker, seconds) {
  fs.writeFileSync(marker, WORD);
  const keeper = spawn(process.execPath, ["-e", WAIT, marker, WORD, String(seconds)], {
    detached: true,
    stdio: ["ignore", "ignore", "ignore", ...pipes],
  });
  keeper.unref();
}

/** Ends what an earlier run has kept. */
function endEarlier(marker) {
  const isOurs = fs.existsSync(marker) && fs.readFileSync(marker, "utf8") === WORD;
  if (!isOurs) fs.rmSync(marker, { force: true });
}

module.exports = { endEarlier, keep, markerOf };
