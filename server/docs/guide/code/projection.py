"""Projection: only the properties that are shown."""

from staff import employees
from store import compare, insert_all, new_table

table = new_table("Staff")


# region naive
def names_from_whole_entities():
    return [one["LastName"] for one in table.query_entities("PartitionKey eq 'Sales'")]


# endregion


# region advised
def names():
    # The service reads the entities whole, and sends this property of each.
    return [
        one["LastName"]
        for one in table.query_entities("PartitionKey eq 'Sales'", select=["LastName"])
    ]


# endregion


insert_all(
    table,
    (
        {"PartitionKey": "Sales", "RowKey": one["Id"], **one, "Curriculum": "lorem " * 300}
        for one in employees()
    ),
)
(one, *_) = table.query_entities("PartitionKey eq 'Sales'", select=["LastName"])
assert set(one) == {"LastName"}, "keys come if they are selected"
compare(names_from_whole_entities, names, "received")
