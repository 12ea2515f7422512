"""Several accounts with two keys each, and what their secondaries answer."""

import os

from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

import harness
from harness import ONCE, SETTINGS, unique

KEYS = {name: keys for name, *keys in (part.split(":") for part in os.environ["AZURITE_ACCOUNTS"].split(";"))}


def client(kind, name, key, path=None):
    service = {BlobServiceClient: "Blob", QueueServiceClient: "Queue", TableServiceClient: "Table"}[kind]
    base = SETTINGS[f"{service}Endpoint"].rsplit("/", 1)[0]
    return kind(f"{base}/{path or name}", credential=AzureNamedKeyCredential(name, key), **ONCE)


class Accounts(harness.Test):
    def test_each_key_of_an_account_signs_and_no_other(self):
        for key in KEYS["one"]:
            client(BlobServiceClient, "one", key).create_container(unique("con"))
            client(QueueServiceClient, "one", key).create_queue(unique("queue"))
            client(TableServiceClient, "one", key).create_table(unique("table"))
        for kind in (BlobServiceClient, QueueServiceClient):
            with self.fails(403, "AuthenticationFailed"):
                client(kind, "one", KEYS["two"][0]).get_service_properties()
            with self.fails(403, "AuthenticationFailed"):
                client(kind, "two", KEYS["one"][0]).get_service_properties()

    def test_accounts_share_nothing(self):
        mine, theirs = client(BlobServiceClient, "one", KEYS["one"][0]), client(BlobServiceClient, "two", KEYS["two"][0])
        name = unique("same")
        mine.create_container(name).upload_blob("b", b"mine")
        theirs.create_container(name).upload_blob("b", b"theirs")
        self.assertEqual(mine.get_blob_client(name, "b").download_blob().readall(), b"mine")
        mine.delete_container(name)
        self.assertEqual(theirs.get_blob_client(name, "b").download_blob().readall(), b"theirs")
        ours, yours = client(TableServiceClient, "one", KEYS["one"][1]), client(TableServiceClient, "two", KEYS["two"][0])
        ours.create_table(name).create_entity({"PartitionKey": "p", "RowKey": "r"})
        self.assertNotIn(name, [t.name for t in yours.list_tables()])
        yours.create_table(name)
        self.assertEqual(list(yours.get_table_client(name).list_entities()), [])


class Secondary(harness.Test):
    """All reads work; no write does."""

    def setUp(self):
        self.name = unique("thing")
        self.both = lambda kind: [client(kind, "one", KEYS["one"][1], path) for path in ("one", "one-secondary")]
        self.refused = lambda: self.fails(403, "InsufficientAccountPermissions")

    def test_blobs(self):
        primary, secondary = self.both(BlobServiceClient)
        primary.create_container(self.name, metadata={"a": "1"}).upload_blob("b", b"content", metadata={"c": "2"})
        self.assertFalse(secondary.get_service_properties()["hour_metrics"].enabled)
        self.assertIn(self.name, [c.name for c in secondary.list_containers()])
        container, blob = secondary.get_container_client(self.name), secondary.get_blob_client(self.name, "b")
        self.assertEqual(container.get_container_properties().metadata, {"a": "1"})
        self.assertEqual(container.get_container_access_policy()["signed_identifiers"], [])
        self.assertEqual([b.name for b in container.list_blobs()], ["b"])
        self.assertEqual(blob.download_blob(2, 3).readall(), b"nte")
        self.assertEqual(blob.get_blob_properties().metadata, {"c": "2"})
        self.assertEqual(blob.get_block_list(), ([], []))
        for write in (
            lambda: secondary.create_container(unique("con")), container.delete_container, blob.delete_blob,
            lambda: blob.upload_blob(b"", overwrite=True), lambda: blob.set_blob_metadata({}),
            lambda: secondary.set_service_properties(cors=[]),
        ):
            with self.refused():
                write()

    def test_queues(self):
        primary, secondary = self.both(QueueServiceClient)
        primary.create_queue(self.name).send_message("x")
        self.assertIn(self.name, [q.name for q in secondary.list_queues()])
        queue = secondary.get_queue_client(self.name)
        self.assertEqual(queue.get_queue_properties().approximate_message_count, 1)
        self.assertEqual(queue.get_queue_access_policy(), {})
        self.assertEqual(queue.peek_messages()[0].content, "x")
        for write in (lambda: queue.send_message("y"), queue.receive_message, queue.clear_messages, queue.delete_queue):
            with self.refused():
                write()
        self.assertEqual(primary.get_queue_client(self.name).receive_message().dequeue_count, 1)

    def test_tables(self):
        primary, secondary = self.both(TableServiceClient)
        primary.create_table(self.name).create_entity({"PartitionKey": "p", "RowKey": "r"})
        self.assertIn(self.name, [t.name for t in secondary.list_tables()])
        table = secondary.get_table_client(self.name)
        self.assertEqual(table.get_entity("p", "r")["RowKey"], "r")
        self.assertEqual(len(list(table.query_entities("PartitionKey eq 'p'"))), 1)
        self.assertEqual(table.get_table_access_policy(), {})
        for write in (
            lambda: table.upsert_entity({"PartitionKey": "p", "RowKey": "r"}), lambda: table.delete_entity("p", "r"),
            lambda: table.submit_transaction([("delete", {"PartitionKey": "p", "RowKey": "r"})]), table.delete_table,
        ):
            with self.assertRaises(HttpResponseError) as caught:
                write()
            self.assertEqual(caught.exception.status_code, 403)


if __name__ == "__main__":
    harness.main()
