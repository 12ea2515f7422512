"""Shared access signatures over key ranges: a user's client sees the user's partition and no
other."""

from datetime import datetime, timedelta, timezone

from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableAccessPolicy, TableClient, generate_table_sas
from store import compare, insert_all, new_table, tables

table = new_table("Notes")
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
