"""The services over HTTPS, as a client with nothing but the server's certificate sees them."""

import os
import ssl
import urllib.request
from datetime import datetime, timedelta, timezone

from azure.core.exceptions import ServiceRequestError
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient, ContainerClient, generate_container_sas
from azure.storage.queue import QueueServiceClient

import harness
from harness import ACCOUNT, CONNECTION, KEY, ONCE, SETTINGS, unique

CERTIFICATE = os.environ["LAZURITE_CERTIFICATE"]
TRUST = {"connection_verify": CERTIFICATE, **ONCE}


class Https(harness.Test):
    def test_every_service_is_served(self):
        container = BlobServiceClient.from_connection_string(CONNECTION, **TRUST).create_container(unique("con"))
        container.upload_blob("large", b"x" * 3_000_000)
        self.assertEqual(len(container.download_blob("large").readall()), 3_000_000)
        queue = QueueServiceClient.from_connection_string(CONNECTION, **TRUST).create_queue(unique("queue"))
        queue.send_message("hello")
        self.assertEqual(queue.receive_message().content, "hello")
        table = TableServiceClient.from_connection_string(CONNECTION, **TRUST).create_table(unique("table"))
        table.create_entity({"PartitionKey": "p", "RowKey": "r"})
        found = table.get_entity("p", "r", headers={"Accept": "application/json;odata=fullmetadata"})
        self.assertEqual(found["RowKey"], "r")

    def test_a_certificate_that_is_not_trusted_is_not_talked_to(self):
        with self.assertRaises(ServiceRequestError):
            BlobServiceClient.from_connection_string(CONNECTION, **ONCE).get_service_properties()

    def test_a_sas_for_https_alone_is_good_here(self):
        container = BlobServiceClient.from_connection_string(CONNECTION, **TRUST).create_container(unique("con"))
        expiry = datetime.now(timezone.utc) + timedelta(hours=1)
        sas = generate_container_sas(ACCOUNT, container.container_name, account_key=KEY, permission="wl", protocol="https", expiry=expiry)
        client = ContainerClient.from_container_url(f"{container.url}?{sas}", **TRUST)
        client.upload_blob("b", b"1")
        self.assertEqual([b.name for b in client.list_blobs()], ["b"])

    def test_links_in_answers_are_https(self):
        context = ssl.create_default_context(cafile=CERTIFICATE)
        answer = urllib.request.urlopen(SETTINGS["BlobEndpoint"].replace("/" + ACCOUNT, "/_lazurite/health"), context=context)
        self.assertEqual(answer.status, 200)
        self.assertTrue(CONNECTION.startswith("DefaultEndpointsProtocol=https"))


if __name__ == "__main__":
    harness.main()
