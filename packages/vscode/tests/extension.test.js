"use strict";
// The extension in windows of a stand-in for the editor, with the real program. Run by `npm test`, and by `.ci/package test` on the packed
// extension. LAZURITE names the program; without it, the one in the package is used, else the one that cargo has built.

const assert = require("node:assert/strict");
const { spawn, spawnSync } = require("node:child_process");
const { createHmac, randomInt } = require("node:crypto");
const { once } = require("node:events");
const fs = require("node:fs");
const http = require("node:http");
const https = require("node:https");
const net = require("node:net");
const os = require("node:os");
const path = require("node:path");
const { afterEach, beforeEach, test } = require("node:test");
const { EXTENSION, manifest, Window } = require("./editor.js");

const PACKED = path.join(EXTENSION, "bin", "lazurite");
const PROGRAM = process.env.LAZURITE ?? (fs.existsSync(PACKED) ? PACKED : path.resolve(__dirname, "../../../target/debug/lazurite"));
const ENDS = ["", "_blob", "_queue", "_table"];
const IDS_OF_AZURITE = ["start", "close", "clean"].flatMap((verb) => ENDS.map((end) => `azurite.${verb}${end}`));

let scratch;
let endings;

beforeEach(() => {
  scratch = fs.mkdtempSync(path.join(os.tmpdir(), "lazurite-test-"));
  endings = [];
});

afterEach(async () => {
  for (const end of endings.reverse()) await end();
  fs.rmSync(scratch, { recursive: true, force: true });
});

/** A window with a folder, and a server on free ports unless the settings name others. */
async function open({ settings = {}, ...rest } = {}) {
  const ports = { "lazurite.blobPort": 0, "lazurite.queuePort": 0, "lazurite.tablePort": 0 };
  const program = PROGRAM === PACKED ? {} : { "lazurite.program": PROGRAM };
  const window = new Window({ settings: { ...program, ...ports, ...settings }, folder: path.join(scratch, "folder"), ...rest });
  if (window.folder) fs.mkdirSync(window.folder, { recursive: true });
  endings.push(() => window.close());
  return window.open();
}

/** Three consecutive free ports, as settings. They are below those that systems hand out, so that no other program gets them meanwhile. */
async function freePorts() {
  for (;;) {
    const first = randomInt(12_000, 32_000);
    const ports = [first, first + 1, first + 2];
    const servers = ports.map((port) => net.createServer().listen(port, "127.0.0.1"));
    const found = await Promise.allSettled(servers.map((server) => once(server, "listening")));
    await Promise.all(servers.filter(({ listening }) => listening).map((server) => once(server.close(), "close")));
    if (found.some(({ status }) => status === "rejected")) continue;
    return Object.fromEntries(["blob", "queue", "table"].map((name, index) => [`lazurite.${name}Port`, ports[index]]));
  }
}

/** A server that no window has started. */
async function startElsewhere(settings, ...args) {
  const flags = Object.entries(settings).map(([name, port]) => `--${name.replace("lazurite.", "")}=${port}`);
  // A test that is killed leaves no server.
  const words = ["--inMemoryPersistence", "--silent", "--until-stdin-ends", ...flags, ...args];
  const child = spawn(PROGRAM, words, { stdio: ["pipe", "pipe", "ignore"] });
  const ended = once(child, "exit");
  const end = async () => {
    child.kill("SIGTERM");
    await ended;
  };
  endings.push(end);
  let text = "";
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
    text += chunk;
    if (/Table service is successfully listening/.test(text)) break;
  }
  child.stdout.resume();
  return end;
}

function script(name, text) {
  const file = path.join(scratch, name);
  fs.writeFileSync(file, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  return file;
}

/** Sends a request to the Blob service, signed by hand, and returns the status. */
function send(connectionString, method, target) {
  const { BlobEndpoint, AccountName, AccountKey } = Object.fromEntries(
    connectionString.split(";").filter(Boolean).map((part) => [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)]),
  );
  const url = new URL(BlobEndpoint + target);
  const headers = { "x-ms-date": new Date().toUTCString(), "x-ms-version": "2021-08-06" };
  const parameters = [...url.searchParams].sort().map(([name, value]) => `\n${name}:${value}`);
  const signed = [method, ...Array(11).fill(""), ...Object.entries(headers).map((pair) => pair.join(":")), ""].join("\n");
  const signature = createHmac("sha256", Buffer.from(AccountKey, "base64"))
    .update(`${signed}/${AccountName}${url.pathname}${parameters.join("")}`)
    .digest("base64");
  headers.Authorization = `SharedKey ${AccountName}:${signature}`;
  const { request } = url.protocol === "https:" ? https : http;
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, agent: false, rejectUnauthorized: false }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode));
    });
    sent.on("error", reject).end();
  });
}

