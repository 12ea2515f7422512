"""The Table service through azure-data-tables."""

import math
import re
from datetime import datetime, timedelta, timezone
from uuid import UUID

from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import (
    EdmType,
    EntityProperty,
    RequestTooLargeError,
    TableAccessPolicy,
    TableClient,
    TableCorsRule,
    TableMetrics,
    TableRetentionPolicy,
    TableServiceClient,
    TableTransactionError,
    UpdateMode,
)

import harness
from harness import CONNECTION, ONCE, Headers, unique

ETAG = re.compile(r"""^W/"datetime'\d{4}-\d\d-\d\dT\d\d%3A\d\d%3A\d\d\.\d{7}Z'"$""")

service = TableServiceClient.from_connection_string(CONNECTION, **ONCE)


class TableTest(harness.Test):
    @classmethod
    def setUpClass(cls):
        cls.table = service.create_table(unique("table"))

    @classmethod
    def tearDownClass(cls):
        cls.table.delete_table()

    def put(self, pk, rk, **properties):
        entity = {"PartitionKey": pk, "RowKey": rk, **properties}
        self.table.upsert_entity(entity, mode=UpdateMode.REPLACE)
        return entity

    def rows(self, query_filter, **options):
        return [e["RowKey"] for e in self.table.query_entities(query_filter, **options)]


