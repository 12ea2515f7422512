"""Parallel queries: one question to every partition at once; writes by several workers."""

import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from threading import Barrier, Lock

from azure.core import MatchConditions
from azure.core.exceptions import AzureError
from staff import DEPARTMENTS, employees
from store import insert_all, new_table

table, loaded = new_table("Staff"), new_table("Loaded")
insert_all(
    table, ({"PartitionKey": one["Department"], "RowKey": one["Id"], **one} for one in employees())
)


# region naive
def older_than(department, age):
    filter = "PartitionKey eq @department and Age gt @age"
    found = table.query_entities(filter, parameters={"department": department, "age": age})
    return [one["Mail"] for one in found]


def one_after_the_other(age):
    return [mail for department in DEPARTMENTS for mail in older_than(department, age)]


# endregion


# region advised
def all_at_once(age):
    # The client may be shared by threads. azure.data.tables.aio does the same without threads.
    with ThreadPoolExecutor(len(DEPARTMENTS)) as threads:
        answers = threads.map(lambda department: older_than(department, age), DEPARTMENTS)
    return [mail for answer in answers for mail in answer]


# endregion


# region writes
WORKERS = 4


def write_share(share, send):
    """Writes the partitions of one worker; returns the names of those that failed."""
    failed = set()
    for start in range(0, max(map(len, share.values()), default=0), 100):
        # A transaction of each partition in turn: one partition alone would soon reach its target.
        for name, entities in share.items():
            some = entities[start : start + 100]
            if some and name not in failed:
                try:
                    send([("upsert", entity, {"mode": "replace"}) for entity in some])
                except AzureError:
                    failed.add(name)
    return failed


def write_all(partitions, send):
    """Divides the partitions among workers; returns the names of those that failed."""
    names = list(partitions)
    shares = [
        {name: partitions[name] for name in names[worker::WORKERS]} for worker in range(WORKERS)
    ]
    with ThreadPoolExecutor(WORKERS) as threads:
        return set().union(*threads.map(lambda share: write_share(share, send), shares))


# endregion


# region owners
def worker_of(partition):
    # A hash: the changes of a partition always have the same worker. They stay in order, and no
    # two workers change one entity.
    return zlib.crc32(partition.encode()) % WORKERS


def apply_all(changes, apply):
    """Gives each change to the worker of its partition."""
    shares = [[] for _ in range(WORKERS)]
    for change in changes:
        shares[worker_of(change["PartitionKey"])].append(change)
    with ThreadPoolExecutor(WORKERS) as threads:
        for done in [threads.submit(lambda share: [*map(apply, share)], share) for share in shares]:
            done.result()


# endregion

assert all_at_once(55) == one_after_the_other(55)
assert len(all_at_once(55)) == sum(one["Age"] > 55 for one in employees())


class Watch:
    """Sends transactions, and counts those that are under way: in all, and in a partition."""

    def __init__(self):
        self.lock, self.now, self.most = Lock(), Counter(), Counter()
        # The first transactions wait for each other: all workers are at work at the same time.
        self.start, self.waiting = Barrier(WORKERS), WORKERS

    def send(self, operations):
        places = ("all", operations[0][1]["PartitionKey"])
        with self.lock:
            self.now.update(places)
            self.most |= self.now
            waits = self.waiting > 0
            self.waiting -= 1
        if waits:
            self.start.wait(timeout=60)
        loaded.submit_transaction(operations)
        with self.lock:
            self.now.subtract(places)


partitions = {
    f"day_{day:02}": [
        {"PartitionKey": f"day_{day:02}", "RowKey": f"{number:04}", "Count": 0}
        for number in range(150)
    ]
    for day in range(8)
}
watch = Watch()
assert write_all(partitions, watch.send) == set()
assert len(list(loaded.list_entities())) == 8 * 150
at_once = watch.most.pop("all")
print(
    f"{len(partitions)} partitions by {WORKERS} workers: at most {at_once} transactions"
    f" at a time, {max(watch.most.values())} in a partition"
)


def fail(operations):
    if operations[0][1]["PartitionKey"] == "day_03":
        raise AzureError("this partition cannot be written")


assert write_all(partitions, fail) == {"day_03"}


def increment(change):
    # Fails with 412 if another worker has changed the entity in the meantime.
    row = loaded.get_entity(change["PartitionKey"], change["RowKey"])
    guard = {"etag": row.metadata["etag"], "match_condition": MatchConditions.IfNotModified}
    loaded.update_entity({**row, "Count": row["Count"] + 1}, **guard)


changes = [{"PartitionKey": f"day_{n % 6:02}", "RowKey": "0000"} for n in range(24)]
apply_all(changes, increment)
counts = {name: loaded.get_entity(name, "0000")["Count"] for name in list(partitions)[:6]}
assert set(counts.values()) == {4}
print(f"{len(changes)} changes of {len(counts)} entities by {WORKERS} workers: none met another")
