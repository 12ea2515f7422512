// Data Lake Storage through @azure/storage-file-datalake.

const assert = require("node:assert/strict");
const dns = require("node:dns");
const { beforeEach, afterEach, describe, it } = require("node:test");
const {
  DataLakeServiceClient,
  DirectorySASPermissions,
  StorageSharedKeyCredential,
  generateDataLakeSASQueryParameters,
} = require("@azure/storage-file-datalake");
const { settings, once, unique, fails, all } = require("./harness.js");

// The client needs the account in the host name. Not every system resolves the names below localhost.
const { lookup } = dns;
dns.lookup = (host, ...rest) => lookup(host.endsWith(".localhost") ? "127.0.0.1" : host, ...rest);

const port = new URL(settings.BlobEndpoint).port;
const account = settings.AccountName;
const url = `http://${account}.localhost:${port}`;
const credential = new StorageSharedKeyCredential(account, settings.AccountKey);
const service = new DataLakeServiceClient(url, credential, once);
let name;
let files;

const paths = async (options) => (await all(files.listPaths(options))).map((path) => [path.name, path.isDirectory ?? false]);
const content = async (file) => (await file.readToBuffer()).toString();

beforeEach(async () => {
  name = unique("lake");
  files = service.getFileSystemClient(name);
  await files.create({ metadata: { kept: "yes" } });
});

afterEach(() => files.deleteIfExists());

async function newFile(path, text = "") {
  const file = files.getFileClient(path);
  await file.create();
  if (text !== "") {
    await file.append(text, 0, text.length);
    await file.flush(text.length);
  }
  return file;
}

describe("file systems", () => {
  it("are listed with their properties", async () => {
    const found = await all(service.listFileSystems({ prefix: name, includeMetadata: true }));
    assert.deepEqual(found.map((one) => [one.name, one.metadata]), [[name, { kept: "yes" }]]);
    assert.deepEqual((await files.getProperties()).metadata, { kept: "yes" });
    await files.setMetadata({ other: "value" });
    assert.deepEqual((await files.getProperties()).metadata, { other: "value" });
    await fails(() => files.create(), 409, "ContainerAlreadyExists");
  });
});

describe("paths", () => {
  it("are written in parts and read back", async () => {
    const file = files.getFileClient("a/b/file.txt");
    await file.create({ pathHttpHeaders: { contentType: "text/plain" }, metadata: { n: "v" } });
    await file.append("world", 6, 5);
    await file.append("hello ", 0, 6);
    await file.flush(11);
    assert.equal(await content(file), "hello world");
    const found = await file.getProperties();
    assert.deepEqual([found.contentLength, found.contentType, found.metadata], [11, "text/plain", { n: "v" }]);
    assert.equal(found.permissions && (await file.getAccessControl()).owner, "$superuser");
    await fails(() => file.flush(12), 400, "InvalidFlushPosition");
    await file.append("!", 11, 1, { flush: true });
    assert.equal(await content(file), "hello world!");
    await file.upload(Buffer.from("other"));
    assert.equal(await content(file), "other");
    assert.equal(await files.getDirectoryClient("a/b").exists(), true);
    assert.equal(await files.getFileClient("a/c").exists(), false);
  });

  it("are listed", async () => {
    await newFile("d/e/f");
    await newFile("d/a", "12345");
    await files.getDirectoryClient("empty").create();
    const everything = [["d", true], ["d/a", false], ["d/e", true], ["d/e/f", false], ["empty", true]];
    assert.deepEqual(await paths({ recursive: true }), everything);
    assert.deepEqual(await paths(), [["d", true], ["empty", true]]);
    assert.deepEqual(await paths({ path: "d" }), [["d/a", false], ["d/e", true]]);
    const pages = await all(files.listPaths({ recursive: true }).byPage({ maxPageSize: 2 }));
    assert.deepEqual(pages.map((page) => page.pathItems.length), [2, 2, 1]);
    const [, file] = await all(files.listPaths({ recursive: true }));
    assert.deepEqual([file.contentLength, file.owner], [5, "$superuser"]);
    assert.ok(file.lastModified instanceof Date && file.etag);
    await fails(() => paths({ path: "missing" }), 404, "PathNotFound");
  });

  it("are deleted", async () => {
    const file = await newFile("d/s/f");
    const directory = files.getDirectoryClient("d");
    await fails(() => directory.delete(), 409, "DirectoryNotEmpty");
    await directory.delete(true);
    assert.deepEqual(await paths(), []);
    await fails(() => file.delete(), 404, "PathNotFound");
    assert.equal((await directory.deleteIfExists()).succeeded, false);
  });

  it("have properties", async () => {
    const file = await newFile("f");
    await file.setMetadata({ a: "1" });
    await file.setHttpHeaders({ contentType: "a/b", cacheControl: "no-store" });
    const found = await file.getProperties();
    assert.deepEqual([found.metadata, found.contentType], [{ a: "1" }, "a/b"]);
    await file.setExpiry("RelativeToNow", { timeToExpireInMs: 100_000 });
    assert.ok((await file.getProperties()).expiresOn instanceof Date);
  });
});

