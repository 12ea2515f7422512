"""Parallel queries: one question to every partition at once."""

from concurrent.futures import ThreadPoolExecutor

from staff import DEPARTMENTS, employees
from store import insert_all, new_table

table = new_table("Staff")
insert_all(
    table, ({"PartitionKey": one["Department"], "RowKey": one["Id"], **one} for one in employees())
)


# region naive
def older_than(department, age):
    filter = "PartitionKey eq @department and Age gt @age"
    found = table.query_entities(filter, parameters={"department": department, "age": age})
    return [one["Mail"] for one in found]


def one_after_the_other(age):
    return [mail for department in DEPARTMENTS for mail in older_than(department, age)]


# endregion


# region advised
def all_at_once(age):
    # The client may be shared by threads. azure.data.tables.aio does the same without threads.
    with ThreadPoolExecutor(len(DEPARTMENTS)) as threads:
        answers = threads.map(lambda department: older_than(department, age), DEPARTMENTS)
    return [mail for answer in answers for mail in answer]


# endregion


assert all_at_once(55) == one_after_the_other(55)
assert len(all_at_once(55)) == sum(one["Age"] > 55 for one in employees())
