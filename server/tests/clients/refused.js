// As refused.py, for the clients of Node.js: `http`, `https` and `fetch`.

const assert = require("node:assert/strict");
const http = require("node:http");
const https = require("node:https");
const { Readable } = require("node:stream");
const { test } = require("node:test");
const { settings } = require("./harness");

process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";

const sizes = [1 << 10, 1 << 20, 70 << 20, Number(process.env.LAZURITE_REFUSED_BYTES ?? 256 << 20)];
const piece = Buffer.alloc(64 << 10);
const url = `${settings.BlobEndpoint}/con/refused`;
const refusals = [[url, [403, "AuthenticationFailed"]]];
if (url.startsWith("https:")) {
  refusals.push([url.replace("https:", "http:"), [400, "AccountRequiresHttps"]]);
}
const signed = { "x-ms-blob-type": "BlockBlob", "x-ms-version": "2021-08-06", authorization: "SharedKey a:AAAA" };

function* pieces(size) {
  for (let start = 0; start < size; start += piece.length) {
    yield piece.subarray(0, size - start);
  }
}

async function check(put) {
  for (const [url, expected] of refusals) {
    for (const size of sizes) {
      assert.deepEqual(await put(url, size), expected, `${size} bytes to ${url}`);
    }
  }
}

test("http and https see the refusal, and no error", () =>
  check(async (url, size) => {
    const headers = { ...signed, "content-length": size };
    const request = (url.startsWith("https") ? https : http).request(url, { method: "PUT", headers });
    return new Promise((resolve, reject) => {
      request.on("error", reject);
      request.on("response", (answer) => answer.resume().on("end", () => resolve([answer.statusCode, answer.headers["x-ms-error-code"]])));
      Readable.from(pieces(size), { objectMode: false }).pipe(request);
    });
  }));

test("fetch sees the refusal", () =>
  check(async (url, size) => {
    const body = Readable.toWeb(Readable.from(pieces(size), { objectMode: false }));
    const answer = await fetch(url, { method: "PUT", headers: signed, body, duplex: "half" });
    await answer.arrayBuffer();
    return [answer.status, answer.headers.get("x-ms-error-code")];
  }));
