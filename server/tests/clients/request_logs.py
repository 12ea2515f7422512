"""Storage Analytics: what the accounts' requests leave in `$logs`, found again by prefix, and in the tables of metrics. The server
writes both every second."""

import socket
import unittest
from collections import Counter
from datetime import datetime, timedelta, timezone
from urllib.parse import urlsplit

from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.data.tables import TableAnalyticsLogging, TableRetentionPolicy, TableServiceClient
from azure.storage.blob import BlobAnalyticsLogging, BlobClient, BlobServiceClient, CorsRule, Metrics, RetentionPolicy, generate_blob_sas
from azure.storage.queue import Metrics as QueueMetrics
from azure.storage.queue import QueueAnalyticsLogging, QueueServiceClient

import harness
from harness import ACCOUNT, CONNECTION, eventually, unique
from log_lines import fields

FIELDS = 30
NAME, STATUS, CODE, ACCESS, OWNER, SERVICE, URL, KEY = 2, 3, 4, 7, 9, 10, 11, 12
ALL = {"read": True, "write": True, "delete": True}

blobs = BlobServiceClient.from_connection_string(CONNECTION)
queues = QueueServiceClient.from_connection_string(CONNECTION)
tables = TableServiceClient.from_connection_string(CONNECTION)
logs = blobs.get_container_client("$logs")


def entries(service, about):
    """The lines of this hour and of the one before, which may have been the one a moment ago, whose object has `about` in its name."""
    now = datetime.now(timezone.utc)
    lines = []
    for hour in (now - timedelta(hours=1), now):
        for blob in logs.list_blobs(name_starts_with=hour.strftime(f"{service}/%Y/%m/%d/%H00/"), include=["metadata"]):
            text = logs.download_blob(blob.name).readall().decode()
            lines += [fields(line) for line in text.splitlines()]
    return [line for line in lines if about in line[KEY]]


