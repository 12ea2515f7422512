// The commands, the status item and the messages. server.ts has the server, settings.ts its command line.

import { createHash } from "node:crypto";
import * as path from "node:path";
import { isDeepStrictEqual } from "node:util";
import * as vscode from "vscode";
import * as azurite from "./azurite";
import { Cancelled, isLazurite, type Launch, Refusal, Server, StartError, type State, type Status } from "./server";
import { answersToAzurite, blobService, folder, launch, MissingProgram, programPath, startsOnOpen } from "./settings";

const LOOKS: Record<State, { icon: string; text: string }> = {
  stopped: { icon: "circle-slash", text: "stopped" },
  starting: { icon: "sync~spin", text: "starting" },
  running: { icon: "database", text: "running" },
  adopted: { icon: "database", text: "running, started elsewhere" },
  stopping: { icon: "sync~spin", text: "stopping" },
};
const STARTED_ELSEWHERE = "This Lazurite was started elsewhere: stop it there.";
const FORK_NAME_LENGTH_MAX = 40;

let extension: Extension | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  extension = new Extension(context);
  await extension.open();
}

/** The editor waits for it before it ends. */
export async function deactivate(): Promise<void> {
  await extension?.server.dispose();
}

class Extension {
  readonly server: Server;
  readonly #channel = vscode.window.createOutputChannel("Lazurite");
  readonly #item = vscode.window.createStatusBarItem("lazurite", vscode.StatusBarAlignment.Left);
  /** The settings of the last start. */
  #launched: Launch | undefined;
  #answer: Promise<vscode.Disposable | undefined> = Promise.resolve(undefined);

