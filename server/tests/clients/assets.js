// Functions of the console's scripts that need no browser.

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { it } = require("node:test");

/** A script of the console as a module, whatever this version of Node.js takes a `.js` file for. */
const script = (name) => {
  const text = fs.readFileSync(path.join(__dirname, "../../console/src/assets", name), "utf8");
  return import(`data:text/javascript,${encodeURIComponent(text)}`);
};

/** A file of 20 MiB, in three blocks. */
const file = (byte, lastModified = 1_790_000_000_123) =>
  Object.assign(new Blob([new Uint8Array([byte]), new Uint8Array((20 << 20) - 1)]), { lastModified });

it("two files of the same name, size and time share no id of a block", async () => {
  const { blockIds } = await script("blocks.js");
  const [first, again, other, later] = await Promise.all([file(1), file(1), file(2), file(1, 5)].map(blockIds));
  assert.equal(first.length, 3);
  assert.deepEqual(again, first);
  for (const ids of [other, later]) assert.deepEqual(ids.filter((id) => first.includes(id)), []);
  // A block list takes ids of one length only.
  assert.equal(new Set([first, other, later].flat().map((id) => id.length)).size, 1);
});
