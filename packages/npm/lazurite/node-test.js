"use strict";
const { after, afterEach, beforeEach } = require("node:test");
const { useLazuriteWith } = require("./fixtures.js");

module.exports = {
  useLazurite: useLazuriteWith({
    beforeEach,
    afterEach,
    afterAll: after,
    hasFailed: (context) => context.passed === false,
    isSubtest: (context, outer) => context.fullName?.startsWith(`${outer.fullName} > `) ?? false,
    nameOf: (context) => context.name,
    hasEnded: (context) => context.signal.aborted,
    show: (text, context) => text.split("\n").forEach((line) => context.diagnostic(line)),
  }),
};
