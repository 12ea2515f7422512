"""Shared access signatures over key ranges: a user's client sees the user's partition and no
other."""

from datetime import datetime, timedelta, timezone

from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableAccessPolicy, TableClient, generate_table_sas
from store import cost_of, insert_all, new_table, tables

table, shared = new_table("Notes"), new_table("Shared")
insert_all(
    table,
    (
        {"PartitionKey": user, "RowKey": f"{n:02}", "Text": f"{user} {n}"}
        for user in ("ann", "bob")
        for n in range(20)
    ),
)
ACCOUNT = tables.credential


# region naive
def notes_by_filter(user):
    # The program holds the key of the account. Only its own filter keeps the notes of others away.
    return [note["Text"] for note in table.list_entities() if note["PartitionKey"] == user]


# endregion


# region advised
def publish_policy():
    """The table names what the signatures permit, and until when."""
    now = datetime.now(timezone.utc)
    policy = TableAccessPolicy(
        permission="raud", start=now - timedelta(minutes=1), expiry=now + timedelta(hours=8)
    )
    table.set_table_access_policy({"users": policy})


def client_of(user):
    """What a user's program is given: a client without the key of the account."""
    signature = generate_table_sas(
        ACCOUNT, table.table_name, policy_id="users", start_pk=user, end_pk=user
    )
    return TableClient(tables.url, table.table_name, credential=AzureSasCredential(signature))


def notes_of(client):
    # No filter: the service shows no other keys.
    return [note["Text"] for note in client.list_entities()]


def revoke():
    # All signatures that name the policy are void.
    table.set_table_access_policy({})


# endregion


# region rows
def range_reader(first, last):
    """A client that reads the entities from one pair of keys to another, both included."""
    signature = generate_table_sas(
        ACCOUNT,
        shared.table_name,
        permission="r",
        expiry=datetime.now(timezone.utc) + timedelta(hours=1),
        start_pk=first[0],
        start_rk=first[1],
        end_pk=last[0],
        end_rk=last[1],
    )
    return TableClient(tables.url, shared.table_name, credential=AzureSasCredential(signature))


def reader_of_public_notes(user):
    # One partition, and the RowKeys that begin with 'public_': '`' is the character after '_'.
    return range_reader((user, "public_"), (user, "public`"))


# endregion


def is_refused(work):
    try:
        work()
    except HttpResponseError as error:
        return error.status_code == 403
    return False


publish_policy()
ann = client_of("ann")
assert notes_of(ann) == notes_by_filter("ann")
assert is_refused(lambda: ann.get_entity("bob", "01"))
assert is_refused(lambda: ann.upsert_entity({"PartitionKey": "bob", "RowKey": "01"}))
ann.upsert_entity({"PartitionKey": "ann", "RowKey": "01", "Text": "changed"})
revoke()
assert is_refused(lambda: notes_of(ann))
print("ann sees the notes of ann, is refused those of bob, and nothing after the policy is gone")

insert_all(
    shared,
    (
        {"PartitionKey": user, "RowKey": f"{kind}_{n}", "Text": f"{user} {kind} {n}"}
        for user in ("ann", "bob", "cem")
        for kind in ("private", "public")
        for n in range(3)
    ),
)


def keys_of(client):
    return [(note["PartitionKey"], note["RowKey"]) for note in client.list_entities()]


reader, cost = cost_of(lambda: reader_of_public_notes("ann"))
assert cost.requests == 0
assert keys_of(reader) == [("ann", f"public_{n}") for n in range(3)]
assert reader.get_entity("ann", "public_1")["Text"] == "ann public 1"
assert is_refused(lambda: reader.get_entity("ann", "private_1"))
assert is_refused(lambda: reader.get_entity("bob", "public_1"))
assert is_refused(lambda: reader.upsert_entity({"PartitionKey": "ann", "RowKey": "public_9"}))
print("a reader of ann's public notes sees", len(keys_of(reader)), "notes")

# Over several partitions the RowKeys limit the ends only, and no partition between.
seen = keys_of(range_reader(("ann", "public_"), ("cem", "public`")))
assert ("bob", "private_0") in seen and ("cem", "private_0") in seen
print("from ann's public notes to cem's:", len(seen), "notes,", end=" ")
print(sum(row.startswith("private_") for _, row in seen), "of them private")