class Tables(harness.Test):
    def test_create_list_and_delete(self):
        prefix = unique("List")
        names = [f"{prefix}{letter}" for letter in "cab"]
        for name in names:
            service.create_table(name)
        listed = [t.name for t in service.list_tables() if t.name.startswith(prefix)]
        self.assertEqual(listed, sorted(names))
        pages = service.query_tables(f"TableName ge '{prefix}' and TableName lt '{prefix}~'", results_per_page=2).by_page()
        self.assertEqual([[t.name for t in page] for page in pages], [sorted(names)[:2], sorted(names)[2:]])
        one = service.query_tables("TableName eq @name", parameters={"name": names[0]})
        self.assertEqual([t.name for t in one], [names[0]])
        service.delete_table(names[0])
        self.assertEqual(list(service.query_tables(f"TableName eq '{names[0]}'")), [])
        service.delete_table(names[0])  # The client takes 404 for success.

    def test_names_are_unique_without_regard_to_case_and_keep_their_spelling(self):
        name = unique("MixedCase")
        service.create_table(name)
        with self.fails(409, "TableAlreadyExists", "The table specified already exists."):
            service.create_table(name.upper())
        self.assertEqual([t.name for t in service.query_tables(f"TableName eq '{name}'")], [name])
        shouted = service.get_table_client(name.upper())
        shouted.create_entity({"PartitionKey": "p", "RowKey": "r"})
        self.assertEqual(service.get_table_client(name.lower()).get_entity("p", "r")["RowKey"], "r")
        shouted.delete_table()

    def test_create_if_not_exists(self):
        name = unique("maybe")
        service.create_table_if_not_exists(name)
        client = service.create_table_if_not_exists(name)
        self.assertEqual(client.table_name, name)
        self.assertRaises(ResourceExistsError, service.create_table, name)

    def test_a_name_that_is_the_beginning_of_another(self):
        short = unique("begin")
        service.create_table(short + "ning")
        service.create_table(short)
        service.get_table_client(short + "ning").create_entity({"PartitionKey": "p", "RowKey": "r"})
        service.delete_table(short)
        self.assertEqual(len(list(service.get_table_client(short + "ning").list_entities())), 1)

    def test_bad_names(self):
        for name in ["ab", "a" * 64, "1abc", "a-b", "a_b", "tä1"]:
            with self.assertRaises(ValueError, msg=name):
                service.create_table(name)
        with self.fails(400, "InvalidInput"):
            service.create_table("tables")

    def test_a_recreated_table_is_empty(self):
        table = service.create_table(unique("again"))
        table.create_entity({"PartitionKey": "p", "RowKey": "r"})
        table.delete_table()
        with self.fails(404, "TableNotFound", "The table specified does not exist."):
            table.get_entity("p", "r")
        table.create_table()
        self.assertEqual(list(table.list_entities()), [])

    def test_a_missing_table_is_named_by_every_operation(self):
        missing = service.get_table_client("nosuchtable")
        entity = {"PartitionKey": "p", "RowKey": "r"}
        operations = [
            lambda: missing.create_entity(entity),
            lambda: missing.get_entity("p", "r"),
            lambda: missing.update_entity(entity),
            lambda: missing.update_entity(entity, mode=UpdateMode.REPLACE),
            lambda: missing.upsert_entity(entity),
            lambda: missing.upsert_entity(entity, mode=UpdateMode.REPLACE),
            lambda: list(missing.list_entities()),
            lambda: list(missing.query_entities("PartitionKey eq 'p'")),
            lambda: missing.get_table_access_policy(),
        ]
        for operation in operations:
            with self.fails(404, "TableNotFound", "The table specified does not exist."):
                operation()
        missing.delete_entity("p", "r")  # The client takes 404 for success.

    def test_access_policies(self):
        table = service.create_table(unique("policies"))
        self.assertEqual(table.get_table_access_policy(), {})
        start = datetime(2024, 3, 1, tzinfo=timezone.utc)
        policy = TableAccessPolicy(start=start, expiry=start + timedelta(days=1), permission="raud")
        table.set_table_access_policy({"full": policy, "empty": None})
        found = table.get_table_access_policy()
        self.assertEqual(sorted(found), ["empty", "full"])
        self.assertEqual(found["full"].permission, "raud")
        self.assertEqual(found["full"].start, start)
        self.assertIsNone(found["empty"])
        with self.assertRaises(ValueError):
            table.set_table_access_policy({str(n): policy for n in range(6)})
        table.set_table_access_policy({})
        self.assertEqual(table.get_table_access_policy(), {})

    def test_names_that_cannot_be_are_told_by_every_operation(self):
        for name in ("1table", "aa", "a" * 64, "my_table", "a//"):
            table = service.get_table_client(name)
            for ask in (
                table.create_table, lambda: table.create_entity({"PartitionKey": "p", "RowKey": "r"}),
                lambda: table.upsert_entity({"PartitionKey": "p", "RowKey": "r"}), lambda: table.delete_entity("p", "r"),
                table.get_table_access_policy, lambda: table.submit_transaction([("upsert", {"PartitionKey": "p", "RowKey": "r"})]),
            ):
                with self.subTest(name), self.assertRaisesRegex(ValueError, "must be alphanumeric"):
                    ask()

    def test_an_endpoint_that_names_a_table_is_told_from_one_that_does_not(self):
        name = unique("endpoint")
        endpoint = f"{service.url}/{name}"
        wrong = TableServiceClient(endpoint, credential=service.credential, **ONCE)
        hint = "Please check your account URL"
        with self.fails(404, "TableNotFound", hint):
            wrong.create_table(name)
        # To this client, what is not there is deleted.
        wrong.delete_table(name)
        table = service.create_table(name)
        with self.fails(400, "PropertiesNeedValue", hint):
            wrong.create_table(name)
        with self.fails(400, "InvalidInput", "The number of keys specified in the URI does not match"):
            wrong.delete_table(name)
        with self.fails(501, "NotImplemented"):
            list(wrong.list_tables())
        with self.fails(400, "InvalidQueryParameterValue", hint):
            wrong.get_service_properties()
        with self.fails(415, "MediaTypeNotSupported"):
            wrong.get_table_client(name).submit_transaction([("upsert", {"PartitionKey": "p", "RowKey": "r"})])
        table.delete_table()

    def test_statistics_come_from_the_secondary_location_that_the_client_makes_up(self):
        self.assertEqual(service.get_service_stats()["geo_replication"]["status"], "live")

    def test_service_properties_are_set_part_by_part(self):
        self.check_service_properties(service, TableCorsRule, TableMetrics, TableRetentionPolicy)



