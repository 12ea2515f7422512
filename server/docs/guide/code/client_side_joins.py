"""Client-side joins: employees with the manager of their department, which is in another table."""

import time

from staff import DEPARTMENTS, employees
from store import compare, cost_of, insert_all, new_table

staff, departments = new_table("Staff"), new_table("Departments")


# region naive
def join_one_by_one():
    found = []
    for one in staff.list_entities():
        # A request for each employee, although there are three departments.
        department = departments.get_entity("departments", one["Department"])
        found.append((one["Mail"], department["Manager"]))
    return found


# endregion


# region advised
def join_in_the_client():
    managers = {one["RowKey"]: one["Manager"] for one in departments.list_entities()}
    return [(one["Mail"], managers[one["Department"]]) for one in staff.list_entities()]


# endregion


# region cached
class Managers:
    """The departments in memory, read again when they are older than `age_max` seconds."""

    def __init__(self, age_max, clock=time.monotonic):
        self.age_max, self.clock = age_max, clock
        self.rows, self.read_at = {}, None

    def of(self, department):
        is_old = self.read_at is None or self.clock() - self.read_at > self.age_max
        # A department that is not there may be a new one.
        if is_old or department not in self.rows:
            self.read_at = self.clock()
            self.rows = {one["RowKey"]: one["Manager"] for one in departments.list_entities()}
        return self.rows.get(department, "none")


def join_with_cache(managers):
    return [(one["Mail"], managers.of(one["Department"])) for one in staff.list_entities()]


# endregion


def department(name, manager):
    return {"PartitionKey": "departments", "RowKey": name, "Manager": manager}


insert_all(staff, ({"PartitionKey": "staff", "RowKey": one["Id"], **one} for one in employees()))
insert_all(departments, (department(name, f"head of {name}") for name in DEPARTMENTS))
compare(join_one_by_one, join_in_the_client, "requests")

now = 0
managers = Managers(age_max=60, clock=lambda: now)
join_with_cache(managers)
compare(join_in_the_client, lambda: join_with_cache(managers), "requests")

departments.upsert_entity(department("Sales", "Ada"))
assert managers.of("Sales") == "head of Sales", "the copy in memory is a minute old at most"
now = 61
assert managers.of("Sales") == "Ada"
departments.create_entity(department("Research", "Grace"))
assert managers.of("Research") == "Grace"
_, cost = cost_of(lambda: [managers.of("Research") for _ in range(1000)])
assert cost.requests == 0