const create = (connectionString, container) => send(connectionString, "PUT", `/${container}?restype=container`);
const exists = async (connectionString, container) => (await send(connectionString, "GET", `/${container}?restype=container`)) === 200;
const refuses = (connectionString) => assert.rejects(send(connectionString, "GET", "?comp=list"), { code: "ECONNREFUSED" });

test("a server starts, serves its connection string and stops in order", async () => {
  const window = await open();
  assert.equal(window.item.text, "$(circle-slash) Lazurite");
  assert.equal(await window.run("lazurite.isRunning"), false);
  assert.equal(await window.run("lazurite.start"), true);
  assert.match(window.item.text, /^\$\(database\) Lazurite \d+ \d+ \d+$/);
  assert.match(window.item.tooltip, /^Lazurite: running\nblob: http:\/\/127\.0\.0\.1:\d+\nqueue: .+\ntable: .+$/);
  assert.equal(await window.run("lazurite.isRunning"), true);
  const connection = await window.run("lazurite.copyConnectionString");
  assert.equal(window.clipboard, connection);
  assert.equal(await create(connection, "photos"), 201);
  assert.ok(fs.existsSync(path.join(window.folder, ".lazurite", "CURRENT")));
  await window.run("lazurite.stop");
  assert.equal(window.item.text, "$(circle-slash) Lazurite");
  assert.ok(window.lines.includes("Azurite Blob service successfully closed"));
  await refuses(connection);
  await window.run("lazurite.start");
  assert.ok(await exists(await window.run("lazurite.copyConnectionString"), "photos"));
  assert.deepEqual(window.shown.filter(({ kind }) => kind !== "information"), []);
});

test("starts at the same time share one server", async () => {
  const window = await open();
  assert.deepEqual(await Promise.all([1, 2, 3].map(() => window.run("lazurite.start"))), [true, true, true]);
  assert.equal(window.lines.filter((line) => line.includes("Blob service is starting")).length, 1);
});

test("the window opens with a server, if the setting asks for it", async () => {
  const window = await open({ settings: { "lazurite.startOnOpen": true } });
  await window.status("Lazurite: running");
});

test("closing the window stops the server in order", async () => {
  const window = await open();
  await window.run("lazurite.start");
  const connection = await window.run("lazurite.copyConnectionString");
  await window.close();
  await refuses(connection);
  assert.ok(window.lines.includes("Azurite Table service successfully closed"));
});

test("a restart keeps the data and takes the new settings", async () => {
  const window = await open();
  await window.run("lazurite.start");
  await create(await window.run("lazurite.copyConnectionString"), "photos");
  const ports = await freePorts();
  await window.change("lazurite.startOnOpen", true);
  assert.ok(!window.shown.some(({ text }) => text.includes("earlier settings")), "no flag has changed");
  window.answer("earlier settings", "Restart");
  await window.change("lazurite.blobPort", ports["lazurite.blobPort"]);
  const connection = await window.run("lazurite.copyConnectionString");
  assert.equal(new URL(/BlobEndpoint=([^;]+)/.exec(connection)[1]).port, String(ports["lazurite.blobPort"]));
  assert.ok(await exists(connection, "photos"));
});

test("a server that was started elsewhere is used and never stopped", async () => {
  const ports = await freePorts();
  await startElsewhere(ports);
  const window = await open({ settings: ports });
  await window.status("running, started elsewhere");
  assert.equal(window.item.text, `$(database) Lazurite ${Object.values(ports).join(" ")}`);
  assert.equal(await window.run("lazurite.start"), true);
  const connection = await window.run("lazurite.copyConnectionString");
  assert.equal(await create(connection, "photos"), 201);
  for (const id of ["lazurite.stop", "lazurite.restart"]) {
    await window.run(id);
    await window.message("started elsewhere: stop it there");
  }
  await window.close();
  assert.ok(await exists(connection, "photos"));
});

