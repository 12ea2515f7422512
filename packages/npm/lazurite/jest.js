"use strict";
/* global beforeEach, afterAll */
const { useLazuriteWith } = require("./fixtures.js");

module.exports = { useLazurite: useLazuriteWith({ beforeEach, afterAll }) };
