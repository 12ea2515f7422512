"""Retry: a shop takes orders although the server refuses requests, resets connections and loses
answers."""

import json
import random
import secrets
import time
import urllib.request
from contextlib import contextmanager
from urllib.parse import urljoin

from azure.core import MatchConditions
from azure.core.exceptions import (
    AzureError,
    ResourceExistsError,
    ResourceNotFoundError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.data.tables import TableServiceClient, TableTransactionError, UpdateMode
from azure.storage.queue import ExponentialRetry, QueueServiceClient
from store import CONNECTION, new_queue, new_table, tables

SHOP, ORDERS, PARTS, STOCK = "shop", 10, 3, 1000


# region faults
@contextmanager
def faults(*rules):
    """Gives the server rules for a while; yields whether it takes them. Only Lazurite does."""
    page = urljoin(tables.url, "/_lazurite/faults")
    rules = [{"seed": secrets.randbits(48), **rule} for rule in rules]

    def send(method, path="", body=None):
        request = urllib.request.Request(page + path, body, method=method)
        urllib.request.urlopen(request).close()

    try:
        send("POST", body=json.dumps({"rules": rules}).encode())
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        for rule in rules:
            send("DELETE", f"?seed={rule['seed']}")


# endregion


# region transient
def is_transient(error):
    """Whether the same request may succeed later."""
    if isinstance(error, (ServiceRequestError, ServiceResponseError)):
        # No answer: the connection was refused, reset or too slow.
        return True
    return getattr(error, "status_code", None) in (408, 500, 502, 503, 504)


def repeatedly(work, tries=6, first=0.1, longest=10.0, wait=time.sleep):
    """Calls `work` until it succeeds, fails for good, or has failed `tries` times."""
    for attempt in range(tries):
        try:
            return work()
        except AzureError as error:
            if not is_transient(error) or attempt == tries - 1:
                raise
            # At random up to a bound that doubles: clients that failed together do not come back
            # together. `Retry-After` is the least that the service asks for.
            headers = getattr(getattr(error, "response", None), "headers", {})
            least = float(headers.get("Retry-After") or 0)
            wait(least + random.uniform(0, min(longest, first * 2**attempt)))


# endregion

# region clients
# The clients repeat by themselves. A program that repeats turns that off: otherwise each of its
# tries is several.
once = TableServiceClient.from_connection_string(CONNECTION, retry_total=0)
queues_once = QueueServiceClient.from_connection_string(CONNECTION, retry_total=0)

# A program that leaves it to the clients sets how often, and how long they wait.
repeating = TableServiceClient.from_connection_string(
    CONNECTION, retry_total=5, retry_status=5, retry_backoff_factor=0.05, retry_backoff_max=2
)
queues_repeating = QueueServiceClient.from_connection_string(
    CONNECTION,
    retry_policy=ExponentialRetry(
        initial_backoff=0.1, increment_base=0.1, retry_total=5, random_jitter_range=0.1
    ),
)
# endregion


# region naive
def place_once(shop, packers, order):
    """Stores an order, takes its parts from the stock, and tells the packers."""
    store(shop, order)
    take(shop)
    packers.send_message(order)


def place_again(shop, packers, order):
    """The same. A step that fails is repeated, and the last answer counts."""
    repeatedly(lambda: store(shop, order))
    repeatedly(lambda: take(shop))
    repeatedly(lambda: packers.send_message(order))


def store(shop, order):
    shop.create_entity({"PartitionKey": SHOP, "RowKey": order, "Parts": PARTS})


def take(shop):
    stock = shop.get_entity(SHOP, "stock")
    shop.update_entity({**stock, "Parts": stock["Parts"] - PARTS})


def pack_each(shop, packers, message):
    packers.delete_message(message)
    return True


# endregion


# region advised
def place(shop, packers, order):
    """Has the effect of one call, however often it is called with the same order."""
    entity = {"PartitionKey": SHOP, "RowKey": order, "Parts": PARTS}
    while True:
        stock = repeatedly(lambda: shop.get_entity(SHOP, "stock"))
        guard = {"etag": stock.metadata["etag"], "match_condition": MatchConditions.IfNotModified}
        left = {**stock, "Parts": stock["Parts"] - PARTS}
        # The order and its parts in one transaction: the order is stored if its parts are taken.
        steps = [("create", entity), ("update", left, {"mode": UpdateMode.REPLACE, **guard})]
        try:
            repeatedly(lambda: shop.submit_transaction(steps))
            break
        except TableTransactionError as error:
            if error.status_code == 409 and error.index == 0:
                break  # An earlier try stored it, and its answer was lost.
            if error.status_code != 412:
                raise
            # Another order took parts. Read again.
    # The message may be there twice: the packers tolerate it.
    repeatedly(lambda: packers.send_message(order))


def pack(shop, packers, message):
    """Whether this message is the first of its order."""
    mark = {"PartitionKey": SHOP, "RowKey": "packed_" + message.content, "Message": message.id}
    try:
        repeatedly(lambda: shop.create_entity(mark))
        is_first = True
    except ResourceExistsError:
        # Another message, or an earlier try of this one.
        found = repeatedly(lambda: shop.get_entity(SHOP, mark["RowKey"]))
        is_first = found["Message"] == message.id
    try:
        repeatedly(lambda: packers.delete_message(message))
    except ResourceNotFoundError:
        pass  # An earlier try deleted it.
    return is_first


# endregion


def sell(place_order, pack_message):
    """Sells under faults; returns what the customers and the store say afterwards."""
    shop, packers = new_table("Shop"), new_queue("packers")
    shop.create_entity({"PartitionKey": SHOP, "RowKey": "stock", "Parts": STOCK})
    clients = (
        once.get_table_client(shop.table_name),
        queues_once.get_queue_client(packers.queue_name),
    )
    confirmed = packed = 0
    with faults(*rules_of(shop.table_name, packers.queue_name)):
        for number in range(ORDERS):
            try:
                place_order(*clients, f"order_{number:04}")
                confirmed += 1
            except AzureError:
                pass  # The customer sees an error.
        for message in list(packers.receive_messages()):
            packed += pack_message(*clients, message)
    stored = sum(row["RowKey"].startswith("order_") for row in shop.list_entities())
    taken = (STOCK - shop.get_entity(SHOP, "stock")["Parts"]) // PARTS
    return confirmed, stored, taken, packed


def rules_of(shop, packers):
    # A request that is refused or reset has no effect. One whose answer is lost has. A transaction
    # does not name its table in its path: those of other programs would be hit, too.
    return [
        {"resource": shop, "fault": "503", "count": 1},
        {"resource": shop, "operation": "GetEntity", "fault": "500 OperationTimedOut", "count": 1},
        {"resource": shop, "operation": "InsertEntity", "fault": "lose-answer", "count": 1},
        {"resource": shop, "operation": "MergeEntity", "fault": "lose-answer", "count": 2},
        {"service": "table", "operation": "Batch", "fault": "lose-answer", "count": 2},
        {"resource": packers, "operation": "PutMessage", "fault": "reset", "count": 1},
        {"resource": packers, "operation": "PutMessage", "fault": "lose-answer", "count": 2},
    ]


for label, *designs in (
    ("no repetition", place_once, pack_each),
    ("the last answer counts", place_again, pack_each),
    ("repetitions do no harm", place, pack),
):
    confirmed, stored, taken, packed = sell(*designs)
    print(
        f"{label}: {confirmed} of {ORDERS} orders confirmed, {stored} stored,"
        f" parts taken for {taken}, {packed} packed"
    )
assert (confirmed, stored, taken, packed) == (ORDERS,) * 4


# What the clients do by themselves when the answer to a write is lost.
def outcome(work):
    try:
        work()
        return "success"
    except AzureError as error:
        return getattr(error, "status_code", None) or "no answer"


table, queue = new_table("Lost"), new_queue("lost")
alone = repeating.get_table_client(table.table_name)
one = {"PartitionKey": "p", "RowKey": "one"}
table.create_entity({**one, "RowKey": "old"})
etag = table.get_entity("p", "old").metadata["etag"]
guard = {"etag": etag, "match_condition": MatchConditions.IfNotModified}
for label, operation, work in (
    ("insert", "InsertEntity", lambda: alone.create_entity(one)),
    ("merge", "MergeEntity", lambda: alone.update_entity({**one, "A": 1})),
    ("replace", "UpdateEntity", lambda: alone.update_entity({**one, "A": 2}, mode="replace")),
    (
        "replace under an ETag",
        "UpdateEntity",
        lambda: alone.update_entity({**one, "RowKey": "old", "A": 3}, mode="replace", **guard),
    ),
    ("delete", "DeleteEntity", lambda: alone.delete_entity("p", "old")),
    (
        "transaction of an insert",
        "Batch",
        lambda: alone.submit_transaction([("create", {**one, "RowKey": "two"})]),
    ),
    (
        "message",
        "PutMessage",
        lambda: queues_repeating.get_queue_client(queue.queue_name).send_message("m"),
    ),
):
    place = {"Batch": "$batch", "PutMessage": queue.queue_name}.get(operation, table.table_name)
    with faults({"operation": operation, "resource": place, "fault": "lose-answer", "count": 1}):
        print(f"{label}: {outcome(work)}")
rows = {row["RowKey"]: row.get("A") for row in table.list_entities()}
assert rows == {"one": 2, "two": None}, rows
print(f"messages: {len(list(queue.receive_messages()))}")

# The waits grow, and none is shorter than the service asks for.
waits = []
with faults({"resource": table.table_name, "fault": "503; retry-after=2"}) as is_faulty:
    client = once.get_table_client(table.table_name)
    refused = outcome(lambda: repeatedly(lambda: client.get_entity("p", "one"), wait=waits.append))
if is_faulty:
    assert refused == 503 and len(waits) == 5
    assert all(2 <= wait <= 2 + 0.1 * 2**number for number, wait in enumerate(waits)), waits
