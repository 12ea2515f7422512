"""The table model: types, Timestamp and ETag, keys, and the refusal at each limit."""

from datetime import datetime, timezone
from uuid import uuid4

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.data.tables import EdmType, EntityProperty, UpdateMode
from store import new_table

table = new_table("Model")


def refusal(work):
    """The status and the code of a request that the service refuses."""
    try:
        work()
        return "accepted"
    except HttpResponseError as error:
        code = error.error_code
        return f"{error.status_code} {getattr(code, 'value', code)}"
    except (KeyError, ValueError) as error:
        # The client does not send it.
        return f"{type(error).__name__} of the client"


# region types
ANN = {
    "PartitionKey": "Sales",
    "RowKey": "000001",
    "Mail": "ann@example.com",  # String
    "Photo": b"\x89PNG",  # Binary
    "Age": 41,  # Int32
    "Sold": EntityProperty(2**40, EdmType.INT64),  # A larger int without a type is an error.
    "Share": 0.25,  # Double
    "IsManager": False,  # Boolean
    "Hired": datetime(2026, 1, 31, tzinfo=timezone.utc),  # DateTime
    "Badge": uuid4(),  # Guid
    "Phone": None,  # Not stored.
}


def store_and_read():
    table.create_entity(ANN)
    found = table.get_entity("Sales", "000001")
    assert "Phone" not in found
    assert found == {name: value for name, value in ANN.items() if value is not None}
    return found


# endregion


# region versions
def change():
    keys = {"PartitionKey": "Sales", "RowKey": "000001"}
    before = table.get_entity("Sales", "000001").metadata
    # The service sets the Timestamp: this one is ignored.
    table.update_entity({**keys, "Age": 42, "Timestamp": datetime(2000, 1, 1, tzinfo=timezone.utc)})
    after = table.get_entity("Sales", "000001").metadata
    assert after["timestamp"] > before["timestamp"] and after["etag"] != before["etag"]
    # The version that was read before the change is no longer there.
    guard = {"etag": before["etag"], "match_condition": MatchConditions.IfNotModified}
    print("an old ETag:", refusal(lambda: table.update_entity({**keys, "Age": 43}, **guard)))


# endregion


# region keys
def name_keys():
    print("no RowKey:", refusal(lambda: table.update_entity({"PartitionKey": "Sales", "Age": 44})))
    # Another RowKey is another entity: a merge does not find it, and an upsert stores a second one.
    moved = {"PartitionKey": "Sales", "RowKey": "000009", "Age": 44}
    print("a changed RowKey:", refusal(lambda: table.update_entity(moved)))
    # A filter finds the keys that a change has to name.
    for found in table.query_entities("Age eq 42", select=["PartitionKey", "RowKey"]):
        table.update_entity({**found, "Age": 43})


# endregion


# region mixed
def store_ages():
    ages = {"text": "41", "int32": 41, "int64": EntityProperty(41, EdmType.INT64), "double": 41.0}
    for name, age in ages.items():
        table.create_entity({"PartitionKey": "ages", "RowKey": name, "Age": age})


def rows_with(condition):
    found = table.query_entities(f"PartitionKey eq 'ages' and {condition}")
    return ", ".join(one["RowKey"] for one in found)


# endregion


# region limits
def entity(partition="limits", row="one", **properties):
    return {"PartitionKey": partition, "RowKey": row, **properties}


LIMITS = {
    "252 properties": entity(**{f"P{number:03}": number for number in range(252)}),
    "253 properties": entity(**{f"P{number:03}": number for number in range(253)}),
    "a string of 32,768 characters": entity(Text="x" * 32_768),
    "a string of 32,769 characters": entity(Text="x" * 32_769),
    "a binary of 65,537 bytes": entity(Data=b"x" * 65_537),
    "16 strings of 64 KiB": entity(**{f"P{number}": "x" * 32_768 for number in range(16)}),
    "a name of 256 characters": entity(**{"n" * 256: 1}),
    "a name with a hyphen": entity(**{"first-name": 1}),
    "a PartitionKey of 512 characters": entity("p" * 512),
    "a PartitionKey of 513 characters": entity("p" * 513),
    "a RowKey of 513 characters": entity(row="r" * 513),
    "a date before 1601": entity(Born=datetime(1600, 12, 31, tzinfo=timezone.utc)),
    "an empty RowKey": entity(row=""),
    "a RowKey with a slash": entity(row="2026/01"),
}
# endregion

store_and_read()
change()
name_keys()
assert table.get_entity("Sales", "000001")["Age"] == 43
store_ages()
for condition in ("Age eq 41", "Age eq '41'", "Age eq 41L", "Age eq 41.0", "Age ne 41"):
    try:
        print(f"{condition}: {rows_with(condition)}")
    except HttpResponseError as error:
        # Azurite does not know the literal 41L.
        print(f"{condition}: {error.status_code}")
for label, one in LIMITS.items():
    print(f"{label}:", refusal(lambda one=one: table.upsert_entity(one, mode=UpdateMode.REPLACE)))
