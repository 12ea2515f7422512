"""Merge or replace: writes of absent and present entities, and their effect on other properties."""

from concurrent.futures import ThreadPoolExecutor

from azure.core.exceptions import HttpResponseError, ResourceExistsError
from azure.data.tables import UpdateMode
from store import compare, new_table

DEPARTMENT = "Sales"
replaced, merged, table = new_table("Replaced"), new_table("Merged"), new_table("Writes")
seats = new_table("Seats")


def employee():
    figures = {f"Review{year}": f"{year}: " + "good work " * 30 for year in range(2015, 2026)}
    return {"PartitionKey": DEPARTMENT, "RowKey": "7", "Phone": "1", "Mail": "a@b.c", **figures}


# region naive
def change_phone_by_replace(number, phone, has_read=lambda: None):
    # All properties travel twice, and a change that another program makes in between is lost.
    entity = replaced.get_entity(DEPARTMENT, number)
    has_read()
    replaced.update_entity({**entity, "Phone": phone}, mode=UpdateMode.REPLACE)


# endregion


# region advised
def change_phone(number, phone):
    # The other properties stay as they are. The write fails if there is no such employee.
    merged.update_entity(
        {"PartitionKey": DEPARTMENT, "RowKey": number, "Phone": phone}, mode=UpdateMode.MERGE
    )


# endregion


# region trap
def store_copy(copies, entity):
    # Without `mode`, upsert_entity and update_entity merge: a property that the entity has lost
    # stays in the copy.
    copies.upsert_entity(entity)


def store_true_copy(copies, entity):
    copies.upsert_entity(entity, mode=UpdateMode.REPLACE)


# endregion


# region unique
def take(event, seat, user):
    """Whether the user has the seat."""
    try:
        # The insert fails if the seat is taken. Nothing is read first.
        seats.create_entity({"PartitionKey": event, "RowKey": seat, "User": user})
        return True
    except ResourceExistsError:
        # 409. The seat may be the user's own, if the answer to an earlier insert was lost.
        return seats.get_entity(event, seat)["User"] == user


# endregion


def phone_of(store):
    return store.get_entity(DEPARTMENT, "7")["Phone"]


def change_mail(store):
    store.update_entity({"PartitionKey": DEPARTMENT, "RowKey": "7", "Mail": "new@b.c"})


for store in (replaced, merged):
    store.create_entity(employee())


def by_replace():
    change_phone_by_replace("7", "2")
    return phone_of(replaced)


def by_merge():
    change_phone("7", "2")
    return phone_of(merged)


compare(by_replace, by_merge, "sent")

# Another program changes the mail address in between.
change_phone_by_replace("7", "3", has_read=lambda: change_mail(replaced))
change_mail(merged)
change_phone("7", "3")
assert replaced.get_entity(DEPARTMENT, "7")["Mail"] == "a@b.c", "the change of the address is lost"
assert merged.get_entity(DEPARTMENT, "7")["Mail"] == "new@b.c"

WRITES = {
    "insert": table.create_entity,
    "replace": lambda one: table.update_entity(one, mode=UpdateMode.REPLACE),
    "merge": lambda one: table.update_entity(one, mode=UpdateMode.MERGE),
    "insert or replace": lambda one: table.upsert_entity(one, mode=UpdateMode.REPLACE),
    "insert or merge": lambda one: table.upsert_entity(one, mode=UpdateMode.MERGE),
}


def outcome(write, row):
    """The status of a write of property B, and the properties that the entity has after it."""
    try:
        write({"PartitionKey": "p", "RowKey": row, "B": 2})
    except HttpResponseError as error:
        return error.status_code
    return "".join(sorted(table.get_entity("p", row)))


for number, (label, write) in enumerate(WRITES.items()):
    table.create_entity({"PartitionKey": "p", "RowKey": f"there{number}", "A": 1, "B": 1})
    absent, present = outcome(write, f"absent{number}"), outcome(write, f"there{number}")
    keys = "PartitionKeyRowKey"
    absent, present = (str(found).replace(keys, "") for found in (absent, present))
    print(f"{label}: absent: {absent}; present with A and B: {present}")

original = {"PartitionKey": "copies", "RowKey": "1", "A": 1, "B": 1}
for store_it, expected in ((store_copy, {"A": 1, "B": 1}), (store_true_copy, {"B": 1})):
    store_it(table, original)
    store_it(table, {key: value for key, value in original.items() if key != "A"})
    found = table.get_entity("copies", "1")
    assert {key: found[key] for key in sorted(found) if key in "AB"} == expected, found

# Many users want the same seat at the same time.
users = [f"user{number}" for number in range(8)]
with ThreadPoolExecutor(len(users)) as threads:
    won = list(threads.map(lambda user: take("e", "12C", user), users))
winners = [user for user, has_won in zip(users, won) if has_won]
assert len(winners) == 1, winners
assert take("e", "12C", winners[0]), "a repeated insert is refused to the owner"
