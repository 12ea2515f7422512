"""Ten kinds of work, twenty tests each. Every test needs an empty store: all of them use the same names.

`STORE` in the environment is `lazurite` or `azurite`; see `conftest.py`.
"""

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceModifiedError
from azure.data.tables import TableServiceClient, TableTransactionError
from azure.storage.blob import BlobServiceClient, ContainerClient
from azure.storage.queue import QueueClient, QueueServiceClient

numbers = pytest.mark.parametrize("number", range(20))


@pytest.fixture
def photos(connection: str) -> ContainerClient:
    return BlobServiceClient.from_connection_string(connection).create_container("photos")


@pytest.fixture
def work(connection: str) -> QueueClient:
    return QueueServiceClient.from_connection_string(connection).create_queue("work")


@pytest.fixture
def orders(connection: str):
    return TableServiceClient.from_connection_string(connection).create_table("Orders")


@numbers
def test_photos_are_listed_by_prefix_and_read(photos, number):
    for month in ["2026/10", "2026/11"]:
        for name in ["lake", "wood"]:
            photos.upload_blob(f"{month}/{name}.txt", f"{month} {name} {number}")
    names = [blob.name for blob in photos.list_blobs(name_starts_with="2026/11/")]
    assert names == ["2026/11/lake.txt", "2026/11/wood.txt"]
    assert photos.download_blob(names[0]).readall() == f"2026/11 lake {number}".encode()


@numbers
def test_a_blob_is_replaced_only_by_who_knows_its_etag(photos, number):
    blob = photos.upload_blob("lake.txt", b"blue")
    etag = blob.get_blob_properties().etag
    blob.upload_blob(b"green", overwrite=True, etag=etag, match_condition=MatchConditions.IfNotModified)
    with pytest.raises(ResourceModifiedError):
        blob.upload_blob(b"grey", overwrite=True, etag=etag, match_condition=MatchConditions.IfNotModified)
    assert blob.download_blob().readall() == b"green"


@numbers
def test_blocks_become_a_blob(photos, number):
    blob = photos.get_blob_client("film.bin")
    blocks = [bytes([number + place]) * 65_536 for place in range(4)]
    for place, block in enumerate(blocks):
        blob.stage_block(f"{place:04}", block)
    blob.commit_block_list([f"{place:04}" for place in range(4)])
    assert blob.download_blob(offset=65_530, length=12).readall() == blocks[0][-6:] + blocks[1][:6]
    assert blob.download_blob().readall() == b"".join(blocks)


@numbers
def test_lines_are_appended_to_a_log(photos, number):
    log = photos.get_blob_client("access.log")
    log.create_append_blob()
    for line in range(5):
        log.append_block(f"line {line} of {number}\n")
    assert log.download_blob().readall().decode().splitlines()[-1] == f"line 4 of {number}"


@numbers
def test_a_lease_keeps_others_out(photos, number):
    blob = photos.upload_blob("lake.txt", b"blue", metadata={"number": str(number)})
    lease = blob.acquire_lease(15)
    with pytest.raises(HttpResponseError):
        blob.delete_blob()
    blob.set_blob_metadata({"number": str(number + 1)}, lease=lease)
    lease.release()
    assert blob.get_blob_properties().metadata == {"number": str(number + 1)}
    blob.delete_blob()


@numbers
def test_messages_are_received_once_and_deleted(work, number):
    for place in range(4):
        work.send_message(f"{number}.{place}")
    received = list(work.receive_messages(max_messages=4, visibility_timeout=60))
    assert {message.content for message in received} == {f"{number}.{place}" for place in range(4)}
    assert work.receive_message() is None
    for message in received:
        work.delete_message(message)
    assert work.get_queue_properties().approximate_message_count == 0


@numbers
def test_a_message_is_changed_and_comes_back(work, number):
    work.send_message("begun")
    message = work.receive_message(visibility_timeout=60)
    work.update_message(message, visibility_timeout=0, content=f"half done {number}")
    again = work.receive_message()
    assert (again.content, again.dequeue_count) == (f"half done {number}", 2)


@numbers
def test_entities_are_found_by_their_properties(orders, number):
    batch = [{"PartitionKey": "2026", "RowKey": f"{row:03}", "Total": row * 10, "Number": number} for row in range(20)]
    orders.submit_transaction([("create", entity) for entity in batch])
    found = orders.query_entities("PartitionKey eq '2026' and Total ge 150", select=["RowKey"])
    assert [entity["RowKey"] for entity in found] == ["015", "016", "017", "018", "019"]


@numbers
def test_a_transaction_is_all_or_nothing(orders, number):
    orders.create_entity({"PartitionKey": "2026", "RowKey": "1", "Number": number})
    batch = [("create", {"PartitionKey": "2026", "RowKey": row}) for row in ["0", "1", "2"]]
    with pytest.raises(TableTransactionError):
        orders.submit_transaction(batch)
    assert [entity["Number"] for entity in orders.list_entities()] == [number]


@numbers
def test_an_order_goes_through_all_services(photos, work, orders, number):
    photos.upload_blob(f"{number}.txt", b"a photo")
    orders.create_entity({"PartitionKey": "2026", "RowKey": str(number), "State": "open"})
    work.send_message(str(number))
    message = work.receive_message()
    photo = photos.download_blob(f"{message.content}.txt").readall()
    order = orders.get_entity("2026", message.content)
    order.update(State="printed", Bytes=len(photo))
    orders.update_entity(order, mode="replace")
    work.delete_message(message)
    assert dict(orders.get_entity("2026", str(number)))["Bytes"] == 7
