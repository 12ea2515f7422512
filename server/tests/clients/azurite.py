"""Writes what Azurite can hold, and shows everything that a service holds as JSON: `azurite.py fill`, `azurite.py show`.

`azurite.py load` writes to resources of its own until there is a container `stop`, and fails if one of its writes is missing then.
"""

import base64
import datetime
import hashlib
import json
import os
import sys
import uuid

from azure.data.tables import EdmType, EntityProperty, TableServiceClient
from azure.storage.blob import (
    AccessPolicy,
    BlobBlock,
    BlobServiceClient,
    ContainerSasPermissions,
    ContentSettings,
    CorsRule,
    PremiumPageBlobTier,
    StandardBlobTier,
)
from azure.storage.queue import AccessPolicy as QueueAccessPolicy
from azure.storage.queue import QueueServiceClient

CONNECTION = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
OPTIONS = {"api_version": "2024-11-04"}
blobs = BlobServiceClient.from_connection_string(CONNECTION, **OPTIONS)
queues = QueueServiceClient.from_connection_string(CONNECTION, **OPTIONS)
tables = TableServiceClient.from_connection_string(CONNECTION)


def fill_blobs():
    photos = blobs.create_container("photos", metadata={"Owner": "anna"}, public_access="blob")
    policy = AccessPolicy(
        ContainerSasPermissions(read=True), start=datetime.datetime(2026, 1, 1), expiry=datetime.datetime(2090, 1, 1)
    )
    photos.set_container_access_policy({"readers": policy}, public_access="blob")
    blobs.create_container("empty")
    settings = ContentSettings(
        content_type="image/jpeg",
        cache_control="no-cache",
        content_language="de",
        content_encoding="identity",
        content_disposition="inline",
    )
    photos.upload_blob(
        "2026/lake.jpg",
        b"content",
        metadata={"Place": "lake"},
        tags={"year": "2026", "kind": "a b"},
        content_settings=settings,
        standard_blob_tier=StandardBlobTier.COOL,
    )
    photos.upload_blob("large", bytes(range(256)) * 300_000, max_concurrency=4)
    photos.upload_blob("empty", b"")
    photos.upload_blob("é ü/ä?%&'", b"name")
    photos.upload_blob("frozen", b"frozen", standard_blob_tier=StandardBlobTier.ARCHIVE)
    photos.upload_blob("leased", b"leased").acquire_lease()
    photos.upload_blob("deleted", b"x").delete_blob()
    blocks = photos.get_blob_client("blocks")
    ids = [base64.b64encode(b"%04d" % number).decode() for number in range(100)]
    for number, block in enumerate(ids):
        blocks.stage_block(block, bytes([number]) * (number * 10))
    blocks.commit_block_list([BlobBlock(block) for block in reversed(ids)])
    fill_other_types(photos)


def fill_other_types(photos):
    log = photos.get_blob_client("log")
    log.create_append_blob(metadata={"x": "y"})
    for number in range(10):
        log.append_block(b"line %d\n" % number)
    disk = photos.get_blob_client("disk")
    disk.create_page_blob(10 << 20, sequence_number=7)
    disk.upload_page(b"\x09" * 4096, 4096, 4096)
    disk.upload_page(b"\x08" * 512, 4608, 512)
    disk.upload_page(b"\x07" * 1024, (10 << 20) - 1024, 1024)
    disk.clear_page(6144, 512)
    copy = photos.get_blob_client("copied")
    copy.start_copy_from_url(photos.get_blob_client("2026/lake.jpg").url)
    rule = CorsRule(["http://a.example"], ["GET"], allowed_headers=["x"], exposed_headers=["y"], max_age_in_seconds=5)
    blobs.set_service_properties(cors=[rule])


def fill_queues():
    work = queues.create_queue("work", metadata={"Kind": "jobs"})
    policy = QueueAccessPolicy("r", expiry=datetime.datetime(2090, 1, 1))
    work.set_queue_access_policy({"readers": policy})
    queues.create_queue("bare")
    work.send_message("one <&> é")
    work.send_message("never", time_to_live=-1)
    work.send_message("hidden", visibility_timeout=3600)
    work.send_message("long" * 12_000)
    taken = next(iter(work.receive_messages(messages_per_page=1, visibility_timeout=60)))
    # Visible again at once, and delivered once.
    work.update_message(taken, taken.pop_receipt, content=taken.content, visibility_timeout=0)


