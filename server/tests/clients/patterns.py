"""The patterns of the design guide for tables, as a program would use them: across the services, with real clients."""

import uuid
from datetime import datetime, timedelta, timezone

from azure.core import MatchConditions
from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableServiceClient, UpdateMode
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

import harness
from harness import CONNECTION, ONCE, unique

blobs = BlobServiceClient.from_connection_string(CONNECTION, **ONCE)
queues = QueueServiceClient.from_connection_string(CONNECTION, **ONCE)
tables = TableServiceClient.from_connection_string(CONNECTION, **ONCE)


def new_table():
    return tables.create_table(unique("pattern"))


class OnePartition(harness.Test):
    """What a transaction inside a partition makes possible."""

    def test_intra_partition_secondary_index(self):
        """Each employee twice, under the id and under the mail address, kept alike by transactions."""
        table = new_table()

        def change(kind, number, mail, **rest):
            keys = (f"empid_{number:06}", f"email_{mail}")
            table.submit_transaction([(kind, {"PartitionKey": "Sales", "RowKey": key, "Mail": mail, "Id": number, **rest}) for key in keys])

        for number in range(20):
            change("create", number, f"p{number}@example.com", Age=20 + number)
        change("upsert", 7, "p7@example.com", Age=99)
        self.assertEqual(table.get_entity("Sales", "empid_000007")["Age"], 99)
        self.assertEqual(table.get_entity("Sales", "email_p7@example.com")["Age"], 99)
        ids = table.query_entities("PartitionKey eq 'Sales' and RowKey ge 'empid_000005' and RowKey lt 'empid_000010'")
        self.assertEqual([e["Id"] for e in ids], [5, 6, 7, 8, 9])
        mails = table.query_entities("PartitionKey eq 'Sales' and RowKey ge 'email_' and RowKey lt 'email`'")
        self.assertEqual(len(list(mails)), 20)

    def test_index_entities(self):
        """The ids of all of one last name in one entity, changed under its ETag together with the employee."""
        table = new_table()
        for number in range(10):
            name = "Jones" if number % 3 == 0 else "Smith"
            try:
                index = table.get_entity("Sales", f"index_{name}")
                guard = {"etag": index.metadata["etag"], "match_condition": MatchConditions.IfNotModified}
                keep = ("update", {**index, "Ids": index["Ids"] + f",{number}"}, {"mode": UpdateMode.REPLACE, **guard})
            except ResourceNotFoundError:
                keep = ("create", {"PartitionKey": "Sales", "RowKey": f"index_{name}", "Ids": f"{number}"})
            table.submit_transaction([("create", {"PartitionKey": "Sales", "RowKey": f"{number:04}", "Name": name}), keep])
        self.assertEqual(table.get_entity("Sales", "index_Jones")["Ids"], "0,3,6,9")

    def test_log_tail(self):
        """The newest first: keys of inverted ticks."""
        table = new_table()
        for ticks in range(0, 5000, 50):
            table.create_entity({"PartitionKey": "log", "RowKey": f"{10**10 - ticks:019}", "Ticks": ticks})
        newest = next(table.query_entities("PartitionKey eq 'log'", results_per_page=10).by_page())
        self.assertEqual([e["Ticks"] for e in newest], list(range(4950, 4450, -50)))

    def test_denormalisation_and_compound_keys(self):
        """All reviews of an employee by one range of compound keys."""
        table = new_table()
        table.submit_transaction([
            ("create", {"PartitionKey": "Sales", "RowKey": f"{employee:06}_{year}", "Rating": year % 5})
            for employee in range(5) for year in range(2010, 2020)
        ])
        found = table.query_entities("PartitionKey eq 'Sales' and RowKey ge '000002_2015' and RowKey lt '000003'", select=["RowKey", "Rating"])
        self.assertEqual([e["RowKey"] for e in found], [f"000002_{year}" for year in range(2015, 2020)])

    def test_wide_entities(self):
        """A message count for each hour of more than five days in one entity, written by merges."""
        table = new_table()
        key = {"PartitionKey": "Sales", "RowKey": "2024-01"}
        for hour in range(0, 250, 50):
            table.upsert_entity({**key, **{f"h{n:03}": n for n in range(hour, hour + 50)}}, mode=UpdateMode.MERGE)
        found = table.get_entity("Sales", "2024-01", select=[f"h{n:03}" for n in range(100, 124)])
        self.assertEqual(sum(found.values()), sum(range(100, 124)))


