import type { TestAPI } from "vitest";
import type { Fork } from "./index.js";

export { useLazurite } from "./fixtures.js";

/** `test` of Vitest with a fixture `lazurite`: an empty store. */
export const test: TestAPI<{ lazurite: Fork }>;
