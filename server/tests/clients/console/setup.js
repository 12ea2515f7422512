// What the tests of the console share: a store with something of everything in it, a browser, and the addresses of all pages.

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { chromium } = require("playwright-core");
const { BlobServiceClient } = require("@azure/storage-blob");
const { QueueServiceClient } = require("@azure/storage-queue");
const { TableClient } = require("@azure/data-tables");
const { connection, settings, once, all } = require("../harness.js");

const account = settings.AccountName;
const base = `${new URL(settings.BlobEndpoint).origin}/_lazurite/`;
const EVIL = `<img src=x onerror="document.documentElement.dataset.ran='yes'">`;

const blobs = BlobServiceClient.fromConnectionString(connection, once);
const queues = QueueServiceClient.fromConnectionString(connection, once);
const table = (name) => TableClient.fromConnectionString(connection, name, { ...once, allowInsecureConnection: true });
const photos = blobs.getContainerClient("photos");
const orders = queues.getQueueClient("orders");
const sales = table("Orders");

const PIXEL = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
const typed = (contentType) => ({ blobHTTPHeaders: { blobContentType: contentType } });
const upload = (name, content, type) => photos.getBlockBlobClient(name).upload(content, content.length, typed(type));

/** What is there after `start`. */
const seeded = {};

async function seedBlobs() {
  const containers = ["photos", "invoices", "thumbnails-of-everything-that-was-ever-uploaded-here"];
  await Promise.all(containers.map((name) => blobs.getContainerClient(name).create()));
  const text = ["2025/11/lake.txt", "2026/01/forest.txt", "2026/11/lake.txt", "notes.txt"];
  await Promise.all([
    ...text.map((name) => upload(name, "blue and deep\n".repeat(20), "text/plain")),
    upload("catalog.json", JSON.stringify({ title: "Photos", count: 9, places: ["lake", "forest"] }), "application/json"),
    upload("pixel.png", PIXEL, "image/png"),
    upload("sensor.bin", Buffer.from([...Array(300).keys()].map((n) => n & 0xff)), "application/octet-stream"),
    upload(`${EVIL}.html`, EVIL, "text/html"),
    upload("people.csv", `name,age\n"Lee, Ann",34\n${EVIL.replaceAll('"', "'")},7\n`, "text/csv"),
    upload("people.parquet", fs.readFileSync(path.join(__dirname, "../../../query/tests/data/people-snappy.parquet")), "application/octet-stream"),
    upload("film.webm", Buffer.alloc(2000, 7), "video/webm"),
    seedDisk(),
    seedBlocks(),
    seedPlan(),
  ]);
  await photos.getBlobClient("notes.txt").setMetadata({ camera: "X100", evil: "<script>1</script>" });
}

async function seedDisk() {
  const disk = photos.getPageBlobClient("disk.vhd");
  await disk.create(1 << 20);
  await disk.uploadPages(Buffer.alloc(4096, 1), 65536, 4096);
}

async function seedBlocks() {
  const blocks = photos.getBlockBlobClient("blocks.bin");
  const block = (number) => Buffer.from(`block-${number}`).toString("base64");
  for (const number of [1, 2]) await blocks.stageBlock(block(number), "x".repeat(number * 10), number * 10);
  await blocks.commitBlockList([block(1), block(2)]);
  await blocks.stageBlock(block(3), "uncommitted", 11);
}

async function seedPlan() {
  await upload("plan.txt", "first\nsecond\nthird\n", "text/plain");
  seeded.snapshot = (await photos.getBlobClient("plan.txt").createSnapshot()).snapshot;
  await upload("plan.txt", "first\n2nd\nthird\nfourth\n", "text/plain");
  await photos.getBlobClient("plan.txt").getBlobLeaseClient().acquireLease(-1);
}

