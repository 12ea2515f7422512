// What web pages may do, in a real browser: pages of this machine go on working, pages of others get nothing, and what is stored never
// runs. Names of other machines lead to this one by the browser's own table of hosts.

const assert = require("node:assert/strict");
const http = require("node:http");
const { after, before, describe, it } = require("node:test");
const { chromium } = require("playwright-core");
const blobs = require("@azure/storage-blob");
const queues = require("@azure/storage-queue");
const { connection, settings, once } = require("./harness.js");

const blobService = blobs.BlobServiceClient.fromConnectionString(connection, once);
const container = blobService.getContainerClient("shown");
const queue = queues.QueueServiceClient.fromConnectionString(connection, once).getQueueClient("shown");
const expiresOn = new Date(Date.now() + 3600_000);

// One pixel, and a script that would tell that it ran.
const PICTURE = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
const SCRIPT = "document.documentElement.setAttribute('ran', 'yes')";
const PAGE = `<html><body><p>stored</p><script>${SCRIPT}</script></body></html>`;
const DRAWING = `<svg xmlns="http://www.w3.org/2000/svg"><script>${SCRIPT}</script></svg>`;

// As XML that is read as HTML.
const SHEET = `<html xmlns="http://www.w3.org/1999/xhtml"><script>${SCRIPT}</script></html>`;

const stored = {
  // Browsers end a type at a blank or a parenthesis, and take the last of several.
  "blank.html": [PAGE, "text/html foo"],
  "parenthesis.html": [PAGE, "text/html(x"],
  "several.html": [PAGE, "text/plain,text/html"],
  "sheet.xsl": [SHEET, "text/xsl"],
  "sheet.rdf": [SHEET, "text/rdf"],
  "picture.png": [PICTURE, "image/png"],
  "page.html": [PAGE, "text/html"],
  "drawing.svg": [DRAWING, "image/svg+xml"],
  "notes.txt": [PAGE, "text/plain"],
  "script.js": [SCRIPT, "text/javascript"],
};

/** The URL of a blob with a SAS that any page could have made: its key is public. */
const link = (name, more = {}) =>
  container.getBlobClient(name).generateSasUrl({ permissions: blobs.BlobSASPermissions.parse("r"), expiresOn, ...more });

/** A link with a user delegation SAS, which any page could have made as well: its key comes from the account's key. */
async function delegatedLink(name) {
  // The client shows no token without encryption.
  const body = `<KeyInfo><Expiry>${expiresOn.toISOString().slice(0, 19)}Z</Expiry></KeyInfo>`;
  const headers = { authorization: `Bearer ${token()}`, "x-ms-version": "2026-04-06" };
  const answer = await post(settings.BlobEndpoint + "?restype=service&comp=userdelegationkey", headers, body);
  const element = (name) => answer.match(`<${name}>(.*?)</${name}>`)[1];
  const key = {
    signedObjectId: element("SignedOid"), signedTenantId: element("SignedTid"), signedService: element("SignedService"),
    signedStartsOn: new Date(element("SignedStart")), signedExpiresOn: new Date(element("SignedExpiry")),
    signedVersion: element("SignedVersion"), value: element("Value"),
  };
  const options = { containerName: container.containerName, blobName: name, permissions: blobs.BlobSASPermissions.parse("r"), expiresOn };
  const sas = blobs.generateBlobSASQueryParameters(options, key, settings.AccountName);
  return `${container.getBlobClient(name).url}?${sas}`;
}

/** The text that answers a POST. */
async function post(address, headers, body) {
  const answer = await fetch(address, { method: "POST", headers, body });
  const text = await answer.text();
  assert.equal(answer.status, 200, text);
  return text;
}

/** A token as an issuer would write it, but for its signature. */
function token() {
  const now = Math.floor(Date.now() / 1000);
  const claims = { iss: "https://sts.windows.net/tenant/", aud: "https://storage.azure.com", oid: "object", tid: "tenant", nbf: now - 60, iat: now - 60, exp: now + 600 };
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  return `${part({ alg: "RS256" })}.${part(claims)}.c2ln`;
}

