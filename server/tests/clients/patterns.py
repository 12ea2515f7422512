"""The patterns of the design guide for tables, as a program would use them: across the services, with real clients."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.data.tables import TableClient, TableServiceClient, UpdateMode, generate_table_sas
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

import harness
from harness import ACCOUNT, CONNECTION, KEY, ONCE, SETTINGS, Headers, unique

blobs = BlobServiceClient.from_connection_string(CONNECTION, **ONCE)
queues = QueueServiceClient.from_connection_string(CONNECTION, **ONCE)
tables = TableServiceClient.from_connection_string(CONNECTION, **ONCE)


def new_table():
    return tables.create_table(unique("pattern"))


def ask(table, filter, **options):
    """What a query finds, by which plan, and how many rows it read for that."""
    headers = Headers()
    found = list(table.query_entities(filter, raw_response_hook=headers, **options))
    return found, headers["x-lazurite-plan"], int(headers["x-lazurite-examined"])


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
        mails, plan, examined = ask(table, "PartitionKey eq 'Sales' and RowKey ge 'email_' and RowKey lt 'email`'")
        self.assertEqual((len(mails), plan, examined), (20, "row range", 20))
        found, plan, examined = ask(table, "PartitionKey eq 'Sales' and RowKey eq 'email_p7@example.com'")
        self.assertEqual((found[0]["Id"], plan, examined), (7, "point", 1))
        found, plan, examined = ask(table, "PartitionKey eq 'Sales' and Age eq 99")
        self.assertEqual((len(found), plan, examined), (2, "partition scan", 40))

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

    def test_wide_entities_in_two_rows(self):
        """More properties than one entity may have: two rows of one partition, written together and read by one range."""
        table = new_table()
        halves = [{f"p{n:03}": n for n in range(start, start + 200)} for start in (0, 200)]
        rows = [{"PartitionKey": "Sales", "RowKey": f"000123_{part}", **half} for part, half in enumerate(halves, 1)]
        with self.fails(400, "TooManyProperties"):
            table.create_entity({"PartitionKey": "Sales", "RowKey": "000123", **halves[0], **halves[1]})
        table.submit_transaction([("upsert", row) for row in rows])
        found, plan, examined = ask(table, "PartitionKey eq 'Sales' and RowKey ge '000123_' and RowKey lt '000123`'")
        self.assertEqual((plan, examined), ("row range", 2))
        self.assertEqual({k: v for row in found for k, v in row.items() if k[0] == "p"}, {**halves[0], **halves[1]})

    def test_data_series(self):
        """One entity a day, to which each hour merges its own figure; the others are not read."""
        table = new_table()
        for hour in (3, 0, 23, 3):
            table.upsert_entity({"PartitionKey": "Don", "RowKey": "20140731", f"Hour{hour:02}": hour * 10}, mode=UpdateMode.MERGE)
        day, plan, examined = ask(table, "PartitionKey eq 'Don' and RowKey eq '20140731'")
        self.assertEqual((plan, examined), ("point", 1))
        self.assertEqual(dict(day[0]), {"PartitionKey": "Don", "RowKey": "20140731", "Hour00": 0, "Hour03": 30, "Hour23": 230})

    def test_heterogeneous_entities(self):
        """Employees and departments in one partition, told apart by a property or by their keys."""
        table = new_table()
        table.submit_transaction([
            ("create", {"PartitionKey": "Sales", "RowKey": "department", "EntityType": "Department", "Budget": 2**30}),
            *[("create", {"PartitionKey": "Sales", "RowKey": f"empl_{n}", "EntityType": "Employee", "Age": 30 + n}) for n in range(5)],
            ("create", {"PartitionKey": "Sales", "RowKey": "empl_x", "EntityType": "Employee", "Age": "unknown"}),
        ])
        found, plan, _ = ask(table, "PartitionKey eq 'Sales' and EntityType eq 'Employee' and Age gt 31")
        self.assertEqual(([e["Age"] for e in found], plan), ([32, 33, 34], "partition scan"))
        found, plan, _ = ask(table, "PartitionKey eq 'Sales' and RowKey ge 'empl_' and RowKey lt 'empl`'")
        self.assertEqual((len(found), plan), (6, "row range"))
        # An entity without the property is neither equal nor unequal to anything.
        self.assertEqual(ask(table, "PartitionKey eq 'Sales' and Budget ne 1")[0][0]["RowKey"], "department")
        self.assertEqual(len(ask(table, "PartitionKey eq 'Sales' and not (Budget eq 1)")[0]), 7)


class AcrossPartitions(harness.Test):
    def test_inter_partition_secondary_index(self):
        """Employees by id in one partition and by mail in others, kept alike by way of a queue: late, but surely."""
        table, queue = new_table(), queues.create_queue(unique("index"))

        def change(number, mail, age):
            queue.send_message(f"{number} {mail} {age}")
            table.upsert_entity({"PartitionKey": "empid_Sales", "RowKey": number, "Mail": mail, "Age": age})

        def keep_alike():
            for message in queue.receive_messages():
                number, mail, age = message.content.split()
                table.upsert_entity({"PartitionKey": f"email_{mail[0]}", "RowKey": mail, "Id": number, "Age": int(age)})
                queue.delete_message(message)

        for number in range(10):
            change(f"{number:06}", f"{'ab'[number % 2]}{number}@example.com", 20 + number)
        change("000003", "b3@example.com", 99)
        keep_alike()
        found, plan, examined = ask(table, "PartitionKey eq 'email_b' and RowKey eq 'b3@example.com'")
        self.assertEqual((found[0]["Id"], found[0]["Age"], plan, examined), ("000003", 99, "point", 1))
        both, plan, examined = ask(table, "PartitionKey ge 'email_' and PartitionKey lt 'email`'")
        self.assertEqual((len(both), plan, examined), (10, "partition range scan", 10))

    def test_a_user_sees_the_rows_of_his_signature(self):
        """A signature for one user's partition, and one for a range of rows in it: queries see no more than that."""
        table = new_table()
        for user in ("ann", "bob"):
            table.submit_transaction([("create", {"PartitionKey": user, "RowKey": f"{n:02}"}) for n in range(20)])
        whole, part = [
            TableClient(SETTINGS["TableEndpoint"], table.table_name, credential=AzureSasCredential(generate_table_sas(
                AzureNamedKeyCredential(ACCOUNT, KEY), table.table_name, permission="raud", start_pk="ann", end_pk="ann",
                expiry=datetime.now(timezone.utc) + timedelta(hours=1), **rows)), **ONCE)
            for rows in ({}, {"start_rk": "05", "end_rk": "09"})
        ]
        self.assertEqual(len(list(whole.list_entities())), 20)
        found, _, examined = ask(part, "RowKey ge '07'")
        self.assertEqual([e["RowKey"] for e in found], ["07", "08", "09"])
        self.assertLessEqual(examined, 5)
        self.assertEqual(list(whole.query_entities("PartitionKey eq 'bob'")), [])
        for refused in (
            lambda: whole.get_entity("bob", "01"), lambda: part.get_entity("ann", "04"),
            lambda: part.upsert_entity({"PartitionKey": "ann", "RowKey": "10"}), lambda: whole.delete_entity("bob", "01"),
            lambda: whole.submit_transaction([("create", {"PartitionKey": "bob", "RowKey": "99"})]),
        ):
            with self.fails(403, "AuthorizationFailure"):
                refused()
        part.upsert_entity({"PartitionKey": "ann", "RowKey": "09", "Mine": True})
        self.assertTrue(table.get_entity("ann", "09")["Mine"])

    def test_eventually_consistent_transactions(self):
        """An employee moves to the archive by way of a queue, though the worker dies between any two steps."""
        table, queue = new_table(), queues.create_queue(unique("archive"))
        for number in range(6):
            table.create_entity({"PartitionKey": "Sales", "RowKey": f"{number}", "Name": f"name {number}"})
            queue.send_message(f"{number}")

        def worker(steps):
            """Takes one message and dies after `steps` steps; false when there is none."""
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

    def test_large_entities_are_changed_through_a_queue(self):
        """A new photo is a blob of a new name; the message that says so survives workers that die between any two steps."""
        table, queue = new_table(), queues.create_queue(unique("photos"))
        employees = [f"{number}" for number in range(4)]
        for employee in employees:
            old = self.container.upload_blob(f"{queue.queue_name}/{employee}/old", b"old").blob_name
            table.create_entity({"PartitionKey": "Sales", "RowKey": employee, "Photo": old})
            new = self.container.upload_blob(f"{queue.queue_name}/{employee}/new", employee.encode() * 100_000).blob_name
            queue.send_message(f"{employee} {new}")

        def worker(steps):
            """Takes one message and dies after `steps` steps; false when there is none."""
            message = queue.receive_message(visibility_timeout=60)
            if message is None:
                return False
            employee, new = message.content.split(" ")
            if steps >= 1:
                entity = table.get_entity("Sales", employee)
                old = entity["Photo"] if entity["Photo"] != new else entity.get("Former")
                table.upsert_entity({**entity, "Photo": new, "Former": old})
            if steps >= 2:
                blob = self.container.get_blob_client(old)
                if blob.exists():
                    blob.delete_blob()
            if steps >= 3:
                queue.delete_message(message)
            else:
                queue.update_message(message.id, message.pop_receipt, visibility_timeout=0)
            # Whenever one looks, each entity's photo is there.
            for entity in table.list_entities():
                self.assertTrue(self.container.get_blob_client(entity["Photo"]).exists())
            return True

        deaths = 0
        while worker(deaths % 4):
            deaths += 1
        self.assertGreater(deaths, len(employees))
        names = [b.name for b in self.container.list_blobs(name_starts_with=queue.queue_name)]
        self.assertEqual(names, [f"{queue.queue_name}/{employee}/new" for employee in employees])
        for employee in employees:
            found = self.container.download_blob(table.get_entity("Sales", employee)["Photo"]).readall()
            self.assertEqual(found, employee.encode() * 100_000)

    def test_index_lists_in_blobs(self):
        """The ids of all of one last name in one blob, by many writers at once, each under the ETag of what it read."""
        table = new_table()
        name = unique("index/jones")

        def add(number):
            table.create_entity({"PartitionKey": "Sales", "RowKey": f"{number:04}", "Name": "Jones"})
            while True:
                try:
                    download = self.container.download_blob(name)
                    guard = {"etag": download.properties.etag, "match_condition": MatchConditions.IfNotModified, "overwrite": True}
                    ids = download.readall() + f",{number:04}".encode()
                except ResourceNotFoundError:
                    guard, ids = {"overwrite": False}, f"{number:04}".encode()
                try:
                    return self.container.upload_blob(name, ids, **guard)
                except (ResourceModifiedError, ResourceExistsError):
                    continue

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(add, range(40)))
        ids = self.container.download_blob(name).readall().decode().split(",")
        self.assertEqual(sorted(ids), [f"{number:04}" for number in range(40)])
        self.assertEqual(table.get_entity("Sales", ids[0])["Name"], "Jones")

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
