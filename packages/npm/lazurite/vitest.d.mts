import type { TestAPI } from "vitest";
import type { Store } from "./index.js";

export { useLazurite } from "./fixtures.js";

/** `test` of Vitest with a fixture `lazurite`: an empty store. The server ends with the worker. */
export const test: TestAPI<{ lazurite: Store }>;
