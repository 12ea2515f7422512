// Client-side encrypted properties: what is secret is encrypted, what queries need is not.

import assert from "node:assert/strict";
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { odata } from "@azure/data-tables";
import { employees } from "./staff.mjs";
import { all, compare, insertAll, newTable } from "./store.mjs";

const [opaque, partly] = [await newTable("Opaque"), await newTable("Partly")];
// #region seal
// A real program has it in a key vault.
const KEY = randomBytes(32);
const [NONCE_BYTES, TAG_BYTES] = [12, 16];

function seal(partition, row, text) {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", KEY, nonce);
  // The keys of the entity are authenticated: the value cannot be moved to another entity.
  cipher.setAAD(Buffer.from(`${partition}/${row}`));
  return Buffer.concat([nonce, cipher.update(text), cipher.final(), cipher.getAuthTag()]);
}

function unseal({ partitionKey, rowKey, secret }) {
  const sealed = Buffer.from(secret);
  const decipher = createDecipheriv("aes-256-gcm", KEY, sealed.subarray(0, NONCE_BYTES), {
    authTagLength: TAG_BYTES,
  });
  decipher.setAAD(Buffer.from(`${partitionKey}/${rowKey}`));
  decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
  return Buffer.concat([
    decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)),
    decipher.final(),
  ]).toString();
}

// #endregion

// #region naive
const opaqueEntity = (one) => ({
  partitionKey: "Sales",
  rowKey: one.id,
  secret: seal("Sales", one.id, `${one.age} ${one.mail}`),
});

async function mailsByDecryption(age) {
  // The service can filter by nothing: everything travels, and is decrypted.
  const found = await all(
    opaque.listEntities({ queryOptions: { filter: "PartitionKey eq 'Sales'" } }),
  );
  const texts = found.map(unseal).filter((text) => text.startsWith(`${age} `));
  return texts.map((text) => text.split(" ")[1]);
}
// #endregion

// #region advised
// The age is for queries, the mail address is secret.
const entity = (one) => ({
  partitionKey: "Sales",
  rowKey: one.id,
  age: one.age,
  secret: seal("Sales", one.id, one.mail),
});

async function mails(age) {
  const filter = odata`PartitionKey eq 'Sales' and age eq ${age}`;
  return (await all(partly.listEntities({ queryOptions: { filter } }))).map(unseal);
}
// #endregion

await insertAll(opaque, employees().map(opaqueEntity));
await insertAll(partly, employees().map(entity));
await compare(
  () => mailsByDecryption(34),
  () => mails(34),
  "received",
);
await partly.upsertEntity({ ...(await partly.getEntity("Sales", "000002")), rowKey: "999999" });
await assert.rejects(mails(34), /unable to authenticate/);