class Entities(TableTest):
    def test_insert_answers_the_entity_and_its_etag(self):
        headers = Headers()
        answer = self.table.create_entity({"PartitionKey": "i", "RowKey": "1", "Name": "x"}, raw_response_hook=headers)
        self.assertEqual(headers.status, 201)
        self.assertRegex(answer["etag"], ETAG)
        self.assertEqual(headers["ETag"], answer["etag"])
        self.assertTrue(headers["Location"].endswith(f"{self.table.table_name}(PartitionKey='i',RowKey='1')"))
        self.assertIn("odata=minimalmetadata", headers["Content-Type"])
        self.assertNotIn("Preference-Applied", headers.headers)
        with self.fails(409, "EntityAlreadyExists", "The specified entity already exists.") as caught:
            self.table.create_entity({"PartitionKey": "i", "RowKey": "1"})
        self.assertIsInstance(caught.error, ResourceExistsError)

    def test_get(self):
        entity = self.put("g", "1", Name="x")
        found = self.table.get_entity("g", "1")
        self.assertEqual(dict(found), entity)
        self.assertRegex(found.metadata["etag"], ETAG)
        self.assertLess(abs(datetime.now(timezone.utc) - found.metadata["timestamp"]), timedelta(minutes=1))
        with self.fails(404, "ResourceNotFound", "The specified resource does not exist.") as caught:
            self.table.get_entity("g", "2")
        self.assertIsInstance(caught.error, ResourceNotFoundError)

    def test_get_with_select_answers_only_these_and_null_for_the_missing(self):
        self.put("g", "s", a=1, b=2)
        self.assertEqual(dict(self.table.get_entity("g", "s", select=["b", "nothing"])), {"b": 2, "nothing": None})

    def test_update_replaces_and_merge_keeps(self):
        self.put("u", "1", a=1, b=2)
        self.table.update_entity({"PartitionKey": "u", "RowKey": "1", "b": 3, "c": 4}, mode=UpdateMode.MERGE)
        self.assertEqual(dict(self.table.get_entity("u", "1")), {"PartitionKey": "u", "RowKey": "1", "a": 1, "b": 3, "c": 4})
        self.table.update_entity({"PartitionKey": "u", "RowKey": "1", "c": 5}, mode=UpdateMode.REPLACE)
        self.assertEqual(dict(self.table.get_entity("u", "1")), {"PartitionKey": "u", "RowKey": "1", "c": 5})
        for mode in (UpdateMode.MERGE, UpdateMode.REPLACE):
            with self.fails(404, "ResourceNotFound"):
                self.table.update_entity({"PartitionKey": "u", "RowKey": "absent"}, mode=mode)

    def test_merge_changes_the_type_of_a_property_and_ignores_none(self):
        self.put("u", "2", a=1, b="kept")
        self.table.update_entity({"PartitionKey": "u", "RowKey": "2", "a": "text", "b": None}, mode=UpdateMode.MERGE)
        found = self.table.get_entity("u", "2")
        self.assertEqual((found["a"], found["b"]), ("text", "kept"))

    def test_upsert_inserts_then_merges_or_replaces(self):
        self.table.upsert_entity({"PartitionKey": "up", "RowKey": "1", "a": 1}, mode=UpdateMode.MERGE)
        self.table.upsert_entity({"PartitionKey": "up", "RowKey": "1", "b": 2}, mode=UpdateMode.MERGE)
        self.assertEqual(dict(self.table.get_entity("up", "1")), {"PartitionKey": "up", "RowKey": "1", "a": 1, "b": 2})
        self.table.upsert_entity({"PartitionKey": "up", "RowKey": "1", "c": 3}, mode=UpdateMode.REPLACE)
        self.assertEqual(dict(self.table.get_entity("up", "1")), {"PartitionKey": "up", "RowKey": "1", "c": 3})

    def test_every_write_has_a_new_etag(self):
        etags = [self.table.upsert_entity({"PartitionKey": "e", "RowKey": "1"})["etag"] for _ in range(20)]
        self.assertEqual(etags, sorted(set(etags)))

    def test_conditional_writes(self):
        old = self.table.upsert_entity({"PartitionKey": "c", "RowKey": "1", "n": 1})["etag"]
        entity = {"PartitionKey": "c", "RowKey": "1", "n": 2}
        same = {"match_condition": MatchConditions.IfNotModified}
        new = self.table.update_entity(entity, mode=UpdateMode.REPLACE, etag=old, **same)["etag"]
        self.assertNotEqual(old, new)
        message = "The update condition specified in the request was not satisfied."
        for mode in (UpdateMode.REPLACE, UpdateMode.MERGE):
            with self.fails(412, "UpdateConditionNotSatisfied", message) as caught:
                self.table.update_entity(entity, mode=mode, etag=old, **same)
            self.assertIsInstance(caught.error, ResourceModifiedError)
        with self.fails(412, "UpdateConditionNotSatisfied", message):
            self.table.delete_entity(entity, etag=old, **same)
        self.table.update_entity(entity, mode=UpdateMode.MERGE, etag=new, **same)
        current = self.table.get_entity("c", "1").metadata["etag"]
        self.table.delete_entity(entity, etag=current, **same)
        with self.fails(404, "ResourceNotFound"):
            self.table.get_entity("c", "1")

    def test_delete(self):
        self.put("d", "1")
        headers = Headers()
        self.table.delete_entity("d", "1", raw_response_hook=headers)
        self.assertEqual(headers.status, 204)
        self.assertNotIn("ETag", headers.headers)
        self.table.delete_entity("d", "1")  # The client takes 404 for success.

    def test_a_malformed_etag_is_refused(self):
        self.put("c", "2")
        with self.fails(400, "InvalidInput", "The etag value '\"nonsense\"' specified in one of the request headers is not valid."):
            self.table.update_entity(
                {"PartitionKey": "c", "RowKey": "2"}, etag="nonsense", match_condition=MatchConditions.IfNotModified
            )

    def test_missing_keys(self):
        for entity in ({"RowKey": "r"}, {"PartitionKey": "p"}):
            with self.assertRaises(ValueError):
                self.table.create_entity(entity)

    def test_odd_keys_round_trip(self):
        keys = ["", " ", "a b", "it's", "''", "Größe", "日本語", "🦀", "100%", "%41", "%2F", "a+b", "a&b=c", "a,b", "(a)", '"q"', "a.b",
                "a:b@c$d!e*f;g", "~", "x" * 512]
        table = service.create_table(unique("odd"))
        for pk in keys:
            for rk in keys[:6] + keys[8:10]:
                table.create_entity({"PartitionKey": pk, "RowKey": rk, "both": pk + "|" + rk})
        for pk in keys:
            for rk in keys[:6] + keys[8:10]:
                self.assertEqual(table.get_entity(pk, rk)["both"], pk + "|" + rk)
                table.update_entity({"PartitionKey": pk, "RowKey": rk, "n": 1})
            quoted = pk.replace("'", "''")
            self.assertEqual(len(list(table.query_entities(f"PartitionKey eq '{quoted}'"))), 8, pk)
        self.assertEqual(len(list(table.list_entities(results_per_page=7))), 8 * len(keys))
        for pk in keys:
            for rk in keys[:6] + keys[8:10]:
                table.delete_entity(pk, rk)
        self.assertEqual(list(table.list_entities()), [])

    def test_forbidden_keys(self):
        for key in ["a/b", "a\\b", "a#b", "a?b", "a\tb", "a\nb", "a\x7fb", "a\x9fb"]:
            with self.fails(400, "OutOfRangeInput", "The 'PartitionKey' parameter of value"):
                self.table.create_entity({"PartitionKey": key, "RowKey": "r"})
            with self.fails(400, "OutOfRangeInput", "The 'RowKey' parameter of value"):
                self.table.create_entity({"PartitionKey": "p", "RowKey": key})
        with self.fails(400, "PropertyValueTooLarge"):
            self.table.create_entity({"PartitionKey": "k" * 2048, "RowKey": "r"})

    def test_order_is_ordinal(self):
        keys = ["p-2", "p-10", "p-1", "B", "a", "ä", "", "Z", "~"]
        table = service.create_table(unique("order"))
        for key in keys:
            table.create_entity({"PartitionKey": "one", "RowKey": key})
            table.create_entity({"PartitionKey": key, "RowKey": "one"})
        found = [(e["PartitionKey"], e["RowKey"]) for e in table.list_entities()]
        self.assertEqual(found, sorted(found))