async function seedQueues() {
  const [poison, taken] = ["orders-poison", "taken"].map((name) => queues.getQueueClient(name));
  await Promise.all([orders, poison, taken].map((queue) => queue.create()));
  // In this order.
  for (let number = 0; number < 6; number += 1) {
    await orders.sendMessage(JSON.stringify({ order: number, customer: `c-${number % 4}`, total: number * 3.5 }));
  }
  await orders.sendMessage(Buffer.from(JSON.stringify({ order: 7, gift: true })).toString("base64"));
  await orders.sendMessage(EVIL);
  await poison.sendMessage(JSON.stringify({ order: 99, note: "cannot be read" }));
  await taken.sendMessage(JSON.stringify({ order: 1, customer: "c-1" }));
  seeded.hidden = (await taken.receiveMessages({ visibilityTimeout: 3600 })).receivedMessageItems[0].messageId;
}

async function seedEntities() {
  await sales.createTable();
  const entity = (number) => {
    const entity = {
      partitionKey: `customer-${number % 4}`, rowKey: String(number).padStart(6, "0"), Total: number * 3.5, Quantity: number % 9,
      Paid: number % 2 === 0, Placed: new Date(Date.UTC(2026, 10, 1, number)),
      Note: number % 5 === 0 ? "Please ring twice; leave it with the neighbour if nobody is at home." : "ok",
    };
    if (number % 3 === 0) entity.Tracking = { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" };
    if (number % 4 === 0) entity.Serial = { type: "Int64", value: String(2n ** 40n) };
    if (number % 10 === 0) entity.Label = new Uint8Array(40);
    return entity;
  };
  await Promise.all([...Array(40).keys()].map((number) => sales.createEntity(entity(number))));
  await sales.createEntity({ partitionKey: EVIL.replaceAll("/", ""), rowKey: `"'&<>`, Note: EVIL, [`Evil`]: `"><script>1</script>` });
  await all(sales.listEntities({ queryOptions: { filter: "RowKey eq '000003' or RowKey eq '000010'" } }));
}

/** Requests that are refused. */
async function seedErrors() {
  const failing = [
    () => blobs.getContainerClient("missing").getProperties(),
    () => all(sales.listEntities({ queryOptions: { filter: "PartitionKey eq Sales" } })),
    () => BlobServiceClient.fromConnectionString(connection.replace("AccountKey=E", "AccountKey=F"), once).getProperties(),
    () => fetch(`${settings.BlobEndpoint}/photos/${encodeURIComponent(EVIL)}?sig=aaaa`),
    () => photos.getBlobClient("note.txt").download(),
    () => photos.getBlobClient("notes.txt").setMetadata({ camera: EVIL.replaceAll(/[^ -~]/g, "") }, { conditions: { ifMatch: '"0x1"' } }),
  ];
  await Promise.all(failing.map((attempt) => attempt().catch(() => {})));
}

async function seedState() {
  const answers = [await fetch(`${base}state/snapshots/seed`, { method: "PUT" }), await fetch(`${base}state/forks`, { method: "POST", body: '{"name": "pr42"}' })];
  assert.deepEqual(answers.map((answer) => answer.status), [201, 201]);
}

/** The page that asks before blobs are copied. */
async function seedConfirmation() {
  const [, token] = (await (await fetch(base)).text()).match(/lazurite-token" content="(\w+)/);
  const body = new URLSearchParams({ token, act: "copy", all: "yes", prefix: "2026/" });
  const answer = await fetch(`${base}blobs/${link(account, "photos")}/selected`, { method: "POST", body });
  seeded.confirmation = answer.url.slice(base.length);
}

/** Requests that the advisor has something to say about, some of them with names that hold markup. */
async function seedAdvice() {
  const query = async () => {
    for (let round = 0; round < 6; round += 1) await all(sales.listEntities({ queryOptions: { filter: `RowKey eq '000003' or RowKey eq '${EVIL.replaceAll("'", "''")}'` } }));
  };
  const write = async () => {
    for (let round = 0; round < 12; round += 1) await upload(`${EVIL}.bin`, Buffer.alloc(300_000, round), "application/octet-stream");
  };
  const load = async () => {
    const load = table("Load");
    await load.createTable();
    const rows = [...Array(100).keys()].map((row) => ["create", { partitionKey: "hot", rowKey: String(row).padStart(4, "0") }]);
    await load.submitTransaction(rows);
    await load.createEntity({ partitionKey: "", rowKey: "alone" });
    await Promise.all([...Array(30)].map(() => all(load.listEntities({ queryOptions: { filter: "PartitionKey eq 'hot'" } }))));
  };
  await Promise.all([query(), write(), load()]);
}

async function seed() {
  await Promise.all([seedBlobs(), seedQueues(), seedEntities()]);
  await seedErrors();
  await seedState();
  await seedConfirmation();
  await seedAdvice();
  await sales.submitTransaction([["create", { partitionKey: "batch", rowKey: "1", Note: EVIL }], ["create", { partitionKey: "batch", rowKey: "2" }]]);
  const { requests } = await (await fetch(`${base}api/requests?after=0`)).json();
  [seeded.missing, seeded.conflict] = ["BlobNotFound", "ConditionNotMet"].map((code) => requests.find((request) => request.code === code));
  seeded.batch = requests.find((request) => request.operation === "Batch");
  seeded.signatureRefused = requests.find((request) => request.code === "AuthenticationFailed" && request.operation !== "GetBlob");
}

async function launch() {
  const hosts = "--host-resolver-rules=MAP evil.example 127.0.0.1, MAP rebound.example 127.0.0.1";
  const args = ["--no-sandbox", "--disable-gpu", hosts];
  seeded.browser = await chromium.launch({ executablePath: process.env.LAZURITE_BROWSER, args });
}

/** Fills the store, and starts the browser meanwhile. */
const start = () => Promise.all([seed(), launch()]);
const stop = () => seeded.browser?.close();

/** A page on which an error of the console, or anything that the policy blocks, fails the test. */
async function opened(address, options = {}) {
  const context = await seeded.browser.newContext({ reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(8000);
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  const response = await page.goto(base + address, { waitUntil: "load" });
  return { page, context, response, complaints };
}

/** Clicks, and waits until the page that the click leads to is loaded: its scripts hear clicks and keys then, and the page before it is gone. */
const follow = (page, target) => Promise.all([page.waitForEvent("load"), target.click()]);

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
  "container-settings": `blobs/${link(account, "photos", "settings")}`,
  "blob-tags": `blobs/${link(account, "tags")}?where=${encodeURIComponent(`"place" = 'lake'`)}`,
  cors: `cors/${link(account)}`,
  "fork-blobs": `blobs/${link(`${account}--pr42`, "photos")}`,
  "fork-table": `tables/${link(`${account}--pr42`, "Orders")}`,
  "queue-settings": `queues/${link(account, "orders", "settings")}`,
  "table-settings": `tables/${link(account, "Orders", "settings")}`,
  docs: "docs",
  "docs-page": "docs/console",
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
  guide: "guide",
  "guide-page": "guide/log-tail",
  requests: "requests",
  "requests-errors": "requests?errors=yes&filter=PartitionKey",
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

const blobOf = (more, name) => `blobs/${link(account, "photos", "blob")}${more}?name=${name}`;

/** All pages, those of seeded messages, snapshots and requests among them. */
function places() {
  const ofSnapshot = (more) => `${blobOf(more, "plan.txt")}&snapshot=${encodeURIComponent(seeded.snapshot)}`;
  const request = ({ request_id: id }) => `requests/${id}`;
  return {
    ...PAGES,
    confirmation: seeded.confirmation,
    "blob-snapshot": ofSnapshot(""),
    "blob-compare": ofSnapshot("/compare"),
    message: `queues/${link(account, "taken", "message")}?id=${seeded.hidden}`,
    "queue-hidden": `queues/${link(account, "taken")}`,
    "request-batch": request(seeded.batch),
    "request-403": request(seeded.signatureRefused),
    "request-404": request(seeded.missing),
    "request-412": request(seeded.conflict),
  };
}

module.exports = { EVIL, PAGES, account, all, base, blobOf, blobs, connection, follow, launch, link, once, opened, orders, photos, places, queues, sales, seed, seeded, setFaults, start, stop, table };
