// The Blob service through @azure/storage-blob.

const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const { Readable } = require("node:stream");
const { before, describe, it } = require("node:test");
const { AnonymousCredential, BlobClient, BlobSASPermissions, BlobServiceClient, ContainerClient } = require("@azure/storage-blob");
const { connection, once, unique, fails, all } = require("./harness.js");

const service = BlobServiceClient.fromConnectionString(connection, once);
const KiB = 1024;
const MiB = 1024 * KiB;

async function newContainer(options) {
  const container = service.getContainerClient(unique("container"));
  await container.create(options);
  return container;
}

const md5 = (data) => crypto.createHash("md5").update(data).digest();
const blockId = (number) => Buffer.from(`${number}`.padStart(6, "0")).toString("base64");
const put = (blob, data, options) => blob.upload(data, Buffer.byteLength(data), options);

async function content(blob, ...range) {
  return (await blob.downloadToBuffer(...range)).toString();
}

describe("containers", () => {
  it("are created, read and deleted", async () => {
    const container = service.getContainerClient(unique("container"));
    const created = await container.create({ metadata: { colour: "red" } });
    assert.equal(created._response.status, 201);
    await fails(() => container.create(), 409, "ContainerAlreadyExists", "The specified container already exists.");
    assert.equal((await container.createIfNotExists()).succeeded, false);
    const found = await container.getProperties();
    assert.deepEqual([found.etag, found.metadata, found.leaseState], [created.etag, { colour: "red" }, "available"]);
    await container.setMetadata({ size: "xl" });
    assert.deepEqual((await container.getProperties()).metadata, { size: "xl" });
    assert.equal((await container.delete())._response.status, 202);
    assert.equal(await container.exists(), false);
    await fails(() => container.delete(), 404, "ContainerNotFound");
    await fails(() => container.getProperties(), 404, "ContainerNotFound");
    await fails(() => put(container.getBlockBlobClient("b"), "x"), 404, "ContainerNotFound");
  });

  it("are listed", async () => {
    const prefix = unique("list-") + "-";
    for (const letter of ["c", "a", "b"]) {
      await service.createContainer(prefix + letter, { metadata: { letter } });
    }
    const names = ["a", "b", "c"].map((letter) => prefix + letter);
    const listed = await all(service.listContainers({ prefix, includeMetadata: true }));
    assert.deepEqual(listed.map((c) => [c.name, c.metadata.letter]), names.map((name) => [name, name.at(-1)]));
    const pages = await all(service.listContainers({ prefix }).byPage({ maxPageSize: 2 }));
    assert.deepEqual(pages.map((page) => page.containerItems.length), [2, 1]);
  });

  it("refuse bad names", async () => {
    await fails(() => service.createContainer("ab"), 400, "OutOfRangeInput");
    await fails(() => service.createContainer("Upper"), 400, "InvalidResourceName");
  });

  it("have access policies and public access", async () => {
    const container = await newContainer();
    await put(container.getBlockBlobClient("b"), "for all");
    const startsOn = new Date("2024-03-01T00:00:00Z");
    const accessPolicy = { startsOn, expiresOn: new Date("2024-03-02T00:00:00Z"), permissions: "rwl" };
    await container.setAccessPolicy("container", [{ id: "full", accessPolicy }, { id: "bare", accessPolicy: { permissions: "r" } }]);
    const found = await container.getAccessPolicy();
    assert.equal(found.blobPublicAccess, "container");
    assert.deepEqual(found.signedIdentifiers.map((p) => [p.id, p.accessPolicy.permissions]), [["full", "rwl"], ["bare", "r"]]);
    assert.equal(found.signedIdentifiers[0].accessPolicy.startsOn.getTime(), startsOn.getTime());
    const anonymous = new ContainerClient(container.url, new AnonymousCredential(), once);
    assert.equal(await content(anonymous.getBlobClient("b")), "for all");
    assert.equal((await all(anonymous.listBlobsFlat())).length, 1);
    await container.setAccessPolicy();
    assert.equal((await container.getAccessPolicy()).blobPublicAccess, undefined);
    await assert.rejects(() => content(anonymous.getBlobClient("b")));
  });
});