class Types(TableTest):
    def test_keys_of_an_insert_are_strings(self):
        keys = {"PartitionKey": b"bytes", "RowKey": UUID("c9da6455-213d-42c9-9a79-3e9149a57833")}
        with self.fails(400, "InvalidInput"):
            self.table.create_entity(keys)
        # Where the address has the keys, clients send types that nothing comes of.
        self.table.upsert_entity(keys)
        self.assertEqual(self.table.get_entity("Ynl0ZXM=", str(keys["RowKey"]))["PartitionKey"], "Ynl0ZXM=")

    def round_trip(self, **properties):
        self.put("t", "r", **properties)
        return self.table.get_entity("t", "r")

    def test_every_type_comes_back_as_it_went(self):
        when = datetime(2021, 9, 20, 21, 54, 20, 969460, tzinfo=timezone.utc)
        guid = UUID("c9da6455-213d-42c9-9a79-3e9149a57833")
        found = self.round_trip(
            Text="text", Truth=True, Lie=False, Number=42, Float=1.5, When=when, Guid=guid, Bytes=b"\x00\xff",
            Long=EntityProperty(9, EdmType.INT64), WholeFloat=5.0,
        )
        self.assertEqual(found["Text"], "text")
        self.assertIs(found["Truth"], True)
        self.assertIs(found["Lie"], False)
        self.assertEqual(found["Number"], 42)
        self.assertIs(type(found["Number"]), int)
        self.assertEqual(found["Float"], 1.5)
        self.assertEqual(found["When"], when)
        self.assertEqual(found["Guid"], guid)
        self.assertEqual(found["Bytes"], b"\x00\xff")
        self.assertEqual(found["Long"], EntityProperty(9, EdmType.INT64))
        self.assertIs(type(found["WholeFloat"]), float)

    def test_integer_limits(self):
        found = self.round_trip(
            MaxInt=2**31 - 1, MinInt=-(2**31), MaxLong=EntityProperty(2**63 - 1, EdmType.INT64),
            MinLong=EntityProperty(-(2**63), EdmType.INT64),
        )
        self.assertEqual((found["MaxInt"], found["MinInt"]), (2**31 - 1, -(2**31)))
        self.assertEqual((found["MaxLong"].value, found["MinLong"].value), (2**63 - 1, -(2**63)))

    def test_float_limits(self):
        values = [0.0, 0.1, 1e300, -1e-300, 1.7976931348623157e308, 5e-324, 2.0**53 + 2, 123456789.123456789]
        found = self.round_trip(**{f"f{n}": value for n, value in enumerate(values)})
        self.assertEqual([found[f"f{n}"] for n in range(len(values))], values)
        found = self.round_trip(nan=float("nan"), inf=float("inf"), minus=float("-inf"), zero=-0.0)
        self.assertTrue(math.isnan(found["nan"]))
        self.assertEqual((found["inf"], found["minus"]), (float("inf"), float("-inf")))
        self.assertEqual(math.copysign(1, found["zero"]), -1)

    def test_dates_to_a_hundred_nanoseconds(self):
        texts = {
            "2013-08-22T01:12:06.2608595Z": "2013-08-22T01:12:06.2608595Z",
            "2021-01-01T00:00:00Z": "2021-01-01T00:00:00Z",
            "2021-01-01T00:00:00.500000Z": "2021-01-01T00:00:00.5Z",
            "1601-01-01T00:00:00Z": "1601-01-01T00:00:00Z",
            "9999-12-31T23:59:59.9999999Z": "9999-12-31T23:59:59.9999999Z",
        }
        for sent, expected in texts.items():
            found = self.round_trip(When=EntityProperty(sent, EdmType.DATETIME))["When"]
            self.assertEqual(found.tables_service_value, expected)
        with self.fails(400, "OutOfRangeInput", "The 'When' parameter of value '1600-12-31T23:59:59Z' is out of range."):
            self.put("t", "old", When=EntityProperty("1600-12-31T23:59:59Z", EdmType.DATETIME))

    def test_texts(self):
        for text in ["", " ", " both ends ", "line\r\nbreak\ttab", "quote\" ' \\ /", "🦀 日本語 ä", "\u2028", "--batch", "{}", "null", "x" * 32768]:
            self.assertEqual(self.round_trip(Text=text)["Text"], text)
        with self.fails(400, "PropertyValueTooLarge"):
            self.round_trip(Text="x" * 32769)

    def test_binary(self):
        for value in [b"", b"\x00", bytes(range(256)), b"x" * 65536]:
            self.assertEqual(self.round_trip(Bytes=value)["Bytes"], value)
        with self.fails(400, "PropertyValueTooLarge"):
            self.round_trip(Bytes=b"x" * 65537)

    def test_none_is_not_stored(self):
        self.assertEqual(dict(self.round_trip(a=None, b=1)), {"PartitionKey": "t", "RowKey": "r", "b": 1})

    def test_property_names(self):
        names = ["_x", "a1", "Äpfel", "birthday", "Birthday", "n" * 255]
        found = self.round_trip(**{name: name for name in names})
        self.assertEqual({name: found[name] for name in names}, {name: name for name in names})
        with self.fails(400, "PropertyNameTooLong"):
            self.round_trip(**{"n" * 256: 1})
        with self.fails(400, "PropertyNameInvalid"):
            self.round_trip(**{"a b": 1})

    def test_number_of_properties(self):
        found = self.round_trip(**{f"p{n}": n for n in range(252)})
        self.assertEqual(len(found), 254)
        message = "The entity contains more properties than allowed."
        with self.fails(400, "TooManyProperties", message):
            self.round_trip(**{f"p{n}": n for n in range(253)})
        with self.fails(400, "TooManyProperties", message):
            self.table.update_entity({"PartitionKey": "t", "RowKey": "r", "one_more": 1}, mode=UpdateMode.MERGE)

    def test_size_of_an_entity(self):
        big = {f"p{n}": b"x" * 65536 for n in range(15)}
        self.assertEqual(len(self.round_trip(**big)), 17)
        big["p15"] = b"x" * 65536
        message = "The entity is larger than the maximum allowed size (1MB)."
        with self.fails(400, "EntityTooLarge", message):
            self.round_trip(**big)
        with self.fails(400, "EntityTooLarge", message):
            self.table.update_entity({"PartitionKey": "t", "RowKey": "r", "p15": b"x" * 65536}, mode=UpdateMode.MERGE)


