"""Exchanges over a bad network: the bytes of requests to all three services are split, merged, delayed and cut. Every observer of the
server (the access log, `$logs`, the hour metrics, the last requests) must show for each exchange what this program counted. `LAZURITE` is the program; `EXCHANGES_SECONDS=600` runs for ten minutes instead of ten seconds, `EXCHANGES_SEED` repeats a run."""

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request
from collections import Counter, defaultdict
from datetime import datetime, timedelta, timezone
from pathlib import Path
from urllib.parse import urlsplit

from azure.data.tables import TableAnalyticsLogging, TableServiceClient
from azure.data.tables import TableMetrics
from azure.storage.blob import AccountSasPermissions, BlobAnalyticsLogging, BlobServiceClient, Metrics, ResourceTypes, generate_account_sas
from azure.storage.queue import Metrics as QueueMetrics
from azure.storage.queue import QueueAnalyticsLogging, QueueServiceClient

from log_lines import fields

SECONDS = int(os.environ.get("EXCHANGES_SECONDS", "10"))
SEED = int(os.environ.get("EXCHANGES_SEED", str(time.time_ns() % 1_000_000)))
CLIENTS = 8
MIB = 1 << 20
# More than the buffers of two sockets hold, so that a cut answer is a cut for the server too: the
# server's holds 4 MiB, and a client's grows to 32 MiB where it is not limited.
LARGE = 12 * MIB
RECEIVED_MAX = MIB // 4
# Seconds after which an exchange counts as hung.
PATIENCE = 60
ALL = {"read": True, "write": True, "delete": True}


class Wire:
    """One connection over the bad network. It knows as much HTTP as counting needs."""

    def __init__(self, choices, reader, writer):
        self.choices, self.reader, self.writer = choices, reader, writer

    async def send(self, data):
        """In pieces of any size, some of them late."""
        while data:
            size = self.choices.choice([1, 7, 100, 1460, 65536, len(data)])
            # Many pieces of a byte would only take time.
            size = max(size, len(data) // 50)
            self.writer.write(data[:size])
            await self.writer.drain()
            data = data[size:]
            if data and self.choices.random() < 0.2:
                await asyncio.sleep(self.choices.choice([0, 0.001, 0.01]))

    async def head(self):
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
        headers = dict(line.lower().split(": ", 1) if ": " in line else (line.rstrip(":").lower(), "") for line in lines[1:])
        return int(lines[0].split()[1]), headers

    async def answer(self, method):
        """Status, request id, and the bytes of a whole answer's body."""
        status, headers = await self.head()
        received = 0
        if method == "HEAD" or status in (204, 304):
            pass
        elif headers.get("transfer-encoding") == "chunked":
            while size := int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16):
                received += size
                await self.reader.readexactly(size + 2)
            await self.reader.readuntil(b"\r\n")
        else:
            received = int(headers["content-length"])
            left = received
            while left:
                left -= len(await self.reader.readexactly(min(left, 65536)))
        return status, headers["x-ms-request-id"], received

    def cut(self):
        """Closes at once: what the server sends from now on is answered with a reset."""
        self.writer.transport.abort()


class Told:
    """What was counted of one exchange."""

    def __init__(self, service, kind, how, client_id):
        self.service, self.kind, self.how, self.client_id = service, kind, how, client_id
        self.status = self.request_id = None
        self.up = self.down = 0


