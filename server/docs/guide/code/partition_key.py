"""Choosing a PartitionKey: one for all orders, one for each order, and one for each customer."""

from collections import Counter

from azure.core.exceptions import HttpResponseError
from store import compare, cost_of, insert_all, new_table

CUSTOMERS, ORDERS = ["ann", "bob", "cem", "dora"], 50


# region naive
def one_for_all(customer, order):
    # Transactions and ranges reach everything, and one server of the service does all the work.
    return "orders", f"{customer}_{order:04}"


def one_for_each(customer, order):
    # The work can be spread over all servers, and no two orders share a transaction.
    return f"{customer}_{order:04}", ""


def range_over_partitions(first, end):
    filter = "PartitionKey ge @first and PartitionKey lt @end"
    return list(each.query_entities(filter, parameters={"first": first, "end": end}))


# endregion


# region advised
def one_for_each_customer(customer, order):
    # Orders that are changed or listed together share a partition.
    return customer, f"{order:04}"


def range_in_partition(table, partition, first, end):
    filter = "PartitionKey eq @partition and RowKey ge @first and RowKey lt @end"
    return list(
        table.query_entities(
            filter, parameters={"partition": partition, "first": first, "end": end}
        )
    )


# endregion


# region change
def cancel(table, keys, customer, orders):
    """Changes orders that exist, in one transaction for each partition."""
    partitions = {}
    for order in orders:
        partition, row = keys(customer, order)
        changed = {"PartitionKey": partition, "RowKey": row, "State": "cancelled"}
        partitions.setdefault(partition, []).append(("update", changed, {"mode": "merge"}))
    for operations in partitions.values():
        table.submit_transaction(operations)


# endregion


def fill(keys):
    for customer in CUSTOMERS:
        for order in range(ORDERS):
            partition, row = keys(customer, order)
            yield {"PartitionKey": partition, "RowKey": row, "Order": order, "State": "open"}


def cancelled(table):
    return sum(one["State"] == "cancelled" for one in table.list_entities())


def cancelled_of_a_change_that_fails(table, keys):
    """Of these 20 orders the last 10 do not exist."""
    before = cancelled(table)
    try:
        cancel(table, keys, "dora", range(ORDERS - 10, ORDERS + 10))
        raise AssertionError("orders that do not exist were changed")
    except HttpResponseError as error:
        assert error.status_code == 404, error
    return cancelled(table) - before


def numbers(orders):
    return [one["Order"] for one in orders]


alone, each, by_customer = new_table("Alone"), new_table("Each"), new_table("ByCustomer")
designs = [
    ("one for all", alone, one_for_all),
    ("one for each customer", by_customer, one_for_each_customer),
    ("one for each order", each, one_for_each),
]
ranges = {
    "one for all": lambda: range_in_partition(alone, "orders", "bob_0010", "bob_0030"),
    "one for each customer": lambda: range_in_partition(by_customer, "bob", "0010", "0030"),
    "one for each order": lambda: range_over_partitions("bob_0010", "bob_0030"),
}
for label, table, keys in designs:
    insert_all(table, fill(keys))
    partitions = Counter(one["PartitionKey"] for one in table.list_entities())
    _, change = cost_of(lambda: cancel(table, keys, "ann", range(20)))
    found, answer = cost_of(ranges[label])
    assert numbers(found) == list(range(10, 30))
    print(
        f"{label}: {change.requests} requests to change 20 orders, {answer.examined} examined "
        f"in {answer.requests} requests for a range of 20, {cancelled_of_a_change_that_fails(table, keys)} changed by a change "
        f"that fails, {max(partitions.values())} of 200 orders in the fullest partition"
    )
compare(
    lambda: cancel(each, one_for_each, "cem", range(20)),
    lambda: cancel(by_customer, one_for_each_customer, "cem", range(20)),
    "requests",
)
