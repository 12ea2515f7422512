"""Intra-partition secondary index: each employee twice in the partition of the department."""

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


# endregion


# region advised
def store_twice(one):
    row_keys = ("id_" + one["Id"], "mail_" + one["Mail"])
    rows = [{"PartitionKey": one["Department"], "RowKey": key, **one} for key in row_keys]
    # Both copies or neither: they are in one partition.
    indexed.submit_transaction([("upsert", row) for row in rows])


def find_by_mail(department, mail):
    return indexed.get_entity(department, "mail_" + mail)["Id"]


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
assert [one["Id"] for one in all_of("Sales")] == [
    one["Id"] for one in employees() if one["Department"] == "Sales"
]
