"""Log data in blobs: the records of an hour in one blob."""

import time
from datetime import datetime, timedelta, timezone

from store import compare, new_container, new_table

table = new_table("Log")
container = new_container("log")


# region naive
def store_entities(records):
    for number, (moment, text) in enumerate(records):
        table.upsert_entity(
            {"PartitionKey": "web", "RowKey": f"{moment:%Y%m%d%H}_{number:06}", "Text": text}
        )


# endregion


# region advised
def blob_name(service, hour):
    # Names sort by time, and a prefix is a year, a month, a day or an hour.
    return f"{service}/{hour:%Y/%m/%d/%H}00/000000.log"


def store_blob(service, hour, texts):
    # The metadata says what is inside; a listing shows it without reading the blob.
    metadata = {"LogRecords": str(len(texts)), "StartTime": f"{hour:%Y-%m-%dT%H:00:00Z}"}
    container.upload_blob(
        blob_name(service, hour), "\n".join(texts), metadata=metadata, overwrite=True
    )


def records_of(service, day):
    for blob in container.list_blobs(name_starts_with=f"{service}/{day:%Y/%m/%d}/"):
        yield from container.download_blob(blob).readall().decode().split("\n")


def count_of(service, day):
    blobs = container.list_blobs(
        name_starts_with=f"{service}/{day:%Y/%m/%d}/", include=["metadata"]
    )
    return sum(int(blob.metadata["LogRecords"]) for blob in blobs)


# endregion


# region buffer
class LogWriter:
    """Stores a blob for `records_max` records, or fewer when the oldest is `seconds_max` old. What
    is in the buffer is lost if the program is killed. For one thread."""

    def __init__(self, name, records_max, seconds_max, clock=time.monotonic):
        self.name, self.records_max, self.seconds_max = name, records_max, seconds_max
        self.clock, self.buffer, self.blobs = clock, [], 0

    def log(self, text):
        if not self.buffer:
            self.oldest = self.clock()
        self.buffer.append(text)
        self.tick()

    def tick(self):
        # The loop of the program calls it as well: otherwise the last records wait for the next one.
        is_old = self.buffer and self.clock() - self.oldest >= self.seconds_max
        if is_old or len(self.buffer) >= self.records_max:
            self.flush()

    def flush(self):
        # The number makes a repetition replace the blob. A program calls it before it ends, too.
        name = f"{self.name}/{self.blobs:06}.log"
        container.upload_blob(name, "\n".join(self.buffer), overwrite=True)
        self.buffer, self.blobs = [], self.blobs + 1


# endregion


start = datetime(2026, 7, 30, 22, tzinfo=timezone.utc)
log = [(start + timedelta(minutes=7 * number), f"GET /photos/{number} 200") for number in range(40)]


def by_entities():
    store_entities(log)


def by_blobs():
    hours = {}
    for moment, text in log:
        hours.setdefault(moment.replace(minute=0), []).append(text)
    for hour, texts in hours.items():
        store_blob("web", hour, texts)


compare(by_entities, by_blobs, "requests")
day = start + timedelta(days=1)
expected = [text for moment, text in log if moment.date() == day.date()]
assert list(records_of("web", day)) == expected
assert count_of("web", day) == len(expected)

# A writer is killed after its 987th record. The price of a blob in writes to a table is that of the
# example prices.
RECORDS, BLOB_WRITE = 987, 153


def stored(prefix):
    blobs = container.list_blobs(name_starts_with=prefix)
    texts = [container.download_blob(blob).readall().decode() for blob in blobs]
    return [text for some in texts for text in some.split("\n")]


for size in (50, 100, 500, 1000):
    writer = LogWriter(f"killed_{size}", size, seconds_max=60, clock=lambda: 0.0)
    for number in range(RECORDS):
        writer.log(f"record {number}")
    # Here it is killed: only what is in the store is left.
    found = stored(f"killed_{size}/") if writer.blobs else []
    assert found == [f"record {number}" for number in range(len(found))]
    print(
        f"buffer of {size}: {RECORDS - len(found)} of {RECORDS} records lost,"
        f" blobs: {writer.blobs}, at the price of {writer.blobs * BLOB_WRITE} entities"
    )

# Fewer records than a blob holds wait for `seconds_max` at most.
moments = iter([0.0, 0.0, 59.0, 60.0])
writer = LogWriter("slow", 100, seconds_max=60, clock=lambda: next(moments))
writer.log("first")
writer.tick()
assert writer.blobs == 0
writer.tick()
assert stored("slow/") == ["first"]
