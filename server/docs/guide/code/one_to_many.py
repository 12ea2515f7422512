"""One-to-many: a department and its employees in one partition."""

from staff import DEPARTMENTS, employees
from store import compare, insert_all, new_table

departments, staff, combined = new_table("Departments"), new_table("Staff"), new_table("Combined")


# region naive
def department_from_two_tables(name):
    budget = departments.get_entity(name, "department")["Budget"]
    found = staff.query_entities("PartitionKey eq @name", parameters={"name": name})
    return budget, [one["Mail"] for one in found]


# endregion


# region advised
def department_from_one_partition(name):
    budget, mails = None, []
    for row in combined.query_entities("PartitionKey eq @name", parameters={"name": name}):
        # Each kind has a RowKey of its own form.
        if row["RowKey"] == "department":
            budget = row["Budget"]
        elif row["RowKey"].startswith("employee_"):
            mails.append(row["Mail"])
    return budget, mails


def hire(department, budget, one):
    employee = {"PartitionKey": department, "RowKey": "employee_" + one["Id"], **one}
    # The employee and the changed budget in one transaction: both are in the partition of the
    # department.
    changed = {"PartitionKey": department, "RowKey": "department", "Budget": budget}
    combined.submit_transaction([("create", employee), ("upsert", changed)])


# endregion


for name in DEPARTMENTS:
    departments.upsert_entity({"PartitionKey": name, "RowKey": "department", "Budget": 1000})
    combined.upsert_entity({"PartitionKey": name, "RowKey": "department", "Budget": 1000})
insert_all(
    staff, ({"PartitionKey": one["Department"], "RowKey": one["Id"], **one} for one in employees())
)
insert_all(
    combined,
    (
        {"PartitionKey": one["Department"], "RowKey": "employee_" + one["Id"], **one}
        for one in employees()
    ),
)
compare(
    lambda: department_from_two_tables("Sales"),
    lambda: department_from_one_partition("Sales"),
    "requests",
)
hire("Sales", 900, {"Id": "999999", "Mail": "new@example.com"})
budget, mails = department_from_one_partition("Sales")
assert budget == 900 and mails[-1] == "new@example.com"
