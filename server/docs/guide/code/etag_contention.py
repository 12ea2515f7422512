"""ETag contention: many writers of one counter, and a counter in shards."""

from concurrent.futures import ThreadPoolExecutor

from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError
from store import new_table

WRITERS, INCREMENTS = 8, 10
table = new_table("Counters")


# region naive
def increment(partition):
    """Reads, adds one, and writes under the ETag; returns how often another writer was faster."""
    lost = 0
    while True:
        counter = table.get_entity(partition, "count")
        counter["Count"] += 1
        try:
            table.update_entity(
                counter,
                etag=counter.metadata["etag"],
                match_condition=MatchConditions.IfNotModified,
            )
            return lost
        except ResourceModifiedError:
            lost += 1


def count_in_one(writer):
    # All writers read and write the same entity.
    return sum(increment("whole_00") for _ in range(INCREMENTS))


# endregion


# region advised
def count_in_shards(writer):
    # Each writer has an entity of its own, and meets no other. The entity has a partition of its
    # own, so the writers do not share the target of a partition either.
    return sum(increment(f"shards_{writer:02}") for _ in range(INCREMENTS))


def total(counter):
    # The partitions of a counter are a range: '`' is the character after '_'.
    filter = "PartitionKey ge @first and PartitionKey lt @end"
    shards = table.query_entities(filter, parameters={"first": counter + "_", "end": counter + "`"})
    return sum(one["Count"] for one in shards)


# endregion


for partition in ("whole_00", *(f"shards_{writer:02}" for writer in range(WRITERS))):
    table.create_entity({"PartitionKey": partition, "RowKey": "count", "Count": 0})
with ThreadPoolExecutor(WRITERS) as writers:
    lost_in_one = sum(writers.map(count_in_one, range(WRITERS)))
    lost_in_shards = sum(writers.map(count_in_shards, range(WRITERS)))
assert total("whole") == total("shards") == WRITERS * INCREMENTS
assert lost_in_shards == 0
print(f"{WRITERS} writers: {lost_in_one} lost races for one entity, none for {WRITERS}")