class Queries(TableTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        guid = UUID("11111111-2222-3333-4444-555555555555")
        rows = [
            {"Text": "B", "Int": 1, "Long": EntityProperty(10, EdmType.INT64), "Real": 0.5, "Flag": True,
             "When": EntityProperty("2021-01-01T00:00:00.0000001Z", EdmType.DATETIME), "Guid": guid, "Bytes": b"\x01"},
            {"Text": "b", "Int": 2, "Long": EntityProperty(2**40, EdmType.INT64), "Real": 1.5, "Flag": False,
             "When": EntityProperty("2021-01-01T00:00:00.0000002Z", EdmType.DATETIME), "Guid": UUID(int=0), "Bytes": b"\x01\x02"},
            {"Text": "it's 100% (and) ok", "Int": -3, "Long": EntityProperty(-(2**63), EdmType.INT64), "Real": float("inf"), "Flag": True,
             "When": EntityProperty("1999-12-31T23:59:59Z", EdmType.DATETIME), "Guid": UUID(int=1), "Bytes": b"\xff"},
            {"Other": 1, "Int": "not a number"},
        ]
        for number, row in enumerate(rows):
            cls.table.create_entity({"PartitionKey": "q", "RowKey": str(number), **row})
        cls.table.create_entity({"PartitionKey": "z", "RowKey": "0", "Int": 1})

    def test_filters(self):
        cases = {
            "": ["0", "1", "2", "3", "0"],
            "PartitionKey eq 'q'": ["0", "1", "2", "3"],
            "PartitionKey eq 'q' and RowKey eq '2'": ["2"],
            "PartitionKey eq 'q' and RowKey ge '1' and RowKey lt '3'": ["1", "2"],
            "PartitionKey eq 'q' and (RowKey eq '0' or RowKey eq '3')": ["0", "3"],
            "PartitionKey gt 'q'": ["0"],
            "PartitionKey le 'q'": ["0", "1", "2", "3"],
            "Text eq 'B'": ["0"],
            "Text lt 'b'": ["0"],
            "Text gt 'B'": ["1", "2"],
            "Text eq 'it''s 100% (and) ok'": ["2"],
            "Int eq 1": ["0", "0"],
            "1 eq Int": ["0", "0"],
            "0 gt Int": ["2", "3"],  # A property of another type is less than any literal.
            "Int eq -3": ["2"],
            "Long eq 10L": ["0"],
            "Long eq 10": ["0"],
            "Long ge 1099511627776L": ["1"],
            "Long eq -9223372036854775808L": ["2"],
            "Real eq 0.5": ["0"],
            "Real gt 1": ["1", "2"],
            "Real ge 1.5e0": ["1", "2"],
            "Flag eq true": ["0", "2"],
            "Flag": ["0", "2"],
            "not Flag and PartitionKey eq 'q'": ["1", "3"],
            "Flag ne true": ["1"],
            "When eq datetime'2021-01-01T00:00:00.0000001Z'": ["0"],
            "When gt datetime'2021-01-01T00:00:00.0000001Z'": ["1"],
            "When lt datetime'2000-01-01T00:00:00Z'": ["2"],
            "Guid eq guid'11111111-2222-3333-4444-555555555555'": ["0"],
            "Bytes eq X'0102'": ["1"],
            "Bytes eq binary'ff'": ["2"],
            "Bytes lt X'0102'": ["0"],
            "Missing eq 1": [],
            "Missing ne 1": [],
            "not (Missing eq 1)": ["0", "1", "2", "3", "0"],
            "not (Int eq 1)": ["1", "2", "3"],
            "Int eq 'not a number'": ["3"],
            "Other eq 1 or Flag": ["0", "2", "3"],
            "(Int eq 1 or Int eq 2) and Flag eq false": ["1"],
            "  Int   eq   2  ": ["1"],
            "Timestamp gt datetime'2020-01-01T00:00:00Z' and RowKey eq '3'": ["3"],
            " or ".join(f"RowKey eq '{n}'" for n in range(1, 60)): ["1", "2", "3"],
        }
        for query_filter, expected in cases.items():
            with self.subTest(query_filter):
                self.assertEqual(self.rows(query_filter), expected)

    def test_parameters_are_substituted(self):
        parameters = {"text": "it's 100% (and) ok", "int": -3, "flag": True, "real": 0.25}
        found = self.rows("Text eq @text and Int eq @int and Flag eq @flag and Real gt @real", parameters=parameters)
        self.assertEqual(found, ["2"])
        when = datetime(2000, 1, 1, tzinfo=timezone.utc)
        self.assertEqual(self.rows("When lt @when", parameters={"when": when}), ["2"])
        self.assertEqual(self.rows("Guid eq @guid", parameters={"guid": UUID(int=1)}), ["2"])
        self.assertEqual(self.rows("Bytes eq @bytes", parameters={"bytes": b"\x01\x02"}), ["1"])
        self.assertEqual(self.rows("Long eq @long", parameters={"long": 2**40}), ["1"])

    def test_bad_filters(self):
        for query_filter in ["Int eq", "Int == 1", "(Int eq 1", "Int eq 'open", "eq 1", "Int eq 1 and", "Guid eq guid'x'",
                             "When eq datetime'yesterday'", "Bytes eq X'0'"]:
            with self.subTest(query_filter), self.fails(400, "InvalidInput"):
                self.rows(query_filter)
        with self.fails(400, "InvalidInput", "One of the request inputs is not valid."):
            self.rows("Int eq null")
        for query_filter in ["Int eq Other", "1 eq 1", "startswith(Text,'B')"]:
            with self.subTest(query_filter), self.fails(501, "NotImplemented"):
                self.rows(query_filter)

    def test_select(self):
        found = [dict(e) for e in self.table.query_entities("PartitionKey eq 'q'", select=["RowKey", "Other"])]
        self.assertEqual(found, [{"RowKey": str(n), "Other": 1 if n == 3 else None} for n in range(4)])
        found = [dict(e) for e in self.table.query_entities("RowKey eq '3'", select="Other")]
        self.assertEqual(found, [{"Other": 1}])

    def test_pages(self):
        pages = self.table.list_entities(results_per_page=2).by_page()
        self.assertEqual([len(list(page)) for page in pages], [2, 2, 1])
        first = self.table.query_entities("PartitionKey eq 'q'", results_per_page=3).by_page()
        self.assertEqual([e["RowKey"] for e in next(first)], ["0", "1", "2"])
        token = first.continuation_token
        rest = self.table.query_entities("PartitionKey eq 'q'", results_per_page=3).by_page(continuation_token=token)
        self.assertEqual([[e["RowKey"] for e in page] for page in rest], [["3"]])
        with self.fails(400, "InvalidInput"):
            list(self.table.list_entities(results_per_page=1001))

    def test_a_page_holds_at_most_a_thousand(self):
        table = service.create_table(unique("pages"))
        for batch in range(25):
            table.submit_transaction(
                [("create", {"PartitionKey": "p", "RowKey": f"{n:05}", "n": n}) for n in range(batch * 100, batch * 100 + 100)]
            )
        pages = [[e["n"] for e in page] for page in table.list_entities().by_page()]
        self.assertEqual([len(page) for page in pages], [1000, 1000, 500])
        self.assertEqual(sum(pages, []), list(range(2500)))
        self.assertEqual([e["n"] for e in table.query_entities("n ge 2400 and n lt 2403")], [2400, 2401, 2402])


class Transactions(TableTest):
    def test_every_operation_in_one(self):
        for row in ("update", "merge", "delete", "replace"):
            self.put("all", row, old=1)
        entity = lambda row: {"PartitionKey": "all", "RowKey": row, "new": 2}
        answers = self.table.submit_transaction([
            ("create", entity("create")),
            ("update", entity("update"), {"mode": UpdateMode.REPLACE}),
            ("update", entity("merge"), {"mode": UpdateMode.MERGE}),
            ("delete", entity("delete")),
            ("upsert", entity("inserted")),
            ("upsert", entity("replace"), {"mode": "replace"}),
        ])
        self.assertEqual(len(answers), 6)
        for number, answer in enumerate(answers):
            if number != 3:
                self.assertRegex(answer["etag"], ETAG)
        found = {e["RowKey"]: (e.get("old"), e.get("new")) for e in self.table.query_entities("PartitionKey eq 'all'")}
        self.assertEqual(found, {
            "create": (None, 2), "update": (None, 2), "merge": (1, 2), "inserted": (None, 2), "replace": (None, 2),
        })
        self.assertEqual(self.table.get_entity("all", "create").metadata["etag"], answers[0]["etag"])

    def test_a_failing_operation_is_named_and_nothing_is_done(self):
        self.put("fail", "there", n=1)
        etag = self.table.get_entity("fail", "there").metadata["etag"]
        row = lambda key: {"PartitionKey": "fail", "RowKey": key, "n": 2}
        stale = {"etag": etag, "match_condition": MatchConditions.IfNotModified}
        self.put("fail", "there", n=1)
        cases = [
            (("create", row("there")), 409, "EntityAlreadyExists"),
            (("update", row("absent")), 404, "ResourceNotFound"),
            (("delete", row("absent")), 404, "ResourceNotFound"),
            (("update", row("there"), stale), 412, "UpdateConditionNotSatisfied"),
            (("create", {**row("long"), "Text": "x" * 32769}), 400, "PropertyValueTooLarge"),
        ]
        for operation, status, code in cases:
            with self.subTest(code), self.fails(status, code) as caught:
                self.table.submit_transaction([("create", row("a")), ("upsert", row("b")), operation, ("create", row("c"))])
            self.assertIsInstance(caught.error, TableTransactionError)
            self.assertEqual(caught.error.index, 2)
            self.assertTrue(caught.error.message.startswith("2:"), caught.error.message)
            self.assertEqual(self.rows("PartitionKey eq 'fail'"), ["there"])
        self.assertEqual(self.table.get_entity("fail", "there")["n"], 1)

    def test_one_row_twice(self):
        row = {"PartitionKey": "twice", "RowKey": "r"}
        with self.fails(400, "InvalidDuplicateRow") as caught:
            self.table.submit_transaction([("create", row), ("delete", row)])
        self.assertEqual(caught.error.index, 1)
        self.assertEqual(self.rows("PartitionKey eq 'twice'"), [])

    def test_two_partitions(self):
        with self.assertRaises(ValueError):
            self.table.submit_transaction([
                ("create", {"PartitionKey": "a", "RowKey": "r"}), ("create", {"PartitionKey": "b", "RowKey": "r"}),
            ])

    def test_a_hundred_operations_and_no_more(self):
        operations = [("create", {"PartitionKey": "many", "RowKey": f"{n:03}"}) for n in range(101)]
        with self.fails(400, "InvalidInput", "99:The batch request operation exceeds the maximum 100 changes per change set.") as caught:
            self.table.submit_transaction(operations)
        self.assertEqual(caught.error.index, 99)
        self.assertEqual(self.rows("PartitionKey eq 'many'"), [])
        self.assertEqual(len(self.table.submit_transaction(operations[:100])), 100)
        self.assertEqual(len(self.rows("PartitionKey eq 'many'")), 100)

    def test_a_body_of_more_than_four_mebibytes(self):
        entity = lambda n: {"PartitionKey": "big", "RowKey": str(n), **{f"p{i}": "x" * 30000 for i in range(17)}}
        with self.assertRaises(RequestTooLargeError) as caught:
            self.table.submit_transaction([("create", entity(n)) for n in range(9)])
        self.assertEqual(caught.exception.status_code, 413)
        self.assertEqual(len(self.table.submit_transaction([("create", entity(n)) for n in range(7)])), 7)

    def test_a_missing_table(self):
        with self.fails(404, "TableNotFound") as caught:
            service.get_table_client("nosuchtable").submit_transaction([("create", {"PartitionKey": "p", "RowKey": "r"})])
        self.assertEqual(caught.error.index, 0)

    def test_odd_keys_and_texts(self):
        rows = ["it's", "🦀 100%", "a+b", "%41", ""]
        text = "--changeset_x\r\nHTTP/1.1 200 OK\r\n\r\n{}"
        partition = "o'dd & 日本語"
        self.table.submit_transaction([("create", {"PartitionKey": partition, "RowKey": row, "Text": text}) for row in rows])
        self.table.submit_transaction([("update", {"PartitionKey": partition, "RowKey": row, "n": 1}) for row in rows])
        for row in rows:
            found = self.table.get_entity(partition, row)
            self.assertEqual((found["Text"], found["n"]), (text, 1))
        self.table.submit_transaction([("delete", {"PartitionKey": partition, "RowKey": row}) for row in rows])
        self.assertEqual(list(self.table.query_entities("PartitionKey eq @pk", parameters={"pk": partition})), [])


class Clients(harness.Test):
    def test_the_development_connection_string_with_a_table_client(self):
        table = TableClient.from_connection_string(CONNECTION, unique("direct"), **ONCE)
        table.create_table()
        table.create_entity({"PartitionKey": "p", "RowKey": "r"})
        table.delete_table()


if __name__ == "__main__":
    harness.main()
