import { afterAll, afterEach, beforeEach, test as base } from "vitest";
import fixtures from "./fixtures.js";

export const useLazurite = fixtures.useLazuriteWith({
  beforeEach,
  afterEach,
  afterAll,
  hasFailed: ({ task }) => task.result?.state === "fail",
  show: (text) => console.error(text),
});

const pool = new fixtures.Pool();

/** `test` of Vitest with a fixture `lazurite`: an empty store. The server ends with the worker. */
export const test = base.extend({
  // Vitest reads the fixture's needs from the first parameter, which has to be a pattern.
  lazurite: async ({}, use) => {
    await use(await pool.take());
  },
});