  constructor(private readonly context: vscode.ExtensionContext) {
    this.server = new Server(
      (line) => this.#channel.appendLine(line),
      () => this.#show(),
      (sentence) => void this.#offer(sentence, { Start: () => this.start(), "Show Log": () => this.#channel.show() }),
    );
    const commands: [string, () => unknown][] = [
      ["lazurite.start", () => this.start()],
      ["lazurite.stop", () => this.stop()],
      ["lazurite.restart", () => this.restart()],
      ["lazurite.clean", () => this.clean(true)],
      ["lazurite.openConsole", () => this.openConsole()],
      ["lazurite.copyConnectionString", () => this.copyConnectionString()],
      ["lazurite.forkForWorkspace", () => this.forkForWorkspace()],
      ["lazurite.doctor", () => this.doctor()],
      ["lazurite.isRunning", () => this.isRunning()],
      ["lazurite.showLog", () => this.#channel.show()],
      ["lazurite.showActions", () => this.showActions()],
    ];
    for (const [id, run] of commands) context.subscriptions.push(vscode.commands.registerCommand(id, () => this.#reported(run)));
    context.subscriptions.push(
      this.#channel,
      this.#item,
      vscode.workspace.onDidChangeConfiguration((change) => this.#reported(() => this.#settingsChanged(change))),
      { dispose: () => void this.#answer.then((commands) => commands?.dispose()) },
    );
    this.#item.name = "Lazurite";
    this.#item.command = "lazurite.showActions";
    this.#show();
    this.#item.show();
  }

  async open(): Promise<void> {
    await this.#answerToAzurite();
    // Not awaited: the import of a large directory must not hold up the editor.
    if (startsOnOpen()) void this.#reported(() => this.start());
    else void this.server.adopt(blobService());
  }

  /** True once a server runs. */
  async start(): Promise<boolean> {
    try {
      await this.server.start(blobService(), () => (this.#launched = launch(this.context)));
    } catch (error) {
      if (!(error instanceof Cancelled)) throw error;
    }
    return this.server.isReady;
  }

  async stop(): Promise<void> {
    if (this.server.state === "adopted") throw new Error(STARTED_ELSEWHERE);
    await this.server.stop();
  }

  async restart(): Promise<boolean> {
    await this.stop();
    return this.start();
  }

  /** Empties the store, or one service of it. A server that was started elsewhere is never emptied without a question. */
  async clean(asks: boolean, service?: azurite.Service): Promise<boolean> {
    const wasReady = this.server.isReady;
    if (!(await this.start())) return false;
    try {
      if ((asks || this.server.state === "adopted") && !(await this.#confirmsLoss(service))) return false;
      await this.server.ask("POST", "state/reset", service && { account: (await this.server.status()).accounts[0]?.name, service });
    } finally {
      if (!wasReady) await this.server.stop();
    }
    if (asks) void vscode.window.showInformationMessage("The store is empty.");
    return true;
  }

  async #confirmsLoss(service?: azurite.Service): Promise<boolean> {
    const { accounts, directory } = await this.server.status();
    const place = directory === null ? "in memory" : `in ${directory}`;
    const which = this.server.state === "adopted" ? "the store of the Lazurite that was started elsewhere" : "the store";
    const question = service === undefined ? `Empty ${which}, ${place}?` : `Empty the ${service} service of ${which}, ${place}?`;
    const detail = `${contents(accounts, service)} Snapshots and forks stay. This cannot be undone.`;
    return (await vscode.window.showWarningMessage(question, { modal: true, detail }, "Empty")) === "Empty";
  }

  /** Opens the console in the editor's browser, if it has one, else in the one of the system. */
  async openConsole(): Promise<void> {
    if (!(await this.#needsServer())) return;
    const uri = await vscode.env.asExternalUri(vscode.Uri.parse(this.server.page("").href));
    // Webviews and the simple browser are frames, which the console refuses. This browser has pages of its own.
    const inEditor = "workbench.action.browser.open";
    if ((await vscode.commands.getCommands(true)).includes(inEditor)) await vscode.commands.executeCommand(inEditor, uri.toString(true));
    else await vscode.env.openExternal(uri);
  }

  async copyConnectionString(): Promise<string | undefined> {
    if (!(await this.#needsServer())) return undefined;
    const text = await this.server.connectionString();
    await vscode.env.clipboard.writeText(text);
    void vscode.window.showInformationMessage("The connection string of Lazurite is in the clipboard.");
    return text;
  }

  /** Makes a fork of the store, whose name belongs to the workspace, and copies its connection string. */
  async forkForWorkspace(): Promise<string | undefined> {
    if (!(await this.#needsServer())) return undefined;
    const name = forkName(folder());
    const isNew = await this.#makeFork(name);
    const text = await this.server.connectionString(name);
    await vscode.env.clipboard.writeText(text);
    const origin = isNew ? `The workspace has a new fork, ${name}.` : `The workspace has the fork ${name} already.`;
    const message =
      `${origin} Its connection string is in the clipboard. ` +
      "It ends with the server, and after 10 minutes without requests (--fork-lifetime).";
    const anew = "Fork Anew";
    void vscode.window.showInformationMessage(message, ...(isNew ? [] : [anew])).then((chosen) => {
      if (chosen !== anew) return;
      return this.#reported(async () => {
        await this.server.ask("DELETE", `state/forks/${name}`);
        await this.#makeFork(name);
        void vscode.window.showInformationMessage(`The fork ${name} begins anew.`);
      });
    });
    return text;
  }

  /** False if there is such a fork. */
  async #makeFork(name: string): Promise<boolean> {
    try {
      await this.server.ask("POST", "state/forks", { name });
      return true;
    } catch (error) {
      if (error instanceof Refusal && error.code === "ForkAlreadyExists") return false;
      throw error;
    }
  }

  /** Runs `lazurite doctor` in a terminal that stays open. */
  async doctor(): Promise<void> {
    const program = programPath(this.context);
    // Without a server, the doctor examines what clients would use.
    const env = this.server.isReady ? { AZURE_STORAGE_CONNECTION_STRING: await this.server.connectionString() } : undefined;
    const scope = vscode.workspace.workspaceFolders?.[0] ?? vscode.TaskScope.Global;
    const execution = new vscode.ProcessExecution(program, ["doctor"], { env });
    const task = new vscode.Task({ type: "lazurite" }, scope, "doctor", "Lazurite", execution);
    task.presentationOptions = { reveal: vscode.TaskRevealKind.Always, clear: true };
    await vscode.tasks.executeTask(task);
  }

  /** True if a Lazurite serves the ports of the settings, wherever it was started. */
  async isRunning(): Promise<boolean> {
    const service = blobService();
    return this.server.isReady || (service !== undefined && isLazurite(service));
  }

  async showActions(): Promise<void> {
    const { state } = this.server;
    const ids = {
      stopped: ["start", "clean", "doctor", "showLog"],
      starting: ["stop", "showLog"],
      running: ["openConsole", "copyConnectionString", "forkForWorkspace", "clean", "restart", "stop", "doctor", "showLog"],
      adopted: ["openConsole", "copyConnectionString", "forkForWorkspace", "clean", "doctor"],
      stopping: ["showLog"],
    }[state];
    const declared: { command: string; title: string }[] = this.context.extension.packageJSON.contributes.commands;
    const items = ids.map((id) => {
      const command = `lazurite.${id}`;
      return { command, label: declared.find((one) => one.command === command)?.title ?? id };
    });
    const settings = { command: "workbench.action.openSettings", label: "Settings" };
    const chosen = await vscode.window.showQuickPick([...items, settings], { title: `Lazurite: ${LOOKS[state].text}` });
    if (chosen === undefined) return;
    await vscode.commands.executeCommand(chosen.command, ...(chosen === settings ? [`@ext:${this.context.extension.id}`] : []));
  }

  /** True if a server runs, perhaps because the user has agreed to start it. */
  async #needsServer(): Promise<boolean> {
    if (this.server.isReady) return true;
    const start = "Start";
    return (await vscode.window.showWarningMessage("Lazurite does not run.", start)) === start && this.start();
  }

  /** Runs a command. An error becomes a message with a way out. */
  async #reported<T>(run: () => T): Promise<Awaited<T> | undefined> {
    try {
      return await run();
    } catch (error) {
      void this.#offer(error instanceof Error ? error.message : String(error), this.#waysOut(error));
      return undefined;
    }
  }

  #waysOut(error: unknown): Record<string, () => unknown> {
    const settings = (name: string) => vscode.commands.executeCommand("workbench.action.openSettings", name);
    const log = () => this.#channel.show();
    if (error instanceof MissingProgram) return { "Open Settings": () => settings("lazurite.program") };
    if (error instanceof StartError && error.isConflict) return { "Choose Another Port": () => this.#choosePort(), "Show Log": log };
    return { "Show Log": log, "Open Settings": () => settings(`@ext:${this.context.extension.id}`) };
  }

  async #offer(sentence: string, actions: Record<string, () => unknown>): Promise<void> {
    const chosen = await vscode.window.showErrorMessage(sentence, ...Object.keys(actions));
    const run = chosen === undefined ? undefined : actions[chosen];
    if (run !== undefined) await this.#reported(run);
  }

  /** Asks for three ports, writes them to the settings and starts. */
  async #choosePort(): Promise<void> {
    const text = await vscode.window.showInputBox({
      title: "Lazurite: choose another port",
      prompt: "The first of three consecutive ports, for Blob, Queue and Table",
      value: "20000",
      validateInput: (text) => (/^\d+$/.test(text) && Number(text) >= 1 && Number(text) <= 65533 ? undefined : "A number from 1 to 65533"),
    });
    if (text === undefined) return;
    const target = folder() === undefined ? vscode.ConfigurationTarget.Global : vscode.ConfigurationTarget.Workspace;
    for (const [index, name] of ["blobPort", "queuePort", "tablePort"].entries()) {
      await vscode.workspace.getConfiguration("lazurite").update(name, Number(text) + index, target);
    }
    await this.start();
  }

  #answerToAzurite(): Promise<unknown> {
    const earlier = this.#answer;
    this.#answer = earlier.then(async (commands) => {
      if (!answersToAzurite()) return void commands?.dispose();
      if (commands !== undefined) return commands;
      const reported = (run: () => Promise<unknown>) => this.#reported(run);
      const actions: azurite.Actions = {
        start: () => reported(() => this.start()),
        stop: () => reported(() => this.stop()),
        clean: (service) => reported(() => this.clean(false, service)),
      };
      return this.#reported(() => azurite.register(actions));
    });
    return this.#answer;
  }

  async #settingsChanged(change: vscode.ConfigurationChangeEvent): Promise<void> {
    if (change.affectsConfiguration("lazurite.answerToAzurite")) await this.#answerToAzurite();
    if (!change.affectsConfiguration("lazurite") && !change.affectsConfiguration("azurite")) return;
    if (this.server.state !== "running" || isDeepStrictEqual(launch(this.context), this.#launched)) return;
    const restart = "Restart";
    const chosen = await vscode.window.showInformationMessage("Lazurite still runs with its earlier settings.", restart);
    if (chosen === restart) await this.restart();
  }

  #show(): void {
    const { icon, text } = LOOKS[this.server.state];
    const urls = this.server.isReady ? this.server.urls : [];
    this.#item.text = [`$(${icon}) Lazurite`, ...urls.map(([, url]) => url.port)].join(" ");
    this.#item.tooltip = [`Lazurite: ${text}`, ...urls.map(([service, url]) => `${service}: ${url.origin}`)].join("\n");
  }
}

/** What a reset deletes. Accounts with keys of their own are not shown. */
function contents(accounts: Status["accounts"], service?: azurite.Service): string {
  if (accounts.length === 0) return "Everything in it is deleted.";
  const kinds = [
    ["blob", "container", "containers"],
    ["queue", "queue", "queues"],
    ["table", "table", "tables"],
  ] as const;
  const counts = kinds
    .filter(([kind]) => service === undefined || service === kind)
    .map(([, one, many]) => ({ count: accounts.reduce((sum, account) => sum + account[many], 0), one, many }));
  const list = counts.map(({ count, one, many }) => `${count} ${count === 1 ? one : many}`).join(", ");
  const atLeast = accounts.some((account) => account.has_more) ? "at least " : "";
  return `It has ${atLeast}${list}. They are deleted, with everything in them.`;
}

/** The name of the fork of a workspace: that of its folder, and a digest of the path, because many folders have the same name. */
function forkName(directory: string | undefined): string {
  if (directory === undefined) return "window";
  const digest = createHash("sha256").update(directory).digest("hex").slice(0, 6);
  const name = path.basename(directory).toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const short = name.slice(0, FORK_NAME_LENGTH_MAX - digest.length - 1);
  return `${short}-${digest}`.replace(/^-+/, "");
}
