"""`AzuriteContainer` of Testcontainers for Python, unchanged, against the image's command."""

import os
import urllib.request

from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueClient
from testcontainers.community.azurite import AzuriteContainer

IMAGE = os.environ["LAZURITE_IMAGE"]


def use(connection: str) -> None:
    photos = BlobServiceClient.from_connection_string(connection).create_container("photos")
    photos.upload_blob("lake.txt", b"blue")
    assert photos.download_blob("lake.txt").readall() == b"blue"
    work = QueueClient.from_connection_string(connection, "work")
    work.create_queue()
    work.send_message("resize")
    assert work.receive_message().content == "resize"
    people = TableServiceClient.from_connection_string(connection).create_table("People")
    people.upsert_entity({"PartitionKey": "p", "RowKey": "r", "n": 1})
    assert people.get_entity("p", "r")["n"] == 1


def test_as_it_is() -> None:
    with AzuriteContainer(IMAGE) as azurite:
        use(azurite.get_connection_string())


def test_an_account_of_ones_own() -> None:
    with AzuriteContainer(IMAGE, account_name="mine", account_key="bWluZQ==") as azurite:
        connection = azurite.get_connection_string()
        assert "AccountName=mine;AccountKey=bWluZQ==" in connection
        use(connection)


def test_a_command_of_ones_own() -> None:
    command = "azurite --blobHost 0.0.0.0 --queueHost 0.0.0.0 --tableHost 0.0.0.0 --skipApiVersionCheck --loose"
    with AzuriteContainer(IMAGE).with_command(command) as azurite:
        use(azurite.get_connection_string())


def test_commands_in_the_container() -> None:
    with AzuriteContainer(IMAGE) as azurite:
        status, output = azurite.exec(["lazurite", "health"])
        assert status == 0, output
        out, _ = azurite.get_logs()
        for service in ["Blob", "Queue", "Table"]:
            assert f"Azurite {service} service is successfully listening at ".encode() in out, out
        url = f"http://{azurite.get_container_host_ip()}:{azurite.get_exposed_port(10000)}/_lazurite/health"
        assert urllib.request.urlopen(url).status == 200
