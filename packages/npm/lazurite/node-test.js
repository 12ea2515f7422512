"use strict";
const { after, beforeEach } = require("node:test");
const { useLazuriteWith } = require("./fixtures.js");

module.exports = { useLazurite: useLazuriteWith({ beforeEach, afterAll: after }) };
