// Shared access signatures over key ranges: a user's client sees the user's partition and no other.

import assert from "node:assert/strict";
import {
  AzureNamedKeyCredential,
  AzureSASCredential,
  generateTableSas,
  TableClient,
} from "@azure/data-tables";
import { all, blobs, insertAll, newTable } from "./store.mjs";

const table = await newTable("Notes");
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
