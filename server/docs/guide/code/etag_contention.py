"""ETag contention: many writers of one counter, and a counter in shards."""

from concurrent.futures import ThreadPoolExecutor

from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError
from store import insert_all, new_table

WRITERS, INCREMENTS = 8, 10
table = new_table("Counters")


# region naive
def increment(partition, shard):
    """Reads, adds one, and writes under the ETag; returns how often another writer was faster."""
    lost = 0
    while True:
        counter = table.get_entity(partition, shard)
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
    return sum(increment("one", "00") for _ in range(INCREMENTS))


# endregion


# region advised
def count_in_shards(writer):
    # Each writer has an entity of its own, and meets no other.
    return sum(increment("shards", f"{writer:02}") for _ in range(INCREMENTS))


def total(partition):
    return sum(
        one["Count"]
        for one in table.query_entities(
            "PartitionKey eq @partition", parameters={"partition": partition}
        )
    )


# endregion


insert_all(table, [{"PartitionKey": "one", "RowKey": "00", "Count": 0}])
insert_all(
    table,
    ({"PartitionKey": "shards", "RowKey": f"{writer:02}", "Count": 0} for writer in range(WRITERS)),
)
with ThreadPoolExecutor(WRITERS) as writers:
    lost_in_one = sum(writers.map(count_in_one, range(WRITERS)))
    lost_in_shards = sum(writers.map(count_in_shards, range(WRITERS)))
assert total("one") == total("shards") == WRITERS * INCREMENTS
assert lost_in_shards == 0
print(f"{WRITERS} writers: {lost_in_one} lost races for one entity, none for {WRITERS}")
