// The console in a real browser: every page at three widths, dark and light, with the keyboard and without JavaScript; one change on each
// kind of page, read back by the official clients; what foreign pages and hostile names achieve. LAZURITE_SCREENSHOTS=DIR keeps pictures.

const assert = require("node:assert/strict");
const fs = require("node:fs");
const http = require("node:http");
const os = require("node:os");
const path = require("node:path");
const { after, before, describe, it } = require("node:test");
const axe = require("axe-core");
const { chromium } = require("playwright-core");
const sparticuz = require("@sparticuz/chromium");
const { BlobServiceClient } = require("@azure/storage-blob");
const { QueueServiceClient } = require("@azure/storage-queue");
const { TableClient } = require("@azure/data-tables");
const { connection, settings, once, all } = require("./harness.js");

const account = settings.AccountName;
const base = `${new URL(settings.BlobEndpoint).origin}/_lazurite/`;
const pictures = process.env.LAZURITE_SCREENSHOTS;
const EVIL = `<img src=x onerror="document.documentElement.dataset.ran='yes'">`;

const blobs = BlobServiceClient.fromConnectionString(connection, once);
const queues = QueueServiceClient.fromConnectionString(connection, once);
const table = (name) => TableClient.fromConnectionString(connection, name, { ...once, allowInsecureConnection: true });
const photos = blobs.getContainerClient("photos");
const orders = queues.getQueueClient("orders");
const sales = table("Orders");

const PIXEL = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
const typed = (contentType) => ({ blobHTTPHeaders: { blobContentType: contentType } });

let snapshot;
let hidden;

