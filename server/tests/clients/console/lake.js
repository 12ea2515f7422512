// Directories of a hierarchical namespace on the pages of the console, in a real browser: made, renamed, deleted, and their access control
// lists. The server runs with --hns.

const assert = require("node:assert/strict");
const { after, before, describe, it } = require("node:test");
const { DataLakeServiceClient, StorageSharedKeyCredential } = require("@azure/storage-file-datalake");
const { settings } = require("../harness.js");
const { lookAt } = require("./looks.js");
const { account, base, blobs, follow, launch, link, opened, stop } = require("./setup.js");

const credential = new StorageSharedKeyCredential(settings.AccountName, settings.AccountKey);
const lake = new DataLakeServiceClient(settings.BlobEndpoint, credential).getFileSystemClient("lake");
const directory = (name) => lake.getDirectoryClient(name);
const exists = (name) => blobs.getContainerClient("lake").getBlobClient(name).exists();
const list = `blobs/${link(account, "lake")}`;
const page = (more, name) => `blobs/${link(account, "lake", "blob")}${more}?name=${encodeURIComponent(name)}`;
const USER = "11111111-2222-3333-4444-555555555555";

async function fill() {
  const container = blobs.getContainerClient("lake");
  await container.create();
  await blobs.getContainerClient("empty").create();
  for (const name of ["raw/2026/11/a.csv", "raw/2026/11/b.csv", "raw/2026/12/c.csv", "raw/notes.txt", "refined/report.txt", "top.txt"]) {
    await container.getBlockBlobClient(name).upload(name, name.length);
  }
}

