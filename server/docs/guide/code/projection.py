"""Projection: only the properties that are shown."""

from staff import employees
from store import compare, insert_all, new_table

table = new_table("Staff")


# region naive
def show_whole_entities():
    return [
        (one["LastName"], one["Mail"]) for one in table.query_entities("PartitionKey eq 'Sales'")
    ]


# endregion


# region advised
def show():
    # The service reads the entities whole, and sends these two properties of each.
    select = ["LastName", "Mail"]
    return [
        (one["LastName"], one["Mail"])
        for one in table.query_entities("PartitionKey eq 'Sales'", select=select)
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
compare(show_whole_entities, show, "received")
