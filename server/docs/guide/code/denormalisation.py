"""Denormalisation: the manager of the department in the entity of the employee."""

from azure.data.tables import UpdateMode
from staff import DEPARTMENTS, employees
from store import compare, insert_all, new_table

normal, denormal = new_table("Normal"), new_table("Denormal")
MANAGERS = {department: f"manager of {department}" for department in DEPARTMENTS}


# region naive
def show_with_two_requests(department, number):
    employee = normal.get_entity(department, number)
    # There is no join: the department takes a request of its own.
    return employee["Mail"], normal.get_entity(department, "department")["Manager"]


# endregion


# region advised
def store(one):
    denormal.upsert_entity(
        {
            "PartitionKey": one["Department"],
            "RowKey": one["Id"],
            **one,
            "Manager": MANAGERS[one["Department"]],
        },
        mode=UpdateMode.REPLACE,
    )


def show(department, number):
    employee = denormal.get_entity(department, number)
    return employee["Mail"], employee["Manager"]


def change_manager(department, manager):
    """Every copy changes, a hundred in a transaction."""
    filter = "PartitionKey eq @department"
    keys = list(
        denormal.query_entities(
            filter, parameters={"department": department}, select=["PartitionKey", "RowKey"]
        )
    )
    for start in range(0, len(keys), 100):
        some = keys[start : start + 100]
        denormal.submit_transaction(
            [("update", {**key, "Manager": manager}, {"mode": "merge"}) for key in some]
        )


# endregion


insert_all(
    normal, ({"PartitionKey": one["Department"], "RowKey": one["Id"], **one} for one in employees())
)
insert_all(
    normal,
    (
        {"PartitionKey": name, "RowKey": "department", "Manager": manager}
        for name, manager in MANAGERS.items()
    ),
)
for one in employees():
    store(one)
compare(
    lambda: show_with_two_requests("Sales", "000033"), lambda: show("Sales", "000033"), "requests"
)
change_manager("Sales", "Ann")
assert show("Sales", "000033") == ("smith.33@example.com", "Ann")
assert show("Finance", "000032")[1] == MANAGERS["Finance"]
