"use strict";
// A stand-in for the editor: as much of the module `vscode` as the extension uses. Each window has settings of its own, and loads the
// extension anew.

const { EventEmitter, once } = require("node:events");
const fs = require("node:fs");
const Module = require("node:module");
const os = require("node:os");
const path = require("node:path");

// The extension under test: this one, or an unpacked package.
const EXTENSION = path.resolve(process.env.EXTENSION ?? path.join(__dirname, ".."));
const manifest = JSON.parse(fs.readFileSync(path.join(EXTENSION, "package.json"), "utf8"));

// Not a measure of speed: an event that has not come by then does not come at all.
const PATIENCE_MILLISECONDS = 60_000;

const load = Module._load;
let current;
Module._load = (request, ...rest) => (request === "vscode" ? current : load(request, ...rest));

class Disposable {
  constructor(dispose) {
    this.dispose = dispose;
  }

  static from(...all) {
    return new Disposable(() => all.forEach((one) => one.dispose()));
  }
}

/** A window of the editor. `settings` has whole names. */
class Window {
  commands = new Map();
  opened = [];
  shown = [];
  tasks = [];
  lines = [];
  clipboard = "";
  #events = new EventEmitter();
  #answers = new Map();
  #subscriptions = [];
  #context;
  #settings;

  constructor({ settings = {}, folder, extensions = [] } = {}) {
    this.settings = settings;
    this.folder = folder;
    this.extensions = extensions;
    this.storage = fs.mkdtempSync(path.join(os.tmpdir(), "lazurite-window-"));
    this.api = this.#api();
    this.#context = {
      subscriptions: this.#subscriptions,
      extension: { id: `${manifest.publisher}.${manifest.name}`, packageJSON: manifest },
      globalStorageUri: { fsPath: this.storage },
      asAbsolutePath: (name) => path.join(EXTENSION, name),
    };
  }

  async open() {
    current = this.api;
    const main = path.join(EXTENSION, manifest.main);
    for (const file of Object.keys(require.cache)) if (file.startsWith(path.dirname(main))) delete require.cache[file];
    this.extension = require(main);
    this.#settings = require(path.join(path.dirname(main), "settings.js"));
    await this.extension.activate(this.#context);
    return this;
  }

  async close() {
    await this.extension?.deactivate();
    this.#subscriptions.forEach((one) => one.dispose());
    fs.rmSync(this.storage, { recursive: true, force: true });
  }

  /** Runs a command as a user or another extension does. */
  async run(id) {
    const command = this.commands.get(id);
    if (command === undefined) throw new Error(`command '${id}' not found`);
    return command();
  }

  /** How the extension would start the program. */
  launch = () => this.#settings.launch(this.#context);

  /** Answers the next message, question or picker whose text contains `part`. */
  answer(part, choice) {
    this.#answers.set(part, choice);
  }

  /** Waits until `find` finds something. */
  async until(find) {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(new Error(`${find} found nothing in ${JSON.stringify(this.shown)}`)), PATIENCE_MILLISECONDS);
    try {
      for (;;) {
        const found = find();
        if (found !== undefined) return found;
        await once(this.#events, "changed", late);
      }
    } catch (error) {
      throw error.cause ?? error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** The message that contains `part`. */
  message(part) {
    return this.until(() => this.shown.find(({ text }) => text.includes(part)));
  }

  /** The status item or its tooltip, once it contains `part`. */
  status(part) {
    return this.until(() => [this.item.text, this.item.tooltip].find((text) => text?.includes(part)));
  }

  async change(name, value) {
    this.settings[name] = value;
    const affected = { affectsConfiguration: (section) => name === section || name.startsWith(`${section}.`) };
    await Promise.all(this.#events.listeners("configuration").map((listener) => listener(affected)));
  }

  #changed() {
    this.#events.emit("changed");
  }

  async #show(kind, text, choices, options) {
    const [part, choice] = [...this.#answers].find(([part]) => text.includes(part)) ?? [];
    this.#answers.delete(part);
    this.shown.push({ kind, text, choices, ...options });
    this.#changed();
    return typeof choice === "function" ? choice(choices) : choice;
  }

  #configuration(section) {
    const whole = (name) => `${section}.${name}`;
    const property = (name) => manifest.contributes.configuration.properties[whole(name)];
    return {
      get: (name, fallback) => this.settings[whole(name)] ?? property(name)?.default ?? fallback,
      inspect: (name) => ({ key: whole(name), defaultValue: property(name)?.default, workspaceValue: this.settings[whole(name)] }),
      update: (name, value) => {
        if (property(name) === undefined) throw new Error(`${whole(name)} is not a registered configuration`);
        return this.change(whole(name), value);
      },
    };
  }

  #api() {
    const message = (kind) => (text, ...rest) => {
      const [options, choices] = typeof rest[0] === "object" ? [rest[0], rest.slice(1)] : [{}, rest];
      return this.#show(kind, text, choices, options);
    };
    return {
      Disposable,
      StatusBarAlignment: { Left: 1, Right: 2 },
      ConfigurationTarget: { Global: 1, Workspace: 2, WorkspaceFolder: 3 },
      TaskScope: { Global: 1, Workspace: 2 },
      TaskRevealKind: { Always: 1 },
      Uri: { parse: (text) => ({ toString: () => text }) },
      ProcessExecution: class {
        constructor(program, args, options) {
          Object.assign(this, { program, args, options });
        }
      },
      Task: class {
        constructor(definition, scope, name, source, execution) {
          Object.assign(this, { definition, scope, name, source, execution });
        }
      },
      commands: {
        registerCommand: (id, run) => {
          if (this.commands.has(id)) throw new Error(`command '${id}' already exists`);
          this.commands.set(id, run);
          return new Disposable(() => this.commands.delete(id));
        },
        getCommands: async () => [...this.commands.keys()],
        executeCommand: async (id, ...args) => {
          if (!id.startsWith("workbench.")) return this.run(id);
          this.opened.push([id, ...args]);
          this.#changed();
        },
      },
      env: {
        asExternalUri: async (uri) => uri,
        openExternal: async (uri) => this.opened.push(["external", uri.toString()]),
        clipboard: { writeText: async (text) => (this.clipboard = text) },
      },
      extensions: { getExtension: (id) => (this.extensions.includes(id) ? { id } : undefined) },
      tasks: { executeTask: async (task) => this.tasks.push(task) },
      window: {
        createOutputChannel: () => ({
          appendLine: (line) => {
            this.lines.push(line);
            this.#changed();
          },
          show: () => this.opened.push(["log"]),
          dispose: () => {},
        }),
        createStatusBarItem: () => {
          const set = (item, name, value) => {
            item[name] = value;
            this.#changed();
            return true;
          };
          this.item = new Proxy({ show() {}, dispose() {} }, { set });
          return this.item;
        },
        showErrorMessage: message("error"),
        showWarningMessage: message("warning"),
        showInformationMessage: message("information"),
        showQuickPick: (items, { title }) => this.#show("pick", title, items),
        showInputBox: ({ title }) => this.#show("input", title, []),
      },
      workspace: {
        workspaceFolders: this.folder === undefined ? undefined : [{ uri: { fsPath: this.folder } }],
        getConfiguration: (section) => this.#configuration(section),
        onDidChangeConfiguration: (listener) => {
          this.#events.on("configuration", listener);
          return new Disposable(() => this.#events.off("configuration", listener));
        },
      },
    };
  }
}

module.exports = { EXTENSION, manifest, Window };
