"use strict";
/* global beforeEach, afterEach, afterAll, expect */
const { useLazuriteWith } = require("./fixtures.js");

/** Jest tells its hooks nothing of a failure. Its runner, jest-circus, has its state among the globals of the tests. */
function hasFailed() {
  const symbol = Object.getOwnPropertySymbols(globalThis).find(({ description }) => description === "JEST_STATE_SYMBOL");
  return (globalThis[symbol]?.currentlyRunningTest?.errors.length ?? 0) > 0;
}

module.exports = {
  useLazurite: useLazuriteWith({
    beforeEach,
    afterEach,
    afterAll,
    hasFailed,
    nameOf: () => expect.getState().currentTestName ?? "",
    fileOf: () => expect.getState().testPath ?? "",
    show: (text) => console.error(text),
  }),
};
