"""Log tail: the newest entities first."""

from datetime import datetime, timedelta, timezone

from store import compare, insert_all, new_table

ascending, inverted = new_table("Ascending"), new_table("Inverted")


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


start = datetime(2026, 1, 1, tzinfo=timezone.utc)
for table, key in ((ascending, ascending_key), (inverted, inverted_key)):
    # Claims 50 and 51 are of the same moment.
    moments = [
        (claim, start + timedelta(seconds=17 * (50 if claim == 51 else claim)))
        for claim in range(200)
    ]
    insert_all(
        table,
        (
            {"PartitionKey": "claims", "RowKey": key(moment, claim), "Claim": claim}
            for claim, moment in moments
        ),
    )
compare(lambda: newest_at_the_end(10), lambda: newest_first(10), "examined")
assert newest_first(3) == [199, 198, 197]
assert sorted(newest_first(200)) == list(range(200)), "a claim has taken the place of another"
