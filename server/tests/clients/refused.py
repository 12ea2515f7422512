"""Uploads that the server refuses before it has read them: every client sees the status and the code, whatever is left to send. A
server of HTTPS is asked over HTTP too. `LAZURITE_REFUSED_BYTES` sets the largest body."""

import asyncio
import http.client
import os
import re
import shutil
import ssl
import subprocess
import tempfile
import unittest
from urllib.parse import urlsplit

import aiohttp
import urllib3

import harness
from harness import SETTINGS

SIZES = [1 << 10, 1 << 20, 70 << 20, int(os.environ.get("LAZURITE_REFUSED_BYTES", 256 << 20))]
PIECE = bytes(64 << 10)
HEADERS = {"x-ms-blob-type": "BlockBlob", "x-ms-version": "2021-08-06", "Authorization": "SharedKey a:AAAA"}
URL = SETTINGS["BlobEndpoint"] + "/con/refused"
EXPECTED = {URL: (403, "AuthenticationFailed"), URL.replace("https:", "http:"): (400, "AccountRequiresHttps")}
if URL.startswith("http:"):
    EXPECTED = {URL: (403, "AuthenticationFailed")}


def pieces(size):
    for start in range(0, size, len(PIECE)):
        yield PIECE[: size - start]


class RefusedTest(harness.Test):
    def check(self, put):
        for url, expected in EXPECTED.items():
            for size in SIZES:
                for chunked in (False, True):
                    with self.subTest(url=url, size=size, chunked=chunked):
                        framing = {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(size)}
                        self.assertEqual(put(url, size, {**HEADERS, **framing}), expected)

    def test_http_client(self):
        def put(url, size, headers):
            parts = urlsplit(url)
            trust = {"context": ssl._create_unverified_context()} if parts.scheme == "https" else {}
            kind = http.client.HTTPSConnection if trust else http.client.HTTPConnection
            connection = kind(parts.netloc, **trust)
            connection.request("PUT", parts.path, body=pieces(size), headers=headers, encode_chunked="Transfer-Encoding" in headers)
            answer = connection.getresponse()
            answer.read()
            connection.close()
            return answer.status, answer.getheader("x-ms-error-code")

        self.check(put)

    def test_urllib3(self):
        urllib3.disable_warnings()
        with urllib3.PoolManager(cert_reqs="NONE", retries=False) as pool:
            def put(url, size, headers):
                answer = pool.request("PUT", url, body=pieces(size), headers=headers)
                return answer.status, answer.headers["x-ms-error-code"]

            self.check(put)

    def test_aiohttp(self):
        async def send(url, size, headers):
            async def body():
                for piece in pieces(size):
                    yield piece

            # It names the coding of a body without length itself.
            headers = {name: value for name, value in headers.items() if name != "Transfer-Encoding"}
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
                async with session.put(url, data=body(), headers=headers) as answer:
                    await answer.read()
                    return answer.status, answer.headers["x-ms-error-code"]

        self.check(lambda *request: asyncio.run(send(*request)))

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_curl(self):
        with tempfile.NamedTemporaryFile() as file:
            def put(url, size, headers):
                file.truncate(size)
                # Without the header, curl waits to be asked for the body.
                headers = [f"-H{name}: {value}" for name, value in {**headers, "Expect": ""}.items() if name != "Content-Length"]
                command = ["curl", "-sk", "-o", os.devnull, "-D", "-", "-T", file.name, *headers, url]
                head = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                code = re.search(r"^x-ms-error-code: (\w+)", head, re.MULTILINE | re.IGNORECASE)
                return int(head.split()[1]), code[1]

            self.check(put)


if __name__ == "__main__":
    harness.main()