async function seed() {
  for (const container of [photos, blobs.getContainerClient("invoices"), blobs.getContainerClient("thumbnails-of-everything-that-was-ever-uploaded-here")]) {
    await container.create();
  }
  const upload = (name, content, type) => photos.getBlockBlobClient(name).upload(content, content.length, typed(type));
  for (const name of ["2025/11/lake.txt", "2026/01/forest.txt", "2026/11/lake.txt", "notes.txt"]) {
    await upload(name, "blue and deep\n".repeat(20), "text/plain");
  }
  await upload("catalog.json", JSON.stringify({ title: "Photos", count: 9, places: ["lake", "forest"] }), "application/json");
  await upload("pixel.png", PIXEL, "image/png");
  await upload("sensor.bin", Buffer.from([...Array(300).keys()].map((n) => n & 0xff)), "application/octet-stream");
  await upload(`${EVIL}.html`, EVIL, "text/html");
  await upload("people.csv", `name,age\n"Lee, Ann",34\n${EVIL.replaceAll('"', "'")},7\n`, "text/csv");
  await upload("people.parquet", fs.readFileSync(path.join(__dirname, "../../query/tests/data/people-snappy.parquet")), "application/octet-stream");
  await upload("film.webm", Buffer.alloc(2000, 7), "video/webm");
  const disk = photos.getPageBlobClient("disk.vhd");
  await disk.create(1 << 20);
  await disk.uploadPages(Buffer.alloc(4096, 1), 65536, 4096);
  const blocks = photos.getBlockBlobClient("blocks.bin");
  const block = (number) => Buffer.from(`block-${number}`).toString("base64");
  for (const number of [1, 2]) await blocks.stageBlock(block(number), "x".repeat(number * 10), number * 10);
  await blocks.commitBlockList([block(1), block(2)]);
  await blocks.stageBlock(block(3), "uncommitted", 11);
  await upload("plan.txt", "first\nsecond\nthird\n", "text/plain");
  snapshot = (await photos.getBlobClient("plan.txt").createSnapshot()).snapshot;
  await upload("plan.txt", "first\n2nd\nthird\nfourth\n", "text/plain");
  await photos.getBlobClient("plan.txt").getBlobLeaseClient().acquireLease(-1);
  await photos.getBlobClient("notes.txt").setMetadata({ camera: "X100", evil: "<script>1</script>" });
  for (const name of ["orders", "orders-poison"]) await queues.getQueueClient(name).create();
  for (let number = 0; number < 6; number += 1) {
    await orders.sendMessage(JSON.stringify({ order: number, customer: `c-${number % 4}`, total: number * 3.5 }));
  }
  await orders.sendMessage(Buffer.from(JSON.stringify({ order: 7, gift: true })).toString("base64"));
  await orders.sendMessage(EVIL);
  await queues.getQueueClient("orders-poison").sendMessage(JSON.stringify({ order: 99, note: "cannot be read" }));
  await queues.getQueueClient("taken").create();
  await queues.getQueueClient("taken").sendMessage(JSON.stringify({ order: 1, customer: "c-1" }));
  hidden = (await queues.getQueueClient("taken").receiveMessages({ visibilityTimeout: 3600 })).receivedMessageItems[0].messageId;
  await sales.createTable();
  for (let number = 0; number < 40; number += 1) {
    const entity = {
      partitionKey: `customer-${number % 4}`, rowKey: String(number).padStart(6, "0"), Total: number * 3.5, Quantity: number % 9,
      Paid: number % 2 === 0, Placed: new Date(Date.UTC(2026, 10, 1, number)),
      Note: number % 5 === 0 ? "Please ring twice; leave it with the neighbour if nobody is at home." : "ok",
    };
    if (number % 3 === 0) entity.Tracking = { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" };
    if (number % 4 === 0) entity.Serial = { type: "Int64", value: String(2n ** 40n) };
    if (number % 10 === 0) entity.Label = new Uint8Array(40);
    await sales.createEntity(entity);
  }
  await sales.createEntity({ partitionKey: EVIL.replaceAll("/", ""), rowKey: `"'&<>`, Note: EVIL, [`Evil`]: `"><script>1</script>` });
  await all(sales.listEntities({ queryOptions: { filter: "RowKey eq '000003' or RowKey eq '000010'" } }));
  const failing = [
    () => blobs.getContainerClient("missing").getProperties(),
    () => all(sales.listEntities({ queryOptions: { filter: "PartitionKey eq Sales" } })),
    () => BlobServiceClient.fromConnectionString(connection.replace("AccountKey=E", "AccountKey=F"), once).getProperties(),
    () => fetch(`${settings.BlobEndpoint}/photos/${encodeURIComponent(EVIL)}?sig=aaaa`),
    () => photos.getBlobClient("note.txt").download(),
    () => photos.getBlobClient("notes.txt").setMetadata({ camera: EVIL.replaceAll(/[^ -~]/g, "") }, { conditions: { ifMatch: '"0x1"' } }),
  ];
  for (const attempt of failing) await attempt().catch(() => {});
  const answers = [await fetch(`${base}state/snapshots/seed`, { method: "PUT" }), await fetch(`${base}state/forks`, { method: "POST", body: '{"name": "pr42"}' })];
  assert.deepEqual(answers.map((answer) => answer.status), [201, 201]);
  await seedAdvice(upload);
  await sales.submitTransaction([["create", { partitionKey: "batch", rowKey: "1", Note: EVIL }], ["create", { partitionKey: "batch", rowKey: "2" }]]);
}

/** Requests that the advisor has something to say about, some of them with names that hold markup. */
async function seedAdvice(upload) {
  for (let round = 0; round < 6; round += 1) await all(sales.listEntities({ queryOptions: { filter: `RowKey eq '000003' or RowKey eq '${EVIL.replaceAll("'", "''")}'` } }));
  for (let round = 0; round < 12; round += 1) await upload(`${EVIL}.bin`, Buffer.alloc(300_000, round), "application/octet-stream");
  const load = table("Load");
  await load.createTable();
  const rows = [...Array(100).keys()].map((row) => ["create", { partitionKey: "hot", rowKey: String(row).padStart(4, "0") }]);
  await load.submitTransaction(rows);
  await load.createEntity({ partitionKey: "", rowKey: "alone" });
  const read = () => all(load.listEntities({ queryOptions: { filter: "PartitionKey eq 'hot'" } }));
  await Promise.all([...Array(30)].map(read));
}

const link = (...segments) => segments.map(encodeURIComponent).join("/");
const setFaults = async (...rules) => assert.equal((await fetch(`${base}faults`, { method: "PUT", body: JSON.stringify({ rules }) })).status, 200);
const PAGES = {
  home: "",
  containers: "blobs",
  blobs: `blobs/${link(account, "photos")}`,
  directory: `blobs/${link(account, "photos")}?prefix=2026%2F`,
  "blob-text": `blobs/${link(account, "photos", "blob")}?name=notes.txt`,
  "blob-json": `blobs/${link(account, "photos", "blob")}?name=catalog.json`,
  "blob-picture": `blobs/${link(account, "photos", "blob")}?name=pixel.png`,
  "blob-hex": `blobs/${link(account, "photos", "blob")}?name=sensor.bin`,
  "blob-evil": `blobs/${link(account, "photos", "blob")}?name=${encodeURIComponent(EVIL)}.html`,
  "blob-csv": `blobs/${link(account, "photos", "blob")}?name=people.csv`,
  "blob-blocks": `blobs/${link(account, "photos", "blob")}?name=blocks.bin`,
  "blob-pages": `blobs/${link(account, "photos", "blob")}?name=disk.vhd`,
  "blob-parquet": `blobs/${link(account, "photos", "blob")}?name=people.parquet`,
  "blob-leased": `blobs/${link(account, "photos", "blob")}?name=plan.txt`,
  "container-delete": `blobs/${link(account, "photos", "delete")}`,
  deleted: `blobs/${link(account, "photos")}?view=flat&deleted=yes`,
  "sas-container": `sas/${link(account)}?service=blob&name=photos`,
  "sas-queue": `sas/${link(account)}?service=queue&name=orders&hours=2&may-r=yes&may-p=yes&https=yes`,
  queues: "queues",
  "queue-poison": `queues/${link(account, "orders-poison")}`,
  queue: `queues/${link(account, "orders")}`,
  tables: "tables",
  table: `tables/${link(account, "Orders")}`,
  "table-filtered": `tables/${link(account, "Orders")}?filter=${encodeURIComponent("RowKey eq '000003' or RowKey eq '000010'")}`,
  "table-mistake": `tables/${link(account, "Orders")}?filter=${encodeURIComponent("PartitionKey eq Sales")}`,
  entity: `tables/${link(account, "Orders", "entity")}?pk=customer-0&rk=000000`,
  "entity-evil": `tables/${link(account, "Orders", "entity")}?pk=${encodeURIComponent(EVIL)}&rk=${encodeURIComponent(`"'&<>`)}`,
  "entity-new": `tables/${link(account, "Orders", "new")}`,
  requests: "requests",
  "requests-errors": "requests?errors=yes&filter=PartitionKey",
  "requests-open": "requests/open",
  advice: "advisor",
  "advice-none": "advisor?filter=absent",
  heat: "advisor/heat",
  partition: `advisor/partition?service=blob&account=${link(account)}&resource=photos&partition=${encodeURIComponent(`${EVIL}.bin`)}`,
  engine: "engine",
  state: "state",
  "state-faults": "state?",
  "state-compared": "state?from=seed&to=now&compare=1",
  connect: `connect/${link(account)}`,
};

describe("the console", () => {
  let browser;
  let signatureRefused;
  let missing;
  let conflict;
  let batch;

  before(async () => {
    await seed();
    const hosts = "--host-resolver-rules=MAP evil.example 127.0.0.1, MAP rebound.example 127.0.0.1";
    const args = ["--no-sandbox", "--disable-gpu", hosts];
    browser = await chromium.launch({ executablePath: await sparticuz.executablePath(), args });
    const { requests } = await (await fetch(`${base}api/requests?after=0`)).json();
    [missing, conflict] = ["BlobNotFound", "ConditionNotMet"].map((code) => requests.find((request) => request.code === code));
    batch = requests.find((request) => request.operation === "Batch");
    signatureRefused = requests.find((request) => request.code === "AuthenticationFailed" && request.operation !== "GetBlob");
  });

  after(() => browser?.close());

  /** A page on which an error of the console, or anything that the policy blocks, fails the test. */
  async function opened(address, options = {}) {
    const context = await browser.newContext({ reducedMotion: "reduce", ...options });
    context.setDefaultTimeout(8000);
    const page = await context.newPage();
    const complaints = [];
    page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(String(error)));
    const response = await page.goto(base + address, { waitUntil: "load" });
    return { page, context, response, complaints };
  }

  const blobOf = (more, name) => `blobs/${link(account, "photos", "blob")}${more}?name=${name}`;
  const ofSnapshot = (more) => `${blobOf(more, "plan.txt")}&snapshot=${encodeURIComponent(snapshot)}`;
  const more = () => ({ "blob-snapshot": ofSnapshot(""), "blob-compare": ofSnapshot("/compare"), message: `queues/${link(account, "taken", "message")}?id=${hidden}`, "queue-hidden": `queues/${link(account, "taken")}`, "request-batch": `requests/${batch.request_id}` });
  const places = () => ({ ...PAGES, ...more(), "request-403": `requests/${signatureRefused.request_id}`, "request-404": `requests/${missing.request_id}`, "request-412": `requests/${conflict.request_id}` });

  it("shows every page at every width, dark and light, without a complaint of the browser", async () => {
    const problems = [];
    const check = (what, found) => found.length > 0 && problems.push(`${what}: ${found.join("\n    ")}`);
    for (const colorScheme of ["light", "dark"]) {
      for (const width of [360, 1280, 2560]) {
        // The full set is for pictures.
        if (!pictures && (width === 2560 || (colorScheme === "dark" && width === 360))) continue;
        const { page, context, complaints } = await opened("", { viewport: { width, height: width === 360 ? 740 : 900 }, colorScheme });
        for (const [name, address] of Object.entries(places())) {
          const what = `${name} ${width} ${colorScheme}`;
          if (name === "state-faults") await setFaults({ resource: EVIL, fault: "503; retry-after=2", probability: 0.5, count: 3 });
          const response = await page.goto(base + address, { waitUntil: "load" });
          // What is folded is looked at, too.
          await page.evaluate(() => document.querySelectorAll("details").forEach((folded) => (folded.open = true)));
          check(what, [response.status()].filter((status) => status !== 200));
          check(`${what}: bytes of the page`, [(await response.body()).length].filter((length) => length > 150 * 1024));
          const wide = await page.evaluate(() => [...document.querySelectorAll("body, body *")].filter((shown) => !shown.closest(".scroll, .hidden, .skip, nav") && shown.getBoundingClientRect().right > innerWidth + 1).map((shown) => shown.outerHTML.slice(0, 120)));
          if (pictures) {
            fs.mkdirSync(pictures, { recursive: true });
            await page.screenshot({ path: path.join(pictures, `${name}-${width}-${colorScheme}.png`), fullPage: name !== "table" && name !== "requests" });
          }
          check(`${what}: wider than the window`, wide.slice(0, 3));
          const scrolled = await page.evaluate(() => [document.documentElement.scrollWidth - innerWidth].filter((more) => more > 0));
          check(`${what}: scrolls sideways by`, scrolled);
          await page.evaluate(axe.source);
          // Every rule once; of the same page in other colours, their contrast.
          const rules = pictures || (colorScheme === "light" && width === 360) ? undefined : { type: "rule", values: ["color-contrast"] };
          const { violations } = await page.evaluate((runOnly) => axe.run({ resultTypes: ["violations"], ...(runOnly && { runOnly }) }), rules);
          const found = violations.map((violation) => `${violation.id}: ${violation.nodes.map((node) => node.html + node.failureSummary).join("; ")}`);
          check(what, found);
          const ran = await page.evaluate(() => document.documentElement.dataset.ran);
          check(`${what}: markup of the store ran`, [ran].filter(Boolean));
          check(what, complaints.splice(0));
          if (name === "state-faults") await setFaults();
        }
        await context.close();
      }
    }
    assert.equal(problems.length, 0, problems.join("\n"));
  });

  it("puts, changes and deletes an entity", async () => {
    const { page, context, complaints } = await opened(`tables/${link(account, "Orders", "new")}`);
    await page.getByLabel("PartitionKey").fill("console");
    await page.getByLabel("RowKey").fill("a/b?c#d%'\"".replace("/", ""). replace("?", "").replace("#", ""));
    const rowKey = await page.getByLabel("RowKey").inputValue();
    const row = page.locator(".edit tbody tr").first();
    await row.locator("input").fill("Serial");
    await row.locator("select").selectOption("Int64");
    await row.locator("textarea").fill("9007199254740993");
    await page.getByRole("button", { name: "Insert" }).click();
    await page.getByText("Saved.").waitFor();
    const stored = await sales.getEntity("console", rowKey);
    assert.equal(stored.Serial, 9007199254740993n);
    await page.getByLabel("Value of Serial").fill("42");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Saved.").waitFor();
    const changed = await sales.getEntity("console", rowKey);
    assert.equal(changed.Serial, 42n);
    // Another client changes it, so the page is out of date.
    await page.goto(page.url());
    await sales.updateEntity({ partitionKey: "console", rowKey, Serial: 43 }, "Replace");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("UpdateConditionNotSatisfied").first().waitFor();
    await page.goBack();
    await page.reload();
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
      await page.getByLabel("Text").fill("line one\nline two");
      await page.getByRole("button", { name: "Put" }).click();
      await page.getByText("Put one message.").waitFor();
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
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByText("Created.").waitFor();
    const content = Buffer.alloc(3 << 20, "lazurite ");
    await page.getByLabel("Files").setInputFiles({ name: "grün & <b>.txt", mimeType: "text/plain", buffer: content });
    await page.getByRole("link", { name: "grün & <b>.txt" }).waitFor();
    const blob = blobs.getContainerClient("from-console").getBlobClient("grün & <b>.txt");
    assert.ok((await blob.downloadToBuffer()).equals(content));
    assert.equal((await blob.getProperties()).contentType, "text/plain");
    await page.getByRole("link", { name: "grün & <b>.txt" }).click();
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
    await page.getByLabel("A folder").setInputFiles(folder);
    await page.getByText("2 blobs with this beginning").waitFor();
    const uploaded = (name) => photos.getBlobClient(`up/${name}`).downloadToBuffer();
    assert.equal((await uploaded(`${path.basename(folder)}/deep/two.txt`)).toString(), "two");
    fs.rmSync(folder, { recursive: true });
    const file = (name, buffer) => page.getByLabel("Files").setInputFiles({ name, mimeType: "application/octet-stream", buffer });
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
    await page.getByText("4 blobs with this beginning").waitFor({ timeout: 30000 });
    assert.equal(blocks, 4);
    assert.ok((await uploaded("large.bin")).equals(large));
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
    await page.goto(`${base}requests/${signatureRefused.request_id}`);
    await page.getByText("String to sign of the server").waitFor();
    assert.ok(!(await page.content()).includes("SharedKey devstoreaccount1:F"));
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
    await page.getByRole("button", { name: "Import" }).click();
    await page.getByText("Imported.").waitFor();
    await page.getByLabel("Select 1").check();
    await page.getByLabel("Select 3").check();
    await page.getByText("2 selected").waitFor();
    await page.getByRole("button", { name: "Delete the selected rows" }).click();
    await page.getByText("Deleted.").waitFor();
    assert.deepEqual((await all(many.listEntities())).map((entity) => entity.rowKey), ["2"]);
    await page.goto(`${base}requests/${conflict.request_id}`);
    await page.getByRole("button", { name: "Send again" }).click();
    await page.getByRole("heading", { name: "SetBlobMetadata 412" }).waitFor();
    await page.waitForURL((url) => !url.href.includes(conflict.request_id));
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
    await page.getByText("Change a property of the selected rows").click();
    await page.locator('input[name="name"]').fill("Serial");
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
    await page.locator('input[name="p"]').fill("PartitionKey");
    await page.locator('input[name="v"]').fill("p");
    await page.getByRole("button", { name: "Add", exact: true }).click();
    await page.getByText("Plan: partition scan.").waitFor();
    await page.getByRole("button", { name: "Remove Note eq 'it''s'" }).click();
    await page.waitForFunction(() => document.querySelector("#filter").value === "PartitionKey eq 'p'");
    await page.locator("#filter").fill("PartitionKey eq p");
    await page.locator("[data-plan-state]", { hasText: /quot|feature/ }).waitFor();
    await page.goto(`${base}tables/${link(account, "Typed")}`);
    for (const row of ["1", "2", "3"]) await page.getByLabel(`Select ${row}`).check();
    await page.getByText("Change a property of the selected rows").click();
    await page.locator('input[name="name"]').fill("Age");
    await page.locator('select[name="type"]').selectOption("String");
    await page.getByRole("button", { name: "Convert to this type" }).click();
    await page.getByText("Saved.").waitFor();
    const ages = async () => (await all(typedTable.listEntities())).map(({ Age }) => Age);
    assert.deepEqual(await ages(), ["20", "3", undefined]);
    await page.getByRole("link", { name: "Show the change, or undo it" }).click();
    assert.deepEqual(await page.locator(".diff .removed td:nth-child(3)").allTextContents(), ["Int32", "Int32"]);
    await page.getByRole("button", { name: "Undo" }).click();
    await page.getByText("Restored.").waitFor();
    assert.deepEqual(await ages(), [20, 3, undefined]);
    await page.getByRole("link", { name: "1", exact: true }).click();
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
    await page.getByRole("link", { name: "Load the value of Long" }).click();
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
    await page.getByRole("link", { name: "Share" }).click();
    await page.getByLabel("Delete", { exact: true }).check();
    await page.getByRole("button", { name: "Make the link" }).click();
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
    await page.locator("ol.messages a").click();
    await page.getByRole("button", { name: "Save the text" }).waitFor();
    await page.locator('textarea[name="text"]').fill("right");
    await page.getByLabel("Queue to move to").fill("late");
    await page.getByRole("button", { name: "Move to the other queue" }).click();
    await page.getByText("Moved.").waitFor();
    await page.goto(`${base}queues/${link(account, "late")}`);
    await late.receiveMessages({ visibilityTimeout: 600 });
    // The page fetches itself again.
    await page.locator("[data-until]", { hasText: "min" }).waitFor();
    await page.getByRole("button", { name: "Make visible now" }).click();
    await page.getByText("Saved.").waitFor();
    const { peekedMessageItems: [message] } = await late.peekMessages();
    assert.deepEqual([message.messageText, message.dequeueCount], ["right", 1]);
    assert.deepEqual(complaints, []);
    await context.close();
  });

  it("opens a HAR file in the page, markup in it included, and draws the engine's charts", async () => {
    const { page, context, complaints } = await opened("requests/open");
    const archive = JSON.parse(await (await fetch(`${base}requests.har`)).text());
    archive.log.entries.unshift({ startedDateTime: "2026-11-26T00:00:00Z", time: 1, comment: `Bad: ${EVIL}`, _operation: EVIL, request: { method: EVIL, url: `http://h/${EVIL}`, headers: [{ name: "user-agent", value: EVIL }], postData: { text: EVIL } }, response: { status: 400, headers: [] } });
    await page.getByLabel("File", { exact: true }).setInputFiles({ name: "saved.har", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(archive)) });
    await page.getByText(/^Showing .* of saved.har/).waitFor();
    await page.locator("tbody tr a").first().click();
    await page.getByRole("region", { name: "Request body" }).waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.dataset.ran), undefined);
    await page.getByLabel("File", { exact: true }).setInputFiles({ name: "no.har", mimeType: "application/json", buffer: Buffer.from("[") });
    await page.getByText("no.har is not a HAR file").waitFor();
    await page.goto(`${base}engine`);
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
    await piece.getByRole("link", { name: "QueryEntities" }).first().click();
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
    const open = async (host, content) => {
      shown = content;
      statuses.length = 0;
      const context = await browser.newContext();
      const page = await context.newPage();
      page.on("response", (response) => {
        const { port: asked, pathname } = new URL(response.url());
        if (asked === port && !pathname.includes("/assets/")) statuses.push(response.status());
      });
      await page.goto(`http://${host}:${pages.address().port}/`, { waitUntil: "load" }).catch(() => {});
      await page.waitForTimeout(400);
      const got = await page.evaluate(() => window.got).catch(() => undefined);
      const framed = page.frames().some((frame) => frame.url().startsWith(base) && frame !== page.mainFrame());
      const title = framed ? await page.frames()[1].evaluate(() => document.querySelector("main")?.textContent).catch(() => null) : null;
      await context.close();
      return { got, title };
    };
    const form = `<form method="post" action="${base}queues/${account}/orders/clear"><input name="token" value="x"></form><script>document.forms[0].submit()</script>`;
    const read = `<script>fetch("${base}api/names").then((answer) => answer.text()).then((text) => (window.got = text), () => {})</script>`;
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
    const rebound = await browser.newPage();
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
    await form("Keep").getByLabel("Name").focus();
    await page.keyboard.type("before");
    await page.keyboard.press("Enter");
    await page.getByText("Created.", { exact: true }).waitFor();
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
    await row("tried").getByRole("button", { name: "End" }).click();
    await page.getByText("Deleted.", { exact: true }).waitFor();
    await assert.rejects(read(fork));
    await row("before").getByRole("button", { name: "Restore" }).click();
    await page.getByText("Restored.", { exact: true }).waitFor();
    assert.equal(await read(blobs), "old");
    await row("before").getByRole("button", { name: "Delete" }).click();
    await page.getByText("Deleted.", { exact: true }).waitFor();
    assert.equal(await row("before").count(), 0);
    await page.getByLabel("Advance by").fill("90s");
    await page.keyboard.press("Enter");
    await page.getByText("The clock was moved: it is 1 min 30 s ahead of the machine.").waitFor();
    assert.equal(Math.round((await (await fetch(`${base}clock`)).json()).offsetSeconds), 90);
    await page.getByRole("button", { name: "+1 h" }).click();
    assert.equal(Math.round((await (await fetch(`${base}clock`)).json()).offsetSeconds), 3690);
    await page.getByRole("button", { name: "Freeze" }).click();
    await page.getByRole("button", { name: "Let it run" }).click();
    await page.getByRole("button", { name: "Freeze" }).waitFor();
    const set = async (rules) => {
      await page.getByText("Set faults").click();
      await page.getByLabel("Rules").fill(JSON.stringify({ rules }));
      await page.getByRole("button", { name: "Replace the rules" }).click();
    };
    await set([{ operation: "GetBlob", fault: "429" }]);
    await page.getByText("rules[0].fault").waitFor();
    await page.goBack();
    await set([{ operation: "GetBlob", fault: "503", count: 1 }]);
    await page.getByText("Saved.").waitFor();
    await assert.rejects(read(blobs), /503|busy/);
    await page.goto(`${base}blobs`);
    await page.getByRole("link", { name: "Show or clear them" }).click();
    await page.getByRole("cell", { name: "1 of 1" }).waitFor();
    await page.getByRole("button", { name: "Clear the faults" }).click();
    await page.getByText("No fault is set.").waitFor();
    await page.locator('select[name="effect"]').selectOption("500 OperationTimedOut");
    await page.locator('.fault input[name="operation"]').fill("GetBlob");
    await page.locator('.fault input[name="count"]').fill("1");
    await page.getByRole("button", { name: "Add", exact: true }).click();
    await page.getByText("Saved.").waitFor();
    await assert.rejects(read(blobs), { statusCode: 500 });
    await page.getByText("Catalogue: how Azure Storage fails").click();
    await page.getByRole("button", { name: "Add lose-answer to the next PutMessage" }).click();
    await page.getByRole("rowheader", { name: "lose-answer" }).first().waitFor();
    const rules = async () => (await (await fetch(`${base}faults`)).json()).rules.map(({ fault, hits }) => [fault, hits]);
    assert.deepEqual(await rules(), [["500 OperationTimedOut", 1], ["lose-answer", 0]]);
    await page.getByRole("button", { name: "Remove" }).first().click();
    await page.getByText("Saved.").waitFor();
    assert.deepEqual(await rules(), [["lose-answer", 0]]);
    await page.getByRole("button", { name: "Clear the faults" }).click();
    await page.getByText("Reset the store").click();
    await page.getByRole("button", { name: /^Delete all/ }).click();
    await page.getByText("Cleared.").waitFor();
    assert.deepEqual([await all(blobs.listContainers()), await all(queues.listQueues())], [[], []]);
    assert.deepEqual(complaints.filter((text) => !/ 400 /.test(text)), []);
    await context.close();
  });
});
