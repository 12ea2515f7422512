"""High volume delete: the logins of a day go with the table of the day."""

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
def table_of(day):
    # A table for what is deleted together.
    return tables.create_table_if_not_exists(prefix + day)


def delete_table_of(day):
    tables.delete_table(prefix + day)


# endregion


def days_left():
    return [
        table.name.removeprefix(prefix)
        for table in tables.list_tables()
        if table.name.startswith(prefix)
    ]


days = ["20260101", "20260102", "20260103"]
for day in days:
    logins = [
        {"PartitionKey": day, "RowKey": f"{login:06}", "User": login % 7} for login in range(LOGINS)
    ]
    insert_all(one_table, logins)
    insert_all(table_of(day), logins)
compare(lambda: delete_one_by_one(days[0]), lambda: delete_table_of(days[0]), "requests")
compare(lambda: delete_by_transactions(days[1]), lambda: delete_table_of(days[1]), "requests")
assert {one["PartitionKey"] for one in one_table.list_entities()} == {days[2]}
assert days_left() == [days[2]]
delete_table_of(days[2])
