import { afterAll, afterEach, beforeEach, test as base } from "vitest";
import fixtures from "./fixtures.js";

const hasFailed = ({ task }) => task.result?.state === "fail";
const nameOf = ({ task }) => task.name;
const fileOf = ({ task }) => task.file.filepath;
const show = (text) => console.error(text);

export const useLazurite = fixtures.useLazuriteWith({ beforeEach, afterEach, afterAll, hasFailed, nameOf, fileOf, show });

const pool = new fixtures.Pool();
// Of a module that several files share, only the first one runs this. The server then ends with the worker.
afterAll(() => pool.stop());

/** `test` of Vitest with a fixture `lazurite`: an empty store. */
export const test = base.extend({
  // Vitest reads the fixture's needs from the first parameter, which has to be a pattern.
  lazurite: async ({ task }, use) => {
    const store = await pool.take(nameOf({ task }), fileOf({ task }));
    await use(store);
    const text = await pool.giveBack(store, hasFailed({ task }));
    if (text !== undefined) show(text);
  },
});
