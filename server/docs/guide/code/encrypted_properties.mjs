// Client-side encrypted properties: what is secret is encrypted, what queries need is not.

import assert from "node:assert/strict";
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { odata } from "@azure/data-tables";
import { employees } from "./staff.mjs";
import { all, compare, insertAll, newTable } from "./store.mjs";

const [opaque, partly] = [await newTable("Opaque"), await newTable("Partly")];
const payroll = await newTable("Payroll");

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

// #region keys
// A key for each property and year. A program has those that it needs.
const NAMES = ["mail_2025", "mail_2026", "salary_2025", "salary_2026"];
const KEYS = new Map(NAMES.map((name) => [name, randomBytes(32)]));
const CURRENT = { mail: "mail_2025", salary: "salary_2025" };

// The name of the property as well: a value cannot be moved to another property.
const owner = ({ partitionKey, rowKey }, name) => Buffer.from(`${partitionKey}/${rowKey}/${name}`);

/** The two properties that are always written together: the value, and the name of its key. */
function sealed(entity, name, text) {
  const [key, nonce] = [CURRENT[name], randomBytes(NONCE_BYTES)];
  const cipher = createCipheriv("aes-256-gcm", KEYS.get(key), nonce);
  cipher.setAAD(owner(entity, name));
  const value = [nonce, cipher.update(text), cipher.final(), cipher.getAuthTag()];
  return { [name]: Buffer.concat(value), [`${name}Key`]: key };
}

function unsealed(entity, name, keys = KEYS) {
  const [value, key] = [Buffer.from(entity[name]), keys.get(entity[`${name}Key`])];
  if (key === undefined) throw new Error("no such key");
  const nonce = value.subarray(0, NONCE_BYTES);
  const options = { authTagLength: TAG_BYTES };
  const decipher = createDecipheriv("aes-256-gcm", key, nonce, options);
  decipher.setAAD(owner(entity, name));
  decipher.setAuthTag(value.subarray(-TAG_BYTES));
  const text = decipher.update(value.subarray(NONCE_BYTES, -TAG_BYTES));
  return Buffer.concat([text, decipher.final()]).toString();
}
// #endregion

// #region rotate
/** Encrypts a property under its current key, in all entities that name another key; returns their
 * number. */
async function rotate(table, name) {
  const queryOptions = { filter: `${name}Key ne '${CURRENT[name]}'` };
  let [changed, isDone] = [0, false];
  while (!isDone) {
    isDone = true;
    for await (const row of table.listEntities({ queryOptions })) {
      isDone = false;
      const { partitionKey, rowKey, etag } = row;
      const again = sealed(row, name, unsealed(row, name));
      try {
        await table.updateEntity({ partitionKey, rowKey, ...again }, "Merge", { etag });
        changed += 1;
      } catch (error) {
        // Another program changed or deleted it. The next round looks again.
        if (error.statusCode !== 412 && error.statusCode !== 404) throw error;
      }
    }
  }
  return changed;
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

function unsealing(entity, name, keys) {
  try {
    return unsealed(entity, name, keys);
  } catch (error) {
    return error.message;
  }
}

const staff = employees(20);
for (const one of staff) {
  const row = { partitionKey: "Sales", rowKey: one.id, age: one.age };
  const secrets = { ...sealed(row, "mail", one.mail), ...sealed(row, "salary", "5000") };
  await payroll.createEntity({ ...row, ...secrets });
}

// A program that sends mail has the keys of mail addresses only.
let ann = await payroll.getEntity("Sales", "000000");
const mailKeys = new Map([...KEYS].filter(([name]) => name.startsWith("mail_")));
const readable = ["mail", "salary"].map((name) => unsealing(ann, name, mailKeys));
console.log("with the keys of mail:", ...readable);

// From now on mail addresses have another key. Both are read meanwhile.
CURRENT.mail = "mail_2026";
const newMail = sealed(ann, "mail", "ann@example.org");
await payroll.updateEntity({ partitionKey: "Sales", rowKey: "000000", ...newMail });
ann = await payroll.getEntity("Sales", "000000");
assert.deepEqual([unsealing(ann, "mail"), unsealing(ann, "salary")], ["ann@example.org", "5000"]);
const rotated = await rotate(payroll, "mail");
console.log("mail addresses under the new key:", rotated, "and one that was changed");
KEYS.delete("mail_2025");
const rows = await all(payroll.listEntities());
assert.deepEqual(
  rows.slice(1).map((row) => unsealing(row, "mail")),
  staff.slice(1).map((one) => one.mail),
);
assert.ok(rows.every((row) => unsealing(row, "salary") === "5000"));

// A merge of the value without the name of its key, and a value in another property.
CURRENT.salary = "salary_2026";
const keys = { partitionKey: "Sales", rowKey: "000001" };
const { salary } = sealed(keys, "salary", "6000");
await payroll.updateEntity({ ...keys, salary });
const lost = await payroll.getEntity("Sales", "000001");
console.log("a merge without the name of the key:", unsealing(lost, "salary"));
const moved = { ...ann, salary: ann.mail, salaryKey: ann.mailKey };
console.log("a value of another property:", unsealing(moved, "salary"));
