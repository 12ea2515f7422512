"""The Queue service through azure-storage-queue."""

import re
from datetime import datetime, timedelta, timezone
from urllib.parse import urlsplit

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.storage.queue import (
    AccessPolicy,
    BinaryBase64DecodePolicy,
    BinaryBase64EncodePolicy,
    CorsRule,
    Metrics,
    QueueClient,
    QueueServiceClient,
    RetentionPolicy,
    TextBase64DecodePolicy,
    TextBase64EncodePolicy,
)

import harness
from harness import CONNECTION, ONCE, Headers, eventually, unique

GUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
WEEK = 7 * 24 * 60 * 60

service = QueueServiceClient.from_connection_string(CONNECTION, **ONCE)


def new_queue(**options):
    queue = service.get_queue_client(unique("queue"), **options)
    queue.create_queue()
    return queue


def texts(messages):
    return [message.content for message in messages]


class Queues(harness.Test):
    def test_create_list_and_delete(self):
        prefix = unique("list-") + "-"
        for letter in "cab":
            service.create_queue(prefix + letter, metadata={"Letter": letter})
        names = [prefix + letter for letter in "abc"]
        self.assertEqual([q.name for q in service.list_queues(name_starts_with=prefix)], names)
        self.assertEqual([q.metadata for q in service.list_queues(name_starts_with=prefix)], [None] * 3)
        with_metadata = service.list_queues(name_starts_with=prefix, include_metadata=True)
        self.assertEqual([q.metadata for q in with_metadata], [{"Letter": letter} for letter in "abc"])
        pages = service.list_queues(name_starts_with=prefix, results_per_page=1).by_page()
        self.assertEqual([[q.name for q in page] for page in pages], [[name] for name in names])
        first = service.list_queues(name_starts_with=prefix, results_per_page=2).by_page()
        next(first)
        rest = service.list_queues(name_starts_with=prefix, results_per_page=2).by_page(first.continuation_token)
        self.assertEqual([[q.name for q in page] for page in rest], [names[2:]])
        service.delete_queue(names[1])
        self.assertEqual([q.name for q in service.list_queues(name_starts_with=prefix)], [names[0], names[2]])

    def test_create_again(self):
        name = unique("again")
        queue = service.create_queue(name, metadata={"a": "1"})
        with self.assertRaises(ResourceExistsError):  # The client makes this of 204.
            service.create_queue(name, metadata={"a": "1"})
        with self.fails(409, "QueueAlreadyExists", "The specified queue already exists."):
            service.create_queue(name, metadata={"a": "2"})
        self.assertEqual(queue.get_queue_properties().metadata, {"a": "1"})

    def test_a_missing_queue_is_named_by_every_operation(self):
        receipt = new_queue().send_message("x").pop_receipt
        missing = service.get_queue_client("no-such-queue")
        operations = [
            missing.delete_queue,
            missing.get_queue_properties,
            missing.set_queue_metadata,
            missing.get_queue_access_policy,
            lambda: missing.set_queue_access_policy({}),
            lambda: missing.send_message("x"),
            missing.receive_message,
            lambda: list(missing.receive_messages()),
            missing.peek_messages,
            missing.clear_messages,
            lambda: missing.update_message("5974b586-0df3-4e2d-ad0c-18e3892bfca2", receipt, content="x"),
            lambda: missing.delete_message("5974b586-0df3-4e2d-ad0c-18e3892bfca2", receipt),
        ]
        for operation in operations:
            with self.fails(404, "QueueNotFound", "The specified queue does not exist.") as caught:
                operation()
            self.assertIsInstance(caught.error, ResourceNotFoundError)

    def test_bad_names(self):
        for name in ["ab", "a" * 64]:
            with self.fails(400, "OutOfRangeInput", "The specified resource name length is not within the permissible limits."):
                service.create_queue(name)
        for name in ["Upper", "under_score", "-edge", "edge-", "double--hyphen", "dot.dot"]:
            with self.fails(400, "InvalidResourceName", "The specified resource name contains invalid characters."):
                service.create_queue(name)

    def test_metadata_is_replaced_as_a_whole(self):
        queue = new_queue()
        queue.set_queue_metadata({"One": "1", "two": "with blank"})
        self.assertEqual(queue.get_queue_properties().metadata, {"One": "1", "two": "with blank"})
        queue.set_queue_metadata({"three": "3"})
        self.assertEqual(queue.get_queue_properties().metadata, {"three": "3"})
        queue.set_queue_metadata()
        self.assertEqual(queue.get_queue_properties().metadata, {})

    def test_access_policies(self):
        queue = new_queue()
        self.assertEqual(queue.get_queue_access_policy(), {})
        start = datetime(2024, 3, 1, tzinfo=timezone.utc)
        full = AccessPolicy(permission="raup", start=start, expiry=start + timedelta(days=1))
        queue.set_queue_access_policy({"full": full, "no-start": AccessPolicy(permission="r", expiry=start + timedelta(days=9))})
        found = queue.get_queue_access_policy()
        self.assertEqual(sorted(found), ["full", "no-start"])
        self.assertEqual(found["full"].permission, "raup")
        with self.fails(400, "InvalidXmlDocument", "XML specified is not syntactically valid."):
            queue.set_queue_access_policy({str(n): full for n in range(6)})
        queue.set_queue_access_policy({})
        self.assertEqual(queue.get_queue_access_policy(), {})

    def test_service_properties_are_set_part_by_part(self):
        self.check_service_properties(service, CorsRule, Metrics, RetentionPolicy)

    def test_a_recreated_queue_is_empty(self):
        queue = new_queue()
        queue.send_message("x")
        queue.delete_queue()
        queue.create_queue()
        self.assertEqual(queue.get_queue_properties().approximate_message_count, 0)
        self.assertIsNone(queue.receive_message())


