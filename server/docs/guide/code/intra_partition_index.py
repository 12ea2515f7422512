"""Intra-partition secondary index: each employee twice in the partition of the department."""

from azure.data.tables import UpdateMode
from staff import employees
from store import compare, new_table

scanned = new_table("Scanned")
indexed = new_table("Indexed")


# region naive
def store_once(one):
    scanned.upsert_entity({"PartitionKey": one["Department"], "RowKey": one["Id"], **one})


def find_by_scan(department, mail):
    filter = "PartitionKey eq @department and Mail eq @mail"
    found = list(
        scanned.query_entities(filter, parameters={"department": department, "mail": mail})
    )
    return found[0]["Id"]


def mails_by_scan(department, first, end):
    filter = "PartitionKey eq @department and Mail ge @first and Mail lt @end"
    parameters = {"department": department, "first": first, "end": end}
    # They come in the order of the ids: the client sorts.
    return sorted(one["Mail"] for one in scanned.query_entities(filter, parameters=parameters))


# endregion


# region advised
def store_twice(one):
    row_keys = ("id_" + one["Id"], "mail_" + one["Mail"])
    rows = [{"PartitionKey": one["Department"], "RowKey": key, **one} for key in row_keys]
    # Both copies or neither: they are in one partition.
    indexed.submit_transaction([("upsert", row, {"mode": UpdateMode.REPLACE}) for row in rows])


def find_by_mail(department, mail):
    return indexed.get_entity(department, "mail_" + mail)["Id"]


def mails_between(department, first, end):
    # A range of the copies under the mail addresses: no other is read, and they come in order.
    filter = "PartitionKey eq @department and RowKey ge @first and RowKey lt @end"
    keys = {"first": "mail_" + first, "end": "mail_" + end}
    found = indexed.query_entities(filter, parameters={"department": department, **keys})
    return [one["Mail"] for one in found]


def all_of(department):
    # The prefix keeps the copies under the mail addresses out: '`' is the character after '_'.
    filter = "PartitionKey eq @department and RowKey ge 'id_' and RowKey lt 'id`'"
    return list(indexed.query_entities(filter, parameters={"department": department}))


# endregion


for one in employees():
    store_once(one)
    store_twice(one)
compare(
    lambda: find_by_scan("Sales", "novak.3@example.com"),
    lambda: find_by_mail("Sales", "novak.3@example.com"),
    "examined",
)
compare(
    lambda: mails_by_scan("Sales", "c", "n"),
    lambda: mails_between("Sales", "c", "n"),
    "examined",
)
assert [one["Id"] for one in all_of("Sales")] == [
    one["Id"] for one in employees() if one["Department"] == "Sales"
]
