"""Real consumers: workers that archive employees, and die; kombu, which Celery stands on; and object_store, which
delta-rs, DataFusion and Polars stand on, through obstore."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import archive
import harness
import kombu
import obstore
from azure.storage.blob import ContainerClient
from harness import ACCOUNT, CONNECTION, KEY, SETTINGS, eventually, unique
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import AzureStore

HERE = pathlib.Path(__file__).resolve().parent

# A worker in a process of its own, which dies without a word at the step it is told.
WORKER = """
import os, sys
sys.path.insert(0, sys.argv[1])
import archive
archive = archive.Archive(os.environ["AZURE_STORAGE_CONNECTION_STRING"], sys.argv[2], hidden_for=1)
archive.work(lambda step: step == sys.argv[3] and os._exit(9))
"""


class Employees(harness.Test):
    def setUp(self):
        self.name = unique("employees")
        self.archive = archive.Archive(CONNECTION, self.name, hidden_for=1)

    def hire(self, *numbers):
        for number in numbers:
            self.archive.table.upsert_entity({"PartitionKey": "Sales", "RowKey": number, "Name": f"name {number}"})

    def rows(self, department):
        found = self.archive.table.query_entities(f"PartitionKey eq '{department}'")
        return [(e["RowKey"], e.get("Name")) for e in found]

    def is_done(self):
        self.archive.work()
        return self.archive.queue.get_queue_properties().approximate_message_count == 0

    def test_a_worker_may_die_at_any_step(self):
        for step in ("message taken", "entity copied", "entity deleted"):
            self.hire("1", "2")
            self.archive.request("Sales", "1")
            died = subprocess.run([sys.executable, "-B", "-c", WORKER, str(HERE), self.name, step], env=os.environ)
            self.assertEqual(died.returncode, 9, step)
            self.assertFalse(self.archive.work(), "what a dead worker holds is hidden")
            eventually(self.is_done)
            self.assertEqual(self.rows("Sales"), [("2", "name 2")], step)
            self.assertEqual(self.rows("Sales_former"), [("1", "name 1")], step)

    def test_a_request_made_twice_is_carried_out_once(self):
        self.hire("7")
        for _ in range(2):
            self.archive.request("Sales", "7")
        eventually(self.is_done)
        self.assertEqual((self.rows("Sales"), self.rows("Sales_former")), ([], [("7", "name 7")]))

    def test_a_poison_message_is_moved_aside(self):
        self.hire("1")
        self.archive.queue.send_message("no json")
        self.archive.request("Sales", "1")
        failures = []

        def is_done():
            try:
                return self.is_done()
            except json.JSONDecodeError as error:
                failures.append(error)

        eventually(is_done)
        self.assertEqual(len(failures), archive.DELIVERIES_MAX)
        self.assertEqual([m.content for m in self.archive.poison.receive_messages()], ["no json"])
        self.assertEqual(self.rows("Sales_former"), [("1", "name 1")])


class Kombu(harness.Test):
    def test_messages_go_through_in_order(self):
        url = f"azurestoragequeues://{KEY}@{SETTINGS['QueueEndpoint']}"
        with kombu.Connection(url) as connection:
            queue = kombu.Queue(unique("kombu"), routing_key="work")
            producer, seen = connection.Producer(), []

            def on_message(body, message):
                seen.append(body)
                message.ack()

            for number in range(20):
                producer.publish({"number": number, "text": "a & <b> é 😀"}, routing_key=queue.name, declare=[queue])
            channel = connection.default_channel
            self.assertEqual(queue(channel).queue_declare(passive=True).message_count, 20)
            with connection.Consumer(queue, callbacks=[on_message], accept=["json"]):
                while len(seen) < 20:
                    try:
                        connection.drain_events(timeout=10)
                    except socket.timeout:
                        self.fail(f"only {len(seen)} of 20 messages came")
            self.assertEqual([body["number"] for body in seen], list(range(20)))
            self.assertEqual(seen[0]["text"], "a & <b> é 😀")
            producer.publish("left", routing_key=queue.name)
            self.assertEqual(queue(channel).purge(), 1)
            queue(channel).delete()


class ObjectStore(harness.Test):
    def setUp(self):
        container = ContainerClient.from_connection_string(CONNECTION, unique("objects"))
        container.create_container()
        self.addCleanup(container.delete_container)
        config = {"account_name": ACCOUNT, "account_key": KEY, "endpoint": SETTINGS["BlobEndpoint"]}
        self.store = AzureStore(container.container_name, config=config, client_options={"allow_http": True})

    def text(self, path):
        return bytes(obstore.get(self.store, path).bytes())

    def paths(self, **arguments):
        return [found["path"] for page in obstore.list(self.store, **arguments) for found in page]

    def test_content_goes_whole_in_parts_and_in_ranges(self):
        content = os.urandom(12 << 20)
        attributes = {"Content-Type": "text/x", "Cache-Control": "no-cache", "own": "1"}
        obstore.put(self.store, "a b/ü", content, attributes=attributes, tags={"k": "v"})
        self.assertEqual(self.text("a b/ü"), content)
        self.assertEqual(dict(obstore.get(self.store, "a b/ü").attributes), attributes)
        ranges = obstore.get_ranges(self.store, "a b/ü", starts=[0, 5 << 20], ends=[10, (5 << 20) + 7])
        self.assertEqual([bytes(part) for part in ranges], [content[:10], content[5 << 20 : (5 << 20) + 7]])
        obstore.put(self.store, "small", b"1")
        self.assertEqual(self.text("small"), b"1")

    def test_what_a_transaction_log_needs(self):
        obstore.put(self.store, "log/0.json", b"first", mode="create")
        with self.assertRaises(AlreadyExistsError):
            obstore.put(self.store, "log/0.json", b"second", mode="create")
        obstore.put(self.store, "temporary", b"next")
        with self.assertRaises(AlreadyExistsError):
            obstore.copy(self.store, "temporary", "log/0.json", overwrite=False)
        obstore.rename(self.store, "temporary", "log/1.json", overwrite=False)
        self.assertEqual((self.text("log/0.json"), self.text("log/1.json")), (b"first", b"next"))
        known = obstore.head(self.store, "log/0.json")
        obstore.put(self.store, "log/0.json", b"newer", mode={"e_tag": known["e_tag"]})
        with self.assertRaises(PreconditionError):
            obstore.put(self.store, "log/0.json", b"late", mode={"e_tag": known["e_tag"]})
        self.assertEqual(self.text("log/0.json"), b"newer")

    def test_lists_and_deletes_in_bulk(self):
        names = [f"{letter}/{number}" for letter in "ab" for number in range(150)]
        for name in names:
            obstore.put(self.store, name, b"")
        self.assertEqual(self.paths(), sorted(names))
        self.assertEqual(self.paths(prefix="b"), sorted(names)[150:])
        self.assertEqual(self.paths(offset="b/98"), ["b/99"])
        found = obstore.list_with_delimiter(self.store)
        self.assertEqual((found["common_prefixes"], list(found["objects"])), (["a", "b"], []))
        obstore.delete(self.store, names)
        self.assertEqual(self.paths(), [])
        with self.assertRaises(FileNotFoundError):
            obstore.head(self.store, names[0])


if __name__ == "__main__":
    harness.main()
