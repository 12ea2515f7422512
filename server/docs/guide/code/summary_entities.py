"""Summary entities: the number of employees and their pay, changed by the transaction that hires."""

from azure.core import MatchConditions
from azure.data.tables import TableTransactionError
from staff import DEPARTMENTS, employees
from store import compare, insert_all, new_table

plain, summed = new_table("Plain"), new_table("Summed")


# region naive
def totals_by_reading_all(department):
    pays = [
        one["Pay"]
        for one in plain.query_entities(
            "PartitionKey eq @department", parameters={"department": department}
        )
    ]
    return len(pays), sum(pays)


# endregion


# region advised
def change_summary(department, change, has_read=lambda: None):
    """Carries out an operation on an employee and changes the summary, in one transaction."""
    while True:
        summary = summed.get_entity(department, "summary")
        # Read after the summary: each change of an employee changes the summary, so its ETag covers
        # the employee, too.
        employees, pay, operation = change()
        has_read()
        changed = {
            "PartitionKey": department,
            "RowKey": "summary",
            "Employees": summary["Employees"] + employees,
            "Pay": summary["Pay"] + pay,
        }
        guard = {
            "etag": summary.metadata["etag"],
            "match_condition": MatchConditions.IfNotModified,
        }
        try:
            summed.submit_transaction([("update", changed, guard), operation])
            return
        except TableTransactionError as error:
            # 412 for the summary: another writer changed it. Other errors are for the caller: that
            # the employee exists already, for example.
            if error.status_code != 412 or error.index != 0:
                raise


def hire(department, number, pay, has_read=lambda: None):
    row = {"PartitionKey": department, "RowKey": "employee_" + number, "Pay": pay}
    change_summary(department, lambda: (1, pay, ("create", row)), has_read)


def dismiss(department, number):
    def change():
        row = summed.get_entity(department, "employee_" + number)
        return -1, -row["Pay"], ("delete", row)

    change_summary(department, change)


def totals(department):
    summary = summed.get_entity(department, "summary")
    return summary["Employees"], summary["Pay"]


# endregion


# region check
def is_right(department):
    """Compares the summary with the employees, read by one query."""
    rows = list(
        summed.query_entities("PartitionKey eq @department", parameters={"department": department})
    )
    pays = [row["Pay"] for row in rows if row["RowKey"].startswith("employee_")]
    (summary,) = (row for row in rows if row["RowKey"] == "summary")
    return (summary["Employees"], summary["Pay"]) == (len(pays), sum(pays))


# endregion


def pay_of(one):
    return 1000 + one["Age"]


for name in DEPARTMENTS:
    summed.create_entity({"PartitionKey": name, "RowKey": "summary", "Employees": 0, "Pay": 0})
insert_all(
    plain,
    (
        {"PartitionKey": one["Department"], "RowKey": one["Id"], "Pay": pay_of(one)}
        for one in employees(30)
    ),
)
for one in employees(30):
    hire(one["Department"], one["Id"], pay_of(one))
compare(lambda: totals_by_reading_all("Sales"), lambda: totals("Sales"), "examined")

# Another program hires after this one has read the summary.
interruptions = [lambda: hire("Sales", "100", 2000)]
hire("Sales", "101", 3000, has_read=lambda: interruptions and interruptions.pop()())
assert totals("Sales")[0] == 12 and is_right("Sales")
try:
    hire("Sales", "100", 9000)
    raise AssertionError("an employee was hired twice")
except TableTransactionError as error:
    assert (error.status_code, error.index) == (409, 1)
dismiss("Sales", "100")
assert totals("Sales")[0] == 11 and is_right("Sales")