describe("renames", () => {
  it("move a directory with all below it", async () => {
    await newFile("old/sub/f", "data");
    await files.getDirectoryClient("old").move("new");
    assert.deepEqual(await paths({ recursive: true }), [["new", true], ["new/sub", true], ["new/sub/f", false]]);
    assert.equal(await content(files.getFileClient("new/sub/f")), "data");
  });

  it("keep the ETag of a file", async () => {
    const file = await newFile("a b", "1");
    const before = await file.getProperties();
    await file.move("moved");
    const after = await files.getFileClient("moved").getProperties();
    assert.deepEqual([after.etag, await file.exists()], [before.etag, false]);
  });

  it("are refused where they cannot be", async () => {
    await newFile("d/f");
    const directory = files.getDirectoryClient("d");
    await fails(() => directory.move("d/e"), 409, "InvalidRenameSourcePath");
    await fails(() => directory.move("no/where"), 404, "RenameDestinationParentPathNotFound");
    await fails(() => files.getFileClient("missing").move("x"), 404, "SourcePathNotFound");
  });
});

describe("access control", () => {
  it("is set and read", async () => {
    const file = await newFile("f");
    const entry = (accessControlType, letters, entityId = "") => ({
      accessControlType,
      entityId,
      defaultScope: false,
      permissions: { read: letters.includes("r"), write: letters.includes("w"), execute: letters.includes("x") },
    });
    const acl = [entry("user", "rwx"), entry("group", "r"), entry("other", "")];
    await file.setAccessControl(acl);
    const found = await file.getAccessControl();
    assert.deepEqual(found.acl, acl);
    await file.setPermissions({
      owner: { read: true, write: true, execute: false },
      group: { read: true, write: false, execute: false },
      other: { read: false, write: false, execute: false },
      stickyBit: false,
      extendedAcls: false,
    });
    assert.equal((await file.getAccessControl()).permissions.owner.execute, false);
  });

  it("is set recursively", async () => {
    await newFile("d/a");
    await newFile("d/b/c");
    const acl = ["user", "group", "other"].map((accessControlType) => ({
      accessControlType,
      entityId: "",
      defaultScope: false,
      permissions: { read: true, write: false, execute: true },
    }));
    const { counters } = await files.getDirectoryClient("d").setAccessControlRecursive(acl, { batchSize: 1 });
    assert.deepEqual([counters.changedDirectoriesCount, counters.changedFilesCount, counters.failedChangesCount], [2, 2, 0]);
    assert.deepEqual((await files.getFileClient("d/b/c").getAccessControl()).acl, acl);
  });
});

describe("leases", () => {
  it("protect a path", async () => {
    const file = await newFile("f");
    const lease = file.getDataLakeLeaseClient();
    await lease.acquireLease(60);
    await fails(() => file.delete(), 412, "LeaseIdMissing");
    await file.append("x", 0, 1, { conditions: { leaseId: lease.leaseId } });
    await lease.releaseLease();
    await file.delete();
  });
});

describe("signatures", () => {
  it("for a directory cover what is in it", async () => {
    await newFile("d/f", "1");
    await newFile("e/f");
    const sas = generateDataLakeSASQueryParameters(
      {
        fileSystemName: name,
        pathName: "d",
        isDirectory: true,
        directoryDepth: 1,
        permissions: DirectorySASPermissions.parse("rwdlc"),
        expiresOn: new Date(Date.now() + 3_600_000),
      },
      credential,
    );
    const covered = new DataLakeServiceClient(`${url}?${sas}`, undefined, once).getFileSystemClient(name);
    assert.equal(await content(covered.getFileClient("d/f")), "1");
    assert.equal((await all(covered.listPaths({ path: "d" }))).length, 1);
    await fails(() => covered.getFileClient("e/f").create(), 403, "AuthenticationFailed");
  });
});
