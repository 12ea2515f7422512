"""Wide entities: 400 properties in two entities of one partition."""

from store import compare, new_table

PROPERTIES = 400
left, right, wide = new_table("Left"), new_table("Right"), new_table("Wide")


# region parts
PROPERTIES_A_ROW = 200


def parts(values):
    """The properties of each entity, because one entity holds at most 252."""
    return [
        {
            f"P{number:03}": values[number]
            for number in range(start, min(start + PROPERTIES_A_ROW, len(values)))
        }
        for start in range(0, len(values), PROPERTIES_A_ROW)
    ]


def joined(rows):
    values = {}
    for row in rows:
        values.update(
            (key, value) for key, value in row.items() if key not in ("PartitionKey", "RowKey")
        )
    return [values[key] for key in sorted(values)]


# endregion


# region naive
def store_in_two_tables(subject, values, reached=lambda step: None):
    keys = {"PartitionKey": subject, "RowKey": ""}
    first, second = parts(values)
    left.upsert_entity({**keys, **first}, mode="replace")
    # A program that dies here leaves halves of different versions.
    reached("half")
    right.upsert_entity({**keys, **second}, mode="replace")


def read_from_two_tables(subject):
    return joined(table.get_entity(subject, "") for table in (left, right))


# endregion


# region advised
REPLACE = {"mode": "replace"}


def store(subject, values):
    # One transaction: no reader finds rows of different versions.
    wide.submit_transaction(
        [
            ("upsert", {"PartitionKey": subject, "RowKey": f"{number:02}", **part}, REPLACE)
            for number, part in enumerate(parts(values))
        ]
    )


def read(subject):
    return joined(wide.query_entities("PartitionKey eq @subject", parameters={"subject": subject}))


# endregion


class Death(Exception):
    """The program dies."""


def die(step):
    raise Death


figures = [number * number % 977 for number in range(PROPERTIES)]
store_in_two_tables("sensor", figures)
store("sensor", figures)
compare(lambda: read_from_two_tables("sensor"), lambda: read("sensor"), "requests")
changed = [figure + 1 for figure in figures]
try:
    store_in_two_tables("sensor", changed, reached=die)
except Death:
    pass
assert read_from_two_tables("sensor") not in (figures, changed), "halves of two versions"
store("sensor", changed)
assert read("sensor") == changed
