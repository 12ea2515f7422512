// From the settings to a command line. A setting has the name of its flag.

import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import { type Launch, reachable } from "./server";

const SWITCHES = ["inMemoryPersistence", "https", "loose", "skipApiVersionCheck", "silent"];
const VALUES = ["durability", "host", "blobPort", "queuePort", "tablePort", "oauth"];
const FILES = ["cert", "key"];
// Settings that only Azurite's extension has.
const SWITCHES_OF_AZURITE = ["disableProductStyleUrl", "disableTelemetry"];
const VALUES_OF_AZURITE = [
  ...["blobHost", "queueHost", "tableHost"],
  ...["blobKeepAliveTimeout", "queueKeepAliveTimeout", "tableKeepAliveTimeout"],
  "extentMemoryLimit",
];

const VARIABLES = "${workspaceFolder}, ${userHome} and ${env:NAME}";

export function answersToAzurite(): boolean {
  return vscode.workspace.getConfiguration("lazurite").get("answerToAzurite", false);
}

export function startsOnOpen(): boolean {
  return vscode.workspace.getConfiguration("lazurite").get("startOnOpen", false);
}

/** The first folder of the workspace. */
export function folder(): string | undefined {
  return vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
}

/** Reads the settings. The error is a sentence. */
export function launch(context: vscode.ExtensionContext): Launch {
  const isInMemory = setting<boolean>("inMemoryPersistence") === true;
  const args: string[] = [];
  // The program refuses both with --inMemoryPersistence.
  if (!isInMemory) args.push(`--location=${location(context)}`);
  for (const name of VALUES.filter((name) => !isInMemory || name !== "durability")) {
    const value = setting<string | number>(name);
    if (value !== undefined) args.push(`--${name}=${value}`);
  }
  for (const name of FILES) {
    const file = setting<string>(name);
    if (file !== undefined) args.push(`--${name}=${resolved(name, file)}`);
  }
  for (const name of SWITCHES) if (setting<boolean>(name) === true) args.push(`--${name}`);
  // The output channel has standard error.
  if (setting<boolean>("debug") === true) args.push("--debug=-");
  if (answersToAzurite()) {
    for (const name of VALUES_OF_AZURITE) {
      const value = ofAzurite<string | number>(name);
      if (value !== undefined) args.push(`--${name}=${value}`);
    }
    for (const name of SWITCHES_OF_AZURITE) if (ofAzurite<boolean>(name) === true) args.push(`--${name}`);
  }
  args.push(...(setting<string[]>("args") ?? []).map((word) => expanded("args", word)));
  const password = setting<string>("pwd");
  return {
    program: programPath(context),
    args,
    env: password === undefined ? {} : { LAZURITE_PWD: expanded("pwd", password) },
    cwd: folder() ?? os.homedir(),
  };
}

/** The program. The error is a sentence. */
export function programPath(context: vscode.ExtensionContext): string {
  const named = setting<string>("program");
  if (named !== undefined) {
    const program = resolved("program", named);
    if (!isFile(program)) throw new MissingProgram(`lazurite.program names ${program}, which is not a file.`);
    return program;
  }
  if (process.env.LAZURITE_PROGRAM) return process.env.LAZURITE_PROGRAM;
  const file = process.platform === "win32" ? "lazurite.exe" : "lazurite";
  const directories = (process.env.PATH ?? "").split(path.delimiter).filter((directory) => directory !== "");
  const candidates = [context.asAbsolutePath("bin"), ...directories].map((directory) => path.join(directory, file));
  const found = candidates.find(isFile);
  if (found !== undefined) return found;
  throw new MissingProgram(
    `Lazurite has no program for this machine (${process.platform}-${process.arch}): this extension contains none, and there is no ` +
      "lazurite on the PATH. Install Lazurite, or name the program in the setting lazurite.program.",
  );
}

export class MissingProgram extends Error {}

function location(context: vscode.ExtensionContext): string {
  const named = setting<string>("location");
  if (named !== undefined) return resolved("location", named);
  const directory = folder();
  if (directory === undefined) return context.globalStorageUri.fsPath;
  // Azurite's extension keeps its data there, which the program then imports. Its own is in .lazurite beside it.
  return answersToAzurite() ? directory : path.join(directory, ".lazurite");
}

/** Where the server of these settings answers; `undefined` if the system chooses the port. */
export function blobService(): URL | undefined {
  const port = setting<number>("blobPort");
  const host = (answersToAzurite() && ofAzurite<string>("blobHost")) || setting<string>("host") || "";
  const scheme = setting<string>("cert") === undefined ? "http" : "https";
  const url = `${scheme}://${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${port}`;
  // The program refuses an address that is none, and says why.
  return Number(port) === 0 || !URL.canParse(url) ? undefined : reachable(new URL(url));
}

/** A setting, by default that of Azurite's extension, if we answer to it. Empty ones count as not set. */
function setting<T>(name: string): T | undefined {
  const found = vscode.workspace.getConfiguration("lazurite").inspect<T>(name);
  const own = found?.workspaceFolderValue ?? found?.workspaceValue ?? found?.globalValue;
  const other = answersToAzurite() ? ofAzurite<T>(name) : undefined;
  return given(own) ?? other ?? given(found?.defaultValue);
}

function ofAzurite<T>(name: string): T | undefined {
  return given(vscode.workspace.getConfiguration("azurite").get<T>(name));
}

function given<T>(value: T | undefined): T | undefined {
  return value === "" || value === null ? undefined : value;
}

function isFile(file: string): boolean {
  return fs.statSync(file, { throwIfNoEntry: false })?.isFile() ?? false;
}

function resolved(name: string, text: string): string {
  return path.resolve(folder() ?? os.homedir(), expanded(name, text));
}

/** Replaces the variables in a setting. The error is a sentence. */
function expanded(name: string, text: string): string {
  return text.replace(/\$\{([^}]*)\}/g, (whole: string, variable: string) => {
    const value = variable.startsWith("env:") ? process.env[variable.slice("env:".length)] : undefined;
    if (value !== undefined) return value;
    if (variable === "userHome") return os.homedir();
    const directory = folder();
    if (variable === "workspaceFolder" && directory !== undefined) return directory;
    const reason =
      variable === "workspaceFolder"
        ? "but no folder is open."
        : variable.startsWith("env:")
          ? "which is not set in the environment of the editor."
          : `which is no variable. There are ${VARIABLES}.`;
    throw new Error(`The setting ${name} has ${whole}, ${reason}`);
  });
}
