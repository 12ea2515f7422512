"""Log data in blobs: the records of an hour in one blob."""

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
