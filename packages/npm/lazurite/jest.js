"use strict";
/* global beforeEach, afterEach, afterAll */
const { useLazuriteWith } = require("./fixtures.js");

// Jest does not tell hooks whether a test has failed.
module.exports = { useLazurite: useLazuriteWith({ beforeEach, afterEach, afterAll }) };
