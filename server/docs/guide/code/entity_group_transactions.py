"""Entity group transactions: parts move between the bins of a warehouse, in one request or not at
all."""

import random
import time
from concurrent.futures import ThreadPoolExecutor

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableTransactionError, UpdateMode
from store import compare, new_table

WAREHOUSE, BINS, PARTS = "north", 100, 50
single, together = new_table("Single"), new_table("Together")


def bin_name(number):
    return f"bin_{number:03}"


def bins():
    return [
        {"PartitionKey": WAREHOUSE, "RowKey": bin_name(number), "Parts": PARTS}
        for number in range(BINS)
    ]


# region naive
def store_one_by_one(entities):
    for entity in entities:
        single.create_entity(entity)


def move_in_two_writes(origin, target, parts, reached=lambda step: None):
    one, other = single.get_entity(WAREHOUSE, origin), single.get_entity(WAREHOUSE, target)
    single.update_entity({**one, "Parts": one["Parts"] - parts}, mode=UpdateMode.REPLACE)
    # A program that dies here has lost the parts.
    reached("taken")
    single.update_entity({**other, "Parts": other["Parts"] + parts}, mode=UpdateMode.REPLACE)


# endregion


# region advised
def store(entities):
    for start in range(0, len(entities), 100):
        together.submit_transaction(
            [("create", entity) for entity in entities[start : start + 100]]
        )


def replaced(entity, change):
    guard = {
        "etag": entity.metadata["etag"],
        "match_condition": MatchConditions.IfNotModified,
    }
    changed = {**entity, "Parts": entity["Parts"] + change}
    return ("update", changed, {"mode": UpdateMode.REPLACE, **guard})


def move(origin, target, parts, has_read=lambda: None):
    """Takes from one bin and puts into the other; returns the bins that others had changed."""
    lost = []
    while True:
        one, other = together.get_entity(WAREHOUSE, origin), together.get_entity(WAREHOUSE, target)
        has_read()
        try:
            together.submit_transaction([replaced(one, -parts), replaced(other, parts)])
            return lost
        except TableTransactionError as error:
            if error.status_code != 412:
                raise
            # The index names the operation that was refused. No operation has had an effect.
            lost.append((origin, target)[error.index])
            time.sleep(random.uniform(0, 0.01 * min(len(lost), 10)))


# endregion


class Death(Exception):
    """The program dies."""


def die(step):
    raise Death


def parts_in(table):
    return sum(one["Parts"] for one in table.list_entities())


def refusal(operations):
    """The status and the code of a transaction that is refused, and the operation it names."""
    before = sorted(one["RowKey"] for one in together.list_entities())
    try:
        together.submit_transaction(operations)
        raise AssertionError("the transaction was accepted")
    except HttpResponseError as error:
        assert sorted(one["RowKey"] for one in together.list_entities()) == before
        return error.status_code, error.error_code, getattr(error, "index", None)
    except ValueError:
        # The client does not send it.
        return "refused by the client"


def creation(number, **properties):
    row = f"new_{number:03}"
    return ("create", {"PartitionKey": WAREHOUSE, "RowKey": row, **properties})


compare(lambda: store_one_by_one(bins()), lambda: store(bins()), "requests")

# One program dies between its two writes. A transaction has no place between.
try:
    move_in_two_writes("bin_000", "bin_001", 5, reached=die)
except Death:
    pass
assert move("bin_000", "bin_001", 5) == []
assert parts_in(single) == BINS * PARTS - 5 and parts_in(together) == BINS * PARTS

# Another writer changes the second bin after this one has read it.
interruptions = [lambda: move("bin_001", "bin_002", 1)]
lost = move("bin_000", "bin_001", 5, lambda: interruptions and interruptions.pop()())
assert lost == ["bin_001"] and parts_in(together) == BINS * PARTS

WRITERS, MOVES = 4, 5
with ThreadPoolExecutor(WRITERS) as writers:
    for label, pair_of in (
        ("the same two bins", lambda writer: (4, 5)),
        ("bins of their own", lambda writer: (10 + 2 * writer, 11 + 2 * writer)),
    ):

        def write(writer, pair_of=pair_of):
            origin, target = map(bin_name, pair_of(writer))
            return sum(len(move(origin, target, 1)) for _ in range(MOVES))

        repeated = sum(writers.map(write, range(WRITERS)))
        assert parts_in(together) == BINS * PARTS
        print(f"{WRITERS} writers of {label}: {repeated} repetitions in {WRITERS * MOVES} moves")
assert repeated == 0

for label, operations in (
    ("101 operations", [creation(number) for number in range(101)]),
    ("an entity twice", [creation(1), creation(2), creation(2)]),
    ("two partitions", [creation(1), ("create", {"PartitionKey": "south", "RowKey": "new_002"})]),
    ("an entity that exists", [creation(1), creation(2), ("create", bins()[0])]),
    ("5 MB", [creation(n, **{f"P{p}": "x" * 30_000 for p in range(16)}) for n in range(10)]),
):
    print(f"{label}: {refusal(operations)}")
