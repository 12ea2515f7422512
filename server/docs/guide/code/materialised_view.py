"""Materialised view: a worker keeps the number of orders of each product, each order counted once."""

from azure.core import MatchConditions
from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableTransactionError
from store import compare, new_queue, new_table

PRODUCTS = ["bolt", "nut", "gear"]
orders, view = new_table("Orders"), new_table("View")
events = new_queue("events")


# region naive
def count_by_scan(product):
    # Each question reads every order.
    found = orders.query_entities("Product eq @product", parameters={"product": product})
    pieces = [one["Pieces"] for one in found]
    return len(pieces), sum(pieces)


# endregion


# region advised
DELIVERIES_MAX = 5


def place(customer, order, product, pieces):
    # The event first: an order that is stored always has its event.
    events.send_message(f"{customer}/{order}")
    orders.create_entity(
        {"PartitionKey": customer, "RowKey": order, "Product": product, "Pieces": pieces}
    )


def count_of(product, counts=view):
    try:
        row = counts.get_entity(product, "count")
    except ResourceNotFoundError:
        return 0, 0
    return row["Orders"], row["Pieces"]


def apply(order, counts=view):
    """Counts an order, once however often it is called."""
    product, event = order["Product"], f"{order['PartitionKey']}/{order['RowKey']}"
    mark = {"PartitionKey": product, "RowKey": "event_" + event.replace("/", "_")}
    while True:
        try:
            row = counts.get_entity(product, "count")
            guard = {
                "etag": row.metadata["etag"],
                "match_condition": MatchConditions.IfNotModified,
            }
            row["Orders"] += 1
            row["Pieces"] += order["Pieces"]
            change = ("update", row, guard)
        except ResourceNotFoundError:
            row = {"PartitionKey": product, "RowKey": "count"}
            change = ("create", {**row, "Orders": 1, "Pieces": order["Pieces"]})
        try:
            # The mark and the count in one transaction: the mark exists if the order is counted.
            counts.submit_transaction([("create", mark), change])
            return
        except TableTransactionError as error:
            if error.status_code == 409 and error.index == 0:
                return  # Counted before: the message came twice.
            if error.status_code not in (409, 412):
                raise


def handle(message, reached=lambda step: None):
    customer, order = message.content.split("/")
    try:
        found = orders.get_entity(customer, order)
    except ResourceNotFoundError:
        if message.dequeue_count <= DELIVERIES_MAX:
            return  # Not stored yet: the message comes back.
        # The program died before it stored the order.
    else:
        apply(found)
        reached("applied")
    events.delete_message(message)


# endregion


# region rebuild
def rebuild(counts):
    """Counts all orders into another table, while the worker may count new ones there, too."""
    for order in orders.list_entities():
        apply(order, counts)


# endregion


class Death(Exception):
    """The worker dies."""


def die(step):
    raise Death


for number in range(30):
    place(f"c{number % 7}", f"{number:04}", PRODUCTS[number % 3], 1 + number % 5)
# An event whose order was never stored.
events.send_message("c1/none")
deliveries = 0
while (message := events.receive_message(visibility_timeout=30)) is not None:
    try:
        handle(message, die if deliveries % 3 == 0 else lambda step: None)
    except Death:
        pass
    deliveries += 1
    try:
        # Makes the message visible at once, as the end of the timeout would.
        events.update_message(message.id, message.pop_receipt, visibility_timeout=0)
    except ResourceNotFoundError:
        pass  # The worker has deleted it.
assert deliveries > 31
for product in PRODUCTS:
    compare(lambda: count_by_scan(product), lambda: count_of(product), "examined")

again = new_table("Rebuilt")
apply(orders.get_entity("c0", "0000"), again)
rebuild(again)
assert [count_of(product, again) for product in PRODUCTS] == [
    count_of(product) for product in PRODUCTS
]
print(f"30 orders counted once each, from {deliveries} deliveries")
