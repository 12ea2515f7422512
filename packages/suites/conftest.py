"""The store of each test, from a server that `STORE` names. Both servers keep everything in memory."""

import os
import subprocess
from typing import Iterator

import pytest
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
FLAGS = "--inMemoryPersistence --skipApiVersionCheck --disableTelemetry --silent --blobPort 0 --queuePort 0 --tablePort 0"


@pytest.fixture
def connection(request: pytest.FixtureRequest) -> str:
    """The connection string of an empty store."""
    names = {"lazurite": "lazurite_connection_string", "azurite": "emptied_azurite"}
    return request.getfixturevalue(names[os.environ["STORE"]])


@pytest.fixture(scope="session")
def azurite() -> Iterator[str]:
    """One server for the session, as suites for Azurite have it: a start takes longer than many tests."""
    server = subprocess.Popen([os.environ["AZURITE"], *FLAGS.split()], stdout=subprocess.PIPE, text=True)
    addresses = {}
    while len(addresses) < 3:
        words = server.stdout.readline().split()
        if "successfully" in words:
            addresses[words[1]] = words[-1]
    endpoints = "".join(f"{name}Endpoint={url}/devstoreaccount1;" for name, url in addresses.items())
    yield f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={KEY};{endpoints}"
    server.terminate()


@pytest.fixture
def emptied_azurite(azurite: str) -> str:
    """Deletes what earlier tests have left behind."""
    blobs = BlobServiceClient.from_connection_string(azurite)
    queues = QueueServiceClient.from_connection_string(azurite)
    tables = TableServiceClient.from_connection_string(azurite)
    for container in list(blobs.list_containers()):
        blobs.delete_container(container)
    for queue in list(queues.list_queues()):
        queues.delete_queue(queue)
    for table in list(tables.list_tables()):
        tables.delete_table(table.name)
    return azurite
