"""Faults as azure-storage-blob and its siblings see them: their retry policies recover, or fail as documented."""

import json
import time
import urllib.request

from azure.core.exceptions import (
    HttpResponseError,
    IncompleteReadError,
    ResourceExistsError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient, LinearRetry
from azure.storage.queue import QueueServiceClient

import harness
from harness import CONNECTION, ONCE, SETTINGS, unique

SERVER = SETTINGS["BlobEndpoint"].rsplit("/", 1)[0]
FAST = {"retry_policy": LinearRetry(backoff=0, retry_total=3, random_jitter_range=0)}
once = BlobServiceClient.from_connection_string(CONNECTION, **ONCE)


def faults(*rules, method="PUT"):
    body = json.dumps({"rules": rules}).encode() if method == "PUT" else None
    request = urllib.request.Request(f"{SERVER}/_lazurite/faults", body, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["rules"]


def targets(**limits):
    body = json.dumps({"targets": limits}).encode()
    request = urllib.request.Request(f"{SERVER}/_lazurite/faults", body, method="PUT")
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["targetHits"]


def target_hits():
    with urllib.request.urlopen(f"{SERVER}/_lazurite/faults") as answer:
        return json.load(answer)["targetHits"]


class Targets(harness.Test):
    def setUp(self):
        self.addCleanup(targets)

    def test_clients_recover_from_busy_partitions_queues_and_blobs(self):
        container = once.create_container(unique("targets"))
        blob = container.upload_blob("b", b"1")
        # Their own waits are 15 seconds and more.
        soon = {"retry_policy": LinearRetry(backoff=1, retry_total=5, random_jitter_range=0)}
        retrying = BlobServiceClient.from_connection_string(CONNECTION, **soon)
        queues = QueueServiceClient.from_connection_string(CONNECTION, **soon)
        queue = queues.create_queue(unique("queue"))
        with TableServiceClient.from_connection_string(CONNECTION) as tables:
            table = tables.create_table(unique("table"))
            retried = retrying.get_blob_client(blob.container_name, "b")
            keys = ({"PartitionKey": "p", "RowKey": str(number)} for number in range(3))
            for target, call in (
                ("partitionEntities", lambda: table.create_entity(next(keys))),
                ("queueMessages", lambda: queue.send_message("m")),
                ("blobRequests", retried.get_blob_properties),
            ):
                targets(**{target: 1})
                for _ in range(3):
                    call()
                self.assertGreater(target_hits()[target], 0, target)
            targets()
            self.assertEqual(len(list(table.list_entities())), 3)
        self.assertEqual(len(list(queue.receive_messages())), 3)
        retrying.close()

    def test_tokens_at_partition_boundaries_are_followed(self):
        with TableServiceClient.from_connection_string(CONNECTION) as tables:
            table = tables.create_table(unique("table"))
            for number in range(6):
                table.create_entity({"PartitionKey": str(number // 2), "RowKey": str(number)})
            targets(pagePartitions=1)
            self.assertEqual([len(list(page)) for page in table.list_entities().by_page()], [2, 2, 2])
            self.assertEqual(len(list(table.query_entities("RowKey eq '5'"))), 1)

    def test_a_deleted_name_is_not_free(self):
        name = unique("targets")
        targets(containerReuseSeconds=30)
        once.create_container(name)
        once.delete_container(name)
        with self.fails(409, "ContainerBeingDeleted"):
            once.create_container(name)


class Faults(harness.Test):
    def setUp(self):
        self.name = unique("faults")
        once.create_container(self.name).upload_blob("b", b"0123456789" * 100)
        self.addCleanup(faults)

    def client(self, blob="b", **options):
        service = BlobServiceClient.from_connection_string(CONNECTION, **(options or FAST))
        self.addCleanup(service.close)
        return service.get_blob_client(self.name, blob)

    def hits(self):
        return faults(method="GET")[0]["hits"]

    def test_503_and_500_are_tried_again(self):
        for fault in ("503", "503; retry-after=1", "500 OperationTimedOut", "500 InternalError"):
            faults({"operation": "GetBlobProperties", "count": 2, "fault": fault})
            self.assertEqual(self.client().get_blob_properties().size, 1000, fault)
            self.assertEqual(self.hits(), 2, fault)

    def test_errors_that_stay_are_raised_once_the_tries_are_used_up(self):
        faults({"operation": "GetBlobProperties", "fault": "503"})
        with self.assertRaises(HttpResponseError) as caught:
            self.client().get_blob_properties()
        self.assertEqual((caught.exception.status_code, self.hits()), (503, 4))
        faults({"operation": "DeleteBlob", "fault": "503"})
        with self.fails(503, "ServerBusy"):
            self.client(**ONCE).delete_blob()

    def test_a_reset_connection_is_tried_again(self):
        faults({"operation": "GetBlobProperties", "count": 2, "fault": "reset"})
        self.assertEqual(self.client().get_blob_properties().size, 1000)
        self.assertEqual(self.hits(), 2)
        faults({"operation": "GetBlobProperties", "fault": "reset"})
        with self.assertRaises((ServiceResponseError, ServiceRequestError)):
            self.client(**ONCE).get_blob_properties()

    def test_a_lost_answer_makes_a_conditional_write_fail_although_it_was_done(self):
        faults({"operation": "PutBlob", "count": 1, "fault": "lose-answer"})
        # The retry meets what the first request has written.
        with self.assertRaises(ResourceExistsError):
            self.client(blob="new").upload_blob(b"1")
        self.assertEqual(once.get_blob_client(self.name, "new").download_blob().readall(), b"1")

    def test_a_download_whose_body_is_cut_is_tried_again(self):
        faults({"operation": "GetBlob", "count": 2, "fault": "cut-body"})
        self.assertEqual(self.client().download_blob().readall(), b"0123456789" * 100)
        self.assertEqual(self.hits(), 2)
        faults({"operation": "GetBlob", "fault": "cut-body=10"})
        with self.assertRaises((HttpResponseError, IncompleteReadError, ServiceResponseError)):
            self.client().download_blob().readall()

    def test_latency_beyond_the_read_timeout_is_an_error(self):
        faults({"operation": "GetBlobProperties", "count": 1, "fault": "latency=300ms"})
        began = time.monotonic()
        self.client().get_blob_properties()
        self.assertGreaterEqual(time.monotonic() - began, 0.3)
        faults({"operation": "GetBlobProperties", "fault": "latency=5s"})
        with self.assertRaises((ServiceResponseError, ServiceRequestError)):
            self.client(read_timeout=0.5, **ONCE).get_blob_properties()

    def test_a_request_asks_for_its_own_fault(self):
        blob = self.client(**ONCE)
        with self.fails(503, "ServerBusy") as caught:
            blob.get_blob_properties(headers={"x-lazurite-fault": "503; retry-after=2"})
        self.assertEqual(caught.error.response.headers["Retry-After"], "2")
        self.assertEqual(blob.get_blob_properties().size, 1000)

    def test_queues_and_tables_recover_too(self):
        queue = QueueServiceClient.from_connection_string(CONNECTION, **FAST).create_queue(unique("queue"))
        faults(
            {"service": "queue", "operation": "PutMessage", "count": 1, "fault": "503"},
            {"service": "table", "operation": "InsertEntity", "count": 1, "fault": "500"},
        )
        queue.send_message("a")
        with TableServiceClient.from_connection_string(CONNECTION, retry_backoff_factor=0.1) as tables:
            table = tables.create_table(unique("table"))
            table.create_entity({"PartitionKey": "p", "RowKey": "r"})
            self.assertEqual(len(list(table.list_entities())), 1)
        self.assertEqual([rule["hits"] for rule in faults(method="GET")], [1, 1])
        self.assertEqual(len(list(queue.receive_messages())), 1)

    def test_a_seed_repeats_the_same_faults(self):
        def outcome():
            faults({"operation": "GetBlobProperties", "probability": 0.5, "seed": 7, "fault": "503"})
            blob = self.client(**ONCE)
            found = []
            for _ in range(20):
                try:
                    blob.get_blob_properties()
                    found.append(True)
                except HttpResponseError:
                    found.append(False)
            return found

        first = outcome()
        self.assertEqual(first, outcome())
        self.assertEqual({True, False}, set(first))


if __name__ == "__main__":
    harness.main()
