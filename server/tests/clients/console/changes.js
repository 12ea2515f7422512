// Changes of blobs, queues and tables on the pages of the console, in a real browser, read back by the official clients.

const assert = require("node:assert/strict");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { after, before, describe, it } = require("node:test");
const { PAGES, account, all, base, blobOf, blobs, follow, link, opened, photos, queues, sales, seeded, start, stop, table } = require("./setup.js");

describe("blobs, queues and tables in the console", () => {
  before(start);
  after(stop);

  it("puts, changes and deletes an entity", async () => {
    const { page, context, complaints } = await opened(`tables/${link(account, "Orders", "new")}`);
    await page.getByLabel("PartitionKey").fill("console");
    await page.getByLabel("RowKey").fill("a/b?c#d%'\"".replace("/", ""). replace("?", "").replace("#", ""));
    const rowKey = await page.getByLabel("RowKey").inputValue();
    const row = page.locator(".edit tbody tr").first();
    await row.locator("input").fill("Serial");
    await row.locator("select").selectOption("Int64");
    await row.locator("textarea").fill("9007199254740993");
    await follow(page, page.getByRole("button", { name: "Insert" }));
    await page.getByText("Saved.").waitFor();
    const stored = await sales.getEntity("console", rowKey);
    assert.equal(stored.Serial, 9007199254740993n);
    await page.getByLabel("Value of Serial").fill("42");
    await follow(page, page.getByRole("button", { name: "Save" }));
    await page.getByText("Saved.").waitFor();
    const changed = await sales.getEntity("console", rowKey);
    assert.equal(changed.Serial, 42n);
    // Another client changes it, so the page is out of date.
    await page.goto(page.url());
    await sales.updateEntity({ partitionKey: "console", rowKey, Serial: 43 }, "Replace");
    await page.getByRole("button", { name: "Save" }).click();
    // Both versions are shown, and saving again replaces the stored one.
    await page.getByRole("heading", { name: "Changed since you opened it" }).waitFor();
    assert.deepEqual(await page.locator("table").first().locator("tbody td").allTextContents(), ["42 Int64", "43 Int32"]);
    await page.getByRole("link", { name: /^UpdateEntity 204/ }).waitFor();
    await follow(page, page.getByRole("button", { name: "Save mine over it" }));
    await page.getByText("Saved.").waitFor();
    assert.equal((await sales.getEntity("console", rowKey)).Serial, 42n);
    await page.getByText("Delete this entity").click();
    await page.getByRole("button", { name: "Delete the entity" }).click();
    await page.getByText("Deleted.").waitFor();
    await assert.rejects(sales.getEntity("console", rowKey));
    assert.deepEqual(complaints.filter((text) => !text.includes("412")), []);
    await context.close();
  });

  it("puts a message, with and without JavaScript, and looking counts no delivery", async () => {
    for (const javaScriptEnabled of [true, false]) {
      const queue = queues.getQueueClient(`console-${javaScriptEnabled}`);
      await queue.create();
      const { page, context, complaints } = await opened(`queues/${link(account, queue.name)}`, { javaScriptEnabled });
      await page.getByText("New message").click();
      await page.getByLabel("Text").fill("line one\nline two");
      await page.getByRole("button", { name: "Send" }).click();
      await page.getByText("Sent one message.").waitFor();
      await page.reload();
      const { peekedMessageItems: [message] } = await queue.peekMessages();
      assert.deepEqual([message.messageText, message.dequeueCount], ["line one\nline two", 0]);
      await page.getByText("Clear or delete this queue").click();
      await page.getByRole("button", { name: "Clear 1 message" }).click();
      await page.getByText("The queue is empty.").waitFor();
      assert.equal((await queue.getProperties()).approximateMessagesCount, 0);
      assert.deepEqual(complaints, []);
      await context.close();
    }
  });

  it("uploads and deletes a blob, and creates a container", async () => {
    const { page, context, complaints } = await opened("blobs");
    await page.getByLabel("New container").fill("from-console");
    // The script of the page listens once the page is loaded.
    await follow(page, page.getByRole("button", { name: "Create" }));
    await page.getByText("Created.").waitFor();
    const content = Buffer.alloc(3 << 20, "lazurite ");
    await page.getByRole("button", { name: "Upload" }).click();
    await page.getByLabel("Files").setInputFiles({ name: "grün & <b>.txt", mimeType: "text/plain", buffer: content });
    await page.getByRole("link", { name: "grün & <b>.txt" }).waitFor();
    const blob = blobs.getContainerClient("from-console").getBlobClient("grün & <b>.txt");
    assert.ok((await blob.downloadToBuffer()).equals(content));
    assert.equal((await blob.getProperties()).contentType, "text/plain");
    await follow(page, page.getByRole("link", { name: "grün & <b>.txt" }));
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: /^Download/ }).click()]);
    assert.ok(fs.readFileSync(await download.path()).equals(content));
    await page.getByText("Delete this blob").click();
    await page.getByRole("button", { name: "Delete the blob" }).click();
    await page.getByText("Deleted.").waitFor();
    assert.equal(await blob.exists(), false);
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it("uploads a folder, cancels a file, and goes on behind the blocks of a file that broke off", async () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "folder-"));
    fs.mkdirSync(path.join(folder, "deep"));
    fs.writeFileSync(path.join(folder, "one.txt"), "one");
    fs.writeFileSync(path.join(folder, "deep", "two.txt"), "two");
    const { page, context, complaints } = await opened(`blobs/${link(account, "photos")}?prefix=up%2F`);
    await page.getByRole("button", { name: "Upload" }).click();
    assert.equal(await page.getByLabel(/^Into the directory/).inputValue(), "up/");
    await page.getByLabel("A folder").setInputFiles(folder);
    await page.getByText("2 of 2 stored.").waitFor();
    await page.getByRole("link", { name: path.basename(folder) }).waitFor();
    const uploaded = (name) => photos.getBlobClient(`up/${name}`).downloadToBuffer();
    assert.equal((await uploaded(`${path.basename(folder)}/deep/two.txt`)).toString(), "two");
    fs.rmSync(folder, { recursive: true });
    const files = fs.mkdtempSync(path.join(os.tmpdir(), "files-"));
    const file = (name, buffer) => {
      fs.writeFileSync(path.join(files, name), buffer);
      return page.getByLabel("Files").setInputFiles(path.join(files, name));
    };
    await page.route("**/photos?name=up%2Fheld.bin*", () => {});
    await file("held.bin", Buffer.from("held"));
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    await page.getByText("held.bin: canceled").waitFor();
    assert.equal(await photos.getBlobClient("up/held.bin").exists(), false);
    let blocks = 0;
    await page.route("**/photos?*block=*", (route) => (route.request().method() === "PUT" && (blocks += 1) === 3 ? route.abort() : route.continue()));
    const large = Buffer.alloc(20 << 20, "blocks of a large file ");
    await file("large.bin", large);
    await page.getByText("large.bin: the connection broke off").waitFor({ timeout: 30000 });
    await page.unroute("**/photos?name=up%2Fheld.bin*");
    await page.locator(".progress li", { hasText: "held.bin" }).getByRole("button").click();
    await page.getByText("held.bin: stored").waitFor();
    await page.locator(".progress li", { hasText: "large.bin" }).getByRole("button").click();
    await page.getByText("4 of 4 stored.").waitFor({ timeout: 30000 });
    assert.equal(blocks, 4);
    assert.ok((await uploaded("large.bin")).equals(large));
    fs.rmSync(files, { recursive: true });
    assert.deepEqual(complaints.filter((text) => !/ERR_FAILED| 404 /.test(text)), []);
    await context.close();
  });

  it("shows how a blob is stored, data files and films, and breaks a lease with a key", async () => {
    const { page, context, complaints } = await opened(PAGES["blob-blocks"]);
    await page.getByRole("cell", { name: "block-2", exact: true }).waitFor();
    await page.getByText("Uncommitted blocks: 1 block, 11 B").waitFor();
    const { committed, uncommitted } = await (await fetch(`${base}blobs/${link(account, "photos", "blob")}/blocks.json?name=blocks.bin`)).json();
    assert.deepEqual([committed.map(({ bytes }) => bytes), uncommitted.map(({ id }) => atob(id))], [[10, 20], ["block-3"]]);
    await page.goto(base + PAGES["blob-pages"]);
    await page.getByRole("cell", { name: "65,536" }).waitFor();
    await page.getByText("4,096 of 1,048,576 bytes are written").waitFor();
    await page.goto(base + PAGES["blob-parquet"]);
    await page.getByText("Parquet: 3 rows of 12 columns").waitFor();
    await page.getByRole("cell", { name: "Bob" }).waitFor();
    await page.goto(base + blobOf("", "film.webm"));
    const film = await page.locator("video").getAttribute("src");
    const part = await page.evaluate(async (address) => {
      const answer = await fetch(address, { headers: { range: "bytes=100-199" } });
      return [answer.status, answer.headers.get("content-range"), (await answer.arrayBuffer()).byteLength];
    }, film);
    assert.deepEqual(part, [206, "bytes 100-199/2000", 100]);
    const leased = photos.getBlockBlobClient("leased.txt");
    await leased.upload("mine", 4);
    await leased.getBlobLeaseClient().acquireLease(-1);
    await page.goto(base + blobOf("", "leased.txt"));
    await page.keyboard.press("b");
    await page.keyboard.press("Enter");
    await page.getByText("Saved.").waitFor();
    assert.equal((await leased.getProperties()).leaseState, "broken");
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it("deletes the selected rows, imports a file, and sends a request again", async () => {
    const many = table("Many");
    await many.createTable();
    const { page, context, complaints } = await opened(`tables/${link(account, "Many")}`);
    await page.getByText("Import or export as CSV or JSON").click();
    await page.getByLabel("A file").setInputFiles({ name: "many.csv", mimeType: "text/csv", buffer: Buffer.from("PartitionKey,RowKey,Note\np,1,one\np,2,two\nq,3,three\n") });
    await page.waitForFunction(() => document.querySelector('textarea[name="text"]').value.includes("three"));
    await follow(page, page.getByRole("button", { name: "Import" }));
    await page.getByText("Imported.").waitFor();
    await page.getByLabel("Select 1").check();
    await page.getByLabel("Select 3").check();
    await page.getByText("2 selected").waitFor();
    await page.getByRole("button", { name: "Delete…" }).click();
    await page.getByRole("button", { name: "Delete 2 rows" }).click();
    await page.getByText("Deleted 2 rows from Many.").waitFor();
    assert.deepEqual((await all(many.listEntities())).map((entity) => entity.rowKey), ["2"]);
    await page.goto(`${base}requests/${seeded.conflict.request_id}`);
    await page.getByRole("button", { name: "Send again" }).click();
    await page.getByRole("heading", { name: "SetBlobMetadata 412" }).waitFor();
    await page.waitForURL((url) => !url.href.includes(seeded.conflict.request_id));
    await page.goBack();
    await page.getByText("As Python").click();
    const test = await page.locator("details[open] .copied").nth(1).textContent();
    assert.match(test, /def test_set_blob_metadata_412\(\):[^]*status_code == 412/);
    await page.getByText("Edit and send again").click();
    const headers = await page.getByLabel("Headers").inputValue();
    await page.getByLabel("Headers").fill(headers.split("\n").filter((line) => !line.startsWith("if-match")).join("\n"));
    await page.getByRole("button", { name: "Send", exact: true }).click();
    await page.getByRole("heading", { name: "SetBlobMetadata 200" }).waitFor();
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it("completes a filter, sorts a page, and changes selected rows in one transaction", async () => {
    const some = table("Some");
    await some.createTable();
    for (const [rowKey, Age] of [["1", 20], ["2", 3], ["3", 100]]) await some.createEntity({ partitionKey: "p", rowKey, Age });
    const { page, context, complaints } = await opened(`tables/${link(account, "Some")}`);
    await page.keyboard.press("/");
    await page.keyboard.type("Ag");
    await page.getByRole("option", { name: "Age" }).waitFor();
    for (const key of ["ArrowDown", "Enter", "g", "e", "ArrowDown", "Enter", "ArrowDown", "Enter", "Escape"]) await page.keyboard.press(key);
    assert.equal(await page.getByRole("combobox").inputValue(), "Age ge 0 ");
    await page.keyboard.press("Enter");
    await page.waitForURL(/filter=Age\+ge\+0/);
    const ages = () => page.locator("table.grid tbody tr td:nth-child(4)").allTextContents();
    await page.getByRole("columnheader", { name: /^Age/ }).getByRole("button").click();
    await page.getByText("Sorted in this page only").waitFor();
    assert.deepEqual(await ages(), ["3", "20", "100"]);
    await page.getByRole("columnheader", { name: /^Age/ }).getByRole("button").click();
    assert.deepEqual(await ages(), ["100", "20", "3"]);
    await page.getByRole("columnheader", { name: /^Age/ }).getByRole("button").click();
    assert.deepEqual(await ages(), ["20", "3", "100"]);
    await page.getByLabel("Select 1").check();
    await page.getByLabel("Select 3").check();
    await page.getByText("Change…").click();
    await page.locator('main input[name="name"]').fill("Serial");
    await page.locator('select[name="type"]').selectOption("Int64");
    await page.locator('input[name="value"]').fill("9007199254740993");
    await page.getByRole("button", { name: "Change the selected rows" }).click();
    await page.getByText("Saved.").waitFor();
    const stored = await all(some.listEntities());
    assert.deepEqual(stored.map((entity) => entity.Serial), [9007199254740993n, undefined, 9007199254740993n]);
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it("builds a filter with its plan, converts a property of selected rows, and undoes the edit", async () => {
    const typedTable = table("Typed");
    await typedTable.createTable();
    for (const [rowKey, Age] of [["1", 20], ["2", 3], ["3", undefined]]) await typedTable.createEntity({ partitionKey: "p", rowKey, Note: "it's", ...(Age && { Age }) });
    const { page, context, complaints } = await opened(`tables/${link(account, "Typed")}`);
    await page.getByText("in 66 % of rows").waitFor();
    await page.getByText("Add a condition").click();
    await page.getByLabel("Property", { exact: true }).first().fill("Note");
    await page.locator('input[name="v"]').fill("it's");
    await page.getByRole("button", { name: "Add", exact: true }).click();
    await page.getByText("Plan: table scan.").waitFor();
    assert.equal(await page.locator("#filter").inputValue(), "Note eq 'it''s'");
    // An answer that comes later than the question that follows when one leaves the filter.
    await page.route("**/plan.json?*", async (route) => {
      const answer = await route.fetch();
      await new Promise((resolve) => setTimeout(resolve, 400));
      await route.fulfill({ response: answer });
    });
    await page.locator('input[name="p"]').fill("PartitionKey");
    await page.locator('input[name="v"]').fill("p");
    await page.getByRole("button", { name: "Add", exact: true }).click();
    await page.getByText("Plan: partition scan.").waitFor();
    await page.unroute("**/plan.json?*");
    await page.getByRole("button", { name: "Remove Note eq 'it''s'" }).click();
    await page.waitForFunction(() => document.querySelector("#filter").value === "PartitionKey eq 'p'");
    await page.locator("#filter").fill("PartitionKey eq p");
    await page.locator("[data-plan-state]", { hasText: /quot|feature/ }).waitFor();
    await page.goto(`${base}tables/${link(account, "Typed")}`);
    for (const row of ["1", "2", "3"]) await page.getByLabel(`Select ${row}`).check();
    await page.getByText("Change…").click();
    await page.locator('main input[name="name"]').fill("Age");
    await page.locator('select[name="type"]').selectOption("String");
    await page.getByRole("button", { name: "Convert to this type" }).click();
    await page.getByText("Saved.").waitFor();
    const ages = async () => (await all(typedTable.listEntities())).map(({ Age }) => Age);
    assert.deepEqual(await ages(), ["20", "3", undefined]);
    await page.getByRole("link", { name: "Show the change, or undo it" }).click();
    await page.locator(".diff .removed").first().waitFor();
    assert.deepEqual(await page.locator(".diff .removed td:nth-child(3)").allTextContents(), ["Int32", "Int32"]);
    await page.getByRole("button", { name: "Undo" }).click();
    await page.getByText("Restored.").waitFor();
    assert.deepEqual(await ages(), [20, 3, undefined]);
    await follow(page, page.getByRole("link", { name: "1", exact: true }));
    await page.getByLabel("Type of Age").selectOption("Int64");
    await page.getByText("Age becomes Int64: a filter writes it as 0L.").waitFor();
    await typedTable.updateEntity({ partitionKey: "p", rowKey: "2", Long: "x".repeat(5000) }, "Merge");
    await page.goto(`${base}tables/${link(account, "Typed", "entity")}?pk=p&rk=2`);
    assert.ok(!(await page.content()).includes("x".repeat(200)));
    await page.getByLabel("Value of Age").fill("4");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Saved.").waitFor();
    const { Age, Long } = await typedTable.getEntity("p", "2");
    assert.deepEqual([Age, Long.length], [4, 5000]);
    await follow(page, page.getByRole("link", { name: "Load the value of Long" }));
    assert.equal((await page.getByLabel("Value of Long").inputValue()).length, 5000);
    assert.deepEqual(complaints.filter((text) => !/ 501 /.test(text)), []);
    await context.close();
  });

  it("restores a snapshot without JavaScript, and shares a blob by a link that opens it", async () => {
    const notes = photos.getBlockBlobClient("restored.txt");
    await notes.upload("old", 3);
    await notes.createSnapshot();
    await notes.upload("new", 3);
    const { page, context, complaints } = await opened(blobOf("", "restored.txt"), { javaScriptEnabled: false });
    await page.getByRole("button", { name: /^Restore snapshot/ }).click();
    await page.getByText("Restored.", { exact: true }).waitFor();
    assert.equal((await notes.downloadToBuffer()).toString(), "old");
    await follow(page, page.getByRole("link", { name: "Share" }));
    await page.getByLabel("Delete", { exact: true }).check();
    await follow(page, page.getByRole("button", { name: "Make the link" }));
    const url = await page.locator(".copied code").textContent();
    assert.ok((await page.textContent("main")).includes("delete it"));
    assert.equal(await (await fetch(url)).text(), "old");
    assert.equal((await fetch(url, { method: "DELETE", headers: { "x-ms-version": "2021-12-02", "x-ms-delete-snapshots": "include" } })).status, 202);
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it("edits a message on its way out of the poison queue, and counts down a hidden one", async () => {
    const poison = queues.getQueueClient("late-poison");
    const late = queues.getQueueClient("late");
    for (const queue of [poison, late]) await queue.create();
    await poison.sendMessage("wrong");
    const { page, context, complaints } = await opened(`queues/${link(account, "late-poison")}`);
    await follow(page, page.locator("table.messages a"));
    await page.locator('textarea[name="text"]').fill("right");
    await page.getByLabel("Queue to move to").fill("late");
    await page.getByRole("button", { name: "Move to the other queue" }).click();
    await page.getByText("Moved.").waitFor();
    // Pages fetch themselves again; a clock in the page saves the wait.
    await page.clock.install();
    await page.goto(`${base}queues/${link(account, "late")}`);
    await late.receiveMessages({ visibilityTimeout: 600 });
    await page.clock.runFor(3500);
    await page.locator("[data-until]", { hasText: "min" }).waitFor();
    await follow(page, page.locator("table.messages a"));
    await page.getByRole("button", { name: "Make visible now" }).click();
    await page.getByText("Saved.").waitFor();
    const { peekedMessageItems: [message] } = await late.peekMessages();
    assert.deepEqual([message.messageText, message.dequeueCount], ["right", 1]);
    assert.deepEqual(complaints, []);
    await context.close();
  });
});