describe("directories in the console", () => {
  before(() => Promise.all([fill(), launch()]));
  after(stop);

  it("makes a directory, and renames it in one click and a form that stays when it is refused", async () => {
    const { page: shown, context, complaints } = await opened(`${list}?prefix=refined%2F`);
    await shown.getByText("New directory").click();
    await shown.getByLabel("Name", { exact: true }).fill("report.txt");
    await shown.getByRole("button", { name: "Create" }).click();
    await shown.locator(".refused", { hasText: "of this name already" }).waitFor();
    await shown.getByLabel("Name", { exact: true }).fill("daily");
    await follow(shown, shown.getByRole("button", { name: "Create" }));
    await shown.getByText("Created.").waitFor();
    assert.equal(await directory("refined/daily").exists(), true);
    await shown.goto(`${base}${list}?prefix=refined%2F`);
    await follow(shown, shown.getByRole("link", { name: "Rename refined/daily/" }));
    const path = shown.getByLabel("New path");
    for (const [wrong, reason] of [["raw", "already"], ["none/daily", "There is no directory 'none'"], ["refined/daily/in", "into itself"]]) {
      await path.fill(wrong);
      await shown.getByRole("button", { name: "Rename" }).click();
      await shown.locator(".refused", { hasText: reason }).waitFor();
      assert.deepEqual([await path.inputValue(), await path.getAttribute("aria-invalid")], [wrong, "true"]);
    }
    await path.fill("raw/daily");
    await follow(shown, shown.getByRole("button", { name: "Rename" }));
    await shown.getByText("Moved.").waitFor();
    await shown.getByRole("heading", { name: "lake/raw/daily/" }).waitFor();
    assert.deepEqual([await directory("refined/daily").exists(), await directory("raw/daily").exists()], [false, true]);
    assert.deepEqual(complaints.filter((text) => !/ (404|409) /.test(text)), []);
    await context.close();
  });

  it("shows both versions if a directory was changed meanwhile", async () => {
    await directory("shared").create();
    const { page: shown, context, complaints } = await opened(page("", "shared"));
    await directory("shared").setMetadata({ team: "blue" });
    await shown.getByLabel("New path").fill("moved");
    await shown.getByRole("button", { name: "Rename" }).click();
    await shown.getByRole("heading", { name: "Changed since you opened it" }).waitFor();
    await shown.getByRole("row", { name: "Metadata team absent blue" }).waitFor();
    assert.equal(await shown.getByLabel("New path").inputValue(), "moved");
    await follow(shown, shown.getByRole("button", { name: "Rename" }));
    assert.deepEqual([await directory("shared").exists(), await directory("moved").exists()], [false, true]);
    assert.deepEqual(complaints.filter((text) => !/ 412 /.test(text)), []);
    await context.close();
  });

  it("edits the access control list of a directory, and of everything in it after a count", async () => {
    const { page: shown, context, complaints } = await opened(`${list}?prefix=raw%2F`);
    await follow(shown, shown.getByRole("link", { name: "Permissions" }));
    await shown.getByLabel("Owner").fill(USER);
    await follow(shown, shown.getByRole("button", { name: "Save owner and group" }));
    const entries = shown.getByLabel("Entries, one on each line").first();
    await entries.fill(`${await entries.inputValue()}\nuser:${USER}:rw`);
    await shown.getByRole("button", { name: "Save the list" }).click();
    await shown.locator(".refused", { hasText: `'user:${USER}:rw' is not an entry` }).waitFor();
    await entries.fill(`${await entries.inputValue()}x\ndefault:user:${USER}:r-x`);
    await follow(shown, shown.getByRole("button", { name: "Save the list" }));
    await shown.getByText("Default: what new paths in the directory get").waitFor();
    const { owner, acl } = await directory("raw").getAccessControl();
    assert.equal(owner, USER);
    assert.deepEqual(acl.filter(({ entityId }) => entityId === USER).map(({ defaultScope, permissions }) => [defaultScope, permissions.write]), [[false, true], [true, false]]);
    await shown.getByLabel("Entries, one on each line").last().fill(`group:${USER}:r-x`);
    await follow(shown, shown.getByRole("button", { name: "Change all…" }));
    await follow(shown, shown.getByRole("button", { name: "Change the permissions of 9 paths" }));
    await shown.getByText("Changed the permissions of 9 paths in lake/raw.").waitFor();
    const below = await lake.getFileClient("raw/2026/12/c.csv").getAccessControl();
    assert.ok(below.acl.some(({ accessControlType, entityId }) => accessControlType === "group" && entityId === USER));
    assert.deepEqual(complaints.filter((text) => !/ 400 /.test(text)), []);
    await context.close();
  });

  it("deletes a directory with what is in it, and selected ones, without JavaScript too", async () => {
    for (const javaScriptEnabled of [true, false]) {
      for (const name of ["gone/deep/a.txt", "kept/b.txt"]) await blobs.getContainerClient("lake").getBlockBlobClient(name).upload("x", 1);
      const { page: shown, context, complaints } = await opened(`${list}?prefix=gone%2F`, { javaScriptEnabled });
      await follow(shown, shown.getByRole("link", { name: "Delete this directory…" }));
      await follow(shown, shown.getByRole("button", { name: "Delete the directory and 2 paths" }));
      assert.deepEqual([await exists("gone"), await exists("gone/deep/a.txt"), await exists("kept/b.txt")], [false, false, true]);
      await shown.goto(base + list);
      await shown.getByLabel("Select kept/").check();
      await follow(shown, shown.getByRole("button", { name: "Delete…" }));
      await follow(shown, shown.getByRole("button", { name: "Delete 2 paths" }));
      await shown.getByText("Deleted 2 paths from lake/.").waitFor();
      assert.equal(await exists("kept"), false);
      assert.deepEqual(complaints, []);
      await context.close();
    }
  });

  it("is shown at every width, dark and light", async () => {
    const problems = await lookAt(Object.entries({
      "lake-containers": `blobs/${link(account)}`,
      "lake-root": list,
      "lake-flat": `${list}?view=flat`,
      "lake-directory": `${list}?prefix=raw%2F`,
      "lake-empty": `blobs/${link(account, "empty")}`,
      "lake-directory-page": page("", "raw/2026"),
      "lake-file": page("", "raw/notes.txt"),
      "lake-access": page("/access", "raw"),
      "lake-access-file": page("/access", "raw/notes.txt"),
      "lake-access-root": page("/access", ""),
      "lake-delete": page("/delete", "raw"),
    }));
    assert.deepEqual(problems, []);
  });
});