test("a window needs no program of its own for a server that was started elsewhere", async () => {
  const ports = await freePorts();
  const window = await open({ settings: { ...ports, "lazurite.program": "/nowhere/lazurite", "lazurite.location": "${absent}" } });
  assert.equal(await window.run("lazurite.isRunning"), false);
  await startElsewhere(ports);
  assert.equal(await window.run("lazurite.isRunning"), true);
  assert.match(window.item.tooltip, /stopped/);
  assert.equal(await window.run("lazurite.start"), true);
  assert.match(window.item.tooltip, /started elsewhere/);
  assert.deepEqual(window.shown, []);
});

test("the second window uses the server of the first, and hears of its end", async () => {
  const settings = await freePorts();
  const [first, second] = [await open({ settings }), await open({ settings })];
  await first.run("lazurite.start");
  await second.run("lazurite.start");
  assert.match(second.item.tooltip, /started elsewhere/);
  second.answer("has ended", "Start");
  await first.close();
  await second.message("has ended");
  await second.status("Lazurite: running\n");
});

test("two windows that start at the same time share one server", async () => {
  const settings = await freePorts();
  const windows = [await open({ settings }), await open({ settings })];
  assert.deepEqual(await Promise.all(windows.map((window) => window.run("lazurite.start"))), [true, true]);
  assert.deepEqual(windows.map(({ item }) => /started elsewhere/.test(item.tooltip)).sort(), [false, true]);
  assert.deepEqual(windows.flatMap(({ shown }) => shown), []);
});

test("a port of another program is named with its holder, and others can be chosen", async () => {
  const ports = await freePorts();
  const other = http.createServer((_, response) => response.end("{}")).listen(ports["lazurite.blobPort"], "127.0.0.1");
  await once(other, "listening");
  endings.push(() => once(other.close(), "close"));
  const window = await open({ settings: ports });
  assert.equal(await window.run("lazurite.start"), undefined);
  const { kind, text, choices } = await window.message("cannot listen on");
  assert.equal(kind, "error");
  assert.match(text, new RegExp(`127\\.0\\.0\\.1:${ports["lazurite.blobPort"]} for the Blob service: .*\\(process ${process.pid}\\)`));
  assert.deepEqual(choices, ["Choose Another Port", "Show Log"]);
  const [first] = Object.values(await freePorts());
  window.answer("cannot listen on", "Choose Another Port");
  window.answer("choose another port", String(first));
  await window.run("lazurite.start");
  await window.status("Lazurite: running\n");
  assert.equal(window.item.text, `$(database) Lazurite ${first} ${first + 1} ${first + 2}`);
});

test("clean says what is lost, and empties the store only then", async () => {
  const window = await open();
  await window.run("lazurite.start");
  const connection = await window.run("lazurite.copyConnectionString");
  await create(connection, "photos");
  assert.equal(await window.run("lazurite.clean"), false);
  const { kind, text, modal, detail } = await window.message("Empty the store");
  assert.deepEqual([kind, modal], ["warning", true]);
  assert.equal(text, `Empty the store, in ${path.join(window.folder, ".lazurite")}?`);
  assert.match(detail, /^It has 1 container, 0 queues, 0 tables\. They are deleted, .* Snapshots and forks stay\./);
  assert.ok(await exists(connection, "photos"));
  window.answer("Empty the store", "Empty");
  assert.equal(await window.run("lazurite.clean"), true);
  assert.ok(!(await exists(connection, "photos")));
});

test("clean empties a store whose server is stopped, and stops it again", async () => {
  const window = await open();
  await window.run("lazurite.start");
  await create(await window.run("lazurite.copyConnectionString"), "photos");
  await window.run("lazurite.stop");
  window.answer("Empty the store", "Empty");
  assert.equal(await window.run("lazurite.clean"), true);
  assert.match(window.item.tooltip, /stopped/);
  await window.run("lazurite.start");
  assert.ok(!(await exists(await window.run("lazurite.copyConnectionString"), "photos")));
});