def fill_tables():
    table = tables.create_table("Customers")
    tables.create_table("Empty")
    table.create_entity(
        {
            "PartitionKey": "p'1",
            "RowKey": "é%&",
            "Text": 'a"b\n',
            "Int": 7,
            "Long": EntityProperty(9223372036854775807, EdmType.INT64),
            "Double": 0.1,
            "Whole": 1.0,
            "Large": 1e300,
            "Flag": True,
            "Infinite": float("inf"),
            "NoNumber": float("nan"),
            "Time": datetime.datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=datetime.timezone.utc),
            "Id": uuid.UUID("c9da6455-213d-42c9-9a79-3e9149a57833"),
            "Bytes": b"\0\1\2",
            "Empty": "",
            "Digits": "123",
        }
    )
    for part in range(3):
        steps = [("create", {"PartitionKey": f"b{part}", "RowKey": f"{row:04}", "V": row}) for row in range(100)]
        table.submit_transaction(steps)


def policies_of(policies):
    # Lazurite writes the parts of a second.
    time = lambda text: str(text).replace(".0000000Z", "Z")
    return {name: [time(policy.start), time(policy.expiry), policy.permission] for name, policy in policies.items()}


def merged(ranges):
    """Azurite lists ranges that touch apart, as they were written."""
    whole = []
    for part in ranges:
        if whole and whole[-1][1] + 1 == part["start"]:
            whole[-1][1] = part["end"]
        else:
            whole.append([part["start"], part["end"]])
    return whole


def show_blob(container, blob):
    settings = blob.content_settings
    client = container.get_blob_client(blob.name)
    is_readable = blob.blob_tier != "Archive"
    ranges = client.get_page_ranges()[0] if blob.blob_type == "PageBlob" else []
    return {
        "type": blob.blob_type,
        "size": blob.size,
        "settings": {name: value for name, value in settings.items() if name != "content_md5"},
        "md5": settings.content_md5.hex() if settings.content_md5 else None,
        "metadata": blob.metadata or {},
        "tags": blob.tags,
        "tier": None if blob.blob_tier_inferred else blob.blob_tier,
        "sequence": client.get_blob_properties().page_blob_sequence_number,
        "content": hashlib.sha256(client.download_blob().readall()).hexdigest() if is_readable else None,
        "ranges": merged(ranges),
    }


def show_container(properties):
    container = blobs.get_container_client(properties.name)
    policy = container.get_container_access_policy()
    identifiers = {identifier.id: identifier.access_policy for identifier in policy["signed_identifiers"]}
    return {
        "metadata": properties.metadata or {},
        "access": properties.public_access,
        "policies": policies_of(identifiers),
        "blobs": {
            blob.name: show_blob(container, blob) for blob in container.list_blobs(include=["metadata", "tags"])
        },
    }


def show_queue(properties):
    queue = queues.get_queue_client(properties.name)
    messages = queue.peek_messages(32)
    return {
        "metadata": properties.metadata or {},
        "policies": policies_of(queue.get_queue_access_policy()),
        "count": queue.get_queue_properties().approximate_message_count,
        "messages": [[message.content, message.dequeue_count] for message in messages],
        "expires": [int(message.expires_on.timestamp()) for message in messages],
    }


def show_value(value):
    if isinstance(value, EntityProperty):
        return [str(value.edm_type), str(value.value)]
    return [type(value).__name__, str(value)]


def show_table(name):
    entities = tables.get_table_client(name).list_entities()
    return [{field: show_value(value) for field, value in sorted(entity.items())} for entity in entities]


def show():
    cors = blobs.get_service_properties()["cors"]
    return {
        "containers": {
            container.name: show_container(container) for container in blobs.list_containers(include_metadata=True)
        },
        "queues": {queue.name: show_queue(queue) for queue in queues.list_queues(include_metadata=True)},
        "tables": {table.name: show_table(table.name) for table in tables.list_tables()},
        "cors": [[rule.allowed_origins, rule.allowed_methods, rule.max_age_in_seconds] for rule in cors],
    }


def load():
    container, table = blobs.create_container("load"), tables.create_table("load")
    queue = queues.create_queue("load")
    stop = blobs.get_container_client("stop")
    count = 0
    while not stop.exists():
        container.upload_blob(str(count), b"content")
        queue.send_message(str(count))
        table.create_entity({"PartitionKey": "load", "RowKey": str(count)})
        count += 1
    names = sorted(map(str, range(count)))
    assert sorted(blob.name for blob in container.list_blobs()) == names
    assert [entity["RowKey"] for entity in table.list_entities()] == names
    assert queue.get_queue_properties().approximate_message_count == count
    blobs.delete_container("load")
    blobs.delete_container("stop")
    queues.delete_queue("load")
    tables.delete_table("load")
    print(count)


if sys.argv[1] == "fill":
    fill_blobs()
    fill_queues()
    fill_tables()
elif sys.argv[1] == "leave":
    # What is not imported.
    photos = blobs.get_container_client("photos")
    photos.get_blob_client("staged").stage_block("QQ==", b"abc")
    photos.upload_blob("snapped", b"1").create_snapshot()
elif sys.argv[1] == "load":
    load()
else:
    json.dump(show(), sys.stdout)
