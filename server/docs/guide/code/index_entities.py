"""Index entities: the ids of all employees of one last name."""

from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import TableTransactionError, UpdateMode
from staff import employees
from store import compare, insert_all, new_container, new_table

PARTITION = "Sales"
scanned, indexed, index_table, copied = (
    new_table(prefix) for prefix in ("Scanned", "Indexed", "Index", "Copied")
)
container = new_container("index")


# region naive
def by_scan(last_name):
    filter = "PartitionKey eq @partition and LastName eq @name"
    found = scanned.query_entities(filter, parameters={"partition": PARTITION, "name": last_name})
    return [one["Id"] for one in found]


# endregion


# region advised
def store_with_index(one):
    """The employee and the index in one transaction; again if another writer changed the index."""
    row_key = "index_" + one["LastName"]
    employee = {"PartitionKey": PARTITION, "RowKey": one["Id"], **one}
    while True:
        try:
            index = indexed.get_entity(PARTITION, row_key)
            guard = {
                "etag": index.metadata["etag"],
                "match_condition": MatchConditions.IfNotModified,
            }
            # A repeated call finds its id in the list.
            index["Ids"] = ",".join(sorted({*index["Ids"].split(","), one["Id"]}))
            change = ("update", index, {"mode": UpdateMode.REPLACE, **guard})
        except ResourceNotFoundError:
            change = ("create", {"PartitionKey": PARTITION, "RowKey": row_key, "Ids": one["Id"]})
        try:
            return indexed.submit_transaction([("upsert", employee), change])
        except TableTransactionError as error:
            if error.status_code not in (409, 412):
                raise


def by_index(last_name):
    ids = indexed.get_entity(PARTITION, "index_" + last_name)["Ids"].split(",")
    return [indexed.get_entity(PARTITION, number)["Id"] for number in ids]


# endregion


# region blob
def add_to_blob(last_name, number):
    """Option 1: the list in a blob, under the ETag that was read. It may be of any length."""
    while True:
        try:
            download = container.download_blob(last_name)
            ids = {*download.readall().decode().split(","), number}
            guard = {
                "etag": download.properties.etag,
                "match_condition": MatchConditions.IfNotModified,
                "overwrite": True,
            }
        except ResourceNotFoundError:
            ids, guard = {number}, {"overwrite": False}
        try:
            return container.upload_blob(last_name, ",".join(sorted(ids)), **guard)
        except (ResourceModifiedError, ResourceExistsError):
            continue


# endregion


# region table
def add_to_table(last_name, number):
    """Option 3: an entity for each entry, in a table whose PartitionKey is the last name. Nothing
    is read first."""
    index_table.upsert_entity({"PartitionKey": last_name, "RowKey": number})


# endregion


# region copies
def store_with_copy(one):
    row_keys = (one["Id"], f"name_{one['LastName']}_{one['Id']}")
    rows = [{"PartitionKey": PARTITION, "RowKey": key, **one} for key in row_keys]
    copied.submit_transaction([("upsert", row, {"mode": UpdateMode.REPLACE}) for row in rows])


def by_copies(last_name):
    # The id makes the key of a copy unique. '`' is the character after '_'.
    filter = "PartitionKey eq @partition and RowKey ge @first and RowKey lt @end"
    keys = {"first": f"name_{last_name}_", "end": f"name_{last_name}`"}
    found = copied.query_entities(filter, parameters={"partition": PARTITION, **keys})
    return [one["Id"] for one in found]


# endregion


sales = [one for one in employees() if one["Department"] == "Sales"]
insert_all(scanned, ({"PartitionKey": PARTITION, "RowKey": one["Id"], **one} for one in sales))
for one in sales:
    store_with_index(one)
    add_to_blob(one["LastName"], one["Id"])
    add_to_table(one["LastName"], one["Id"])
    store_with_copy(one)
compare(lambda: by_scan("Jones"), lambda: by_index("Jones"), "examined")
compare(lambda: by_index("Jones"), lambda: by_copies("Jones"), "requests")
expected = by_index("Jones")
assert container.download_blob("Jones").readall().decode().split(",") == expected
assert [
    entry["RowKey"] for entry in index_table.query_entities("PartitionKey eq 'Jones'")
] == expected
