"""The clock of the store, moved by the official clients' tests: nothing here sleeps."""

import json
import urllib.request
from datetime import datetime, timedelta, timezone

from azure.storage.blob import (
    BlobClient,
    BlobSasPermissions,
    BlobServiceClient,
    RetentionPolicy,
    generate_blob_sas,
)
from azure.storage.queue import QueueServiceClient

import harness
from harness import ACCOUNT, CONNECTION, KEY, ONCE, SETTINGS, unique

SERVER = SETTINGS["BlobEndpoint"].rsplit("/", 1)[0]
blobs = BlobServiceClient.from_connection_string(CONNECTION, **ONCE)
queues = QueueServiceClient.from_connection_string(CONNECTION, **ONCE)


def clock(**step):
    """Moves the clock, or only reads it."""
    body = json.dumps(step).encode() if step else None
    request = urllib.request.Request(f"{SERVER}/_lazurite/clock", body, method="PUT" if step else "GET")
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def now():
    return datetime.fromisoformat(clock()["now"][:19] + "+00:00")


class Clock(harness.Test):
    def setUp(self):
        self.container = blobs.create_container(unique("clock"))

    def test_a_lease_expires(self):
        blob = self.container.upload_blob("b", b"1")
        lease = blob.acquire_lease(lease_duration=60)
        clock(advance=59)
        with self.fails(412, "LeaseIdMissing"):
            blob.upload_blob(b"2", overwrite=True)
        clock(advance="PT2S")
        self.assertEqual(blob.get_blob_properties().lease.state, "expired")
        blob.upload_blob(b"2", overwrite=True)
        with self.fails(409, "LeaseIdMismatchWithLeaseOperation"):
            lease.renew()

    def test_a_hidden_message_comes_back_and_expires(self):
        queue = queues.create_queue(unique("queue"))
        queue.send_message("a", time_to_live=3600)
        first = queue.receive_message(visibility_timeout=300)
        self.assertIsNone(queue.receive_message())
        clock(advance="PT4M50S")
        self.assertIsNone(queue.receive_message())
        clock(advance="PT15S")
        again = queue.receive_message(visibility_timeout=1)
        self.assertEqual((again.id, again.content, again.dequeue_count), (first.id, "a", 2))
        clock(advance="PT1H")
        self.assertIsNone(queue.receive_message())
        self.assertEqual(queue.get_queue_properties().approximate_message_count, 0)

    def test_a_sas_expires(self):
        self.container.upload_blob("b", b"1")
        name = self.container.container_name
        sas = generate_blob_sas(
            ACCOUNT,
            name,
            "b",
            account_key=KEY,
            permission=BlobSasPermissions(read=True),
            expiry=now() + timedelta(hours=1),
        )
        reader = BlobClient(blobs.url, name, "b", credential=sas, **ONCE)
        clock(advance="PT59M")
        self.assertEqual(reader.download_blob().readall(), b"1")
        clock(advance="PT2M")
        with self.fails(403, "AuthenticationFailed"):
            reader.download_blob()

    def test_a_deleted_blob_is_gone_after_its_retention(self):
        blobs.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=True, days=7))
        blob = self.container.upload_blob("b", b"1")
        blob.delete_blob()
        clock(advance="P6D")
        blob.undelete_blob()
        self.assertEqual(blob.download_blob().readall(), b"1")
        blob.delete_blob()
        clock(advance="P7D")
        clock(advance=1)
        self.assertEqual(list(self.container.list_blobs(include=["deleted"])), [])
        with self.fails(404, "BlobNotFound"):
            blob.undelete_blob()

    def test_a_frozen_clock_stamps_all_writes_alike(self):
        clock(frozen=True)
        try:
            blob = self.container.upload_blob("b", b"1")
            first = blob.get_blob_properties()
            blob.upload_blob(b"2", overwrite=True)
            second = blob.get_blob_properties()
        finally:
            clock(frozen=False)
        self.assertEqual(first.last_modified, second.last_modified)
        self.assertNotEqual(first.etag, second.etag)

    def test_a_clock_far_ahead_does_not_refuse_signed_requests(self):
        clock(advance="P1D")
        self.assertGreater(now(), datetime.now(timezone.utc) + timedelta(hours=23))
        self.container.upload_blob("b", b"1")


if __name__ == "__main__":
    harness.main()
