import type { StartOptions, Store } from "./index.js";

export interface FixtureOptions extends Pick<StartOptions, "args" | "program" | "timeout"> {
  /**
   * `account` (default): one server for the file and an account for each test. `server`: a server for each test, whose account is
   * `devstoreaccount1`.
   */
  isolation?: "account" | "server";
}

/** The store of the test that runs. Its properties are there inside a test only. */
export type CurrentStore = Pick<
  Store,
  "accountName" | "accountKey" | "blobEndpoint" | "queueEndpoint" | "tableEndpoint" | "connectionString"
>;

/** Gives each test of the file, or of the `describe` it is called in, an empty store. */
export function useLazurite(options?: FixtureOptions): CurrentStore;
