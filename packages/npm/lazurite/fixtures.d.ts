import type { Fork, Lazurite, StartOptions, Store } from "./index.js";

export interface FixtureOptions extends Pick<StartOptions, "args" | "program" | "timeout"> {
  /**
   * `fork` (default): one server for the file and a fork of its store for each test. `account`: one server for the file and an account for
   * each test. `server`: a server for each test, whose account is `devstoreaccount1`.
   */
  isolation?: "fork" | "account" | "server";
  /** With isolation by fork: fills the store with which each fork begins, once. */
  seed?: (server: Lazurite) => Promise<void> | void;
  /**
   * With isolation by fork: seconds, up to 3600, for which the stores of failed tests are kept after the tests of the file, or until its next
   * run. Left out: 900, and 0 where `CI` is set.
   */
  keepFailed?: number;
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
