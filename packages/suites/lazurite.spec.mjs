// The work in Vitest, with a store for each test.
import { test } from "lazurite/vitest";
import { tests } from "./work.js";

for (const [name, work] of tests) test(name, ({ lazurite }) => work(lazurite.connectionString));
