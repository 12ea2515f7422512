"""What the programs of the guide share: clients, tables with names of their own, and a comparison
of two designs."""

import atexit
import os
import secrets
from contextlib import suppress

from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

CONNECTION = os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true")


class Cost:
    """What some requests cost: their number, the bytes of bodies that were sent and that came back,
    and the entities that the server examined."""

    def __init__(self):
        self.requests = self.sent = self.received = self.examined = 0
        # Azure does not report the entities that it examined.
        self.is_examined_known = False

    def count(self, response):
        headers = response.http_response.headers
        self.requests += 1
        self.sent += int(response.http_request.headers.get("Content-Length") or 0)
        # Azure sends the answers of tables in chunks, without their length.
        length = headers.get("Content-Length")
        self.received += len(response.http_response.body()) if length is None else int(length)
        if "x-lazurite-examined" in headers:
            self.is_examined_known = True
            self.examined += int(headers["x-lazurite-examined"])
        elif (
            response.http_request.method == "GET" and "(PartitionKey=" in response.http_request.url
        ):
            self.examined += 1


_total = Cost()
tables = TableServiceClient.from_connection_string(CONNECTION, raw_response_hook=_total.count)
blobs = BlobServiceClient.from_connection_string(CONNECTION, raw_response_hook=_total.count)
queues = QueueServiceClient.from_connection_string(CONNECTION, raw_response_hook=_total.count)


def name(prefix):
    """A name that no other run uses."""
    return prefix + secrets.token_hex(4)


def table_client(table_name):
    """The client of a table that exists."""
    return tables.get_table_client(table_name)


def new_table(prefix):
    """A table that is deleted when the program ends."""
    table = tables.create_table(name(prefix))
    atexit.register(table.delete_table)
    return table


def new_container(prefix):
    container = blobs.create_container(name(prefix + "-"))
    atexit.register(_delete, container.delete_container)
    return container


def new_queue(prefix):
    queue = queues.create_queue(name(prefix + "-"))
    atexit.register(_delete, queue.delete_queue)
    return queue


def _delete(delete):
    with suppress(ResourceNotFoundError):
        delete()


def insert_all(table, entities):
    """Stores entities in transactions of up to 100; a transaction stays in one partition."""
    partitions = {}
    for entity in entities:
        partitions.setdefault(entity["PartitionKey"], []).append(entity)
    for rows in partitions.values():
        for start in range(0, len(rows), 100):
            table.submit_transaction([("upsert", row) for row in rows[start : start + 100]])


def cost_of(work):
    """Runs `work`: what it returned, and what its requests cost."""
    before = dict(vars(_total))
    answer = work()
    cost = Cost()
    for measure in ("requests", "sent", "received", "examined"):
        setattr(cost, measure, getattr(_total, measure) - before[measure])
    cost.is_examined_known = _total.is_examined_known
    return answer, cost


def compare(naive, advised, fewer):
    """Runs both designs, checks that they answer alike, and that the advised one needs less:
    `requests`, `sent`, `received` or `examined`."""
    expected, cost_before = cost_of(naive)
    found, cost_after = cost_of(advised)
    assert found == expected, f"{found} instead of {expected}"
    if fewer == "examined" and not cost_after.is_examined_known:
        return
    before, after = getattr(cost_before, fewer), getattr(cost_after, fewer)
    assert after < before, f"{fewer}: {after}, and {before} with the naive design"
    print(
        f"the answers are equal; {fewer}: {before} with the naive design, {after} with the advised one"
    )
