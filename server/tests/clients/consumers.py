"""Real consumers of queues: the example that archives employees, whose workers die, and kombu, which Celery stands on."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import harness
from harness import CONNECTION, KEY, SETTINGS, eventually, unique

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

import archive  # noqa: E402  It stands among the examples.
import kombu  # noqa: E402

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
            died = subprocess.run([sys.executable, "-B", "-c", WORKER, str(EXAMPLES), self.name, step], env=os.environ)
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


if __name__ == "__main__":
    harness.main()
