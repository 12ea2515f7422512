"""Log tail: the newest entities first."""

import heapq
import zlib
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from itertools import islice

from store import compare, insert_all, new_table

ascending, inverted, spread = (new_table(name) for name in ("Ascending", "Inverted", "Spread"))


# region naive
def ticks(moment):
    """Steps of 100 ns since the year 1, as .NET counts time."""
    return (moment - datetime(1, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1) * 10


def ascending_key(moment, claim):
    return f"{ticks(moment):019}_{claim:06}"


def newest_at_the_end(count):
    # The newest are last, and a query reads forwards only: all are read.
    found = list(ascending.query_entities("PartitionKey eq 'claims'"))
    return [one["Claim"] for one in reversed(found[-count:])]


# endregion


# region advised
TICKS_MAX = ticks(datetime.max.replace(tzinfo=timezone.utc))


def inverted_key(moment, claim):
    # The later the moment, the smaller the number: new entities come first in the partition. The
    # claim makes the key unique.
    return f"{TICKS_MAX - ticks(moment):019}_{claim:06}"


def newest_first(count):
    # One page of `count` entities; the rest is not read.
    pages = inverted.query_entities("PartitionKey eq 'claims'", results_per_page=count).by_page()
    return [one["Claim"] for one in next(pages)]


# endregion


# region buckets
BUCKETS = 4


def bucket_of(claim):
    # A hash: neighbours in time are in different buckets.
    return f"claims_{zlib.crc32(str(claim).encode()) % BUCKETS:02}"


def newest_of_bucket(bucket, count):
    filter = f"PartitionKey eq 'claims_{bucket:02}'"
    return list(next(spread.query_entities(filter, results_per_page=count).by_page()))


def newest_of_all(count):
    # The newest of all are among the newest of each bucket. Each page is sorted: the client merges.
    with ThreadPoolExecutor(BUCKETS) as threads:
        pages = threads.map(lambda bucket: newest_of_bucket(bucket, count), range(BUCKETS))
        merged = heapq.merge(*pages, key=lambda one: one["RowKey"])
        return [one["Claim"] for one in islice(merged, count)]


# endregion


start = datetime(2026, 1, 1, tzinfo=timezone.utc)
for table, key, partition_of in (
    (ascending, ascending_key, lambda claim: "claims"),
    (inverted, inverted_key, lambda claim: "claims"),
    (spread, inverted_key, bucket_of),
):
    # Claims 50 and 51 are of the same moment.
    moments = [
        (claim, start + timedelta(seconds=17 * (50 if claim == 51 else claim)))
        for claim in range(200)
    ]
    insert_all(
        table,
        (
            {"PartitionKey": partition_of(claim), "RowKey": key(moment, claim), "Claim": claim}
            for claim, moment in moments
        ),
    )
compare(lambda: newest_at_the_end(10), lambda: newest_first(10), "examined")
compare(lambda: newest_at_the_end(10), lambda: newest_of_all(10), "examined")
assert newest_first(3) == [199, 198, 197]
assert sorted(newest_first(200)) == list(range(200)), "a claim has taken the place of another"
assert newest_of_all(200) == newest_first(200)
assert len({one["PartitionKey"] for one in spread.list_entities()}) == BUCKETS