test("the fork of a workspace is a store of its own", async () => {
  const window = await open();
  await window.run("lazurite.start");
  const store = await window.run("lazurite.copyConnectionString");
  await create(store, "photos");
  const fork = await window.run("lazurite.forkForWorkspace");
  assert.equal(window.clipboard, fork);
  assert.match(fork, /AccountName=devstoreaccount1--folder-[0-9a-f]{6};/);
  assert.ok(await exists(fork, "photos"));
  await create(fork, "films");
  assert.ok(!(await exists(store, "films")));
  assert.deepEqual((await window.message("has a new fork")).choices, []);
  // The second time it is the same fork, until the user wants another.
  window.answer("has the fork", "Fork Anew");
  assert.equal(await window.run("lazurite.forkForWorkspace"), fork);
  await window.message("begins anew");
  assert.ok(await exists(fork, "photos"));
  assert.ok(!(await exists(fork, "films")));
});

test("commands that need a server offer to start one", async () => {
  const window = await open();
  assert.equal(await window.run("lazurite.copyConnectionString"), undefined);
  const { choices } = await window.message("does not run");
  assert.deepEqual(choices, ["Start"]);
  window.answer("does not run", "Start");
  assert.match(await window.run("lazurite.copyConnectionString"), /AccountName=devstoreaccount1;/);
});

test("the console opens in a browser, because it refuses frames", async () => {
  const window = await open();
  await window.run("lazurite.start");
  await window.run("lazurite.openConsole");
  const [[browser, page]] = window.opened;
  assert.equal(browser, "external");
  const { headers } = await fetch(page);
  assert.equal(headers.get("x-frame-options"), "DENY");
  assert.match(headers.get("content-security-policy"), /frame-ancestors 'none'/);
  // The browser of newer editors has pages, not frames.
  window.commands.set("workbench.action.browser.open");
  await window.run("lazurite.openConsole");
  assert.deepEqual(window.opened[1], ["workbench.action.browser.open", page]);
});

test("the doctor examines the server in a terminal", async () => {
  const window = await open();
  await window.run("lazurite.start");
  await window.run("lazurite.doctor");
  const [{ execution }] = window.tasks;
  const { status, stdout } = spawnSync(execution.program, execution.args, { ...execution.options, encoding: "utf8" });
  assert.match(stdout, /nothing found: all services answer/);
  assert.equal(status, 0);
});

test("the status item leads to the actions of its state", async () => {
  const window = await open();
  assert.equal(window.item.command, "lazurite.showActions");
  window.answer("Lazurite: stopped", ([first]) => first);
  await window.run("lazurite.showActions");
  assert.match(window.item.tooltip, /running/);
  window.answer("Lazurite: running", (items) => items.find(({ label }) => label === "Show the Log"));
  await window.run("lazurite.showActions");
  assert.deepEqual(window.opened, [["log"]]);
});

/** The command line of these settings, without the location and what every one has. */
function argumentsOf(settings, options) {
  return open({ settings, ...options }).then(({ launch }) => {
    const { args, env } = launch();
    const ports = ["--blobPort=0", "--queuePort=0", "--tablePort=0"];
    const always = ["--location=", "--durability=process", "--host=127.0.0.1", ...ports, "--silent"];
    return [...args.filter((word) => !always.some((one) => word.startsWith(one))), ...Object.entries(env).map((pair) => pair.join("="))];
  });
}

test("a setting becomes the flag of its name", async () => {
  process.env.LAZURITE_TEST_VARIABLE = "secret";
  const folder = path.join(scratch, "folder");
  for (const [name, value, expected] of [
    ["durability", "disk", ["--durability=disk"]],
    ["host", "::1", ["--host=::1"]],
    ["blobPort", 20000, ["--blobPort=20000"]],
    ["queuePort", 20001, ["--queuePort=20001"]],
    ["tablePort", 20002, ["--tablePort=20002"]],
    ["https", true, ["--https"]],
    ["cert", "server.pem", [`--cert=${folder}/server.pem`]],
    ["key", "${workspaceFolder}/server.key", [`--key=${folder}/server.key`]],
    ["pwd", "${env:LAZURITE_TEST_VARIABLE}", ["LAZURITE_PWD=secret"]],
    ["oauth", "basic", ["--oauth=basic"]],
    ["loose", true, ["--loose"]],
    ["skipApiVersionCheck", true, ["--skipApiVersionCheck"]],
    ["debug", true, ["--debug=-"]],
    ["args", ["--containers=${env:LAZURITE_TEST_VARIABLE}"], ["--containers=secret"]],
    ["startOnOpen", false, []],
    ["program", PROGRAM, []],
    ["inMemoryPersistence", true, ["--inMemoryPersistence"]],
  ]) {
    assert.deepEqual(await argumentsOf({ [`lazurite.${name}`]: value }), expected, name);
  }
  const window = await open({ settings: { "lazurite.silent": false, "lazurite.inMemoryPersistence": true } });
  const { args } = window.launch();
  for (const flag of ["--silent", "--location", "--durability"]) assert.ok(!args.some((word) => word.startsWith(flag)), flag);
});

