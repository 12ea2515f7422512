"""Inheritance: managers, contractors and employees in one table."""

from azure.data.tables import UpdateMode
from staff import employees
from store import compare, insert_all, new_table

KINDS = ["contractor", "employee", "manager"]
tables_by_kind = {kind: new_table(kind) for kind in KINDS}
people = new_table("People")


def person(one):
    kind = KINDS[int(one["Id"]) % 3]
    special = {
        "manager": {"Reports": one["Age"]},
        "contractor": {"Company": "Contoso"},
        "employee": {},
    }[kind]
    return {
        "PartitionKey": one["LastName"],
        "RowKey": one["Id"],
        "Mail": one["Mail"],
        "Kind": kind,
        **special,
    }


# region naive
def from_three_tables(partition):
    found = []
    for table in tables_by_kind.values():
        found += table.query_entities(
            "PartitionKey eq @partition", parameters={"partition": partition}
        )
    return sorted(describe(one) for one in found)


# endregion


# region advised
def describe(one):
    # Kind and Version say which other properties there are. A kind or a version that was added
    # later gets a line, too.
    match one["Kind"], one.get("Version", 1):
        case "manager", 1:
            return f"{one['Mail']}: manager of {one['Reports']}"
        case "manager", 2:
            return f"{one['Mail']}: manager of {len(one['ReportIds'].split(','))}"
        case "contractor", 1:
            return f"{one['Mail']}: contractor of {one['Company']}"
        case kind, _:
            return f"{one['Mail']}: {kind}"


def from_one_table(partition):
    found = people.query_entities("PartitionKey eq @partition", parameters={"partition": partition})
    return sorted(map(describe, found))


def change_mail(partition, number, mail):
    # A merge keeps the properties that this program does not know.
    people.update_entity(
        {"PartitionKey": partition, "RowKey": number, "Mail": mail}, mode=UpdateMode.MERGE
    )


# endregion


for one in map(person, employees()):
    tables_by_kind[one["Kind"]].upsert_entity(one)
insert_all(people, map(person, employees()))
compare(lambda: from_three_tables("Jones"), lambda: from_one_table("Jones"), "requests")
people.create_entity(
    {
        "PartitionKey": "Jones",
        "RowKey": "000999",
        "Mail": "new@example.com",
        "Kind": "manager",
        "Version": 2,
        "ReportIds": "000001,000002",
    }
)
assert "new@example.com: manager of 2" in from_one_table("Jones")
change_mail("Jones", "000014", "j14@example.com")
assert "j14@example.com: manager of 28" in from_one_table("Jones"), from_one_table("Jones")