class Network:
    def __init__(self, ports, sas):
        self.ports, self.sas, self.told, self.heads_cut = ports, sas, [], 0
        self.number = 0

    def request(self, choices, of_service):
        """Its number, name of the kind, method, target, headers, body."""
        self.number += 1
        n = self.number
        text = bytes(choices.randrange(97, 123) for _ in range(choices.choice([0, 1, 100, 5000])))
        block = choices.randbytes(choices.choice([1, 1000, 100_000, MIB]))
        message = b"<QueueMessage><MessageText>%s</MessageText></QueueMessage>" % text
        entity = json.dumps({"PartitionKey": "p", "RowKey": f"{n:09}", "Text": text.decode()}).encode()
        kind = {"x-ms-blob-type": "BlockBlob"}
        typed = {"Content-Type": "application/json", "Accept": "application/json;odata=nometadata"}
        kinds = [
            ("blob", "PutBlob", "PUT", f"/work/b{n}", kind, block),
            ("blob", "PutBlob", "PUT", "/none/b", kind, block),
            ("blob", "PutBlock", "PUT", f"/work/b?comp=block&blockid={n:08}", {}, block),
            ("blob", "GetBlob", "GET", "/work/large", {}, b""),
            ("blob", "GetBlob", "GET", "/work/large", {"Range": f"bytes=0-{choices.randrange(MIB)}"}, b""),
            ("blob", "GetBlob", "GET", f"/work/none{n}", {}, b""),
            ("blob", "GetBlobProperties", "HEAD", "/work/large", {}, b""),
            ("queue", "PutMessage", "POST", "/work/messages", {}, message),
            ("queue", "GetMessages", "GET", "/work/messages?numofmessages=8", {}, b""),
            ("queue", "GetMessages", "GET", "/none/messages", {}, b""),
            ("table", "InsertEntity", "POST", "/Work", typed, entity),
            ("table", "QueryEntities", "GET", "/Work()?$top=100", typed, b""),
            ("table", "QueryEntity", "GET", "/Work(PartitionKey='p',RowKey='none')", typed, b""),
        ]
        return n, *choices.choice([kind[1:] for kind in kinds if kind[0] == of_service])

    def bytes_of(self, service, request, client_id, is_chunked):
        """The head and the body as they are sent."""
        _, _, method, target, headers, body = request
        mark = "&" if "?" in target else "?"
        lines = [f"{method} /devstoreaccount1{target}{mark}{self.sas} HTTP/1.1", f"Host: 127.0.0.1:{self.ports[service]}", "x-ms-version: 2021-08-06"]
        lines += [f"x-ms-client-request-id: {client_id}", *(f"{name}: {value}" for name, value in headers.items())]
        if method not in ("GET", "HEAD"):
            lines.append("Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode(), body

    async def client(self, choices, deadline):
        """Connections one after another, some with many requests."""
        while time.monotonic() < deadline:
            service = choices.choice(["blob", "blob", "queue", "table"])
            reader, writer = await self.connect(service)
            wire = Wire(choices, reader, writer)
            for _ in range(choices.choice([1, 1, 3, 30])):
                is_open = await asyncio.wait_for(self.exchange(choices, wire, service), PATIENCE)
                if not is_open or time.monotonic() > deadline:
                    break
            writer.close()

    async def connect(self, service):
        connection = socket.socket()
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_MAX)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", self.ports[service]))
        return await asyncio.open_connection(sock=connection, limit=65536)

    async def exchange(self, choices, wire, service):
        """One exchange, or two whose requests are merged; returns whether the connection may be used again."""
        request = self.request(choices, service)
        number, kind, method, target, headers, body = request
        hows = {"whole": 6, "merged": 2, "head cut": 1, "body cut": 3 if len(body) > 1 else 0}
        hows["answer cut"] = 9 if (kind, target, headers) == ("GetBlob", "/work/large", {}) else 0
        how = choices.choices(list(hows), list(hows.values()))[0]
        client_id = f"{SEED}-{number}-{how.replace(' ', '')}"
        is_chunked = bool(body) and choices.random() < 0.3
        head, _ = self.bytes_of(service, request, client_id, is_chunked)
        told = Told(service, kind, how, client_id)
        if how == "head cut":
            await wire.send(head[: choices.randrange(len(head) - 1)])
            wire.cut()
            self.heads_cut += 1
            return False
        self.told.append(told)
        if how == "body cut":
            told.up = choices.randrange(len(body))
            # A part of a chunk that has begun is counted by its bytes.
            framing = b"%x\r\n" % len(body) if is_chunked else b""
            await wire.send(head + framing + body[: told.up])
            # The server has all of it before the end: a reset could overtake the bytes.
            wire.writer.write_eof()
            await self.drain(wire)
            return False
        sent = head + (b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if is_chunked else body)
        told.up = len(body)
        if how == "merged":
            return await self.merged(choices, wire, service, told, method, sent)
        await wire.send(sent)
        if how == "answer cut":
            told.status, headers = await wire.head()
            told.request_id = headers["x-ms-request-id"]
            told.down = choices.randrange(MIB)
            await wire.reader.readexactly(told.down)
            wire.cut()
            return False
        told.status, told.request_id, told.down = await wire.answer(method)
        return True

    async def merged(self, choices, wire, service, told, method, sent):
        """A second request begins in the packet in which the first one ends."""
        other = self.request(choices, service)
        client_id = f"{SEED}-{other[0]}-second"
        head, body = self.bytes_of(service, other, client_id, False)
        second = Told(service, other[1], "merged", client_id)
        second.up = len(body)
        self.told.append(second)
        sending = asyncio.ensure_future(wire.send(sent + head + body))
        for one, its_method in ((told, method), (second, other[2])):
            one.status, one.request_id, one.down = await wire.answer(its_method)
        await sending
        return True

    async def drain(self, wire):
        """Reads the answer to a request that was cut, until the server closes."""
        try:
            while await asyncio.wait_for(wire.reader.read(65536), PATIENCE):
                pass
        except ConnectionError:
            pass


class ExchangesTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        print("seed", SEED, flush=True)
        self.scratch = Path(self.enterContext(tempfile.TemporaryDirectory()))
        ports = self.scratch / "ports"
        self.log = self.scratch / "log"
        command = [os.environ["LAZURITE"], "--location", str(self.scratch / "data"), "--port", "0", "--port-file", str(ports), "--log-format", "json", "--log-interval", "1"]
        with self.log.open("w") as log:
            self.server = subprocess.Popen(command, stdout=log, stderr=subprocess.DEVNULL)
        self.addCleanup(self.server.kill)
        while not ports.exists():
            time.sleep(0.02)
        self.ports = json.loads(ports.read_text())
        key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
        ends = ";".join(f"{service.title()}Endpoint=http://127.0.0.1:{port}/devstoreaccount1" for service, port in self.ports.items())
        connection = f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={key};{ends};"
        self.blobs, self.queues, self.tables = (kind.from_connection_string(connection) for kind in (BlobServiceClient, QueueServiceClient, TableServiceClient))
        end = datetime.now(timezone.utc) + timedelta(hours=2)
        permission = AccountSasPermissions(read=True, write=True, delete=True, list=True, add=True, create=True, update=True, process=True)
        self.sas = generate_account_sas("devstoreaccount1", key, ResourceTypes(service=True, container=True, object=True), permission, end, services="bqt")
        self.blobs.create_container("work").upload_blob("large", os.urandom(LARGE))
        self.queues.create_queue("work")
        self.tables.create_table("Work")
        self.set_observers(ALL, {"enabled": True, "include_apis": True})
        self.since = (datetime.now(timezone.utc) - timedelta(minutes=1)).strftime("%Y%m%dT%H00")

    def set_observers(self, logging, metrics):
        self.blobs.set_service_properties(analytics_logging=BlobAnalyticsLogging(**logging), hour_metrics=Metrics(**metrics))
        self.queues.set_service_properties(analytics_logging=QueueAnalyticsLogging(**logging), hour_metrics=QueueMetrics(**metrics))
        self.tables.set_service_properties(analytics_logging=TableAnalyticsLogging(**logging), hour_metrics=TableMetrics(**metrics))

    def memory(self):
        status = Path(f"/proc/{self.server.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) >> 10

    def test_all_observers_tell_what_the_network_counted(self):
        network = Network(self.ports, self.sas)
        shown = asyncio.run(self.run_clients(network))
        kinds = Counter(told.how for told in network.told)
        print(len(network.told), "exchanges", dict(kinds), network.heads_cut, "heads cut")
        # What the test reads from now on is neither logged nor counted.
        self.set_observers({}, {})
        logged = self.logged(network.told)
        self.server.send_signal(signal.SIGTERM)
        self.server.wait(PATIENCE)
        lines = {line["request_id"]: line for line in map(json.loads, filter(lambda text: text.startswith("{"), self.log.read_text().splitlines()))}
        compared = 0
        for told in network.told:
            entry, = logged[told.client_id]
            line = lines[entry[13]]
            record = shown.get(entry[13])
            compared += record is not None
            self.check(told, entry, line, record)
        self.assertGreater(compared, len(network.told) // 2)
        names = {name for name in logged if name.startswith(f"{SEED}-")}
        self.assertEqual(names, {told.client_id for told in network.told})

    async def run_clients(self, network):
        """Returns the records of the last requests, by id."""
        seeds = random.Random(SEED)
        begin = time.monotonic()
        deadline = begin + SECONDS
        clients = [asyncio.ensure_future(network.client(random.Random(seeds.random()), deadline)) for _ in range(CLIENTS)]
        shown, after, memory = {}, 0, []
        while not all(client.done() for client in clients):
            await asyncio.sleep(0.25)
            memory.append(self.memory())
            after = await asyncio.to_thread(self.read_records, shown, after)
        self.read_records(shown, after)
        for client in clients:
            client.result()
        half = len(memory) // 2
        print("MiB of memory:", "at most", max(memory[:half]), "in the first half,", max(memory[half:]), "in the second")
        return shown

    def read_records(self, shown, after):
        while True:
            url = f"http://127.0.0.1:{self.ports['blob']}/_lazurite/api/requests?after={after}"
            page = json.load(urllib.request.urlopen(url))
            shown.update({record["request_id"]: record for record in page["requests"]})
            if page["next"] == after:
                return after
            after = page["next"]

    def logged(self, told):
        """The lines of `$logs` by client request id, when all are written; the sums of the metrics are those of the lines."""
        # Both are written each second, and reading those of a long run takes longer.
        time.sleep(3)
        deadline = time.monotonic() + PATIENCE
        while True:
            found, sums = self.read_logs()
            missing = [one.client_id for one in told if one.client_id not in found]
            figures = self.figures()
            if not missing and all(figures[key] == total for key, total in sums.items()):
                return found
            if time.monotonic() > deadline:
                self.assertEqual(missing, [])
                for key, total in sums.items():
                    self.assertEqual((key, figures[key]), (key, total))
            time.sleep(0.5)

    def read_logs(self):
        found, sums = defaultdict(list), defaultdict(Counter)
        container = self.blobs.get_container_client("$logs")
        for service in ("blob", "queue", "table"):
            for blob in list(container.list_blobs(name_starts_with=f"{service}/")):
                for text in container.download_blob(blob.name).readall().decode().splitlines():
                    line = fields(text)
                    found[line[29].strip('"')].append(line)
                    up, down = int(line[17]) + int(line[18]), int(line[19]) + int(line[20])
                    sums[service, line[2]].update(TotalRequests=1, TotalIngress=up, TotalEgress=down)
        return found, sums

    def figures(self):
        """The hours' figures of each operation."""
        figures = defaultdict(Counter)
        for service in ("blob", "queue", "table"):
            table = self.tables.get_table_client(f"$MetricsHourPrimaryTransactions{service.title()}")
            for row in table.query_entities(f"PartitionKey ge '{self.since}'"):
                counts = {name: int(getattr(row[name], "value", row[name])) for name in ("TotalRequests", "TotalIngress", "TotalEgress")}
                figures[service, row["RowKey"].removeprefix("user;")].update(counts)
        return figures

    def check(self, told, entry, line, record):
        about = (told.client_id, told.kind, entry, line)
        log = (entry[2], int(entry[18]), int(entry[20]))
        access = (line["operation"], line["request_bytes"], line["response_bytes"])
        self.assertEqual(log[1:], access[1:], about)
        if record is not None:
            self.assertEqual((record["operation"], record["request_bytes"], record["response_bytes"], record["status"]), (*access, line["status"]), about)
        if told.how == "body cut":
            self.assertIn("NetworkError", entry[3], about)
            self.assertEqual(log[1], told.up, about)
        elif told.how == "answer cut":
            self.assertEqual((entry[3], entry[4], line["ended"]), ("SASNetworkError", str(told.status), "disconnected"), about)
            self.assertLessEqual(told.down, log[2], about)
            self.assertLess(log[2], LARGE, about)
        else:
            self.assertEqual((entry[13], int(entry[4]), line["ended"]), (told.request_id, told.status, "whole"), about)
            self.assertEqual(log[2], told.down, about)
            # A refused body need not be read to its end.
            if told.status < 400:
                self.assertEqual(log[1], told.up, about)
            else:
                self.assertLessEqual(log[1], told.up, about)


if __name__ == "__main__":
    unittest.main(verbosity=2)