test("the program knows every flag", async () => {
  const switches = ["inMemoryPersistence", "https", "loose", "skipApiVersionCheck", "debug"].map((name) => [`lazurite.${name}`, true]);
  const values = { "lazurite.oauth": "basic", "lazurite.cert": "cert", "lazurite.key": "key", "lazurite.answerToAzurite": true };
  const azurite = { "azurite.extentMemoryLimit": 64, "azurite.disableTelemetry": true, "azurite.disableProductStyleUrl": true };
  for (const service of ["blob", "queue", "table"]) {
    Object.assign(azurite, { [`azurite.${service}Host`]: "localhost", [`azurite.${service}KeepAliveTimeout`]: 5 });
  }
  const window = await open({ settings: { ...Object.fromEntries(switches), ...values, ...azurite } });
  const { stdout } = spawnSync(PROGRAM, ["--help"], { encoding: "utf8" });
  const flags = window.launch().args.map((word) => word.split("=")[0]);
  assert.equal(flags.length, 22);
  for (const flag of flags) assert.match(stdout, new RegExp(`${flag}\\b`));
});

test("the data directory is made, wherever variables lead", async () => {
  process.env.LAZURITE_TEST_DIRECTORY = path.join(scratch, "of-the-environment");
  const folder = path.join(scratch, "folder");
  for (const [location, expected] of [
    ["", path.join(folder, ".lazurite")],
    ["data/inner", path.join(folder, "data/inner")],
    ["${workspaceFolder}/../beside", path.join(scratch, "beside")],
    ["${env:LAZURITE_TEST_DIRECTORY}/deep/er", path.join(scratch, "of-the-environment/deep/er")],
  ]) {
    const window = await open({ settings: { "lazurite.location": location } });
    assert.equal(await window.run("lazurite.start"), true);
    assert.ok(fs.existsSync(path.join(expected, "CURRENT")), location);
    await window.close();
  }
  const location = "${userHome}/store";
  const { launch } = await open({ settings: { "lazurite.location": location } });
  assert.equal(launch().args[0], `--location=${path.join(os.homedir(), "store")}`);
  const { storage, launch: without } = await open({ folder: undefined });
  assert.equal(without().args[0], `--location=${storage}`);
});

test("a variable that has no value is named", async () => {
  for (const [location, folder, message] of [
    ["${workspaceFolder}/data", null, "The setting location has ${workspaceFolder}, but no folder is open."],
    ["${env:LAZURITE_TEST_ABSENT}", undefined, "The setting location has ${env:LAZURITE_TEST_ABSENT}, which is not set"],
    ["${workspaceRoot}", undefined, "The setting location has ${workspaceRoot}, which is no variable. There are ${workspaceFolder}"],
  ]) {
    const window = await open({ settings: { "lazurite.location": location }, ...(folder === null && { folder: undefined }) });
    await window.run("lazurite.start");
    const { kind, choices } = await window.message(message);
    assert.equal(kind, "error");
    assert.deepEqual(choices, ["Show Log", "Open Settings"]);
  }
});

test("a missing program is named, with the way to the setting", async () => {
  const window = await open({ settings: { "lazurite.program": "/nowhere/lazurite" } });
  window.answer("/nowhere/lazurite", "Open Settings");
  await window.run("lazurite.start");
  await window.message("lazurite.program names /nowhere/lazurite, which is not a file.");
  await window.until(() => window.opened[0]);
  assert.deepEqual(window.opened, [["workbench.action.openSettings", "lazurite.program"]]);
  await window.run("lazurite.doctor");
  assert.deepEqual(window.tasks, []);
});

const needsNone = { skip: PROGRAM === PACKED && "the package has a program" };

test("without a program anywhere, the message says how to get one", needsNone, async () => {
  const { PATH, LAZURITE_PROGRAM } = process.env;
  endings.push(() => Object.assign(process.env, { PATH }, LAZURITE_PROGRAM && { LAZURITE_PROGRAM }));
  process.env.PATH = scratch;
  delete process.env.LAZURITE_PROGRAM;
  const window = await open({ settings: { "lazurite.program": "" } });
  await window.run("lazurite.start");
  await window.message("Lazurite has no program for this machine");
  fs.symlinkSync(PROGRAM, path.join(scratch, "lazurite"));
  assert.equal(await window.run("lazurite.start"), true);
});

