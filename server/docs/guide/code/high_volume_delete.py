"""High volume delete: the logins of a day go with the table of the day."""

from azure.core.exceptions import HttpResponseError
from store import compare, insert_all, name, new_table, tables

LOGINS = 120
one_table = new_table("Logins")
prefix = name("Logins")


# region naive
def delete_one_by_one(day):
    keys = one_table.query_entities(
        "PartitionKey eq @day", parameters={"day": day}, select=["PartitionKey", "RowKey"]
    )
    for key in keys:
        one_table.delete_entity(key)


def delete_by_transactions(day):
    keys = one_table.query_entities(
        "PartitionKey eq @day", parameters={"day": day}, select=["PartitionKey", "RowKey"]
    )
    for page in keys.by_page():
        some = list(page)
        for start in range(0, len(some), 100):
            one_table.submit_transaction([("delete", key) for key in some[start : start + 100]])


# endregion


# region advised
def table_name(day):
    # Names of tables have letters and digits only: the hyphens of a date are refused.
    return prefix + day.replace("-", "")


def table_of(day):
    # A table for what is deleted together.
    return tables.create_table_if_not_exists(table_name(day))


def delete_table_of(day):
    tables.delete_table(table_name(day))


# endregion


# region name
def create_again(day):
    """Creates the table of a day right after its deletion; returns what the service answers."""
    try:
        tables.create_table(table_name(day))
        return "created"
    except HttpResponseError as error:
        # The table of that name is still being deleted. Inserts and queries get the same answer.
        if error.error_code != "TableBeingDeleted":
            raise
        return f"{error.status_code} {error.error_code.value}"


# endregion


def tables_left():
    return [table.name for table in tables.list_tables() if table.name.startswith(prefix)]


days = ["2026-01-01", "2026-01-02", "2026-01-03"]
for day in days:
    logins = [
        {"PartitionKey": day, "RowKey": f"{login:06}", "User": login % 7} for login in range(LOGINS)
    ]
    insert_all(one_table, logins)
    insert_all(table_of(day), logins)
compare(lambda: delete_one_by_one(days[0]), lambda: delete_table_of(days[0]), "requests")
compare(lambda: delete_by_transactions(days[1]), lambda: delete_table_of(days[1]), "requests")
assert {one["PartitionKey"] for one in one_table.list_entities()} == {days[2]}
assert tables_left() == [table_name(days[2])]
delete_table_of(days[2])

try:
    tables.get_table_client(table_name(days[2])).create_entity({"PartitionKey": "p", "RowKey": "r"})
except HttpResponseError as error:
    print(f"an insert into a deleted table: {error.status_code}, {type(error).__name__}")
answer = create_again(days[2])
print(f"a table whose name was just deleted: {answer}")
if answer == "created":
    delete_table_of(days[2])
