"""Clients that know the usual ports by themselves: no connection string names one."""

import unittest

import obstore
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueClient
from obstore.store import AzureStore

CONNECTION = "UseDevelopmentStorage=true"


class UsualPorts(unittest.TestCase):
    def test_blobs(self):
        container = BlobServiceClient.from_connection_string(CONNECTION).create_container("photos")
        container.upload_blob("lake.txt", b"blue")
        self.assertEqual(container.download_blob("lake.txt").readall(), b"blue")

    def test_queues(self):
        queue = QueueClient.from_connection_string(CONNECTION, "work")
        queue.create_queue()
        queue.send_message("resize lake.txt")
        self.assertEqual(queue.receive_message().content, "resize lake.txt")

    def test_tables(self):
        people = TableServiceClient.from_connection_string(CONNECTION).create_table("People")
        people.create_entity({"PartitionKey": "Sales", "RowKey": "1", "Name": "Don"})
        self.assertEqual(people.get_entity("Sales", "1")["Name"], "Don")

    def test_object_store(self):
        BlobServiceClient.from_connection_string(CONNECTION).create_container("lake")
        store = AzureStore(container_name="lake", use_emulator=True, client_options={"allow_http": True})
        obstore.put(store, "a", b"one")
        self.assertEqual(obstore.get(store, "a").bytes(), b"one")


if __name__ == "__main__":
    unittest.main()