test("a program that does not serve is named with what it said", async () => {
  const text = script("text", "");
  fs.chmodSync(text, 0o644);
  for (const [program, message] of [
    [script("silent", "exit 3"), /did not start: .*silent ended with status 3\.$/],
    [script("speaks", "echo other >&2; echo 'lazurite: no disk' >&2; exit 1"), /^Lazurite did not start: no disk$/],
    [script("killed", "kill -9 $$"), /killed ended with SIGKILL\.$/],
    [text, /text cannot be started: .*EACCES/],
  ]) {
    const window = await open({ settings: { "lazurite.program": program } });
    assert.equal(await window.run("lazurite.start"), undefined);
    assert.match((await window.message("did not start")).text, message);
    assert.match(window.item.tooltip, /stopped/);
  }
});

test("arguments that the program refuses are shown in its words", async () => {
  const window = await open({ settings: { "lazurite.args": ["--nonsense"] } });
  await window.run("lazurite.start");
  assert.match((await window.message("did not start")).text, /unexpected argument '--nonsense'/);
});

test("a server that dies is reported, and can be started again", async () => {
  const window = await open();
  await window.run("lazurite.start");
  window.answer("has ended", "Start");
  process.kill(Number(fs.readFileSync(path.join(window.folder, ".lazurite", "LOCK"), "utf8")), "SIGKILL");
  const { text } = await window.message("has ended");
  assert.match(text, /SIGKILL/);
  await window.status("Lazurite: running\n");
});

test("closing the window while the server starts ends the program", async () => {
  const pid = path.join(scratch, "pid");
  const window = await open({ settings: { "lazurite.program": script("slow", `echo $$ > ${pid}; echo begun; exec cat`) } });
  const started = window.run("lazurite.start");
  await window.until(() => window.lines[0]);
  await window.close();
  assert.equal(await started, false);
  assert.throws(() => process.kill(Number(fs.readFileSync(pid, "utf8")), 0), { code: "ESRCH" });
  assert.deepEqual(window.shown, []);
});

test("a start can be stopped and tried again", async () => {
  const window = await open({ settings: { "lazurite.program": script("slow", "echo begun; exec cat") } });
  const started = window.run("lazurite.start");
  await window.until(() => window.lines[0]);
  assert.match(window.item.tooltip, /starting/);
  window.settings["lazurite.program"] = PROGRAM;
  assert.equal(await window.run("lazurite.restart"), true);
  assert.equal(await started, false);
  assert.match(window.item.tooltip, /running/);
  // Before the program runs.
  await window.run("lazurite.stop");
  const [again] = await Promise.all([window.run("lazurite.start"), window.run("lazurite.stop")]);
  assert.equal(again, false);
  assert.match(window.item.tooltip, /stopped/);
});

test("a program that ignores the end is killed", async () => {
  const window = await open({ settings: { "lazurite.program": script("deaf", "trap '' TERM; echo begun; exec tail -f /dev/null") } });
  window.run("lazurite.start");
  await window.until(() => window.lines[0]);
  await window.run("lazurite.stop");
  assert.match(window.item.tooltip, /stopped/);
});

test("a server with HTTPS serves its connection string", async () => {
  // Where the authority is made.
  process.env.XDG_CONFIG_HOME = path.join(scratch, "configuration");
  const window = await open({ settings: { "lazurite.https": true } });
  await window.run("lazurite.start");
  const connection = await window.run("lazurite.copyConnectionString");
  assert.match(connection, /^DefaultEndpointsProtocol=https;.*BlobEndpoint=https:\/\/localhost:\d+\/devstoreaccount1;/);
  assert.equal(await create(connection, "photos"), 201);
});

test("accounts with keys of their own have no connection string to copy", async () => {
  const window = await open({ settings: { "lazurite.args": ["--accounts=own:c2VjcmV0LXNlY3JldC1zZWNyZXQ="] } });
  await window.run("lazurite.start");
  await window.run("lazurite.copyConnectionString");
  await window.message("have keys of their own");
});

