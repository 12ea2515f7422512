"""Data series: the figures of a day in one entity."""

from azure.data.tables import UpdateMode
from store import compare, new_table

hourly, daily = new_table("Hourly"), new_table("Daily")


# region naive
def record_hour(user, day, hour, count):
    hourly.upsert_entity({"PartitionKey": user, "RowKey": f"{day}_{hour:02}", "Count": count})


def chart_of_hours(user, day):
    filter = "PartitionKey eq @user and RowKey ge @first and RowKey lt @end"
    found = hourly.query_entities(
        filter, parameters={"user": user, "first": f"{day}_", "end": f"{day}`"}
    )
    return [one["Count"] for one in found]


# endregion


# region advised
def record(user, day, hour, count):
    # A merge changes this property and leaves the others as they are; it need not read them.
    entity = {"PartitionKey": user, "RowKey": day, f"Hour{hour:02}": count}
    daily.upsert_entity(entity, mode=UpdateMode.MERGE)


def chart(user, day):
    found = daily.get_entity(user, day)
    return [found[f"Hour{hour:02}"] for hour in range(24)]


# endregion


for hour in range(24):
    record_hour("Don", "20260731", hour, hour * 3)
    record("Don", "20260731", hour, hour * 3)
compare(lambda: chart_of_hours("Don", "20260731"), lambda: chart("Don", "20260731"), "examined")