class LoggingTest(harness.Test):
    def tearDown(self):
        blobs.set_service_properties(analytics_logging=BlobAnalyticsLogging())
        queues.set_service_properties(analytics_logging=QueueAnalyticsLogging())
        tables.set_service_properties(analytics_logging=TableAnalyticsLogging())

    def test_requests_are_found_again_by_prefix(self):
        setting = BlobAnalyticsLogging(**ALL, retention_policy=RetentionPolicy(enabled=True, days=7))
        blobs.set_service_properties(analytics_logging=setting)
        found = blobs.get_service_properties()["analytics_logging"]
        self.assertEqual((found.read, found.write, found.delete, found.retention_policy.days), (True, True, True, 7))
        container = blobs.create_container(unique("con"))
        blob = container.upload_blob("a;b \"c\"", b"content")
        blob.download_blob().readall()
        with self.assertRaises(ResourceNotFoundError):
            container.get_blob_client("none").get_blob_properties()
        BlobClient.from_blob_url(blob.url.replace(container.container_name, "public-not-there")).exists()
        container.get_blob_client("copy").start_copy_from_url(blob.url)
        blob.acquire_lease().release()
        blob.delete_blob()
        name = container.container_name
        wanted = ["CreateContainer", "PutBlob", "GetBlob", "GetBlobProperties", "CopyBlob", "CopyBlobSource", "CopyBlobDestination", "AcquireBlobLease", "ReleaseBlobLease", "DeleteBlob"]

        def logged():
            lines = entries("blob", name)
            return lines if len(lines) >= len(wanted) else None

        lines = eventually(logged)
        self.assertEqual([line[NAME] for line in lines], wanted)
        self.assertTrue(all(len(line) == FIELDS and line[0] == "1.0" for line in lines))
        for line in lines:
            self.assertEqual((line[ACCESS], line[OWNER], line[SERVICE]), ("authenticated", ACCOUNT, "blob"))
        self.assertEqual([line[STATUS] for line in lines[:4]], ["Success", "Success", "Success", "BlobNotFound"])
        self.assertEqual([line[CODE] for line in lines[:4]], ["201", "201", "206", "404"])
        self.assertEqual(lines[1][KEY], f'"/{ACCOUNT}/{name}/a;b &quot;c&quot;"')
        self.assertTrue(lines[1][URL].startswith('"http://127.0.0.1:'))

    def test_logs_have_names_and_metadata_that_tools_look_for(self):
        blobs.set_service_properties(analytics_logging=BlobAnalyticsLogging(delete=True))
        container = blobs.create_container(unique("con"))
        container.delete_container()
        eventually(lambda: entries("blob", container.container_name))
        last = list(logs.list_blobs(name_starts_with="blob/", include=["metadata"]))[-1]
        self.assertRegex(last.name, r"^blob/\d{4}/\d\d/\d\d/\d\d00/\d{6}\.log$")
        self.assertIn("delete", last.metadata["LogType"].split(","))
        self.assertEqual(last.metadata["LogVersion"], "1.0")
        self.assertRegex(last.metadata["StartTime"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertLessEqual(last.metadata["StartTime"], last.metadata["EndTime"])

    def test_all_three_services_log(self):
        queues.set_service_properties(analytics_logging=QueueAnalyticsLogging(**ALL))
        tables.set_service_properties(analytics_logging=TableAnalyticsLogging(**ALL, retention_policy=TableRetentionPolicy(enabled=True, days=1)))
        queue = queues.create_queue(unique("queue"))
        queue.send_message("x")
        for message in queue.receive_messages():
            queue.delete_message(message)
        table = tables.create_table(unique("Table"))
        table.create_entity({"PartitionKey": "p", "RowKey": "r"})
        table.get_entity("p", "r")
        table.submit_transaction([("upsert", {"PartitionKey": "p", "RowKey": "s"})])
        table.delete_entity("p", "r")
        wanted = ["CreateQueue", "PutMessage", "GetMessages", "DeleteMessage"]
        found = eventually(lambda: len(names := [line[NAME] for line in entries("queue", queue.queue_name)]) >= len(wanted) and names)
        self.assertEqual(found[:4], wanted)
        found = eventually(lambda: "DeleteEntity" in (names := [line[NAME] for line in entries("table", "/")]) and names)
        for name in ("CreateTable", "InsertEntity", "QueryEntity", "EntityGroupTransaction", "DeleteEntity"):
            self.assertIn(name, found)

    def test_clients_read_and_remove_logs_and_no_more(self):
        blobs.set_service_properties(analytics_logging=BlobAnalyticsLogging(write=True))
        container = blobs.create_container(unique("con"))
        eventually(lambda: entries("blob", container.container_name))
        self.assertNotIn("$logs", [found.name for found in blobs.list_containers()])
        first = next(iter(logs.list_blobs()))
        for refused in (
            lambda: logs.upload_blob("mine", b"x"),
            lambda: logs.upload_blob(first.name, b"x", overwrite=True),
            lambda: logs.get_blob_client(first.name).set_blob_metadata({"a": "1"}),
            logs.delete_container,
        ):
            with self.fails(403, "AuthorizationFailure"):
                refused()
        logs.delete_blob(first.name)
        self.assertFalse(logs.get_blob_client(first.name).exists())


class RequestEndsTest(harness.Test):
    """How requests ended that their service refused, or that their client cut off: in logs and in figures."""

    TABLE = "$MetricsHourPrimaryTransactionsBlob"
    MIB = 1 << 20

    def setUp(self):
        self.container = blobs.create_container(unique("con"))
        self.since = (datetime.now(timezone.utc) - timedelta(minutes=1)).strftime("%Y%m%dT%H00")
        rule = CorsRule(["http://here.example"], ["GET"], max_age_in_seconds=1)
        metrics = Metrics(enabled=True, include_apis=True)
        blobs.set_service_properties(analytics_logging=BlobAnalyticsLogging(**ALL), hour_metrics=metrics, cors=[rule])
        self.addCleanup(blobs.set_service_properties, analytics_logging=BlobAnalyticsLogging(), hour_metrics=Metrics(), cors=[])

    def figures(self, operation):
        query = f"PartitionKey ge '{self.since}' and RowKey eq 'user;{operation}'"
        total = Counter()
        for row in tables.get_table_client(self.TABLE).query_entities(query):
            total.update({name: value.value for name, value in row.items() if getattr(value, "edm_type", None) == "Edm.Int64"})
        return total

    def target(self, name, permission):
        end = datetime.now(timezone.utc) + timedelta(hours=1)
        sas = generate_blob_sas(container_name=self.container.container_name, blob_name=name, permission=permission, expiry=end, **harness.KEY_CREDENTIAL)
        return urlsplit(f"{self.container.get_blob_client(name).url}?{sas}")

    def raw(self, method, name, permission, headers, parts=(), taken=None, edit=lambda target: target):
        """Sends a request by hand, in pieces, and takes that many bytes of the answer; all of it if `taken` is None."""
        url = self.target(name, permission)
        connection = socket.create_connection((url.hostname, url.port))
        with connection:
            head = [f"{method} {edit(url.path + '?' + url.query)} HTTP/1.1", f"Host: {url.netloc}", "x-ms-version: 2021-08-06", "Connection: close", *headers]
            connection.sendall("\r\n".join([*head, "", ""]).encode())
            for part in parts:
                connection.sendall(part)
            received = b""
            while taken is None or len(received) < taken:
                piece = connection.recv(65536 if taken is None else taken - len(received))
                if not piece:
                    break
                received += piece
        return received

    def logged(self, name, count):
        return eventually(lambda: len(lines := entries("blob", f"{self.container.container_name}/{name}")) >= count and lines)

    def test_refused_credentials_are_logged_and_counted(self):
        before = self.figures("PutBlob")
        headers = ["x-ms-blob-type: BlockBlob", "Content-Length: 4"]
        for _ in range(3):
            self.raw("PUT", "no", "w", headers, [b"body"], edit=lambda target: target.replace("sig=", "sig=A"))
        stranger = BlobClient.from_blob_url(self.container.get_blob_client("no").url, credential={**harness.KEY_CREDENTIAL, "account_key": "AAAA"}, retry_total=0)
        with self.assertRaises(HttpResponseError):
            stranger.upload_blob(b"body")
        lines = self.logged("no", 4)
        self.assertEqual(sorted((line[STATUS], line[CODE], line[ACCESS]) for line in lines), [("AuthorizationError", "403", "authenticated")] + 3 * [("SASAuthorizationError", "403", "sas")])
        eventually(lambda: self.figures("PutBlob")["TotalRequests"] >= before["TotalRequests"] + 4)
        now = self.figures("PutBlob")
        self.assertEqual([now[name] - before[name] for name in ("SASAuthorizationError", "AuthorizationError", "Success", "SASSuccess")], [3, 1, 0, 0])

    def test_preflights_are_logged_and_counted(self):
        before = self.figures("BlobPreflightRequest")
        for origin in ("http://here.example", "http://elsewhere.example"):
            self.raw("OPTIONS", "flight", "r", [f"Origin: {origin}", "Access-Control-Request-Method: GET"], edit=lambda target: target.split("?")[0])
        # The one that was refused is anonymous, and such are not logged.
        lines = self.logged("flight", 1)
        self.assertEqual([(line[NAME], line[STATUS]) for line in lines], [("BlobPreflightRequest", "AnonymousSuccess")])
        eventually(lambda: self.figures("BlobPreflightRequest")["TotalRequests"] >= before["TotalRequests"] + 2)
        now = self.figures("BlobPreflightRequest")
        self.assertEqual((now - before)["AnonymousAuthorizationError"], 1)

    def test_bytes_are_those_that_passed(self):
        before = self.figures("All")
        upload = ["x-ms-blob-type: BlockBlob", f"Content-Length: {20 * self.MIB}"]
        for _ in range(2):
            self.raw("PUT", "cut", "w", upload, [bytes(self.MIB)], taken=0)
        lines = self.logged("cut", 2)
        self.assertEqual({line[STATUS] for line in lines}, {"SASNetworkError"})
        # Request bytes, and the length that was declared.
        self.assertTrue(all(0 < int(line[18]) <= self.MIB and line[21] == str(20 * self.MIB) for line in lines), lines)
        chunks = [b"%x\r\n%s\r\n" % (100_000, bytes(100_000))] * 10 + [b"0\r\n\r\n"]
        self.raw("PUT", "chunked", "w", ["x-ms-blob-type: BlockBlob", "Transfer-Encoding: chunked"], chunks)
        line, = self.logged("chunked", 1)
        self.assertEqual((line[STATUS], line[18]), ("SASSuccess", "1000000"))
        self.container.upload_blob("large", bytes(32 * self.MIB), max_concurrency=4)
        self.raw("GET", "large", "r", [], taken=1024)
        line = eventually(lambda: next((line for line in entries("blob", f"{self.container.container_name}/large") if line[NAME] == "GetBlob"), None))
        self.assertEqual((line[STATUS], line[CODE]), ("SASNetworkError", "200"))
        self.assertLess(int(line[20]), 32 * self.MIB)
        eventually(lambda: self.figures("All")["SASNetworkError"] >= before["SASNetworkError"] + 3)
        ingress = self.figures("All")["TotalIngress"] - before["TotalIngress"]
        self.assertLess(ingress, 36 * self.MIB)


class MetricsTest(harness.Test):
    def rows(self, table, operation):
        """The row of an operation in the present interval and in the one before, added up."""
        query = f"PartitionKey ge '{self.since}' and RowKey eq 'user;{operation}'"
        found = list(tables.get_table_client(table).query_entities(query))
        counters = [name for row in found[:1] for name in row if name.startswith(("Total", "Success", "Client"))]
        return {name: sum(row[name].value for row in found) for name in counters}

    def setUp(self):
        self.since = (datetime.now(timezone.utc) - timedelta(minutes=1)).strftime("%Y%m%dT%H00")

    def test_requests_are_counted_by_hour_and_minute(self):
        by_hour = Metrics(enabled=True, include_apis=True, retention_policy=RetentionPolicy(enabled=True, days=7))
        blobs.set_service_properties(hour_metrics=by_hour, minute_metrics=Metrics(enabled=True, include_apis=False))
        self.addCleanup(blobs.set_service_properties, hour_metrics=Metrics(), minute_metrics=Metrics())
        hour, minute = (f"$Metrics{grain}PrimaryTransactionsBlob" for grain in ("Hour", "Minute"))
        container = blobs.create_container(unique("con"))
        for n in range(3):
            container.upload_blob(f"{n}", b"content")
        with self.fails(404, "BlobNotFound"):
            container.download_blob("none")
        eventually(lambda: self.rows(hour, "GetBlob").get("TotalRequests") == 1)
        put, get = self.rows(hour, "PutBlob"), self.rows(hour, "GetBlob")
        self.assertEqual((put["TotalRequests"], put["Success"], get["Success"], get["ClientOtherError"]), (3, 3, 0, 1))
        self.assertGreater(put["TotalIngress"], 3 * len(b"content"))
        for table in (hour, minute):
            self.assertGreaterEqual(self.rows(table, "All")["TotalRequests"], 5)
        self.assertEqual(self.rows(minute, "PutBlob"), {})
        # What comes later is added.
        container.upload_blob("later", b"content")
        eventually(lambda: self.rows(hour, "PutBlob")["TotalRequests"] == 4)
        capacity = tables.get_table_client("$MetricsCapacityBlob")
        eventually(lambda: [r for r in capacity.list_entities() if r["RowKey"] == "data" and r["ContainerCount"].value >= 0])

    def test_clients_read_and_delete_metrics_and_do_nothing_else(self):
        queues.set_service_properties(hour_metrics=QueueMetrics(enabled=True, include_apis=False))
        self.addCleanup(queues.set_service_properties, hour_metrics=QueueMetrics())
        table = tables.get_table_client("$MetricsHourPrimaryTransactionsQueue")
        # There is a row even if no request comes.
        eventually(lambda: list(table.list_entities()))
        self.assertNotIn(table.table_name, [t.name for t in tables.list_tables()])
        entity = {"PartitionKey": "p", "RowKey": "r"}
        for write in (
            lambda: table.create_entity(entity), lambda: table.upsert_entity(entity), table.delete_table,
            lambda: table.submit_transaction([("upsert", entity)]),
        ):
            with self.assertRaises(HttpResponseError) as caught:
                write()
            self.assertEqual(caught.exception.status_code, 403)
        queues.set_service_properties(hour_metrics=QueueMetrics())
        row = next(iter(table.list_entities()))
        table.delete_entity(row["PartitionKey"], row["RowKey"])


if __name__ == "__main__":
    harness.main()
