// Everyday tasks in the console, counted in clicks and without scrolling, and what happens to many things at once.

const assert = require("node:assert/strict");
const { after, before, describe, it } = require("node:test");
const { account, all, base, blobs, follow, link, opened, photos, queues, start, stop, table } = require("./setup.js");

/** Clicks as a visitor does, counts them, and fails if the page had to scroll for one. */
function counter(page) {
  let clicks = 0;
  return {
    async click(target, options) {
      clicks += 1;
      await target.scrollIntoViewIfNeeded();
      assert.equal(await page.evaluate(() => scrollY), 0, "the page had to scroll");
      await target.click(options);
    },
    clicks: () => clicks,
  };
}

async function rows(name, count) {
  const made = table(name);
  await made.createTable();
  const entities = [...Array(count).keys()].map((row) => ["create", { partitionKey: "p", rowKey: String(row).padStart(5, "0"), Age: row }]);
  for (let from = 0; from < count; from += 100) await made.submitTransaction(entities.slice(from, from + 100));
  return made;
}

describe("many things at once", () => {
  before(start);
  after(stop);

  it("deletes fifty rows in three clicks, and gives them back", async () => {
    const fifty = await rows("Fifty", 50);
    const { page, context, complaints } = await opened(`tables/${link(account, "Fifty")}`);
    const user = counter(page);
    await user.click(page.getByLabel("Select the rows of this page"));
    await page.getByText("50 selected").waitFor();
    await user.click(page.getByRole("button", { name: "Delete…" }));
    await user.click(page.getByRole("button", { name: "Delete 50 rows" }));
    await page.getByText("Deleted 50 rows from Fifty.").waitFor();
    assert.ok(user.clicks() <= 5, `${user.clicks()} clicks`);
    assert.equal((await all(fifty.listEntities())).length, 0);
    await follow(page, page.getByRole("link", { name: "Show the change, or undo it" }));
    await page.getByRole("button", { name: "Undo" }).click();
    await page.getByText("Restored.").waitFor();
    assert.equal((await all(fifty.listEntities())).length, 50);
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it("selects a range by shift, and all that a filter finds", async () => {
    const many = await rows("Range", 150);
    const { page, context, complaints } = await opened(`tables/${link(account, "Range")}?filter=${encodeURIComponent("Age ge 100")}`);
    await page.getByLabel("Select 00106").click();
    await page.getByLabel("Select 00111").click({ modifiers: ["Shift"] });
    await page.getByText("6 selected").waitFor();
    await page.getByLabel("all that the filter finds").check();
    await page.getByRole("button", { name: "Delete…" }).click();
    await page.getByText("50 rows from Range where Age ge 100.").waitFor();
    await page.getByRole("button", { name: "Delete 50 rows" }).click();
    await page.getByText(/^Deleted 50 rows from Range where/).waitFor();
    assert.equal((await all(many.listEntities())).length, 100);
    assert.equal(await page.locator("#filter").inputValue(), "Age ge 100");
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it("adds an entity in two clicks, and keeps a refused form", async () => {
    const few = await rows("Few", 100);
    const { page, context, complaints } = await opened(`tables/${link(account, "Few")}`);
    const user = counter(page);
    await user.click(page.getByRole("link", { name: "New entity" }));
    await page.waitForURL(/\/new$/);
    await page.getByLabel("PartitionKey").fill("p");
    await page.getByLabel("RowKey").fill("00007");
    const row = page.locator(".edit tbody tr").first();
    await row.locator("input").fill("Age");
    await row.locator("select").selectOption("Int32");
    await row.locator("textarea").fill("x");
    await page.getByRole("button", { name: "Insert" }).click();
    await page.locator(".refused", { hasText: "'x' is not a value of the type Int32" }).waitFor();
    assert.equal(await row.locator("textarea").getAttribute("aria-invalid"), "true");
    await row.locator("textarea").fill("7");
    await page.getByRole("button", { name: "Insert" }).click();
    await page.locator(".refused", { hasText: "already exists" }).waitFor();
    assert.equal(await page.getByLabel("RowKey").getAttribute("aria-invalid"), "true");
    await page.getByLabel("RowKey").fill("new");
    await user.click(page.getByRole("button", { name: "Insert" }));
    await page.getByText("Saved.").waitFor();
    assert.ok(user.clicks() <= 2);
    assert.equal((await few.getEntity("p", "new")).Age, 7);
    assert.deepEqual(complaints.filter((text) => !/ (400|409) /.test(text)), []);
    await context.close();
  });

  it("uploads into the shown directory, finds the file, and deletes the directory", async () => {
    const { page, context, complaints } = await opened(`blobs/${link(account, "photos")}?prefix=2026%2F01%2Ffo`);
    const user = counter(page);
    // The prefix ends within a name: names are whole, and so is the directory of an upload.
    await page.getByRole("link", { name: "forest.txt" }).waitFor();
    await user.click(page.getByRole("button", { name: "Upload" }));
    assert.equal(await page.getByLabel(/^Into the directory/).inputValue(), "2026/01/");
    await page.getByLabel("Files").setInputFiles({ name: "found.txt", mimeType: "text/plain", buffer: Buffer.from("here") });
    await page.getByText("1 of 1 stored.").waitFor();
    await page.getByRole("link", { name: "found.txt" }).waitFor();
    assert.equal((await photos.getBlobClient("2026/01/found.txt").downloadToBuffer()).toString(), "here");
    await page.goto(`${base}blobs/${link(account, "photos")}?prefix=2026%2F`);
    await user.click(page.getByLabel("Select 2026/01/"));
    await user.click(page.getByRole("button", { name: "Delete…" }));
    await user.click(page.getByRole("button", { name: "Delete 2 blobs" }));
    await page.getByText("Deleted 2 blobs from photos/2026/.").waitFor();
    assert.ok(user.clicks() <= 5);
    assert.equal(await photos.getBlobClient("2026/01/found.txt").exists(), false);
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it("shows a fork in two clicks from any page, and filters and folds the tree", async () => {
    const { page, context, complaints } = await opened("requests");
    const user = counter(page);
    const tree = page.locator("aside.tree");
    await tree.getByRole("link", { name: /^photos/ }).waitFor();
    await user.click(tree.locator(".stores summary"));
    await user.click(tree.getByRole("link", { name: "pr42", exact: true }));
    await page.getByText("fork pr42").first().waitFor();
    await page.getByLabel("Filter the resources").fill("ord");
    await tree.getByRole("link", { name: /^Orders/ }).waitFor();
    await tree.getByRole("link", { name: /^photos/ }).waitFor({ state: "detached" });
    await tree.getByRole("link", { name: /^Orders/ }).click();
    await page.waitForURL(new RegExp(`tables/${account}--pr42/Orders`));
    // The tree is whole, and moves no more: a button that moves between the press and the release is not clicked.
    await tree.getByRole("link", { name: /^orders-poison/ }).waitFor();
    await page.locator('[data-group="queues"] > summary').click({ position: { x: 4, y: 8 } });
    // A group says that it was folded after the click is over.
    await page.waitForFunction(() => localStorage.getItem("lazurite-group-queues") === "closed");
    await page.reload();
    assert.equal(await page.locator('[data-group="queues"]').getAttribute("open"), null);
    await page.getByRole("button", { name: "Resources" }).click();
    await page.reload();
    assert.equal(await tree.isVisible(), false);
    // Below 800 pixels it is a drawer.
    await page.setViewportSize({ width: 375, height: 700 });
    await page.getByRole("button", { name: "Resources" }).click();
    await tree.getByRole("link", { name: /^Orders/ }).waitFor();
    await page.keyboard.press("Escape");
    assert.equal(await tree.isVisible(), false);
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it("looks into a snapshot from the menu", async () => {
    const { page, context, complaints } = await opened("");
    // The tree moves while it is drawn.
    await page.locator("aside.tree").getByRole("link", { name: /^photos/ }).waitFor();
    await page.locator(".stores summary").click();
    await page.getByRole("list", { name: "Snapshots" }).getByRole("button", { name: "seed" }).click();
    await page.waitForURL(/blobs\/.*--look-seed/);
    await page.locator("main").getByRole("link", { name: "photos" }).waitFor();
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it("edits the text of a blob, renames it, and keeps what was typed beside another writer", async () => {
    const notes = blobs.getContainerClient("photos").getBlockBlobClient("edit.json");
    await notes.upload('{"a": 1}', 8, { blobHTTPHeaders: { blobContentType: "application/json" }, metadata: { camera: "X100" } });
    const { page, context, complaints } = await opened(`blobs/${link(account, "photos", "blob")}?name=edit.json`);
    await page.getByText("Edit the text").click();
    await page.getByLabel("Text").fill("{");
    await page.getByRole("button", { name: "Save the text" }).click();
    await page.locator(".refused", { hasText: "not valid JSON" }).waitFor();
    await page.getByLabel("Text").fill('{"a": 2}');
    await follow(page, page.getByRole("button", { name: "Save the text" }));
    await page.getByText("Saved.").waitFor();
    assert.equal((await notes.downloadToBuffer()).toString(), '{"a": 2}');
    const { contentType, metadata } = await notes.getProperties();
    assert.deepEqual([contentType, metadata], ["application/json", { camera: "X100" }]);
    await page.getByText("Edit the text").click();
    await page.getByLabel("Text").fill('{"a": 3}');
    await notes.upload('{"a": 9}', 8, { blobHTTPHeaders: { blobContentType: "application/json" }, metadata: { camera: "other" } });
    await page.getByRole("button", { name: "Save the text" }).click();
    // Both versions, who changed it, and what was typed.
    await page.getByRole("heading", { name: "Changed since you opened it" }).waitFor();
    assert.deepEqual(await page.locator(".diff code").allTextContents(), ['{"a": 9}', '{"a": 3}']);
    await page.getByRole("link", { name: "PutBlob 201" }).waitFor();
    assert.equal(await page.getByLabel("Text").inputValue(), '{"a": 3}');
    // Back leads to the page of the blob, as it is now.
    await Promise.all([page.waitForEvent("load"), page.goBack()]);
    await page.locator("pre.text", { hasText: '"a": 9' }).waitFor();
    await page.getByText("Edit the text").click();
    await page.getByLabel("Text").fill('{"a": 3}');
    await notes.setMetadata({ camera: "last" });
    await page.getByRole("button", { name: "Save the text" }).click();
    await follow(page, page.getByRole("button", { name: "Save mine over it" }));
    await page.getByText("Saved.").waitFor();
    assert.equal((await notes.downloadToBuffer()).toString(), '{"a": 3}');
    assert.deepEqual((await notes.getProperties()).metadata, { camera: "last" });
    await page.getByText("Rename, move or copy").click();
    await page.getByLabel("Name", { exact: true }).fill("named/edit.json");
    await page.getByRole("button", { name: "Move", exact: true }).click();
    await page.getByText("Moved.").waitFor();
    assert.deepEqual([await notes.exists(), await photos.getBlobClient("named/edit.json").exists()], [false, true]);
    assert.deepEqual(complaints.filter((text) => !/ (400|412) /.test(text)), []);
    await context.close();
  });

  it("deletes many messages with progress, without JavaScript too", async () => {
    for (const javaScriptEnabled of [true, false]) {
      const queue = queues.getQueueClient(`bulk-${javaScriptEnabled}`);
      await queue.create();
      await Promise.all([...Array(20).keys()].map((number) => queue.sendMessage(`message ${number}`)));
      const { page, context, complaints } = await opened(`queues/${link(account, queue.name)}`, { javaScriptEnabled });
      await page.getByLabel("all 20").check();
      await page.getByRole("button", { name: "Delete…" }).click();
      await follow(page, page.getByRole("button", { name: "Delete 20 messages" }));
      const report = page.getByText(`Deleted 20 messages from ${queue.name}.`);
      // Without a script, the page of a job that takes longer stays as it is.
      while (!javaScriptEnabled && !(await report.isVisible())) await page.reload();
      await report.waitFor();
      assert.equal((await queue.getProperties()).approximateMessagesCount, 0);
      assert.deepEqual(complaints, []);
      await context.close();
    }
  });

  it("cancels a long copy into a fork, which leaves whole blobs, and goes back in steps", async () => {
    const films = blobs.getContainerClient("films");
    await films.create();
    const first = films.getBlockBlobClient("film-000.bin");
    await first.uploadData(Buffer.alloc(16 << 20, "a film "));
    const copies = [...Array(199).keys()].map((number) => films.getBlobClient(`film-${String(number + 1).padStart(3, "0")}.bin`));
    for (const copy of copies) await (await copy.beginCopyFromURL(first.url)).pollUntilDone();
    assert.equal((await fetch(`${base}state/forks`, { method: "POST", body: '{"name": "cinema"}' })).status, 201);
    const fork = `${account}--cinema`;
    const { page, context, complaints } = await opened(`blobs/${link(account, "films")}`);
    await page.getByLabel("all 200").check();
    await page.getByRole("button", { name: "Copy or move…" }).click();
    await page.waitForURL(/jobs\/\d+$/);
    const confirmation = page.url();
    await page.getByLabel("To the account").selectOption(fork);
    await page.getByLabel("To the container").fill("none");
    await page.getByRole("button", { name: "Copy 200 blobs" }).click();
    await page.locator(".refused", { hasText: "does not exist" }).waitFor();
    assert.equal(await page.getByLabel("To the container").getAttribute("aria-invalid"), "true");
    await page.getByLabel("To the container").fill("films");
    await page.getByLabel("Directory").fill("copied");
    await page.getByRole("button", { name: "Copy 200 blobs" }).click();
    // Shown by the page of the list, which can be loaded again in the middle.
    await page.getByLabel("Progress").waitFor();
    await page.reload();
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    const report = await page.getByText(/^Copied \d+ of 200 blobs from films\/\. Canceled\.$/).textContent();
    const copied = await (await fetch(`${base}blobs/${fork}/films?prefix=copied%2F`)).text();
    assert.equal(copied.match(/>film-\d+\.bin</g)?.length ?? 0, Number(report.match(/\d+/)[0]));
    const sizes = [...copied.matchAll(/<td class="number">([^<]+)/g)].map(([, size]) => size);
    assert.deepEqual(new Set(sizes), new Set(["16.8 MB"]), "a blob is there in part");
    // Back from the report leads to it again, and then to the list.
    await page.goto(confirmation);
    await page.waitForURL(/films\?job=/);
    await page.getByText(/Canceled\.$/).waitFor();
    assert.deepEqual(complaints.filter((text) => !text.includes(" 404 ")), []);
    await context.close();
    await fetch(`${base}state/forks/cinema`, { method: "DELETE" });
  });

  it("deletes rows by keys alone, and Back leads from the confirmation to the list", async () => {
    const few = await rows("Keyed", 5);
    const { page, context, complaints } = await opened(`tables/${link(account, "Keyed")}`);
    for (const key of ["j", "x", "j", "j", "x"]) await page.keyboard.press(key);
    await page.getByText("2 selected").waitFor();
    await page.keyboard.press("Delete");
    await page.waitForURL(/jobs\/\d+$/);
    await page.goBack();
    await page.waitForURL(/tables\//);
    await page.goForward();
    await page.getByRole("button", { name: "Delete 2 rows" }).waitFor();
    // The focus is on the button that deletes nothing.
    await page.waitForFunction(() => document.activeElement.textContent === "Cancel");
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Enter");
    await page.getByText("Deleted 2 rows from Keyed.").waitFor();
    assert.deepEqual((await all(few.listEntities())).map((entity) => entity.rowKey), ["00001", "00003", "00004"]);
    await page.goBack();
    await page.getByText("Deleted 2 rows from Keyed.").waitFor();
    await page.goBack();
    await page.waitForURL((url) => url.pathname.endsWith("/Keyed") && url.search === "");
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it("shows what does not show in a name", async () => {
    const strange = blobs.getContainerClient("strange");
    await strange.create();
    for (const name of ["gnp.\u202eexe.txt", "end ", "שלום.txt"]) await strange.getBlockBlobClient(name).upload("x", 1);
    const { page, context, complaints } = await opened(`blobs/${link(account, "strange")}`);
    const shown = await page.locator("#list tbody a").allTextContents();
    assert.deepEqual(shown, ["end␣", "gnp.U+202Eexe.txt", "שלום.txt"]);
    await page.getByRole("link", { name: "gnp." }).click();
    await page.getByRole("heading", { name: "gnp.U+202Eexe.txt" }).waitFor();
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it("downloads a directory as a zip file", async () => {
    const { page, context, complaints } = await opened(`blobs/${link(account, "photos")}`);
    await page.getByLabel("Select 2025/").check();
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download as zip" }).click()]);
    assert.equal(download.suggestedFilename(), "photos.zip");
    assert.deepEqual(complaints, []);
    await context.close();
  });
});
