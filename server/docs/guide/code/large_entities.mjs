// Large entities: the photo in a blob, its name in the entity.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { all, compare, newContainer, newTable } from "./store.mjs";

const [inside, outside] = [await newTable("Inside"), await newTable("Outside")];
const photos = await newContainer("photos");
const sales = { filter: "PartitionKey eq 'Sales'" };

// #region naive
const PART_BYTES = 64 * 1024;

async function storeInside(employee, mail, photo) {
  const entity = { partitionKey: "Sales", rowKey: employee, mail };
  // A property holds 64 KiB, so the photo takes several.
  for (let start = 0; start < photo.length; start += PART_BYTES) {
    entity[`photo${start / PART_BYTES}`] = photo.subarray(start, start + PART_BYTES);
  }
  await inside.upsertEntity(entity, "Replace");
}

// Every photo travels with the list.
const mailsAndPhotos = async () =>
  (await all(inside.listEntities({ queryOptions: sales }))).map((one) => one.mail);
// #endregion

// #region advised
async function store(employee, mail, photo) {
  // The blob first, under a name of its own: an entity never names a blob that is not there.
  const name = `${employee}/${randomUUID()}`;
  await photos.getBlockBlobClient(name).uploadData(photo);
  await outside.upsertEntity({ partitionKey: "Sales", rowKey: employee, mail, photo: name });
}

const mails = async () =>
  (await all(outside.listEntities({ queryOptions: sales }))).map((one) => one.mail);

async function photoOf(employee) {
  const { photo } = await outside.getEntity("Sales", employee);
  return photos.getBlobClient(photo).downloadToBuffer();
}

/** Deletes blobs that no entity names: a replaced photo, or one whose writer died before it
 * stored the entity. A blob that is newer than `before` may belong to an entity that is just
 * being stored. */
async function deleteOrphans(before) {
  const old = (await all(photos.listBlobsFlat())).filter(
    (blob) => blob.properties.lastModified < before,
  );
  const entities = await all(
    outside.listEntities({ queryOptions: { ...sales, select: ["photo"] } }),
  );
  const used = new Set(entities.map((one) => one.photo));
  for (const { name } of old) {
    if (!used.has(name)) await photos.deleteBlob(name);
  }
}
// #endregion

for (let number = 0; number < 6; number += 1) {
  const [employee, mail, picture] = [
    `00000${number}`,
    `p${number}@example.com`,
    Buffer.alloc(100_000, number),
  ];
  await storeInside(employee, mail, picture);
  await store(employee, mail, picture);
}
await compare(mailsAndPhotos, mails, "received");
await store("000003", "p3@example.com", Buffer.from("a new photo"));
assert.equal((await all(photos.listBlobsFlat())).length, 7);
await deleteOrphans(new Date(Date.now() - 3_600_000));
assert.equal((await all(photos.listBlobsFlat())).length, 7);
await deleteOrphans(new Date(Date.now() + 60_000));
assert.equal((await all(photos.listBlobsFlat())).length, 6);
assert.equal(String(await photoOf("000003")), "a new photo");