describe("web pages", () => {
  let browser;
  let pages;
  let near;
  let far;
  let shown = "";

  before(async () => {
    await container.create();
    await queue.create();
    await queue.sendMessage("mine");
    for (const [name, [content, type]] of Object.entries(stored)) {
      const options = { blobHTTPHeaders: { blobContentType: type } };
      await container.getBlockBlobClient(name).upload(content, content.length, options);
    }
    pages = http.createServer((_, answer) => answer.setHeader("content-type", "text/html").end(shown));
    await new Promise((resolve) => pages.listen(0, "127.0.0.1", resolve));
    const { port } = pages.address();
    near = `http://localhost:${port}/`;
    far = `http://evil.example:${port}/`;
    const hosts = "--host-resolver-rules=MAP evil.example 127.0.0.1, MAP rebound.example 127.0.0.1";
    const args = ["--no-sandbox", "--disable-gpu", hosts];
    browser = await chromium.launch({ executablePath: process.env.LAZURITE_BROWSER, args });
  });

  after(async () => {
    await browser?.close();
    pages?.close();
  });

  /**
   * Opens a page with this content at an address, and says how the storage service answered each request of it; 0 where the browser kept
   * the answer from the page, as it does with an error in the place of a picture.
   */
  async function open(address, content, act = async () => {}) {
    shown = content;
    const context = await browser.newContext();
    const page = await context.newPage();
    const statuses = [];
    const { port: blobPort } = new URL(settings.BlobEndpoint);
    const { port: queuePort } = new URL(settings.QueueEndpoint);
    const note = (url, status) => {
      const { port } = new URL(url);
      if (port === blobPort || port === queuePort) {
        statuses.push(status);
      }
    };
    context.on("response", (response) => note(response.url(), response.status()));
    context.on("requestfailed", (request) => note(request.url(), 0));
    await page.goto(address, { waitUntil: "load" });
    const acted = await act(page);
    await page.waitForTimeout(200);
    await context.close();
    return { statuses, acted };
  }

  const refused = (statuses) => statuses.length > 0 && statuses.every((status) => status === 403 || status === 0);
  const ran = (page) => page.evaluate(() => document.documentElement.getAttribute("ran")).catch(() => null);

  it("of this machine show pictures, films and frames of blobs", async () => {
    const content = (name) => `<img id="it" src="${name}"><video src="${name}"></video>`;
    const width = (page) => page.evaluate(() => document.getElementById("it").naturalWidth);
    const { statuses, acted } = await open(near, content(await link("picture.png")), width);
    assert.equal(acted, 1);
    assert.ok(statuses.every((status) => status < 300), String(statuses));
  });

  it("of other machines are shown nothing", async () => {
    const picture = await link("picture.png");
    const delegated = await delegatedLink("picture.png");
    const served = await open(near, `<img src="${delegated.replaceAll("&", "&amp;")}">`);
    assert.deepEqual(served.statuses, [200]);
    for (const content of [
      `<img src="${delegated.replaceAll("&", "&amp;")}">`,
      `<script>fetch(${JSON.stringify(delegated)}, { mode: "no-cors" })</script>`,
      `<img src="${picture}">`,
      `<img referrerpolicy="no-referrer" src="${picture}">`,
      `<video src="${picture}"></video>`,
      `<script src="${await link("script.js")}"></script>`,
      `<iframe src="${await link("page.html")}"></iframe>`,
      `<object data="${await link("drawing.svg")}"></object>`,
      `<script>fetch(${JSON.stringify(await link("notes.txt"))}, { mode: "no-cors" })</script>`,
      `<script>fetch(${JSON.stringify(await link("notes.txt"))})</script>`,
    ]) {
      const act = async (page) => [await ran(page), await page.evaluate(() => document.images[0]?.naturalWidth ?? 0)];
      const { statuses, acted } = await open(far, content, act);
      assert.ok(refused(statuses), `${content}: ${statuses}`);
      assert.deepEqual(acted, [null, 0], content);
    }
  });

  it("of other machines take and send no messages", async () => {
    const sas = (permissions) => queue.generateSasUrl({ permissions: queues.QueueSASPermissions.parse(permissions), expiresOn });
    const [address, parameters] = (await sas("rapu")).split("?");
    const messages = `${address}/messages?${parameters}`;
    const { statuses } = await open(far, `<img src="${messages.replaceAll("&", "&amp;")}&amp;visibilitytimeout=604800">`);
    assert.ok(refused(statuses), String(statuses));
    const form = `<form method="post" enctype="text/plain" action="${messages.replaceAll("&", "&amp;")}">
      <input name="<QueueMessage><MessageText>forged</MessageText></QueueMessage><!--" value="-->"></form>
      <script>document.forms[0].submit()</script>`;
    const sent = await open(far, form, (page) => page.waitForTimeout(300));
    assert.ok(refused(sent.statuses), String(sent.statuses));
    const { peekedMessageItems } = await queue.peekMessages({ numberOfMessages: 32 });
    assert.deepEqual(peekedMessageItems.map((message) => message.messageText), ["mine"]);
  });

  it("reach nothing under a name that was made to lead here", async () => {
    const rebound = (await link("notes.txt")).replace("127.0.0.1", "rebound.example");
    const { statuses } = await open(rebound, "");
    assert.ok(statuses.every((status) => status === 403), String(statuses));
  });

  it("may be followed to a blob, which is shown and runs nothing", async () => {
    const asPage = { contentType: "text/html" };
    const misread = ["blank.html", "parenthesis.html", "several.html", "sheet.xsl", "sheet.rdf"].map((name) => [name]);
    const byLink = ["text/html foo", "text/plain,text/html"].map((contentType) => ["notes.txt", { contentType }]);
    for (const [name, more] of [["page.html"], ["drawing.svg"], ["notes.txt", asPage], ["picture.png"], ...misread, ...byLink]) {
      const address = (await link(name, more)).replaceAll("&", "&amp;");
      const follow = async (page) => {
        await Promise.all([page.waitForNavigation(), page.click("a")]);
        return ran(page);
      };
      for (const from of [near, far]) {
        const { statuses, acted } = await open(from, `<a href="${address}">a link in a mail</a>`, follow);
        assert.equal(statuses[0], 200, `${name} from ${from}: ${statuses}`);
        assert.equal(acted, null, name);
      }
    }
  });

  it("of a website run, on a host name of their own", async () => {
    const properties = await blobService.getProperties();
    await blobService.setProperties({ ...properties, staticWebsite: { enabled: true, indexDocument: "index.html" } });
    const site = blobService.getContainerClient("$web");
    await site.createIfNotExists();
    const options = { blobHTTPHeaders: { blobContentType: "text/html" } };
    await site.getBlockBlobClient("index.html").upload(PAGE, PAGE.length, options);
    const { port } = new URL(settings.BlobEndpoint);
    const { acted } = await open(`http://${settings.AccountName}.web.localhost:${port}/`, "", ran);
    assert.equal(acted, "yes");
  });

  it("of another machine read what a CORS rule lets them", async () => {
    const properties = await blobService.getProperties();
    const rule = { allowedOrigins: new URL(far).origin, allowedMethods: "GET", allowedHeaders: "*", exposedHeaders: "*", maxAgeInSeconds: 0 };
    await blobService.setProperties({ ...properties, cors: [rule] });
    const content = `<script>fetch(${JSON.stringify(await link("notes.txt"))}).then((answer) => answer.text()).then((text) => (window.got = text))</script>`;
    const got = async (page) => {
      await page.waitForFunction(() => window.got !== undefined);
      return page.evaluate(() => window.got);
    };
    const { statuses, acted } = await open(far, content, got);
    assert.deepEqual([statuses, acted], [[200], PAGE]);
  });
});
