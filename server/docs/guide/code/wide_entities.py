"""Wide entities: 400 properties in two entities of one partition."""

from store import compare, insert_all, new_table

PROPERTIES = 400
tall, wide = new_table("Tall"), new_table("Wide")


# region naive
def store_rows(subject, values):
    # An entity for each property, because one entity holds at most 252.
    rows = [
        {"PartitionKey": subject, "RowKey": f"{number:03}", "Value": value}
        for number, value in enumerate(values)
    ]
    insert_all(tall, rows)


def read_rows(subject):
    found = tall.query_entities("PartitionKey eq @subject", parameters={"subject": subject})
    return [row["Value"] for row in found]


# endregion


# region advised
PROPERTIES_A_ROW = 200


def store(subject, values):
    rows = []
    for start in range(0, len(values), PROPERTIES_A_ROW):
        some = values[start : start + PROPERTIES_A_ROW]
        row = {"PartitionKey": subject, "RowKey": f"{len(rows):02}"}
        rows.append(
            {**row, **{f"P{start + number:03}": value for number, value in enumerate(some)}}
        )
    # One transaction: no reader finds rows of different versions.
    wide.submit_transaction([("upsert", row, {"mode": "replace"}) for row in rows])


def read(subject):
    values = {}
    for row in wide.query_entities("PartitionKey eq @subject", parameters={"subject": subject}):
        values.update(
            (key, value) for key, value in row.items() if key not in ("PartitionKey", "RowKey")
        )
    return [values[key] for key in sorted(values)]


# endregion


figures = [number * number % 977 for number in range(PROPERTIES)]
store_rows("sensor", figures)
store("sensor", figures)
compare(lambda: read_rows("sensor"), lambda: read("sensor"), "examined")
