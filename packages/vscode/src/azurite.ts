// The commands of Azurite's extension, for those who call them by their ids.

import * as vscode from "vscode";

const EXTENSION = "Azurite.azurite";
export type Service = "blob" | "queue" | "table";
const SERVICES: Service[] = ["blob", "queue", "table"];

export interface Actions {
  start(): Promise<unknown>;
  stop(): Promise<unknown>;
  /** Empties a service, or all of them. */
  clean(service?: Service): Promise<unknown>;
}

/** Registers the commands. The error is a sentence: the ids are taken. */
export async function register(actions: Actions): Promise<vscode.Disposable> {
  // All services are one program, which ends with the last that was asked for.
  const wanted = new Set<Service>();
  const start = (services: Service[]) => {
    services.forEach((service) => wanted.add(service));
    return actions.start();
  };
  const close = (services: Service[]) => {
    services.forEach((service) => wanted.delete(service));
    return wanted.size === 0 ? actions.stop() : undefined;
  };
  const commands = new Map<string, () => unknown>([
    ["azurite.start", () => start(SERVICES)],
    ["azurite.close", () => close(SERVICES)],
    ["azurite.clean", () => actions.clean()],
  ]);
  for (const service of SERVICES) {
    commands.set(`azurite.start_${service}`, () => start([service]));
    commands.set(`azurite.close_${service}`, () => close([service]));
    commands.set(`azurite.clean_${service}`, () => actions.clean(service));
  }
  const known = new Set(await vscode.commands.getCommands(true));
  const hasAzurite = vscode.extensions.getExtension(EXTENSION) !== undefined;
  if (hasAzurite || [...commands.keys()].some((id) => known.has(id))) {
    const other = hasAzurite ? `the extension Azurite (${EXTENSION})` : "another extension with the same commands";
    throw new Error(`Lazurite does not answer to azurite.* beside ${other}: disable that one, or lazurite.answerToAzurite.`);
  }
  return vscode.Disposable.from(...[...commands].map(([id, run]) => vscode.commands.registerCommand(id, run)));
}
