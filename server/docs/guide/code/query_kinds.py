"""Query kinds: one employee, found with less and with more of the keys."""

from staff import employees
from store import compare, insert_all, new_table

table = new_table("Staff")
insert_all(
    table, ({"PartitionKey": one["Department"], "RowKey": one["Id"], **one} for one in employees())
)


# region naive
def by_scan(department, number):
    # Id is no key: the service reads every entity of the table.
    return list(table.query_entities("Id eq @id", parameters={"id": number}))


def by_or(department, number, other):
    # Two alternatives are no key either: the hosted service reads the whole partition. The client
    # replaces whole words, so a space stands before the bracket.
    filter = "PartitionKey eq @department and (RowKey eq @one or RowKey eq @other )"
    return list(
        table.query_entities(
            filter, parameters={"department": department, "one": number, "other": other}
        )
    )


# endregion


# region advised
def by_range(department, first, end):
    # One partition and a range of RowKeys: the service reads what it returns.
    filter = "PartitionKey eq @department and RowKey ge @first and RowKey lt @end"
    return list(
        table.query_entities(
            filter, parameters={"department": department, "first": first, "end": end}
        )
    )


def by_keys(department, number):
    # Both keys: one entity is read.
    return [table.get_entity(department, number)]


def by_partitions(first, end):
    # A range of PartitionKeys: the service reads these partitions and no others.
    filter = "PartitionKey ge @first and PartitionKey lt @end"
    return list(table.query_entities(filter, parameters={"first": first, "end": end}))


# endregion


compare(lambda: by_scan("Sales", "000033"), lambda: by_keys("Sales", "000033"), "examined")
compare(
    lambda: by_scan("Sales", "000033"), lambda: by_range("Sales", "000033", "000034"), "examined"
)
assert {one["Department"] for one in by_partitions("F", "N")} == {"Finance", "Marketing"}
assert [one["RowKey"] for one in by_or("Sales", "000033", "000036")] == ["000033", "000036"]