test("the commands of Azurite's extension exist only if the setting asks for them", async () => {
  const window = await open();
  const registered = () => [...window.commands.keys()].filter((id) => id.startsWith("azurite."));
  assert.deepEqual(registered(), []);
  await window.change("lazurite.answerToAzurite", true);
  assert.deepEqual(registered().sort(), IDS_OF_AZURITE.toSorted());
  await window.change("lazurite.answerToAzurite", false);
  assert.deepEqual(registered(), []);
});

test("beside Azurite's extension, its commands are left to it", async () => {
  const settings = { "lazurite.answerToAzurite": true };
  const window = await open({ settings, extensions: ["Azurite.azurite"] });
  const { kind } = await window.message("beside the extension Azurite (Azurite.azurite): disable that one");
  assert.equal(kind, "error");
  assert.ok(!window.commands.has("azurite.start"));
  // Another extension that has one of the ids.
  const other = await open();
  other.commands.set("azurite.clean_table", () => {});
  await other.change("lazurite.answerToAzurite", true);
  await other.message("beside another extension with the same commands: disable that one");
  assert.deepEqual([...other.commands.keys()].filter((id) => id.startsWith("azurite.")), ["azurite.clean_table"]);
});

test("the commands of Azurite's extension start, empty and stop the server", async () => {
  const window = await open({ settings: { "lazurite.answerToAzurite": true } });
  await window.run("azurite.start_blob");
  await window.run("azurite.start_queue");
  const connection = await window.run("lazurite.copyConnectionString");
  await create(connection, "photos");
  await window.run("azurite.clean_queue");
  assert.ok(await exists(connection, "photos"));
  await window.run("azurite.clean_blob");
  assert.ok(!(await exists(connection, "photos")));
  await create(connection, "photos");
  await window.run("azurite.clean");
  assert.ok(!(await exists(connection, "photos")));
  // One program serves all: it ends with the last service.
  await window.run("azurite.close_queue");
  assert.equal(await window.run("lazurite.isRunning"), true);
  await window.run("azurite.close_blob");
  await refuses(connection);
  await window.run("azurite.start");
  await window.run("azurite.close");
  assert.match(window.item.tooltip, /stopped/);
});

test("a store of a server that was started elsewhere is not emptied without a question", async () => {
  const ports = await freePorts();
  await startElsewhere(ports, "--containers=photos");
  const window = await open({ settings: { ...ports, "lazurite.answerToAzurite": true } });
  await window.run("azurite.clean");
  await window.message("Empty the store of the Lazurite that was started elsewhere, in memory?");
  assert.ok(await exists(await window.run("lazurite.copyConnectionString"), "photos"));
});

test("the settings of Azurite's extension count where one of Lazurite is not set", async () => {
  const azurite = {
    ...{ "azurite.location": "data", "azurite.blobHost": "localhost", "azurite.loose": true, "azurite.debug": true },
    ...{ "azurite.cert": "", "azurite.skipApiVersionCheck": true, "azurite.queueKeepAliveTimeout": 9, "azurite.silent": false },
  };
  assert.deepEqual(await argumentsOf(azurite), []);
  const answering = { ...azurite, "lazurite.answerToAzurite": true };
  const expected = ["--loose", "--skipApiVersionCheck", "--debug=-", "--blobHost=localhost", "--queueKeepAliveTimeout=9"];
  assert.deepEqual(await argumentsOf(answering), expected);
  const { launch } = await open({ settings: { ...answering, "lazurite.loose": false, "lazurite.location": "own" } });
  assert.ok(!launch().args.includes("--loose"));
  assert.ok(!launch().args.includes("--silent"));
  assert.equal(launch().args[0], `--location=${path.join(scratch, "folder/own")}`);
});

test("without a location, the data of Azurite is where its extension keeps it", async () => {
  const { folder, launch } = await open({ settings: { "lazurite.answerToAzurite": true } });
  assert.equal(launch().args[0], `--location=${folder}`);
});

test("every declared command is registered, and every other one is for other extensions", async () => {
  const window = await open();
  const declared = manifest.contributes.commands.map(({ command }) => command);
  assert.deepEqual([...window.commands.keys()].sort(), [...declared, "lazurite.isRunning"].sort());
  const events = manifest.activationEvents.filter((event) => event !== "onStartupFinished").map((event) => event.replace("onCommand:", ""));
  assert.deepEqual(events.sort(), [...IDS_OF_AZURITE, "lazurite.isRunning"].sort());
});
