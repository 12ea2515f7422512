"""Sends the same requests to two servers and compares their answers: status, headers and body, byte by byte, but for ids, times, ETags and
the addresses of the servers. The requests follow from a seed. They are of all three services; many of them are refused.

    packages/same_answers.py ONE OTHER [--seed N] [--count N] [--hns]

ONE and OTHER are the port files of two servers with empty stores. Prints the first requests whose answers differ, and then ends with 1.
With --hns, for two servers that were started with it, half of the requests are of Data Lake Storage.
"""

import argparse
import base64
import hashlib
import hmac
import http.client
import json
import random
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
COUNT = 2000
SHOWN_MAX = 5
SECONDS = 120
# What may differ, in headers and bodies. Each is replaced by its name.
MAY_DIFFER = [
    ("address", r"127\.0\.0\.1:\d+"),
    ("time", r"\d{4}-\d\d-\d\dT\d\d(:|%3A)\d\d(:|%3A)\d\d(\.\d+)?Z"),
    ("time", r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT"),
    ("id", r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    ("etag", r'W?/?"?0x[0-9A-F]{8,}"?'),
    ("receipt", r"(?<=<PopReceipt>)[^<]+"),
    ("receipt", r"(?<=x-ms-popreceipt: )\S+"),
    # Paths of Data Lake Storage have theirs in ticks.
    ("time", r'(?<="creationTime":")\d+'),
    # A batch names its parts by ids of its own.
    ("boundary", r"(batch|changeset)response_[0-9A-Za-z-]+"),
]
# Their values are ids and times alone.
HEADERS_LEFT_OUT = ["date"]


@dataclass
class Request:
    service: str
    method: str
    path: str
    query: "dict[str, str]" = field(default_factory=dict)
    headers: "dict[str, str]" = field(default_factory=dict)
    body: bytes = b""
    # How it identifies itself: "sas", "broken", or "nothing".
    credentials: str = "sas"

    def __str__(self) -> str:
        query = f"?{urlencode(self.query)}" if self.query else ""
        return f"{self.service}: {self.method} /{ACCOUNT}/{self.path}{query} {self.headers} {self.body[:200]!r} ({self.credentials})"


class Generator:
    """Requests from a seed. Names are few, so that most requests meet what earlier ones made."""

    def __init__(self, seed: int, has_lake: bool = False) -> None:
        self.random = random.Random(seed)
        self.services = [*SERVICES, *[Generator.lake] * len(SERVICES)] if has_lake else SERVICES
        self.made = 0

    def request(self) -> Request:
        chosen = self.first() or self.random.choice(self.services)(self)
        if self.one_in(25):
            self.spoil(chosen)
        chosen.headers.setdefault("x-ms-version", "2025-11-05")
        return chosen

    def first(self) -> "Request | None":
        """From time to time, one that makes what the others need, and that some of them have removed."""
        self.made += 1
        number = self.made % 100
        if number >= 6:
            return None
        name = f"{['things', 'work', 'People'][number // 2]}{number % 2}"
        if number < 2:
            return Request("blob", "PUT", name, {"restype": "container"})
        if number < 4:
            return Request("queue", "PUT", name)
        sent = {"Accept": "application/json", "Content-Type": "application/json"}
        return Request("table", "POST", "Tables", {}, sent, json.dumps({"TableName": name}).encode())

    def one_in(self, count: int) -> bool:
        return self.random.randrange(count) == 0

    def name(self, start: str, count: int = 2) -> str:
        return f"{start}{self.random.randrange(count)}"

    def bytes(self, most: int) -> bytes:
        return self.random.randbytes(self.random.choice([0, 1, 512, self.random.randrange(most)]))

    def spoil(self, request: Request) -> None:
        """Makes a fault of the kinds that clients make."""
        kind = self.random.randrange(8)
        if kind == 0:
            request.credentials = "broken"
        elif kind == 1:
            request.credentials = "nothing"
        elif kind == 2:
            request.headers["x-ms-version"] = self.random.choice(["2001-01-01", "tomorrow", "", "2099-12-31"])
        elif kind == 3:
            request.query["comp"] = self.random.choice(["bogus", "", "list", "metadata"])
        elif kind == 4:
            request.method = self.random.choice(["PATCH", "POST", "DELETE", "OPTIONS", "BREW"])
        elif kind == 5:
            request.path = self.random.choice(["", "A", "a--b", "x" * 300, "things/" + "y" * 1100, "%ff", "a/../b", "$logs"])
        elif kind == 6:
            request.headers["If-Match"] = self.random.choice(["*", '"0x1"', "bogus"])
        else:
            request.query["timeout"] = self.random.choice(["30", "-1", "soon"])

    # Blob

    def blob(self) -> Request:
        container, blob = self.name("things"), self.random.choice(["a", "b/c", "b/d", "ünï cödé", "e"])
        path = f"{container}/{quote(blob)}"
        containers = [
            lambda: Request("blob", "PUT", container, {"restype": "container"}, self.metadata()),
            lambda: Request("blob", "PUT", container, {"restype": "container"}),
            lambda: Request("blob", "GET", container, {"restype": "container"}),
            lambda: Request("blob", "PUT", container, {"restype": "container", "comp": "metadata"}, self.metadata()),
            lambda: Request("blob", "GET", container, {"restype": "container", "comp": "list"} | self.listing()),
            lambda: Request("blob", "GET", "", {"comp": "list"} | self.listing()),
            lambda: Request("blob", "GET", "", {"restype": "service", "comp": "properties"}),
            lambda: Request("blob", "PUT", container, {"restype": "container", "comp": "acl"}, self.public_access(), self.policies()),
            lambda: Request("blob", "GET", container, {"restype": "container", "comp": "acl"}),
        ]
        blobs = [
            lambda: Request("blob", "PUT", path, {}, {"x-ms-blob-type": "BlockBlob"} | self.put_headers(), self.bytes(70_000)),
            lambda: Request("blob", "PUT", path, {}, {"x-ms-blob-type": "BlockBlob"}, self.bytes(70_000)),
            lambda: Request("blob", "PUT", path, {}, {"x-ms-blob-type": "AppendBlob"}),
            lambda: Request("blob", "PUT", path, {}, {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": self.pages()}),
            lambda: Request("blob", "PUT", path, {"comp": "appendblock"}, {}, self.bytes(5000)),
            lambda: Request("blob", "PUT", path, {"comp": "page"}, self.page_headers(), self.random.randbytes(512)),
            lambda: Request("blob", "GET", path, {"comp": "pagelist"}),
            lambda: Request("blob", "PUT", path, {"comp": "block", "blockid": self.block()}, {}, self.bytes(3000)),
            lambda: Request("blob", "PUT", path, {"comp": "blocklist"}, {}, self.block_list()),
            lambda: Request("blob", "GET", path, {"comp": "blocklist", "blocklisttype": self.random.choice(["all", "committed", "none"])}),
            lambda: Request("blob", "GET", path, {}, self.ranges() | self.conditions()),
            lambda: Request("blob", "GET", path),
            lambda: Request("blob", "HEAD", path, {}, self.conditions()),
            lambda: Request("blob", "PUT", path, {"comp": "metadata"}, self.metadata()),
            lambda: Request("blob", "PUT", path, {"comp": "properties"}, {"x-ms-blob-content-type": "text/plain"}),
            lambda: Request("blob", "PUT", path, {"comp": "tags"}, {}, self.tags()),
            lambda: Request("blob", "GET", path, {"comp": "tags"}),
            lambda: Request("blob", "PUT", path, {"comp": "tier"}, {"x-ms-access-tier": self.random.choice(["Hot", "Cool", "Warm"])}),
            lambda: Request("blob", "PUT", path, {"comp": "lease"}, self.lease()),
            lambda: Request("blob", "PUT", path, {"comp": "snapshot"}),
            lambda: Request("blob", "DELETE", path, {}, self.random.choice([{}, {"x-ms-delete-snapshots": "include"}])),
        ]
        if self.one_in(200):
            return Request("blob", "DELETE", container, {"restype": "container"})
        return self.random.choice(containers if self.one_in(4) else blobs)()

    def metadata(self) -> "dict[str, str]":
        return {f"x-ms-meta-{self.random.choice(['one', 'Two', 'three', 'four', 'a-b'])}": self.random.choice(["1", "zwei", ""])}

    def listing(self) -> "dict[str, str]":
        choices = {"prefix": ["b/", "things", "x"], "delimiter": ["/"], "maxresults": ["1", "2", "3", "x"], "include": ["metadata", "snapshots"]}
        return {name: self.random.choice(values) for name, values in choices.items() if self.one_in(3)}

    def public_access(self) -> "dict[str, str]":
        return self.random.choice([{}, {"x-ms-blob-public-access": "blob"}, {"x-ms-blob-public-access": "everything"}])

    def policies(self) -> bytes:
        policy = "<SignedIdentifier><Id>p</Id><AccessPolicy><Permission>r</Permission></AccessPolicy></SignedIdentifier>"
        return f"<SignedIdentifiers>{policy * self.random.choice([0, 1, 2, 6])}</SignedIdentifiers>".encode()

    def put_headers(self) -> "dict[str, str]":
        choices = {
            "Content-Type": ["text/plain", "image/png"],
            "x-ms-blob-cache-control": ["no-cache"],
            "x-ms-blob-content-md5": ["bogus", base64.b64encode(hashlib.md5(b"other").digest()).decode()],
            "If-None-Match": ["*"],
            "x-ms-access-tier": ["Cool", "P10"],
        }
        return {name: self.random.choice(values) for name, values in choices.items() if self.one_in(4)}

    def pages(self) -> str:
        return self.random.choice(["0", "512", "4096", "1048576", "100"])

    def page_headers(self) -> "dict[str, str]":
        start = 512 * self.random.randrange(10)
        return {"x-ms-page-write": self.random.choice(["update", "update", "clear"]), "x-ms-range": f"bytes={start}-{start + 511}"}

    def block(self) -> str:
        return base64.b64encode(self.name("block").encode()).decode()

    def block_list(self) -> bytes:
        kinds = ["Latest", "Latest", "Committed", "Uncommitted", "Bogus"]
        blocks = [(self.random.choice(kinds), self.block()) for _ in range(self.random.randrange(4))]
        return f"<BlockList>{''.join(f'<{kind}>{block}</{kind}>' for kind, block in blocks)}</BlockList>".encode()

    def ranges(self) -> "dict[str, str]":
        chosen = ["bytes=0-9", "bytes=5-", "bytes=99999999-", "bytes=9-3", "bytes=-4", "lines=1-2"]
        return {self.random.choice(["Range", "x-ms-range"]): self.random.choice(chosen)}

    def conditions(self) -> "dict[str, str]":
        choices = {
            "If-Match": ["*", '"0x8DFFFFFFFFFFFFF"'],
            "If-None-Match": ["*", '"0x8DFFFFFFFFFFFFF"'],
            "If-Modified-Since": ["Mon, 01 Jan 2001 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT", "yesterday"],
        }
        return {name: self.random.choice(values) for name, values in choices.items() if self.one_in(4)}

    def tags(self) -> bytes:
        tags = "<Tag><Key>k</Key><Value>v</Value></Tag>" * self.random.choice([1, 1, 0, 2, 11])
        return f"<Tags><TagSet>{tags}</TagSet></Tags>".encode()

    def lease(self) -> "dict[str, str]":
        action = self.random.choice(["acquire", "renew", "release", "break", "steal"])
        # A lease without end: it does not end earlier on the slower server.
        more = {"x-ms-lease-duration": "-1", "x-ms-proposed-lease-id": "11111111-2222-3333-4444-555555555555"}
        same = {"x-ms-lease-id": "11111111-2222-3333-4444-555555555555"}
        return {"x-ms-lease-action": action} | (more if action == "acquire" else same) | ({"x-ms-lease-break-period": "0"} if action == "break" else {})

    # Data Lake Storage

    def lake(self) -> Request:
        system, directories, files = self.name("things"), ["b", "d", "d/ünï cödé"], ["a", "b/c", "b/d", "d/f", "d/ünï cödé/g"]
        directory = f"{system}/{quote(self.random.choice(directories))}"
        file = f"{system}/{quote(self.random.choice(files))}"
        path = self.random.choice([file, file, directory, f"{system}/"])
        # Reads and deletions look like those of blobs without it.
        accept = {"Accept": "application/json"}
        position = self.random.choice(["0", "0", "5", "x"])
        file_systems = [
            lambda: Request("blob", "PUT", system, {"resource": "filesystem"}, self.properties()),
            lambda: Request("blob", "HEAD", system, {"resource": "filesystem"}),
            lambda: Request("blob", "PATCH", system, {"resource": "filesystem"}, self.properties()),
            lambda: Request("blob", "GET", "", {"resource": "account"} | self.lake_listing()),
        ]
        paths = [
            lambda: Request("blob", "PUT", directory, {"resource": "directory"}, self.properties() | self.access() | self.umask()),
            lambda: Request("blob", "PUT", directory, {"resource": "directory"}, self.conditions()),
            lambda: Request("blob", "PUT", file, {"resource": "file"}, self.access() | self.umask()),
            lambda: Request("blob", "PUT", file, {"resource": "file"}),
            lambda: Request("blob", "PUT", file, {"resource": "file"}),
            lambda: Request("blob", "PATCH", file, {"action": "append", "position": position}, {}, self.random.randbytes(5)),
            lambda: Request("blob", "PATCH", file, {"action": "append", "position": "0", "flush": "true"}, {}, self.bytes(3000)),
            lambda: Request("blob", "PATCH", file, {"action": "flush", "position": position}, self.conditions()),
            lambda: Request("blob", "PATCH", path, {"action": "setProperties"}, self.properties()),
            lambda: Request("blob", "PATCH", path, {"action": "setAccessControl"}, self.random.choice([self.access(), self.entries()])),
            lambda: Request("blob", "PATCH", path, {"action": "setAccessControlRecursive"} | self.recursion(), self.entries()),
            lambda: Request("blob", "POST", path, {}, self.lease() | accept),
            lambda: Request("blob", "GET", file, {}, self.ranges() | self.conditions() | accept),
            lambda: Request("blob", "HEAD", path, {}, self.conditions() | accept),
            lambda: Request("blob", "HEAD", path, {"action": self.random.choice(["getStatus", "getAccessControl", "getBogus"])}),
            lambda: Request("blob", "HEAD", path, {"action": "checkAccess", "fsAction": self.random.choice(["r--", "rwx", "x"])}),
            lambda: Request("blob", "PUT", file, self.mode(), self.source(system, files) | self.conditions()),
            lambda: Request("blob", "PUT", file, {}, self.source(system, files)),
            lambda: Request("blob", "PUT", directory, {}, self.source(system, directories + files)),
            lambda: Request("blob", "DELETE", file, {}, self.conditions() | accept),
        ]
        lists = [
            lambda: Request("blob", "GET", system, {"resource": "filesystem", "recursive": "true"} | self.lake_listing()),
            lambda: Request("blob", "GET", system, {"resource": "filesystem", "recursive": "false", "directory": "d"} | self.lake_listing()),
        ]
        if self.one_in(30):
            return Request("blob", "DELETE", directory, {"recursive": self.random.choice(["true", "false", "maybe"])}, accept)
        if self.one_in(200):
            return Request("blob", "DELETE", system, {"resource": "filesystem"})
        return self.random.choice(self.random.choice([file_systems, paths, paths, paths, lists]))()

    def properties(self) -> "dict[str, str]":
        return {"x-ms-properties": self.random.choice(["one=MQ==", "one=MQ==,Two=endlaQ==", "", "one=!"])}

    def access(self) -> "dict[str, str]":
        choices = {
            "x-ms-owner": ["11111111-2222-3333-4444-555555555555", "$superuser"],
            "x-ms-group": ["$superuser"],
            "x-ms-permissions": ["0750", "rwxr-x--t", "rwx", "0999"],
        }
        return {name: self.random.choice(values) for name, values in choices.items() if self.one_in(4)}

    def umask(self) -> "dict[str, str]":
        return self.random.choice([{}, {}, {"x-ms-umask": "0027"}, {"x-ms-umask": "x"}])

    def entries(self) -> "dict[str, str]":
        named, base = "user:11111111-2222-3333-4444-555555555555:r-x", "user::rwx,group::r-x,other::---"
        default = ",".join(f"default:{entry}" for entry in base.split(","))
        return {"x-ms-acl": self.random.choice([base, base, f"{base},{named}", f"{base},{default}", named, "user::bogus", "mask::r--"])}

    def recursion(self) -> "dict[str, str]":
        choices = {"mode": ["set", "set", "modify", "remove", "bogus"], "maxRecords": ["1", "2", "0"], "forceFlag": ["true"], "continuation": ["{continuation}"]}
        return {name: self.random.choice(values) for name, values in choices.items() if name == "mode" or self.one_in(3)}

    def mode(self) -> "dict[str, str]":
        return self.random.choice([{}, {"mode": "legacy"}, {"mode": "posix"}, {"mode": "bogus"}])

    def source(self, system: str, paths: "list[str]") -> "dict[str, str]":
        named = f"/{self.random.choice([system, system, self.name('things')])}/{quote(self.random.choice(paths))}"
        return {"x-ms-rename-source": named}

    def lake_listing(self) -> "dict[str, str]":
        choices = {"maxResults": ["1", "2", "3", "x"], "continuation": ["{continuation}", "bogus"], "upn": ["true"], "prefix": ["things1"]}
        return {name: self.random.choice(values) for name, values in choices.items() if self.one_in(4)}

    # Queue

    def queue(self) -> Request:
        queue = self.name("work")
        # Nothing becomes visible again before the end.
        hour = {"visibilitytimeout": "3600"}
        message = f"<QueueMessage><MessageText>{self.random.randrange(100)}</MessageText></QueueMessage>".encode()
        choices = [
            lambda: Request("queue", "PUT", queue, {}, self.metadata() if self.one_in(2) else {}),
            lambda: Request("queue", "GET", queue, {"comp": "metadata"}),
            lambda: Request("queue", "PUT", queue, {"comp": "metadata"}, self.metadata()),
            lambda: Request("queue", "GET", "", {"comp": "list"} | self.listing()),
            lambda: Request("queue", "POST", f"{queue}/messages", {}, {}, message),
            lambda: Request("queue", "POST", f"{queue}/messages", {"messagettl": self.random.choice(["60000", "-1", "-1", "x"])}, {}, message),
            lambda: Request("queue", "POST", f"{queue}/messages", {}, {}, self.random.choice([b"", b"<QueueMessage>", b"bogus", b"<A/>"])),
            lambda: Request("queue", "GET", f"{queue}/messages", {"peekonly": "true", "numofmessages": self.random.choice(["1", "2", "32", "33"])}),
            lambda: Request("queue", "GET", f"{queue}/messages", hour | {"numofmessages": self.random.choice(["1", "1", "2", "40"])}),
            lambda: Request("queue", "DELETE", f"{queue}/messages/{{message}}", {"popreceipt": "{receipt}"}),
            lambda: Request("queue", "PUT", f"{queue}/messages/{{message}}", hour | {"popreceipt": "{receipt}"}, {}, message),
            lambda: Request("queue", "DELETE", f"{queue}/messages/{{message}}", {"popreceipt": "bogus"}),
            lambda: Request("queue", "GET", queue, {"comp": "acl"}),
            lambda: Request("queue", "PUT", queue, {"comp": "acl"}, {}, self.policies()),
        ]
        if self.one_in(100):
            return Request("queue", "DELETE", self.random.choice([queue, f"{queue}/messages"]))
        return self.random.choice(choices)()

    # Table

    def table(self) -> Request:
        table, key = self.name("People"), f"PartitionKey='{self.name('p', 2)}',RowKey='{self.name('r', 6)}'"
        accept = {"Accept": f"application/json;odata={self.random.choice(['nometadata', 'minimalmetadata', 'fullmetadata'])}"}
        sent = accept | {"Content-Type": "application/json"}
        any_etag = sent | {"If-Match": "*"}
        choices = [
            lambda: Request("table", "POST", "Tables", {}, sent, json.dumps({"TableName": table}).encode()),
            lambda: Request("table", "GET", "Tables", {}, accept),
            lambda: Request("table", "POST", table, {}, sent, self.entity(has_keys=True)),
            lambda: Request("table", "POST", table, {}, sent | {"Prefer": "return-no-content"}, self.entity(has_keys=True)),
            lambda: Request("table", "GET", f"{table}({quote(key)})", {}, accept),
            lambda: Request("table", "PUT", f"{table}({quote(key)})", {}, self.random.choice([sent, any_etag]), self.entity()),
            lambda: Request("table", "MERGE", f"{table}({quote(key)})", {}, self.random.choice([sent, any_etag]), self.entity()),
            lambda: Request("table", "DELETE", f"{table}({quote(key)})", {}, self.random.choice([any_etag, accept])),
            lambda: Request("table", "GET", f"{table}()", self.query(), accept),
            lambda: Request("table", "GET", f"{table}()", self.query(), accept),
            lambda: Request("table", "POST", "$batch", {}, {"Content-Type": "multipart/mixed; boundary=batch_1"}, self.batch(table)),
            lambda: Request("table", "POST", table, {}, sent, self.random.choice([b"", b"{", b"[]", b'{"PartitionKey":1}'])),
        ]
        if self.one_in(150):
            return Request("table", "DELETE", f"Tables('{table}')", {}, accept)
        return self.random.choice(choices)()

    def entity(self, has_keys: bool = False) -> bytes:
        keys = {"PartitionKey": self.name("p", 2), "RowKey": self.name("r", 6)} if has_keys else {}
        values = [
            {"Age": self.random.randrange(100)},
            {"Name": self.random.choice(["Don", "Zoë", ""])},
            {"Pay": self.random.random()},
            {"Big": str(self.random.getrandbits(60)), "Big@odata.type": "Edm.Int64"},
            {"Born": "1990-01-02T03:04:05.1234567Z", "Born@odata.type": "Edm.DateTime"},
            {"Data": base64.b64encode(self.random.randbytes(9)).decode(), "Data@odata.type": "Edm.Binary"},
            {"Is": True, "None": None},
            {"Bad": "x", "Bad@odata.type": self.random.choice(["Edm.Int64", "Edm.Guid", "Edm.Bogus"])},
        ]
        return json.dumps(keys | self.random.choice(values) | self.random.choice(values[:3])).encode()

    def query(self) -> "dict[str, str]":
        filters = [
            "PartitionKey eq 'p0'",
            "PartitionKey eq 'p1' and RowKey ge 'r2'",
            "Age gt 30 or Name eq 'Don'",
            "not (Is eq true)",
            "Born lt datetime'2000-01-01T00:00:00Z'",
            "Age gt",
            "Age gt 'x' and (",
            "startswith(Name,'D')",
        ]
        choices = {"$filter": filters, "$top": ["1", "3", "0", "x"], "$select": ["Age", "Name,RowKey", "Absent"], "$orderby": ["Age"]}
        return {name: self.random.choice(values) for name, values in choices.items() if self.one_in(6 if name == "$orderby" else 2)}

    def batch(self, table: str) -> bytes:
        parts = []
        for number in range(self.random.choice([1, 2, 3])):
            key = f"PartitionKey='p0',RowKey='r{self.random.randrange(6)}'"
            parts.append(
                "--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
                f"PUT http://127.0.0.1/{ACCOUNT}/{table}({key}) HTTP/1.1\r\nContent-ID: {number}\r\n"
                f"Content-Type: application/json\r\nAccept: application/json\r\n\r\n{self.entity().decode()}\r\n"
            )
        changes = "".join(parts)
        head = "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n"
        return f"{head}{changes}--changeset_1--\r\n--batch_1--\r\n".encode()


SERVICES = [Generator.blob, Generator.blob, Generator.queue, Generator.table]


class Server:
    """One of the two, with what it has told about its messages."""

    def __init__(self, port_file: Path) -> None:
        ports = json.loads(port_file.read_text())
        self.connections = {
            service: http.client.HTTPConnection("127.0.0.1", ports[service], timeout=SECONDS) for service in ["blob", "queue", "table"]
        }
        self.known = {"message": "00000000-0000-0000-0000-000000000000", "receipt": "none", "continuation": ""}

    def answer(self, request: Request) -> bytes:
        """The answer, with names in place of what may differ."""
        query, path = dict(request.query), request.path
        for name, value in self.known.items():
            path = path.replace(f"{{{name}}}", value)
            query = {key: text.replace(f"{{{name}}}", value) for key, text in query.items()}
        if request.credentials != "nothing":
            query |= sas(is_sound=request.credentials == "sas")
        connection = self.connections[request.service]
        headers = request.headers | {"Content-Length": str(len(request.body))}
        connection.request(request.method, f"/{ACCOUNT}/{path}?{urlencode(query)}", request.body or None, headers)
        got = connection.getresponse()
        body = got.read()
        for name, pattern in [("message", rb"<MessageId>([^<]+)"), ("receipt", rb"<PopReceipt>([^<]+)")]:
            if found := re.findall(pattern, body):
                self.known[name] = found[-1].decode()
        self.known["continuation"] = got.getheader("x-ms-continuation", self.known["continuation"])
        lines = sorted(f"{name.lower()}: {value}" for name, value in got.getheaders() if name.lower() not in HEADERS_LEFT_OUT)
        head = "\n".join([f"{got.status} {got.reason}", *lines])
        # Sizes of bodies that contain such values may differ only if the values do.
        return masked(head.encode("latin-1") + b"\n\n" + body)


def masked(answer: bytes) -> bytes:
    for name, pattern in MAY_DIFFER:
        answer = re.sub(pattern.encode(), f"<{name}>".encode(), answer)
    return answer


def sas(is_sound: bool) -> "dict[str, str]":
    """An account SAS for everything. Source: Create an account SAS, "Construct the signature string"."""
    values = {"sv": "2020-08-04", "ss": "bqt", "srt": "sco", "sp": "rwdxlacuptfmeo", "se": "2099-01-01"}
    signed = f"{ACCOUNT}\n{values['sp']}\n{values['ss']}\n{values['srt']}\n\n{values['se']}\n\n\n{values['sv']}\n"
    key = base64.b64decode(KEY) if is_sound else b"another key"
    return values | {"sig": base64.b64encode(hmac.digest(key, signed.encode(), "sha256")).decode()}


def compare(one: Path, other: Path, seed: int, count: int = COUNT, has_lake: bool = False) -> "tuple[dict[str, int], list[str]]":
    """How many answers had each hundred of statuses, and a text for each pair of answers that differs, at most a few."""
    generator, servers = Generator(seed, has_lake), [Server(one), Server(other)]
    statuses: "dict[str, int]" = {}
    different: "list[str]" = []
    for number in range(count):
        request = generator.request()
        first, second = (server.answer(request) for server in servers)
        hundreds = f"{first[:1].decode()}xx"
        statuses[hundreds] = statuses.get(hundreds, 0) + 1
        if first != second:
            different.append(f"request {number}: {request}\n--- one:\n{first.decode(errors='replace')}\n--- other:\n{second.decode(errors='replace')}")
            if len(different) == SHOWN_MAX:
                break
    return dict(sorted(statuses.items())), different


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("one", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--hns", action="store_true")
    arguments = parser.parse_args()
    statuses, different = compare(arguments.one, arguments.other, arguments.seed, arguments.count, arguments.hns)
    print(f"{sum(statuses.values())} requests, answers by status: {statuses}")
    print("\n\n".join(different))
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
