"""Inter-partition secondary index: copies in other partitions, kept alike by way of a queue."""

import json
from contextlib import suppress

from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import UpdateMode
from staff import employees
from store import compare, new_queue, new_table

table = new_table("Staff")
changes = new_queue("changes")


# region naive
def find_by_scan(mail):
    # The department is not known: all partitions of departments are read. Their keys begin with
    # 'department_', those of the copies do not; '`' is the character after '_'.
    filter = "PartitionKey ge 'department_' and PartitionKey lt 'department`' and Mail eq @mail"
    found = list(table.query_entities(filter, parameters={"mail": mail}))
    return found[0]["Id"]


# endregion


# region advised
def store(one):
    keys = {"department": one["Department"], "id": one["Id"]}
    # The message first, hidden while this writer may live. If it dies on the way, the message
    # appears, and a worker does the rest.
    message = changes.send_message(json.dumps(keys), visibility_timeout=30)
    original = {"PartitionKey": "department_" + one["Department"], "RowKey": one["Id"], **one}
    table.upsert_entity(original, mode=UpdateMode.REPLACE)
    update_copy(**keys)
    changes.delete_message(message)


def update_copy(department, id):
    while True:
        one = table.get_entity("department_" + department, id)
        copy = {**one, "PartitionKey": "mail_" + one["Mail"][0], "RowKey": one["Mail"]}
        # A merge would keep properties that the original has no longer.
        table.upsert_entity(copy, mode=UpdateMode.REPLACE)
        # Another writer may have stored a newer copy, which this one just replaced.
        now = table.get_entity("department_" + department, id)
        if now.metadata["etag"] == one.metadata["etag"]:
            return


def work():
    for message in changes.receive_messages(visibility_timeout=30):
        # A writer that died before it stored anything leaves nothing to copy.
        with suppress(ResourceNotFoundError):
            update_copy(**json.loads(message.content))
        changes.delete_message(message)


def find_by_mail(mail):
    return table.get_entity("mail_" + mail[0], mail)["Id"]


# endregion


*staff, last = employees()
# "operations" is behind "mail_" in the order of text: a scan of the keys before "mail_" misses it.
last["Department"] = "operations"
for one in staff:
    store(one)
# A writer that dies between the two writes.
changes.send_message(json.dumps({"department": last["Department"], "id": last["Id"]}))
partition = "department_" + last["Department"]
table.upsert_entity({"PartitionKey": partition, "RowKey": last["Id"], **last})
work()
for mail in ("chen.8@example.com", last["Mail"]):
    compare(lambda: find_by_scan(mail), lambda: find_by_mail(mail), "examined")