class Messages(harness.Test):
    def test_put_get_and_delete(self):
        queue = new_queue()
        headers = Headers()
        sent = queue.send_message("text", raw_response_hook=headers)
        self.assertEqual(headers.status, 201)
        self.assertRegex(sent.id, GUID)
        self.assertEqual(sent.expires_on - sent.inserted_on, timedelta(days=7))
        self.assertEqual(sent.next_visible_on, sent.inserted_on)
        self.assertEqual(queue.get_queue_properties().approximate_message_count, 1)
        got = queue.receive_message()
        self.assertEqual((got.id, got.content, got.dequeue_count), (sent.id, "text", 1))
        self.assertEqual(got.inserted_on, sent.inserted_on)
        self.assertAlmostEqual((got.next_visible_on - datetime.now(timezone.utc)).total_seconds(), 30, delta=15)
        self.assertIsNone(queue.receive_message(), "a message taken is invisible")
        self.assertEqual(queue.get_queue_properties().approximate_message_count, 1)
        queue.delete_message(got)
        self.assertEqual(queue.get_queue_properties().approximate_message_count, 0)
        with self.fails(404, "MessageNotFound", "The specified message does not exist."):
            queue.delete_message(got)

    def test_order_and_page_sizes(self):
        queue = new_queue()
        for n in range(70):
            queue.send_message(str(n))
        pages = queue.receive_messages(messages_per_page=32, visibility_timeout=300).by_page()
        self.assertEqual([texts(page) for page in pages][:3],
                         [[str(n) for n in range(0, 32)], [str(n) for n in range(32, 64)], [str(n) for n in range(64, 70)]])
        for count in (0, 33, -1):
            with self.fails(400, "OutOfRangeQueryParameterValue",
                            "One of the query parameters specified in the request URI is outside the permissible range."):
                next(queue.receive_messages(messages_per_page=count).by_page())
        self.assertEqual(len(texts(queue.receive_messages(max_messages=5))), 0)

    def test_peek_changes_nothing(self):
        queue = new_queue()
        for n in range(40):
            queue.send_message(str(n))
        self.assertEqual(texts(queue.peek_messages()), ["0"])
        peeked = queue.peek_messages(max_messages=32)
        self.assertEqual(texts(peeked), [str(n) for n in range(32)])
        self.assertEqual((peeked[0].dequeue_count, peeked[0].pop_receipt, peeked[0].next_visible_on), (0, None, None))
        self.assertEqual(queue.receive_message().content, "0")
        self.assertEqual(texts(queue.peek_messages()), ["1"])
        with self.assertRaises(ValueError):  # The client knows the limit.
            queue.peek_messages(max_messages=33)

    def test_texts_round_trip(self):
        cases = ["&<>\"'", "<QueueMessage><MessageText>x</MessageText></QueueMessage>", "🦀 日本語 ä", " blanks ", " ", "",
                 "line\nbreak", "tab\there", "]]>", "&amp;", "{\"json\": [1, 2]}", "=", "\u2028\u00a0"]
        queue = new_queue(message_encode_policy=None, message_decode_policy=None)
        for text in cases:
            with self.subTest(text):
                queue.send_message(text)
                got = queue.receive_message()
                self.assertEqual(got.content or "", text)
                queue.delete_message(got)

    def test_encoded_texts_are_not_interpreted(self):
        for policies, content in [((TextBase64EncodePolicy, TextBase64DecodePolicy), "🦀 <text>"),
                                  ((BinaryBase64EncodePolicy, BinaryBase64DecodePolicy), bytes(range(256)))]:
            encode, decode = policies
            queue = new_queue(message_encode_policy=encode(), message_decode_policy=decode())
            queue.send_message(content)
            self.assertEqual(queue.peek_messages()[0].content, content)
            self.assertEqual(queue.receive_message().content, content)

    def test_size(self):
        queue = new_queue()
        for text in ["x" * 65536, "<" * 65536, "ä" * 32768]:
            queue.send_message(text)
            got = queue.receive_message()
            self.assertEqual(got.content, text)
            for longer in [text + "x", text + "ä"]:
                with self.fails(413, "RequestBodyTooLarge", "The request body is too large and exceeds the maximum permissible limit."):
                    queue.send_message(longer)
                with self.fails(413, "RequestBodyTooLarge"):
                    queue.update_message(got, content=longer)
            queue.delete_message(got)

    def test_visibility_of_a_put(self):
        queue = new_queue()
        hidden = queue.send_message("hidden", visibility_timeout=WEEK - 1)
        self.assertAlmostEqual((hidden.next_visible_on - hidden.inserted_on).total_seconds(), WEEK - 1, delta=1)
        self.assertIsNone(queue.receive_message())
        self.assertEqual(queue.peek_messages(), [])
        self.assertEqual(queue.get_queue_properties().approximate_message_count, 1)
        shown = queue.update_message(hidden.id, hidden.pop_receipt, visibility_timeout=0)
        self.assertEqual(queue.receive_message().content, "hidden")
        self.assertNotEqual(shown.pop_receipt, hidden.pop_receipt)
        for seconds in (-1, WEEK + 1):
            with self.fails(400, "OutOfRangeQueryParameterValue"):
                queue.send_message("x", visibility_timeout=seconds)
        with self.fails(400, "InvalidQueryParameterValue"):
            queue.send_message("x", visibility_timeout=60, time_to_live=60)

    def test_visibility_of_a_get(self):
        queue = new_queue()
        queue.send_message("x")
        for seconds in (-1, WEEK + 1):
            with self.fails(400, "OutOfRangeQueryParameterValue"):
                queue.receive_message(visibility_timeout=seconds)
        first = queue.receive_message(visibility_timeout=1)
        again = eventually(lambda: queue.receive_message(visibility_timeout=WEEK))
        self.assertEqual((again.id, again.dequeue_count), (first.id, 2))
        self.assertGreaterEqual(datetime.now(timezone.utc), first.next_visible_on)
        with self.fails(400, "PopReceiptMismatch"):
            queue.delete_message(first)
        queue.delete_message(again)

    def test_time_to_live(self):
        queue = new_queue()
        forever = queue.send_message("forever", time_to_live=-1)
        self.assertEqual(forever.expires_on.year, 9999)
        long = queue.send_message("long", time_to_live=2 * WEEK)
        self.assertEqual((long.expires_on - long.inserted_on).total_seconds(), 2 * WEEK)
        for seconds in (0, -2):
            with self.fails(400, "InvalidQueryParameterValue",
                            "Value for one of the query parameters specified in the request URI is invalid."):
                queue.send_message("x", time_to_live=seconds)
        short = queue.send_message("short", time_to_live=1)
        eventually(lambda: "short" not in texts(queue.peek_messages(max_messages=32)))
        self.assertEqual(queue.get_queue_properties().approximate_message_count, 2)
        with self.fails(404, "MessageNotFound"):
            queue.delete_message(short.id, short.pop_receipt)
        self.assertEqual(texts(queue.receive_messages(messages_per_page=32)), ["forever", "long"])

    def test_update(self):
        queue = new_queue()
        queue.send_message("old")
        got = queue.receive_message()
        headers = Headers()
        kept = queue.update_message(got.id, got.pop_receipt, visibility_timeout=60, raw_response_hook=headers)
        self.assertEqual(headers.status, 204)
        self.assertEqual(headers["x-ms-popreceipt"], kept.pop_receipt)
        self.assertIn("x-ms-time-next-visible", headers.headers)
        shown = queue.update_message(kept.id, kept.pop_receipt, visibility_timeout=0)
        self.assertEqual([(m.content, m.dequeue_count) for m in queue.peek_messages()], [("old", 1)], "no text keeps the text")
        changed = queue.update_message(shown.id, shown.pop_receipt, content="new & <improved>", visibility_timeout=0)
        self.assertEqual(texts(queue.peek_messages()), ["new & <improved>"])
        emptied = queue.update_message(changed.id, changed.pop_receipt, content="", visibility_timeout=0)
        again = queue.receive_message()
        self.assertEqual((again.content or "", again.dequeue_count), ("", 2))
        self.assertEqual(again.expires_on, got.expires_on)
        with self.fails(400, "PopReceiptMismatch"):
            queue.update_message(emptied.id, emptied.pop_receipt, content="x")
        for seconds in (-1, WEEK + 1):
            with self.fails(400, "OutOfRangeQueryParameterValue"):
                queue.update_message(again.id, again.pop_receipt, visibility_timeout=seconds)
        queue.delete_message(again)
        with self.fails(404, "MessageNotFound"):
            queue.update_message(again.id, again.pop_receipt, content="x")

    def test_old_receipts_are_refused(self):
        queue = new_queue()
        sent = queue.send_message("x")
        first = queue.receive_message(visibility_timeout=60)
        second = queue.update_message(first.id, first.pop_receipt, visibility_timeout=0)
        third = queue.receive_message()
        message = "The specified pop receipt did not match the pop receipt for a dequeued message."
        for receipt in (sent.pop_receipt, first.pop_receipt, second.pop_receipt):
            with self.fails(400, "PopReceiptMismatch", message):
                queue.delete_message(sent.id, receipt)
            with self.fails(400, "PopReceiptMismatch", message):
                queue.update_message(sent.id, receipt, visibility_timeout=1)
        with self.fails(400, "InvalidQueryParameterValue"):
            queue.delete_message(sent.id, "no receipt at all!")
        with self.fails(404, "MessageNotFound"):
            queue.delete_message("5974b586-0df3-4e2d-ad0c-18e3892bfca2", third.pop_receipt)
        queue.delete_message(third.id, third.pop_receipt)

    def test_the_receipt_of_a_put_deletes(self):
        queue = new_queue()
        sent = queue.send_message("x")
        queue.delete_message(sent)
        self.assertEqual(queue.get_queue_properties().approximate_message_count, 0)

    def test_dequeue_count(self):
        queue = new_queue()
        queue.send_message("poison")
        for count in range(1, 7):
            got = queue.receive_message(visibility_timeout=60)
            self.assertEqual(got.dequeue_count, count)
            queue.update_message(got.id, got.pop_receipt, visibility_timeout=0)

    def test_clear(self):
        queue = new_queue()
        for n in range(50):
            queue.send_message(str(n))
        got = queue.receive_message()
        queue.clear_messages()
        self.assertEqual(queue.get_queue_properties().approximate_message_count, 0)
        with self.fails(404, "MessageNotFound"):
            queue.delete_message(got)
        queue.send_message("after")
        self.assertEqual(texts(queue.receive_messages()), ["after"])


class Clients(harness.Test):
    def test_a_queue_client_from_the_connection_string_and_from_a_url(self):
        queue = QueueClient.from_connection_string(CONNECTION, unique("direct"), **ONCE)
        queue.create_queue()
        same = QueueClient.from_queue_url(queue.url, credential=harness.KEY_CREDENTIAL, **ONCE)
        same.send_message("x")
        self.assertEqual(queue.receive_message().content, "x")

    def test_answers_carry_version_and_identifiers(self):
        headers = Headers()
        queue = new_queue()
        queue.get_queue_properties(raw_response_hook=headers)
        self.assertEqual(headers["x-ms-version"], headers.request.headers["x-ms-version"])
        self.assertEqual(headers["x-ms-client-request-id"], headers.request.headers["x-ms-client-request-id"])
        self.assertRegex(headers["x-ms-request-id"], r"^[0-9a-f-]{36}$")
        self.assertIn("Date", headers.headers)
        self.assertEqual(urlsplit(queue.url).path, f"/devstoreaccount1/{queue.queue_name}")


if __name__ == "__main__":
    harness.main()
