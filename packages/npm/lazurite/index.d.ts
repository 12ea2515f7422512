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
  /** Stops the server. A store in a directory is closed; one in memory is just gone. Does nothing if it has ended. */
  stop(): Promise<void>;
}

/** The path of the program for this platform. Throws if its package is not installed. */
export function programPath(): string;