describe("blobs", () => {
  let container;
  before(async () => {
    container = await newContainer();
  });
  const newBlob = () => container.getBlockBlobClient(unique("blob"));

  it("are uploaded whole", async () => {
    for (const data of [Buffer.alloc(0), Buffer.from("x"), crypto.randomBytes(3 * MiB)]) {
      const blob = newBlob();
      const answer = await put(blob, data, { blobHTTPHeaders: { blobContentType: "text/plain", blobCacheControl: "no-store" }, metadata: { a: "1" } });
      assert.equal(answer._response.status, 201);
      assert.match(answer.etag, /^"0x[0-9A-F]+"$/);
      assert.deepEqual(Buffer.from(answer.contentMD5), md5(data));
      const found = await blob.getProperties();
      assert.deepEqual([found.contentLength, found.etag, found.blobType, found.metadata], [data.length, answer.etag, "BlockBlob", { a: "1" }]);
      assert.deepEqual([found.contentType, found.cacheControl, found.accessTier], ["text/plain", "no-store", "Hot"]);
      assert.deepEqual(await blob.downloadToBuffer().catch((error) => (data.length === 0 ? data : Promise.reject(error))), data);
    }
  });

  it("are uploaded in parallel blocks and downloaded in parallel pieces", async () => {
    const data = crypto.randomBytes(5 * MiB + 7);
    const blob = newBlob();
    await blob.uploadData(data, { blockSize: 512 * KiB, maxSingleShotSize: MiB, concurrency: 4 });
    assert.equal((await blob.getBlockList("committed")).committedBlocks.length, 11);
    assert.deepEqual(await blob.downloadToBuffer(0, undefined, { blockSize: 300 * KiB, concurrency: 4 }), data);
    const stream = newBlob();
    await stream.uploadStream(Readable.from([data.subarray(0, 1000), data.subarray(1000)]), 256 * KiB, 3);
    assert.deepEqual(await stream.downloadToBuffer(), data);
    const parts = await all((await stream.download()).readableStreamBody);
    assert.deepEqual(Buffer.concat(parts), data);
  });

  it("are checked by MD5", async () => {
    const blob = newBlob();
    await fails(() => put(blob, "x", { blobHTTPHeaders: { blobContentMD5: md5("y") } }), 400, "Md5Mismatch");
    await fails(() => blob.stageBlock(blockId(1), "x", 1, { transactionalContentMD5: md5("y") }), 400, "Md5Mismatch");
    const staged = await blob.stageBlock(blockId(1), "x", 1, { transactionalContentMD5: md5("x") });
    assert.equal(staged._response.status, 201);
    await blob.commitBlockList([blockId(1)], { blobHTTPHeaders: { blobContentMD5: md5("x") } });
    assert.deepEqual(Buffer.from((await blob.getProperties()).contentMD5), md5("x"));
    const part = await blob.download(0, 1, { rangeGetContentMD5: true });
    assert.deepEqual(Buffer.from(part.contentMD5), md5("x"));
  });

  it("are made of blocks", async () => {
    const blob = newBlob();
    await blob.stageBlock(blockId(1), "one", 3);
    await blob.stageBlock(blockId(2), "two", 3);
    assert.equal(await blob.exists(), false);
    await fails(() => blob.getProperties(), 404, "BlobNotFound");
    const staged = await blob.getBlockList("all");
    assert.deepEqual(staged.uncommittedBlocks, [{ name: blockId(1), size: 3 }, { name: blockId(2), size: 3 }]);
    await blob.commitBlockList([blockId(2), blockId(1)], { metadata: { m: "1" } });
    assert.equal(await content(blob), "twoone");
    const list = await blob.getBlockList("all");
    assert.deepEqual(list.committedBlocks.map((b) => b.name), [blockId(2), blockId(1)]);
    assert.deepEqual(list.uncommittedBlocks ?? [], []);
    await fails(() => blob.commitBlockList([blockId(9)]), 400, "InvalidBlockList", "The specified block list is invalid.");
    await blob.stageBlock("AAAA", "x", 1);
    await fails(() => blob.stageBlock(blockId(1), "x", 1), 400, "InvalidBlobOrBlock");
    await fails(() => newBlob().getBlockList("all"), 404, "BlobNotFound");
    await blob.commitBlockList([]);
    assert.equal((await blob.getProperties()).contentLength, 0);
  });

  it("are downloaded in ranges", async () => {
    const blob = newBlob();
    await put(blob, "0123456789");
    for (const [offset, count, expected] of [[0, 1, "0"], [3, 4, "3456"], [9, 1, "9"], [8, undefined, "89"]]) {
      assert.equal(await content(blob, offset, count), expected);
    }
    const part = await blob.download(2, 3);
    assert.deepEqual([part._response.status, part.contentRange, part.contentLength], [206, "bytes 2-4/10", 3]);
    assert.equal((await blob.download())._response.status, 200);
    await fails(() => blob.download(10, 1), 416, "InvalidRange");
  });

  it("have headers and metadata, replaced as a whole", async () => {
    const blob = newBlob();
    await put(blob, "x", { blobHTTPHeaders: { blobContentType: "text/plain", blobContentLanguage: "de" }, metadata: { old: "1" } });
    await blob.setHTTPHeaders({ blobContentType: "text/html", blobContentDisposition: "inline", blobContentEncoding: "identity" });
    await blob.setMetadata({ first: "with blank" });
    const found = await blob.getProperties();
    assert.deepEqual([found.contentType, found.contentDisposition, found.contentEncoding, found.contentLanguage], ["text/html", "inline", "identity", undefined]);
    assert.deepEqual(found.metadata, { first: "with blank" });
    assert.deepEqual([found.leaseState, found.leaseStatus, found.isServerEncrypted], ["available", "unlocked", true]);
    await fails(() => blob.setMetadata({ "not-a-name": "1" }), 400, "InvalidMetadata");
  });

  it("are read and written under conditions", async () => {
    const blob = newBlob();
    const { etag, lastModified } = await put(blob, "x");
    const earlier = new Date(lastModified.getTime() - 3600_000);
    const later = new Date(lastModified.getTime() + 3600_000);
    for (const conditions of [{ ifMatch: etag }, { ifNoneMatch: '"0x1"' }, { ifModifiedSince: earlier }, { ifUnmodifiedSince: later }]) {
      await blob.getProperties({ conditions });
      await blob.setMetadata({ a: "1" }, { conditions: conditions.ifMatch ? { ifMatch: (await blob.getProperties()).etag } : conditions });
      await put(blob, "x", { conditions: conditions.ifMatch ? { ifMatch: (await blob.getProperties()).etag } : conditions });
    }
    const now = (await blob.getProperties()).etag;
    for (const conditions of [{ ifMatch: '"0x1"' }, { ifUnmodifiedSince: earlier }]) {
      await fails(() => blob.getProperties({ conditions }), 412, "ConditionNotMet");
    }
    for (const conditions of [{ ifNoneMatch: now }, { ifModifiedSince: later }]) {
      await fails(() => blob.getProperties({ conditions }), 304, "ConditionNotMet");
      await fails(() => blob.download(0, undefined, { conditions }), 304, "ConditionNotMet");
    }
    for (const conditions of [{ ifMatch: '"0x1"' }, { ifNoneMatch: now }, { ifModifiedSince: later }, { ifUnmodifiedSince: earlier }]) {
      await fails(() => put(blob, "y", { conditions }), 412, "ConditionNotMet");
      await fails(() => blob.delete({ conditions }), 412, "ConditionNotMet");
    }
    await fails(() => put(blob, "y", { conditions: { ifNoneMatch: "*" } }), 409, "BlobAlreadyExists", "The specified blob already exists.");
    assert.equal((await blob.delete({ conditions: { ifMatch: now } }))._response.status, 202);
    await fails(() => blob.delete(), 404, "BlobNotFound");
    await put(blob, "y", { conditions: { ifNoneMatch: "*" } });
  });

  it("are leased", async () => {
    const blob = newBlob();
    await put(blob, "1");
    const lease = blob.getBlobLeaseClient();
    const { leaseId } = await lease.acquireLease(15);
    const found = await blob.getProperties();
    assert.deepEqual([found.leaseStatus, found.leaseState, found.leaseDuration], ["locked", "leased", "fixed"]);
    await fails(() => put(blob, "2"), 412, "LeaseIdMissing");
    await put(blob, "2", { conditions: { leaseId } });
    await lease.renewLease();
    await lease.changeLease("5974b586-0df3-4e2d-ad0c-18e3892bfca2");
    assert.equal((await lease.breakLease(0)).leaseTime, 0);
    assert.equal((await blob.getProperties()).leaseState, "broken");
    await lease.releaseLease();
    const ofContainer = (await newContainer()).getBlobLeaseClient();
    await ofContainer.acquireLease(-1);
    await ofContainer.releaseLease();
  });

  it("have snapshots", async () => {
    const blob = newBlob();
    await put(blob, "old");
    const { snapshot } = await blob.createSnapshot();
    await put(blob, "new");
    assert.equal(await content(blob.withSnapshot(snapshot)), "old");
    const listed = await all(container.listBlobsFlat({ prefix: blob.name, includeSnapshots: true }));
    assert.deepEqual(listed.map((b) => b.snapshot), [snapshot, undefined]);
    await fails(() => blob.delete(), 409, "SnapshotsPresent");
    await blob.delete({ deleteSnapshots: "include" });
  });

  it("grow by appends", async () => {
    const blob = container.getAppendBlobClient(unique("append"));
    await blob.create();
    for (const [part, offset] of [["one", "0"], ["two", "3"]]) {
      assert.equal((await blob.appendBlock(part, part.length)).blobAppendOffset, offset);
    }
    await fails(() => blob.appendBlock("x", 1, { conditions: { appendPosition: 1 } }), 412, "AppendPositionConditionNotMet");
    assert.equal((await blob.seal()).isSealed, true);
    await fails(() => blob.appendBlock("x", 1), 409, "BlobIsSealed");
    assert.equal((await blob.downloadToBuffer()).toString(), "onetwo");
  });

  it("are written in pages", async () => {
    const blob = container.getPageBlobClient(unique("page"));
    await blob.create(4096, { blobSequenceNumber: 3 });
    await blob.uploadPages(Buffer.alloc(1024, "a"), 1024, 1024);
    const { snapshot } = await blob.createSnapshot();
    await blob.clearPages(1536, 512);
    await blob.uploadPages(Buffer.alloc(512, "b"), 0, 512);
    assert.deepEqual((await blob.getPageRanges()).pageRange, [{ offset: 0, count: 511 }, { offset: 1024, count: 511 }]);
    const changed = await blob.getPageRangesDiff(0, 4096, snapshot);
    assert.deepEqual([changed.pageRange, changed.clearRange], [[{ offset: 0, count: 511 }], [{ offset: 1536, count: 511 }]]);
    assert.equal((await blob.resize(512)).blobSequenceNumber, 3);
    assert.equal((await blob.updateSequenceNumber("increment")).blobSequenceNumber, 4);
    assert.equal((await blob.downloadToBuffer()).toString(), "b".repeat(512));
  });

  it("are copied", async () => {
    const [source, target] = [newBlob(), newBlob()];
    await put(source, "hello", { metadata: { a: "1" } });
    const copied = await (await target.beginCopyFromURL(source.url)).pollUntilDone();
    assert.equal(copied.copyStatus, "success");
    assert.equal(await content(target), "hello");
    const url = await source.generateSasUrl({ permissions: BlobSASPermissions.parse("r"), expiresOn: new Date(Date.now() + 3_600_000) });
    assert.equal((await newBlob().syncCopyFromURL(url)).copyStatus, "success");
    const sourceContentMD5 = md5("hello");
    const checked = await target.syncCopyFromURL(url, { sourceContentMD5 });
    assert.deepEqual(Buffer.from(checked.contentMD5), sourceContentMD5);
    await put(source, "other");
    await fails(() => target.syncCopyFromURL(url, { sourceContentMD5 }), 400, "Md5Mismatch");
    assert.equal(await content(target), "hello");
    await put(source, "hello");
    const fromUrl = newBlob();
    await fromUrl.syncUploadFromURL(url);
    await fromUrl.stageBlockFromURL("AAAA", url, 1, 3);
    await fromUrl.commitBlockList(["AAAA"]);
    assert.equal(await content(fromUrl), "ell");
  });

  it("have tags and tiers", async () => {
    const blob = newBlob();
    await put(blob, "x", { tags: { a: "b c" }, tier: "Cool" });
    assert.deepEqual((await blob.getTags()).tags, { a: "b c" });
    await blob.setTags({ run: blob.name.replaceAll("/", "") });
    const found = await all(service.findBlobsByTags(`"run"='${blob.name.replaceAll("/", "")}'`));
    assert.deepEqual(found.map((b) => b.name), [blob.name]);
    assert.equal((await blob.getProperties()).accessTier, "Cool");
    await blob.setAccessTier("Hot");
    assert.equal((await blob.getProperties()).accessTier, "Hot");
    await fails(() => put(blob, "y", { conditions: { tagConditions: "a = 'b'" } }), 412, "ConditionNotMet");
  });

  it("are deleted many at once", async () => {
    const blobs = [newBlob(), newBlob(), newBlob()];
    await put(blobs[0], "x");
    await put(blobs[2], "x");
    for (const batch of [service.getBlobBatchClient(), container.getBlobBatchClient()]) {
      const answer = await batch.deleteBlobs(blobs);
      assert.deepEqual([answer.subResponsesSucceededCount, answer.subResponsesFailedCount], [2, 1]);
      assert.deepEqual(answer.subResponses.map((part) => part.status), [202, 404, 202]);
      await put(blobs[0], "x");
      await put(blobs[2], "x");
    }
  });

  it("are listed flat and by delimiter", async () => {
    const list = await newContainer();
    const names = ["A", "a", "a/b/c", "a/b/d", "a/c", "b", "dir/x", "ä", "日本語/🦀"];
    for (const name of names) {
      await put(list.getBlockBlobClient(name), name, { metadata: { length: `${name.length}` } });
    }
    const flat = await all(list.listBlobsFlat({ includeMetadata: true }));
    assert.deepEqual(flat.map((b) => b.name), names);
    assert.equal(flat[2].metadata.length, "5");
    assert.deepEqual([flat[0].properties.contentLength, flat[0].properties.blobType], [1, "BlockBlob"]);
    assert.deepEqual((await all(list.listBlobsFlat({ prefix: "a/" }))).map((b) => b.name), ["a/b/c", "a/b/d", "a/c"]);
    const pages = await all(list.listBlobsFlat().byPage({ maxPageSize: 4 }));
    assert.deepEqual(pages.map((page) => page.segment.blobItems.length), [4, 4, 1]);
    const rest = await all(list.listBlobsFlat().byPage({ continuationToken: pages[1].continuationToken }));
    assert.deepEqual(rest.map((page) => page.segment.blobItems.map((b) => b.name)), [["日本語/🦀"]]);
    const tree = async (options) => (await all(list.listBlobsByHierarchy("/", options))).map((b) => `${b.kind} ${b.name}`).sort();
    assert.deepEqual(await tree(), ["blob A", "blob a", "blob b", "blob ä", "prefix a/", "prefix dir/", "prefix 日本語/"]);
    assert.deepEqual(await tree({ prefix: "a/" }), ["blob a/c", "prefix a/b/"]);
    const steps = await all(list.listBlobsByHierarchy("/").byPage({ maxPageSize: 2 }));
    assert.deepEqual(steps.map((page) => page.segment.blobItems.length + (page.segment.blobPrefixes?.length ?? 0)), [2, 2, 2, 1]);
  });

  it("have odd names", async () => {
    const odd = await newContainer();
    const names = ["a b", "a+b", "a%20b", "100%", "#?&=", "(it's)", "a//b", "a/", "emoji 🦀", "<xml>&", "dot."];
    for (const name of names) {
      const blob = odd.getBlockBlobClient(name);
      await put(blob, name);
      assert.equal(await content(new BlobClient(connection, odd.containerName, name, once)), name);
    }
    const order = [...names].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    assert.deepEqual((await all(odd.listBlobsFlat())).map((b) => b.name), order);
    for (const name of names) {
      await odd.deleteBlob(name);
    }
    assert.deepEqual(await all(odd.listBlobsFlat()), []);
  });
});

describe("the service", () => {
  it("has properties that are set part by part, and tells of the account", async () => {
    assert.equal((await service.getProperties()).hourMetrics.enabled, false);
    const rule = { allowedOrigins: "*", allowedMethods: "GET", allowedHeaders: "", exposedHeaders: "", maxAgeInSeconds: 7 };
    await service.setProperties({ cors: [rule], defaultServiceVersion: "2020-10-02" });
    const found = await service.getProperties();
    assert.deepEqual([found.cors[0].allowedOrigins, found.defaultServiceVersion], ["*", "2020-10-02"]);
    const staticWebsite = { enabled: true, indexDocument: "index.html" };
    await service.setProperties({ staticWebsite });
    assert.equal((await service.getProperties()).staticWebsite.indexDocument, "index.html");
    assert.equal(await service.getContainerClient("$web").exists(), true);
    await service.setProperties({ cors: [] });
    const account = await service.getAccountInfo();
    assert.deepEqual([account.accountKind, account.isHierarchicalNamespaceEnabled], ["StorageV2", false]);
  });
});
