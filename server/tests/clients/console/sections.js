// Requests, advice, state and keys of the console in a real browser; what foreign pages and hostile names achieve.

const assert = require("node:assert/strict");
const http = require("node:http");
const { after, before, describe, it } = require("node:test");
const { BlobServiceClient } = require("@azure/storage-blob");
const { eventually } = require("../harness.js");
const { account, all, base, blobs, connection, follow, once, opened, orders, photos, queues, sales, seeded, start, stop, table } = require("./setup.js");

describe("the console", () => {
  before(start);
  after(stop);

  it("shows requests as they come, pauses, and says why one was refused", async () => {
    const { page, context, complaints } = await opened("requests");
    await queues.getQueueClient("live").create();
    await page.locator("tbody tr", { hasText: "/live" }).waitFor();
    await page.keyboard.press("p");
    await page.getByRole("button", { name: "Continue" }).waitFor();
    await blobs.getContainerClient("alive").create();
    await page.getByText("1 new").waitFor();
    await page.keyboard.press("p");
    await page.locator("tbody tr", { hasText: "/alive" }).waitFor();
    await sales.getEntity("customer-1", "000001");
    await page.locator("tbody tr", { hasText: "partition customer-1" }).first().waitFor();
    await page.getByText("How to filter").click();
    await page.getByRole("link", { name: "slower:100" }).waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("partition:customer-1 -status:404 version:20");
    await page.keyboard.press("Enter");
    await page.waitForURL(/filter=partition/);
    const row = await page.locator(".requests tbody tr").first().textContent();
    assert.match(row, /GetEntity.*partition customer-1.*data-tables \S+ 20\d\d-/s);
    await page.goto(`${base}requests/${seeded.signatureRefused.request_id}`);
    await page.getByText("String to sign of the server").waitFor();
    assert.ok(!(await page.content()).includes("SharedKey devstoreaccount1:F"));
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it("draws the engine's charts", async () => {
    const { page, context, complaints } = await opened("engine");
    await page.waitForFunction(() => document.querySelector('[data-chart="put"] polyline').getAttribute("points").split(" ").length >= 2);
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it("shows the advice that a workload gets, and the heat of its partitions, with the keyboard", async () => {
    const { page, context, complaints } = await opened("advisor");
    const piece = page.locator("ol.advice > li", { hasText: "or-on-keys" });
    await piece.getByRole("link", { name: "Orders" }).click();
    await page.waitForURL(/tables\/.*\/Orders$/);
    await page.goBack();
    await follow(page, piece.getByRole("link", { name: "QueryEntities" }).first());
    await page.getByRole("heading", { name: "QueryEntities 200" }).waitFor();
    await page.goBack();
    await page.keyboard.press("/");
    await page.keyboard.type("whole-upload");
    await page.keyboard.press("Enter");
    await page.waitForURL(/filter=whole-upload/);
    assert.equal(await page.locator("ol.advice > li").count(), 1);
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.waitForURL(/blobs\/.*\/photos\/blob\?name=/);
    await page.keyboard.press("Control+k");
    await page.getByRole("textbox", { name: "Go to" }).fill("heat");
    await page.keyboard.press("Enter");
    await page.waitForURL(/advisor\/heat/);
    const [first] = (await (await fetch(`${base}heatmap`)).json()).rows;
    const row = page.locator("table.heat tbody tr").first();
    assert.deepEqual([first.partition, first.total], ["hot", 3100]);
    assert.match(await row.textContent(), /^hottable Load of .*3,100/);
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.waitForURL(/advisor\/partition/);
    await page.getByRole("link", { name: "table Load" }).waitFor();
    const minutes = await page.getByRole("region", { name: "Minutes" }).locator("tbody td:nth-child(2)").allTextContents();
    assert.equal(minutes.reduce((sum, text) => sum + Number(text.replaceAll(",", "")), 0), 3100);
    await page.keyboard.press("Escape");
    await page.waitForURL(/advisor\/heat/);
    assert.equal(await page.locator(".chosen a").textContent(), "hot");
    // Pages fetch themselves again; a clock in the page saves the wait.
    await page.clock.install();
    await page.goto(`${base}advisor/heat?filter=fresh`);
    await page.getByText("No partition has these words.").waitFor();
    await table("Load").createEntity({ partitionKey: "fresh", rowKey: "1" });
    await page.clock.runFor(3500);
    await page.getByRole("link", { name: "fresh" }).waitFor();
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it("exports the store, a snapshot and a fork, and imports an archive with the keyboard", async () => {
    const { page, context, complaints } = await opened("state");
    const download = async (exported) => (await Promise.all([page.waitForEvent("download"), exported.click()]))[0];
    const ofFork = await download(page.locator("tr", { hasText: "pr42" }).getByRole("button", { name: "Export" }));
    assert.equal(ofFork.suggestedFilename(), `${account}--pr42.tar.zst`);
    const form = page.locator('form[action$="/export"]', { has: page.locator('[name="snapshot"]') });
    await form.getByLabel("From").selectOption("seed");
    const archive = await download(form.getByRole("button", { name: "Export" }));
    assert.equal(archive.suggestedFilename(), `${account}.tar.zst`);
    const file = page.getByLabel("Archive", { exact: true });
    const importWith = async (existing, letter) => {
      await file.focus();
      await page.keyboard.press("Tab");
      assert.equal(await page.evaluate(() => document.activeElement.name), "existing");
      await page.keyboard.press(letter);
      assert.equal(await page.getByLabel("If names are there already").inputValue(), existing);
      await page.keyboard.press("Tab");
      await page.keyboard.press("Enter");
    };
    await file.setInputFiles(await archive.path());
    await importWith("refuse", "i");
    await page.getByRole("alert").filter({ hasText: "Nothing was imported" }).waitFor();
    await importWith("skip", "l");
    await page.getByText("container photos is there: left as it is").waitFor();
    await photos.getBlobClient("catalog.json").delete();
    await photos.getBlobClient("plan.txt").getBlobLeaseClient().breakLease(0);
    await importWith("replace", "r");
    await page.getByText(/^Imported .*blobs \(/).waitFor();
    assert.equal(JSON.parse((await photos.getBlobClient("catalog.json").downloadToBuffer()).toString()).title, "Photos");
    await file.setInputFiles({ name: "no.tar.zst", mimeType: "application/zstd", buffer: Buffer.from("no archive") });
    await page.getByRole("button", { name: "Import", exact: true }).click();
    await page.getByRole("alert").filter({ hasText: "cannot be read as an archive" }).waitFor();
    // The browser complains of the answers that are refusals.
    assert.deepEqual(complaints.filter((text) => !/ (409|400) /.test(text)), []);
    await context.close();
  });

  it("is used with the keyboard", async () => {
    const { page, context, complaints } = await opened("");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+k");
    await page.getByRole("textbox", { name: "Go to" }).fill("Orders");
    await page.getByRole("link", { name: "Orders table" }).waitFor();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("ArrowUp");
    await page.getByRole("textbox", { name: "Go to" }).fill("");
    await page.getByRole("textbox", { name: "Go to" }).fill("Orders");
    while (!(await page.locator('a[aria-selected="true"]').textContent()).endsWith("table")) await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForURL(/tables\/.*\/Orders/);
    await page.keyboard.press("/");
    await page.keyboard.type("Total gt 100");
    await page.keyboard.press("Enter");
    await page.waitForURL(/filter=/);
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    const chosen = await page.locator(".chosen a").getAttribute("href");
    await page.keyboard.press("Enter");
    await page.waitForURL(/entity/);
    await page.goBack();
    assert.equal(await page.locator(".chosen a").getAttribute("href"), chosen);
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it("gives foreign pages nothing", async () => {
    const { port } = new URL(base);
    let shown = "";
    const pages = http.createServer((_, answer) => answer.setHeader("content-type", "text/html").end(shown));
    await new Promise((resolve) => pages.listen(0, "127.0.0.1", resolve));
    const statuses = [];
    /** Opens a page with this content, and waits until the console has answered all that it asks. */
    const open = async (host, content) => {
      shown = content;
      statuses.length = 0;
      const context = await seeded.browser.newContext();
      const page = await context.newPage();
      const isOfConsole = (request) => new URL(request.url()).port === port && !request.url().includes("/assets/");
      const asked = new Set();
      let ended = 0;
      page.on("request", (request) => isOfConsole(request) && asked.add(request));
      const end = (request) => (ended += asked.has(request) ? 1 : 0);
      page.on("requestfinished", end);
      page.on("requestfailed", end);
      page.on("response", (response) => isOfConsole(response.request()) && statuses.push(response.status()));
      await page.goto(`http://${host}:${pages.address().port}/`, { waitUntil: "load" }).catch(() => {});
      await eventually(() => asked.size > 0 && ended === asked.size);
      const got = await page.evaluate(() => window.reading).catch(() => undefined);
      const framed = page.frames().some((frame) => frame.url().startsWith(base) && frame !== page.mainFrame());
      const title = framed ? await page.frames()[1].evaluate(() => document.querySelector("main")?.textContent).catch(() => null) : null;
      await context.close();
      return { got, title };
    };
    const form = `<form method="post" action="${base}queues/${account}/orders/clear"><input name="token" value="x"></form><script>document.forms[0].submit()</script>`;
    const read = `<script>window.reading = fetch("${base}api/names").then((answer) => answer.text()).catch(() => undefined)</script>`;
    const blind = `<script>fetch("${base}queues/${account}/orders/clear", { method: "POST", mode: "no-cors", headers: { "content-type": "application/x-www-form-urlencoded" }, body: "token=x" })</script>`;
    for (const host of ["evil.example", "localhost"]) {
      for (const content of [form, blind]) {
        await open(host, content);
        assert.ok(statuses.every((status) => status === 403), `${host}: ${content}: ${statuses}`);
      }
      const { got } = await open(host, read);
      assert.equal(got, undefined, host);
      const { title } = await open(host, `<iframe src="${base}"></iframe><img src="${base}blobs/${account}/photos/blob/content?name=pixel.png&show=picture">`);
      assert.ok(!title?.includes("Connection string"), host);
      assert.ok(statuses.every((status) => status === 403), `${host}: ${statuses}`);
    }
    const rebound = await seeded.browser.newPage();
    const response = await rebound.goto(base.replace("127.0.0.1", "rebound.example"));
    assert.equal(response.status(), 403);
    await rebound.close();
    assert.equal((await orders.getProperties()).approximateMessagesCount, 8);
    pages.close();
  });

  it("keeps, compares, forks and restores the store, moves its clock, sets faults and resets it, without JavaScript", async () => {
    const plan = photos.getBlockBlobClient("kept.txt");
    const read = async (service) => (await service.getContainerClient("photos").getBlobClient("kept.txt").downloadToBuffer()).toString();
    await plan.upload("old", 3);
    const { page, context, complaints } = await opened("state", { javaScriptEnabled: false });
    const form = (button) => page.locator("form", { has: page.getByRole("button", { name: button, exact: true }) });
    const row = (name) => page.locator("tr", { has: page.getByRole("rowheader", { name, exact: true }) });
    await form("Save snapshot").getByLabel("Name").focus();
    await page.keyboard.type("before");
    await page.keyboard.press("Enter");
    await page.getByText("The snapshot was saved.", { exact: true }).waitFor();
    await plan.upload("new", 3);
    await form("Compare").getByLabel("Between").selectOption("before");
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByText("kept.txt").waitFor();
    await page.getByText("Make a fork").click();
    await form("Make").getByLabel("Name").fill("tried");
    await form("Make").getByLabel("From").selectOption("before");
    await page.getByRole("button", { name: "Make", exact: true }).click();
    const fork = BlobServiceClient.fromConnectionString(await row("tried").locator("[data-copy]").getAttribute("data-copy"), once);
    assert.deepEqual([await read(fork), await read(blobs)], ["old", "new"]);
    // The fork is looked into, and back.
    await follow(page, row("tried").getByRole("link", { name: "tried" }));
    await follow(page, page.getByRole("link", { name: "photos", exact: true }));
    await follow(page, page.getByRole("link", { name: "kept.txt" }));
    await page.locator("pre.text", { hasText: "old" }).waitFor();
    await page.goto(`${base}state`);
    await row("tried").getByRole("button", { name: "End…" }).click();
    await page.getByRole("button", { name: "End the fork tried" }).click();
    await page.getByText("The fork was ended.", { exact: true }).waitFor();
    await assert.rejects(read(fork));
    await row("before").getByRole("button", { name: "Restore…" }).click();
    await page.getByRole("button", { name: "Restore before" }).click();
    await page.getByText(/^Restored\. The store that it replaced is kept/).waitFor();
    assert.equal(await read(blobs), "old");
    // What the restore replaced is kept.
    await page.locator("tr", { hasText: "before-restore-" }).getByRole("button", { name: "Restore…" }).click();
    await page.getByRole("button", { name: /^Restore before-restore-/ }).click();
    await page.getByText(/^Restored\. The store that it replaced is kept/).waitFor();
    assert.equal(await read(blobs), "new");
    await row("before").getByRole("button", { name: "Delete…" }).click();
    await page.getByRole("button", { name: "Delete the snapshot before" }).click();
    await page.getByText("The snapshot was deleted.", { exact: true }).waitFor();
    assert.equal(await row("before").count(), 0);
    await page.getByLabel("Advance by").fill("90s");
    await page.keyboard.press("Enter");
    await page.getByText("The clock was moved: it is 1 min 30 s ahead of the machine.").waitFor();
    assert.equal(Math.round((await (await fetch(`${base}clock`)).json()).offsetSeconds), 90);
    await follow(page, page.getByRole("button", { name: "+1 h" }));
    assert.equal(Math.round((await (await fetch(`${base}clock`)).json()).offsetSeconds), 3690);
    await follow(page, page.getByRole("button", { name: "Freeze" }));
    await follow(page, page.getByRole("button", { name: "Let it run" }));
    await page.getByRole("button", { name: "Freeze" }).waitFor();
    const set = async (rules) => {
      await page.getByText("Set faults").click();
      await page.getByLabel("Rules").fill(JSON.stringify({ rules }));
      await follow(page, page.getByRole("button", { name: "Replace the rules" }));
    };
    await set([{ operation: "GetBlob", fault: "429" }]);
    await page.getByText("rules[0].fault").first().waitFor();
    await page.goBack();
    await set([{ operation: "GetBlob", fault: "503", count: 1 }]);
    await page.getByText("Saved.").waitFor();
    await assert.rejects(read(blobs), /503|busy/);
    await page.goto(`${base}blobs`);
    await follow(page, page.getByRole("link", { name: "Show or clear them" }));
    await page.getByRole("cell", { name: "1 of 1" }).waitFor();
    await follow(page, page.getByRole("button", { name: "Clear the faults" }));
    await page.getByText("No fault is set.").waitFor();
    await page.locator('select[name="effect"]').selectOption("500 OperationTimedOut");
    await page.locator('.fault input[name="operation"]').fill("GetBlob");
    await page.locator('.fault input[name="count"]').fill("1");
    await follow(page, page.getByRole("button", { name: "Add", exact: true }));
    await page.getByText("Saved.").waitFor();
    await assert.rejects(read(blobs), { statusCode: 500 });
    await page.getByText("Catalogue: how Azure Storage fails").click();
    await follow(page, page.getByRole("button", { name: "Add lose-answer to the next PutMessage" }));
    await page.getByRole("rowheader", { name: "lose-answer" }).first().waitFor();
    const rules = async () => (await (await fetch(`${base}faults`)).json()).rules.map(({ fault, hits }) => [fault, hits]);
    assert.deepEqual(await rules(), [["500 OperationTimedOut", 1], ["lose-answer", 0]]);
    await follow(page, page.getByRole("button", { name: "Remove" }).first());
    await page.getByText("Saved.").waitFor();
    assert.deepEqual(await rules(), [["lose-answer", 0]]);
    await follow(page, page.getByRole("button", { name: "Clear the faults" }));
    await page.getByText("Reset the store").click();
    await page.getByRole("button", { name: /^Delete all/ }).click();
    await page.getByRole("button", { name: "Delete everything" }).click();
    await page.getByText("Cleared.").waitFor();
    assert.deepEqual([await all(blobs.listContainers()), await all(queues.listQueues())], [[], []]);
    assert.deepEqual(complaints.filter((text) => !/ 400 /.test(text)), []);
    await context.close();
  });
});