class AcrossPartitions(harness.Test):
    def test_eventually_consistent_transactions(self):
        """An employee moves to the archive by way of a queue, though the worker dies between any two steps."""
        table, queue = new_table(), queues.create_queue(unique("archive"))
        for number in range(6):
            table.create_entity({"PartitionKey": "Sales", "RowKey": f"{number}", "Name": f"name {number}"})
            queue.send_message(f"{number}")

        def worker(steps):
            """Takes one message and dies after so many steps; false when there is none."""
            message = queue.receive_message(visibility_timeout=60)
            if message is None:
                return False
            if steps >= 1:
                try:
                    moved = {**table.get_entity("Sales", message.content), "PartitionKey": "Archive"}
                    table.upsert_entity(moved, mode=UpdateMode.REPLACE)
                except ResourceNotFoundError:
                    pass  # Moved by a worker that died later.
            if steps >= 2:
                table.delete_entity("Sales", message.content)
            if steps >= 3:
                queue.delete_message(message)
            else:
                # What the end of the visibility timeout does, at once.
                queue.update_message(message.id, message.pop_receipt, visibility_timeout=0)
            return True

        deaths = 0
        while worker(deaths % 4):
            deaths += 1
        self.assertGreater(deaths, 6)
        self.assertEqual(list(table.query_entities("PartitionKey eq 'Sales'")), [])
        self.assertEqual([e["Name"] for e in table.query_entities("PartitionKey eq 'Archive'")], [f"name {n}" for n in range(6)])
        self.assertEqual(queue.get_queue_properties().approximate_message_count, 0)

    def test_high_volume_delete(self):
        """A table a day: the day is deleted by dropping its table, and its name can be used at once."""
        for _ in range(3):
            table = tables.create_table_if_not_exists("Logins20240101")
            for batch in range(3):
                table.submit_transaction([("create", {"PartitionKey": "p", "RowKey": f"{batch}-{n:03}"}) for n in range(100)])
            self.assertEqual(len(list(table.list_entities())), 300)
            tables.delete_table("Logins20240101")
        self.assertEqual(list(tables.query_tables("TableName eq 'Logins20240101'")), [])


class WithBlobs(harness.Test):
    @classmethod
    def setUpClass(cls):
        cls.container = blobs.create_container(unique("patterns"))

    def test_large_entities(self):
        """What an entity cannot hold is a blob that the entity names."""
        table = new_table()
        photo = bytes(range(256)) * 20_000
        name = f"photos/{uuid.uuid4()}"
        self.container.upload_blob(name, photo)
        table.create_entity({"PartitionKey": "Sales", "RowKey": "1", "Photo": name})
        found = table.get_entity("Sales", "1")
        self.assertEqual(self.container.download_blob(found["Photo"]).readall(), photo)

    def test_log_data_in_blobs(self):
        """A blob an hour, found by the prefix of a day, a month, a year, and walked by delimiter."""
        start = datetime(2014, 7, 30, 18, tzinfo=timezone.utc)
        for hour in range(36):
            when = start + timedelta(hours=hour)
            self.container.upload_blob(f"{when:queue/%Y/%m/%d/%H}00/000001.log", f"hour {hour}".encode())
        day = [b.name for b in self.container.list_blobs(name_starts_with="queue/2014/07/31/")]
        self.assertEqual(len(day), 24)
        self.assertEqual(day[18], "queue/2014/07/31/1800/000001.log")
        self.assertEqual(self.container.download_blob(day[18]).readall(), b"hour 24")
        days = [b.name for b in self.container.walk_blobs("queue/2014/07/", delimiter="/")]
        self.assertEqual(days, ["queue/2014/07/30/", "queue/2014/07/31/"])
        self.assertEqual(len(list(self.container.list_blob_names(name_starts_with="queue/2014/08/"))), 6)


if __name__ == "__main__":
    harness.main()
