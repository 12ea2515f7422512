import type { Fork, Lazurite, StartOptions, Store } from "./index.js";

export interface FixtureOptions extends Pick<StartOptions, "args" | "program" | "timeout"> {
  /**
   * `account` (default): one server for the file and an account for each test. `fork`: one server for the file and a fork of its store
   * for each test. `server`: a server for each test, whose account is `devstoreaccount1`.
   */
  isolation?: "account" | "fork" | "server";
  /** With isolation by fork: fills the store with which each fork begins, once. */
  seed?: (server: Lazurite) => Promise<void> | void;
}

/** The store of the test that runs. Its properties are there inside a test only. */
export type CurrentStore = Pick<
  Store,
  "accountName" | "accountKey" | "blobEndpoint" | "queueEndpoint" | "tableEndpoint" | "connectionString"
> &
  /** With isolation by fork only. */
  Pick<Fork, "diff" | "requests">;

/**
 * Gives each test of the file, or of the `describe` it is called in, a store of its own. Tests that run at once are refused: a test fails if
 * it begins while another one has a store.
 */
export function useLazurite(options?: FixtureOptions): CurrentStore;
