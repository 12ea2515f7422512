"""Large entities: the photo in a blob, its name in the entity."""

import uuid
from datetime import datetime, timedelta, timezone

from azure.data.tables import UpdateMode
from store import compare, new_container, new_table

inside, outside = new_table("Inside"), new_table("Outside")
photos = new_container("photos")


# region naive
PART_BYTES = 64 * 1024


def store_inside(employee, mail, photo):
    # A property holds 64 KiB, so the photo takes several.
    parts = {
        f"Photo{start // PART_BYTES}": photo[start : start + PART_BYTES]
        for start in range(0, len(photo), PART_BYTES)
    }
    entity = {"PartitionKey": "Sales", "RowKey": employee, "Mail": mail, **parts}
    inside.upsert_entity(entity, mode=UpdateMode.REPLACE)


def mails_and_photos():
    # Every photo travels with the list.
    return [one["Mail"] for one in inside.query_entities("PartitionKey eq 'Sales'")]


# endregion


# region advised
def store(employee, mail, photo):
    # The blob first, under a name of its own: an entity never names a blob that is not there.
    name = f"{employee}/{uuid.uuid4()}"
    photos.upload_blob(name, photo)
    outside.upsert_entity(
        {"PartitionKey": "Sales", "RowKey": employee, "Mail": mail, "Photo": name}
    )


def mails():
    return [one["Mail"] for one in outside.query_entities("PartitionKey eq 'Sales'")]


def photo_of(employee):
    return photos.download_blob(outside.get_entity("Sales", employee)["Photo"]).readall()


def delete_orphans(before):
    """Deletes blobs that no entity names: a replaced photo, or one whose writer died before it
    stored the entity. A blob that is newer than `before` may belong to an entity that is just being
    stored."""
    old = [blob.name for blob in photos.list_blobs() if blob.last_modified < before]
    used = {
        one["Photo"] for one in outside.query_entities("PartitionKey eq 'Sales'", select=["Photo"])
    }
    for name in old:
        if name not in used:
            photos.delete_blob(name)


# endregion


for number in range(6):
    employee, picture = f"{number:06}", bytes([number]) * 100_000
    store_inside(employee, f"p{number}@example.com", picture)
    store(employee, f"p{number}@example.com", picture)
compare(mails_and_photos, mails, "received")
store("000003", "p3@example.com", b"a new photo")
assert len(list(photos.list_blob_names())) == 7
delete_orphans(datetime.now(timezone.utc) - timedelta(hours=1))
assert len(list(photos.list_blob_names())) == 7
delete_orphans(datetime.now(timezone.utc) + timedelta(minutes=1))
assert len(list(photos.list_blob_names())) == 6
assert photo_of("000003") == b"a new photo"
