"""Forks by account name, as the official clients take it, and a reset under connected clients. The server was started with --forks."""

import urllib.request
from datetime import datetime, timedelta, timezone

from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobClient, BlobSasPermissions, BlobServiceClient, generate_blob_sas
from azure.storage.queue import QueueServiceClient

import harness
from harness import ACCOUNT, CONNECTION, KEY, ONCE, SETTINGS, unique

SERVER = SETTINGS["BlobEndpoint"].rsplit("/", 1)[0]


def fork(name):
    """The connection string of a fork."""
    return CONNECTION.replace(ACCOUNT, f"{ACCOUNT}--{name}")


def services(connection):
    return [
        service.from_connection_string(connection, **ONCE)
        for service in (BlobServiceClient, QueueServiceClient, TableServiceClient)
    ]


class Forks(harness.Test):
    def test_all_services_of_a_fork_are_apart(self):
        name = unique("fork")
        one, other, main = (services(connection) for connection in (fork("one"), fork("other"), CONNECTION))
        for number, (blobs, queues, tables) in enumerate((one, other)):
            blobs.create_container(name).upload_blob("b", f"{number}")
            queue = queues.create_queue(name)
            queue.send_message(f"{number}")
            tables.create_table(name).upsert_entity({"PartitionKey": "p", "RowKey": "r", "Number": number})
        for number, (blobs, queues, tables) in enumerate((one, other)):
            self.assertEqual(blobs.get_blob_client(name, "b").download_blob().readall(), b"%d" % number)
            self.assertEqual(queues.get_queue_client(name).receive_message().content, f"{number}")
            self.assertEqual(tables.get_table_client(name).get_entity("p", "r")["Number"], number)
        blobs, queues, tables = main
        self.assertNotIn(name, [container.name for container in blobs.list_containers()])
        self.assertNotIn(name, [queue.name for queue in queues.list_queues()])
        self.assertNotIn(name, [table.name for table in tables.list_tables()])

    def test_a_sas_of_a_fork_opens_it_alone(self):
        name = unique("sas")
        # The fork first: it begins as the store.
        for connection in (fork("sas"), CONNECTION):
            blobs = BlobServiceClient.from_connection_string(connection, **ONCE)
            blobs.create_container(name).upload_blob("b", connection)
        sas = generate_blob_sas(
            f"{ACCOUNT}--sas",
            name,
            "b",
            account_key=KEY,
            permission=BlobSasPermissions(read=True),
            expiry=datetime.now(timezone.utc) + timedelta(hours=1),
        )
        url = f"{SERVER}/{ACCOUNT}--sas/{name}/b?{sas}"
        self.assertEqual(BlobClient.from_blob_url(url, **ONCE).download_blob().readall().decode(), fork("sas"))
        with self.fails(403, "AuthenticationFailed"):
            BlobClient.from_blob_url(url.replace("--sas/", "/"), **ONCE).download_blob()

    def test_a_secondary_and_a_copy_are_those_of_the_fork(self):
        name = unique("copy")
        container = BlobServiceClient.from_connection_string(fork("copy"), **ONCE).create_container(name)
        source = container.upload_blob("source", b"text")
        copy = container.get_blob_client("copy")
        copy.start_copy_from_url(source.url)
        self.assertEqual(copy.download_blob().readall(), b"text")
        secondary = fork("copy") + f";BlobSecondaryEndpoint={SERVER}/{ACCOUNT}--copy-secondary"
        secondary = BlobServiceClient.from_connection_string(secondary.replace(";;", ";"), **ONCE)
        read = secondary.get_blob_client(name, "copy")
        read._location_mode = "secondary"
        self.assertEqual(read.download_blob().readall(), b"text")


class Reset(harness.Test):
    def test_clients_go_on_after_a_reset(self):
        blobs, queues, tables = services(CONNECTION)
        name = unique("reset")
        for _ in range(2):
            blobs.create_container(name).upload_blob("b", b"text")
            queues.create_queue(name).send_message("text")
            tables.create_table(name)
            reset = urllib.request.Request(f"{SERVER}/_lazurite/state/reset", method="POST")
            urllib.request.urlopen(reset).close()
        self.assertEqual(list(blobs.list_containers()), [])
        self.assertEqual(list(queues.list_queues()), [])
        self.assertEqual(list(tables.list_tables()), [])


if __name__ == "__main__":
    harness.main()
