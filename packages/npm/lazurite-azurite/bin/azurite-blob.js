#!/usr/bin/env node
"use strict";
require("lazurite/run").run("azurite-blob");
