"""One-to-one: the details of an employee in an entity beside the employee's."""

from staff import employees
from store import compare, new_table

together, apart = new_table("Together"), new_table("Apart")


# region naive
def store_together(one, details):
    together.upsert_entity(
        {"PartitionKey": one["Id"], "RowKey": "employee", "Mail": one["Mail"], "Details": details}
    )


def mail_with_details(number):
    return together.get_entity(number, "employee")["Mail"]


# endregion


# region advised
def store(one, details):
    keys = [{"PartitionKey": one["Id"], "RowKey": kind} for kind in ("contact", "details")]
    # One partition, so that a transaction changes both.
    apart.submit_transaction(
        [("upsert", {**keys[0], "Mail": one["Mail"]}), ("upsert", {**keys[1], "Details": details})]
    )


def mail(number):
    return apart.get_entity(number, "contact")["Mail"]


def both(number):
    contact, details = apart.query_entities("PartitionKey eq @id", parameters={"id": number})
    return contact["Mail"], details["Details"]


# endregion


for one in employees(10):
    store_together(one, "lorem ipsum " * 200)
    store(one, "lorem ipsum " * 200)
compare(lambda: mail_with_details("000003"), lambda: mail("000003"), "received")
assert both("000003") == ("novak.3@example.com", "lorem ipsum " * 200)
