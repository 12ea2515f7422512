/** An account of a running server. */
export class Store {
  private constructor();
  readonly accountName: string;
  /** In base64. */
  readonly accountKey: string;
  readonly blobEndpoint: string;
  readonly queueEndpoint: string;
  readonly tableEndpoint: string;
  /** The argument of `fromConnectionString` of every client. */
  readonly connectionString: string;
}

/** A resource that differs: `GET /_lazurite/state/diff`. */
export interface Change {
  change: "created" | "deleted" | "changed";
  kind: "container" | "blob" | "queue" | "message" | "table" | "entity";
  account: string;
  container?: string;
  blob?: string;
  snapshot?: string;
  versionId?: string;
  queue?: string;
  messageId?: string;
  table?: string;
  partitionKey?: string;
  rowKey?: string;
  /** The parts that differ, if the resource is on both sides. */
  differs?: string[];
  values: { part: string; name: string; old: string | null; new: string | null; oldType?: string; newType?: string; cut?: true }[];
}

/** The changes of a store. `count` counts those too that are not listed. */
export interface Diff {
  count: number;
  truncated: boolean;
  changes: Change[];
}

/** A store of its own on the ports of a server. */
export class Fork extends Store {
  private constructor();
  readonly name: string;
  /** The page of the console that shows the fork. */
  readonly consoleUrl: string;
  /** The page of the console with the requests to the fork. */
  readonly requestsUrl: string;
  /** Ends the fork, with everything in it. Rejected with an error whose `code` is `ForkNotFound` if it has ended already. */
  release(): Promise<void>;
  /** What differs from the snapshot that the fork began as, or from the store of the server. Lists up to 1000 changes by default. */
  diff(limit?: number): Promise<Diff>;
  /** The latest requests to the fork that name its account in the path, at most 2,000, oldest first: `GET /_lazurite/api/requests`. */
  requests(): Promise<Record<string, unknown>[]>;
}

export interface StartOptions {
  /** The data directory. Left out: everything is in memory. */
  location?: string;
  /** The first of three consecutive ports. Left out or 0: any free ones. */
  port?: number;
  /** Names, each of which gets a random key, or names with keys in base64. Left out: `devstoreaccount1` with its well-known key. */
  accounts?: readonly string[] | Readonly<Record<string, string>>;
  /** Further flags of the program, as `lazurite --help` lists them. */
  args?: readonly string[];
  /** The path of the program. Left out: the one that is installed with this package. */
  program?: string;
  /** The longest wait for the start, in milliseconds. Left out: 30,000. */
  timeout?: number;
}

/** A running server. Its own properties are those of its first account. It ends when this process does. */
export class Lazurite extends Store {
  private constructor();
  /** Fulfilled once the server serves requests; rejected with the output of the server if it does not start. */
  static start(options?: StartOptions): Promise<Lazurite>;
  /** The names of the accounts, in the order in which they were given. */
  readonly accounts: string[];
  /** The store of one account. Throws if the server has no such account. */
  account(name: string): Store;
  /** Makes a fork of the store, or of a snapshot. Left out: the store as it is now, and a random name. */
  fork(source?: string, name?: string): Promise<Fork>;
  /** Keeps the store as it is now under a name. */
  snapshot(name: string): Promise<void>;
  /** Puts a copy of a snapshot in the place of the store. */
  restore(name: string): Promise<void>;
  /** Deletes everything in the store. Snapshots and forks stay. */
  reset(): Promise<void>;
  /** Stops the server. A store in a directory is closed; one in memory is just gone. Does nothing if it has ended. */
  stop(): Promise<void>;
}

/** The path of the program for this platform. Throws if its package is not installed. */
export function programPath(): string;
