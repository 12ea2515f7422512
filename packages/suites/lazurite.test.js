"use strict";
// The work in node:test and in Jest, with a store for each test. `RUNNER` in the environment is `node-test` or `jest`.

const { tests } = require("./work.js");

const runner = process.env.RUNNER;
const { useLazurite } = require(`lazurite/${runner}`);
const test = runner === "jest" ? globalThis.test : require("node:test").test;
const lazurite = useLazurite();

for (const [name, work] of tests) test(name, () => work(lazurite.connectionString));
