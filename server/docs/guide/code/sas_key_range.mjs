// Shared access signatures over key ranges: a user's client sees the user's partition and no other.

import assert from "node:assert/strict";
import {
  AzureNamedKeyCredential,
  AzureSASCredential,
  generateTableSas,
  TableClient,
} from "@azure/data-tables";
import { all, blobs, costOf, insertAll, newTable } from "./store.mjs";

const [table, shared] = [await newTable("Notes"), await newTable("Shared")];
const note = (user) => (_, n) => ({
  partitionKey: user,
  rowKey: String(n).padStart(2, "0"),
  text: `${user} ${n}`,
});
await insertAll(
  table,
  ["ann", "bob"].flatMap((user) => Array.from({ length: 20 }, note(user))),
);
const account = new AzureNamedKeyCredential(
  blobs.accountName,
  blobs.credential.accountKey.toString("base64"),
);
const endpoint = table.url.replace(/\/$/, "");

// #region naive
// The program holds the key of the account. Only its own filter keeps the notes of others away.
const notesByFilter = async (user) =>
  (await all(table.listEntities()))
    .filter((note) => note.partitionKey === user)
    .map((note) => note.text);
// #endregion

// #region advised
/** The table names what the signatures permit, and until when. */
async function publishPolicy() {
  const [start, expiry] = [new Date(Date.now() - 60_000), new Date(Date.now() + 8 * 3_600_000)];
  await table.setAccessPolicy([
    { id: "users", accessPolicy: { permission: "raud", start, expiry } },
  ]);
}

/** What a user's program is given: a client without the key of the account. */
function clientOf(user) {
  const range = { startPartitionKey: user, endPartitionKey: user };
  const signature = generateTableSas(table.tableName, account, { identifier: "users", ...range });
  return new TableClient(endpoint, table.tableName, new AzureSASCredential(signature), {
    allowInsecureConnection: true,
  });
}

// No filter: the service shows no other keys.
const notesOf = async (client) => (await all(client.listEntities())).map((note) => note.text);

// All signatures that name the policy are void.
const revoke = () => table.setAccessPolicy([]);
// #endregion

// #region rows
/** A client that reads the entities from one pair of keys to another, both included. */
function rangeReader([startPartitionKey, startRowKey], [endPartitionKey, endRowKey]) {
  const signature = generateTableSas(shared.tableName, account, {
    permissions: { query: true },
    expiresOn: new Date(Date.now() + 3_600_000),
    startPartitionKey,
    startRowKey,
    endPartitionKey,
    endRowKey,
  });
  return new TableClient(endpoint, shared.tableName, new AzureSASCredential(signature), {
    allowInsecureConnection: true,
  });
}

// One partition, and the RowKeys that begin with 'public_': '`' is the character after '_'.
const readerOfPublicNotes = (user) => rangeReader([user, "public_"], [user, "public`"]);
// #endregion

const refused = { statusCode: 403 };
await publishPolicy();
const ann = clientOf("ann");
assert.deepEqual(await notesOf(ann), await notesByFilter("ann"));
await assert.rejects(ann.getEntity("bob", "01"), refused);
await assert.rejects(ann.upsertEntity({ partitionKey: "bob", rowKey: "01" }), refused);
await ann.upsertEntity({ partitionKey: "ann", rowKey: "01", text: "changed" });
await revoke();
await assert.rejects(notesOf(ann), refused);
console.log(
  "ann sees the notes of ann, is refused those of bob, and nothing after the policy is gone",
);

const kinds = ["private", "public"];
const numbers = [0, 1, 2];
await insertAll(
  shared,
  ["ann", "bob", "cem"].flatMap((user) =>
    kinds.flatMap((kind) =>
      numbers.map((n) => ({
        partitionKey: user,
        rowKey: `${kind}_${n}`,
        text: `${user} ${kind} ${n}`,
      })),
    ),
  ),
);
const keysOf = async (client) =>
  (await all(client.listEntities())).map((note) => [note.partitionKey, note.rowKey]);

const [reader, { requests }] = await costOf(async () => readerOfPublicNotes("ann"));
assert.equal(requests, 0);
const seenOfAnn = await keysOf(reader);
assert.deepEqual(
  seenOfAnn,
  numbers.map((n) => ["ann", `public_${n}`]),
);
assert.equal((await reader.getEntity("ann", "public_1")).text, "ann public 1");
await assert.rejects(reader.getEntity("ann", "private_1"), refused);
await assert.rejects(reader.getEntity("bob", "public_1"), refused);
await assert.rejects(reader.upsertEntity({ partitionKey: "ann", rowKey: "public_9" }), refused);
console.log(`a reader of ann's public notes sees ${seenOfAnn.length} notes`);

// Over several partitions the RowKeys limit the ends only, and no partition between.
const seen = await keysOf(rangeReader(["ann", "public_"], ["cem", "public`"]));
const hidden = seen.filter(([, row]) => row.startsWith("private_"));
assert.deepEqual(
  hidden.map(([user]) => user),
  ["bob", "bob", "bob", "cem", "cem", "cem"],
);
console.log(
  `from ann's public notes to cem's: ${seen.length} notes, ${hidden.length} of them private`,
);
