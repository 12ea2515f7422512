"""Compound key: the reviews of an employee by one range of RowKeys."""

from staff import employees
from store import compare, insert_all, new_table

YEARS = range(2016, 2024)
separate, compound = new_table("Separate"), new_table("Compound")


# region naive
def separate_key(number, year):
    return f"review_{year}_{number}"


def reviews_by_scan(department, number, since):
    # The key begins with the year: the reviews of one employee are spread over the partition.
    filter = "PartitionKey eq @department and Id eq @id and Year ge @since"
    found = separate.query_entities(
        filter, parameters={"department": department, "id": number, "since": since}
    )
    return [(one["Year"], one["Rating"]) for one in found]


# endregion


# region advised
def compound_key(number, year):
    # Both parts have a fixed width, so keys sort by employee, then by year.
    return f"{number}_{year:04}"


def reviews_by_range(department, number, since):
    filter = "PartitionKey eq @department and RowKey ge @first and RowKey lt @end"
    keys = {"department": department, "first": compound_key(number, since), "end": f"{number}`"}
    return [
        (one["Year"], one["Rating"]) for one in compound.query_entities(filter, parameters=keys)
    ]


# endregion


for table, key in ((separate, separate_key), (compound, compound_key)):
    insert_all(
        table,
        (
            {
                "PartitionKey": one["Department"],
                "RowKey": key(one["Id"], year),
                "Id": one["Id"],
                "Year": year,
                "Rating": year % 5,
            }
            for one in employees()
            for year in YEARS
        ),
    )
compare(
    lambda: reviews_by_scan("Sales", "000033", 2020),
    lambda: reviews_by_range("Sales", "000033", 2020),
    "examined",
)
assert len(reviews_by_range("Sales", "000033", 2020)) == 4
