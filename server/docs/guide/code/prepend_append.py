"""Prepend/append anti-pattern: writes in the order of time, to one partition or to ten."""

import heapq
import zlib
from collections import Counter

from store import new_table

JOBS = 100
single, spread = new_table("Single"), new_table("Spread")


# region naive
def record_in_order(job):
    # Each key is greater than all before it: every write goes to the end of the same partition.
    single.upsert_entity({"PartitionKey": "jobs", "RowKey": f"{job:08}", "Job": job})


# endregion


# region advised
PARTITIONS = 10


def partition_of(job):
    # A hash, so that neighbours in time are in different partitions. It has to be the same in every
    # process.
    return f"{zlib.crc32(str(job).encode()) % PARTITIONS:02}"


def record(job):
    spread.upsert_entity({"PartitionKey": partition_of(job), "RowKey": f"{job:08}", "Job": job})


def jobs_in_order():
    # Each partition is sorted already: the client only merges.
    filters = [f"PartitionKey eq '{partition:02}'" for partition in range(PARTITIONS)]
    return heapq.merge(*map(spread.query_entities, filters), key=lambda one: one["RowKey"])


# endregion


for job in range(JOBS):
    record_in_order(job)
    record(job)
assert [one["Job"] for one in single.query_entities("PartitionKey eq 'jobs'")] == list(range(JOBS))
assert [one["Job"] for one in jobs_in_order()] == list(range(JOBS))
hottest = max(Counter(one["PartitionKey"] for one in spread.list_entities()).values())
assert hottest < JOBS / 4, hottest
print(f"{JOBS} jobs in order; at most {hottest} of them in one partition")
