// The table model: types, Timestamp and ETag, keys, and the refusal at each limit.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { all, newTable } from "./store.mjs";

const table = await newTable("Model");

/** The status and the code of a request that the service refuses. */
const refusal = (work) =>
  work().then(
    () => "accepted",
    // Without a status, the client does not send it.
    ({ statusCode, details, message }) =>
      statusCode ? `${statusCode} ${details.odataError?.code}` : `client: ${message}`,
  );

// #region types
const ANN = {
  partitionKey: "Sales",
  rowKey: "000001",
  mail: "ann@example.com", // String
  photo: Buffer.from("\x89PNG", "latin1"), // Binary
  age: 41, // Int32: every whole number
  sold: 2n ** 40n, // Int64: a bigint
  share: 0.25, // Double
  weight: { type: "Double", value: 70 }, // A whole number that others read as a Double.
  isManager: false, // Boolean
  hired: new Date("2026-01-31"), // DateTime
  badge: { type: "Guid", value: randomUUID() },
  phone: null, // Not stored.
};

async function storeAndRead() {
  await table.createEntity(ANN);
  const found = await table.getEntity("Sales", "000001");
  assert.ok(!("phone" in found));
  const { phone, ...stored } = ANN;
  for (const [name, value] of Object.entries({ ...stored, weight: 70 }))
    assert.deepEqual(found[name], value, name);
}
// #endregion

// #region versions
async function change() {
  const keys = { partitionKey: "Sales", rowKey: "000001" };
  const before = await table.getEntity("Sales", "000001");
  // The service sets the Timestamp: this one is ignored.
  await table.updateEntity({ ...keys, age: 42, timestamp: new Date("2000-01-01") });
  const after = await table.getEntity("Sales", "000001");
  assert.ok(after.timestamp > before.timestamp && after.etag !== before.etag);
  // The version that was read before the change is no longer there.
  const outdated = () => table.updateEntity({ ...keys, age: 43 }, "Merge", { etag: before.etag });
  console.log("an old ETag:", await refusal(outdated));
}
// #endregion

// #region keys
async function nameKeys() {
  const keyless = async () => table.updateEntity({ partitionKey: "Sales", age: 44 });
  console.log("no RowKey:", await refusal(keyless));
  // Another RowKey is another entity: a merge does not find it, and an upsert stores a second one.
  const moved = { partitionKey: "Sales", rowKey: "000009", age: 44 };
  console.log("a changed RowKey:", await refusal(() => table.updateEntity(moved)));
  // A filter finds the keys that a change has to name.
  const queryOptions = { filter: "age eq 42", select: ["PartitionKey", "RowKey"] };
  for await (const { partitionKey, rowKey } of table.listEntities({ queryOptions }))
    await table.updateEntity({ partitionKey, rowKey, age: 43 });
}
// #endregion

// #region mixed
async function storeAges() {
  const ages = { text: "41", int32: 41, int64: 41n, double: { type: "Double", value: 41 } };
  for (const [rowKey, age] of Object.entries(ages))
    await table.createEntity({ partitionKey: "ages", rowKey, age });
}

async function rowsWith(condition) {
  const filter = `PartitionKey eq 'ages' and ${condition}`;
  const found = await all(table.listEntities({ queryOptions: { filter } }));
  return found.map((one) => one.rowKey).join(", ");
}
// #endregion

// #region limits
const entity = (properties) => ({ partitionKey: "limits", rowKey: "one", ...properties });
const numbered = (count, value) =>
  Object.fromEntries(Array.from({ length: count }, (_, number) => [`p${number}`, value]));

const LIMITS = {
  "252 properties": entity(numbered(252, 1)),
  "253 properties": entity(numbered(253, 1)),
  "a string of 32,768 characters": entity({ text: "x".repeat(32_768) }),
  "a string of 32,769 characters": entity({ text: "x".repeat(32_769) }),
  "a binary of 65,537 bytes": entity({ data: new Uint8Array(65_537) }),
  "16 strings of 64 KiB": entity(numbered(16, "x".repeat(32_768))),
  "a name of 256 characters": entity({ ["n".repeat(256)]: 1 }),
  "a name with a hyphen": entity({ "first-name": 1 }),
  "a PartitionKey of 512 characters": entity({ partitionKey: "p".repeat(512) }),
  "a PartitionKey of 513 characters": entity({ partitionKey: "p".repeat(513) }),
  "a RowKey of 513 characters": entity({ rowKey: "r".repeat(513) }),
  "a date before 1601": entity({ born: new Date("1600-12-31") }),
  "an empty RowKey": entity({ rowKey: "" }),
  "a RowKey with a slash": entity({ rowKey: "2026/01" }),
};
// #endregion

await storeAndRead();
await change();
await nameKeys();
assert.equal((await table.getEntity("Sales", "000001")).age, 43);
await storeAges();
for (const condition of ["age eq 41", "age eq '41'", "age eq 41L", "age eq 41.0", "age ne 41"])
  // Azurite does not know the literal 41L.
  console.log(`${condition}: ${await rowsWith(condition).catch((error) => error.statusCode)}`);
for (const [label, one] of Object.entries(LIMITS))
  console.log(`${label}:`, await refusal(() => table.upsertEntity(one, "Replace")));
