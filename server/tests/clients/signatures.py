"""Keys, connection strings and shared access signatures, as the Python clients make them."""

import base64
from datetime import datetime, timedelta, timezone

import azure.data.tables as tables
import azure.storage.blob as blobs
import azure.storage.queue as queues
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import ClientAuthenticationError

import harness
from harness import ACCOUNT, CONNECTION, KEY, ONCE, SETTINGS, unique

HOUR = timedelta(hours=1)
UNAUTHENTICATED = "Server failed to authenticate the request. Make sure the value of the Authorization header is formed correctly"
PERMISSION = "This request is not authorized to perform this operation using this permission."
SERVICE = "This request is not authorized to perform this operation using this service."
RESOURCE_TYPE = "This request is not authorized to perform this operation using this resource type."

blob_service = blobs.BlobServiceClient.from_connection_string(CONNECTION, **ONCE)
queue_service = queues.QueueServiceClient.from_connection_string(CONNECTION, **ONCE)
table_service = tables.TableServiceClient.from_connection_string(CONNECTION, **ONCE)
table_key = AzureNamedKeyCredential(ACCOUNT, KEY)


def now():
    return datetime.now(timezone.utc)


def account_sas(permission, resource_types="sco", services="bqt", **options):
    """An account signature; it lasts an hour unless `expiry` says otherwise."""
    return blobs.generate_account_sas(
        ACCOUNT, KEY, blobs.ResourceTypes.from_string(resource_types), permission,
        **{"expiry": now() + HOUR, **options}, services=blobs.Services.from_string(services),
    )


def blob_client(sas):
    return blobs.BlobServiceClient(SETTINGS["BlobEndpoint"], credential=sas, **ONCE)


def queue_client(sas):
    return queues.QueueServiceClient(SETTINGS["QueueEndpoint"], credential=sas, **ONCE)


def table_client(sas):
    return tables.TableServiceClient(SETTINGS["TableEndpoint"], credential=AzureSasCredential(sas), **ONCE)


class Keys(harness.Test):
    def test_a_wrong_key_is_refused(self):
        wrong = CONNECTION.replace(KEY, base64.b64encode(b"some other key").decode())
        attempts = [
            lambda: list(blobs.BlobServiceClient.from_connection_string(wrong, **ONCE).list_containers()),
            lambda: list(queues.QueueServiceClient.from_connection_string(wrong, **ONCE).list_queues()),
            lambda: list(tables.TableServiceClient.from_connection_string(wrong, **ONCE).list_tables()),
            lambda: blobs.BlobServiceClient.from_connection_string(wrong, **ONCE).create_container("refused"),
            lambda: queues.QueueServiceClient.from_connection_string(wrong, **ONCE).create_queue("refused"),
            lambda: tables.TableServiceClient.from_connection_string(wrong, **ONCE).create_table("refused"),
        ]
        for attempt in attempts:
            with self.fails(403, "AuthenticationFailed", UNAUTHENTICATED) as caught:
                attempt()
            self.assertIsInstance(caught.error, ClientAuthenticationError)

    def test_a_connection_string_with_a_signature(self):
        endpoints = ";".join(f"{name}={SETTINGS[name]}" for name in ("BlobEndpoint", "QueueEndpoint", "TableEndpoint"))
        text = f"{endpoints};SharedAccessSignature={account_sas('rwdlacup')}"
        name = unique("sas")
        blobs.BlobServiceClient.from_connection_string(text, **ONCE).create_container(name)
        queues.QueueServiceClient.from_connection_string(text, **ONCE).create_queue(name)
        tables.TableServiceClient.from_connection_string(text, **ONCE).create_table(name)

    def test_credentials_of_each_kind(self):
        blobs.BlobServiceClient(SETTINGS["BlobEndpoint"], credential=table_key, **ONCE).get_account_information()
        queues.QueueServiceClient(SETTINGS["QueueEndpoint"], credential=KEY, **ONCE).get_service_properties()
        tables.TableServiceClient(SETTINGS["TableEndpoint"], credential=table_key, **ONCE).get_service_properties()


class AccountSignatures(harness.Test):
    def test_allow_what_they_name(self):
        name, sas = unique("allowed"), account_sas("rwdlacup")
        container = blob_client(sas).create_container(name)
        container.upload_blob("b", b"x")
        self.assertEqual(container.download_blob("b").readall(), b"x")
        self.assertEqual([b.name for b in container.list_blobs()], ["b"])
        self.assertIn(name, [c.name for c in blob_client(sas).list_containers()])
        container.delete_blob("b")
        container.delete_container()

        queue = queue_client(sas).create_queue(name)
        queue.send_message("x")
        self.assertEqual(queue.peek_messages()[0].content, "x")
        got = queue.receive_message()
        queue.update_message(got, content="y", pop_receipt=got.pop_receipt)
        queue.clear_messages()
        self.assertIn(name, [q.name for q in queue_client(sas).list_queues()])
        queue.delete_queue()

        table = table_client(sas).create_table(name)
        entity = {"PartitionKey": "p", "RowKey": "r"}
        table.create_entity(entity)
        table.update_entity(entity)
        table.upsert_entity(entity)
        table.submit_transaction([("delete", entity), ("create", {"PartitionKey": "p", "RowKey": "s"})])
        self.assertEqual([e["RowKey"] for e in table.list_entities()], ["s"])
        self.assertIn(name, [t.name for t in table_client(sas).list_tables()])
        table_client(sas).delete_table(name)

    def test_refuse_what_they_do_not_permit(self):
        name = unique("refused")
        blob_service.create_container(name).upload_blob("b", b"x")
        queue_service.create_queue(name).send_message("x")
        table_service.create_table(name).create_entity({"PartitionKey": "p", "RowKey": "r"})
        read, write = account_sas("r"), account_sas("w")
        reads_only = [
            lambda: blob_client(read).create_container("never"),
            lambda: list(blob_client(read).list_containers()),
            lambda: list(blob_client(read).get_container_client(name).list_blobs()),
            lambda: blob_client(read).get_blob_client(name, "b").upload_blob(b"y", overwrite=True),
            lambda: blob_client(read).get_blob_client(name, "b").delete_blob(),
            lambda: queue_client(read).create_queue("never"),
            lambda: queue_client(read).get_queue_client(name).send_message("y"),
            lambda: queue_client(read).get_queue_client(name).receive_message(),
            lambda: queue_client(read).get_queue_client(name).clear_messages(),
            lambda: table_client(read).create_table("never"),
            lambda: list(table_client(read).list_tables()),
            lambda: table_client(read).get_table_client(name).create_entity({"PartitionKey": "p", "RowKey": "s"}),
            lambda: table_client(read).get_table_client(name).update_entity({"PartitionKey": "p", "RowKey": "r"}),
            lambda: table_client(read).get_table_client(name).delete_entity("p", "r"),
            lambda: blob_client(write).get_blob_client(name, "b").download_blob(),
            lambda: queue_client(write).get_queue_client(name).peek_messages(),
            lambda: table_client(write).get_table_client(name).get_entity("p", "r"),
        ]
        for number, attempt in enumerate(reads_only):
            with self.subTest(number), self.fails(403, "AuthorizationPermissionMismatch", PERMISSION):
                attempt()
        self.assertEqual(blob_client(read).get_blob_client(name, "b").download_blob().readall(), b"x")
        self.assertEqual(queue_client(read).get_queue_client(name).peek_messages()[0].content, "x")
        self.assertEqual(table_client(read).get_table_client(name).get_entity("p", "r")["RowKey"], "r")

    def test_a_transaction_needs_what_each_operation_needs(self):
        table = table_service.create_table(unique("parts"))
        adds = table_client(account_sas("a")).get_table_client(table.table_name)
        entity = lambda row: {"PartitionKey": "p", "RowKey": row}
        adds.submit_transaction([("create", entity("1")), ("create", entity("2"))])
        with self.fails(403, "AuthorizationPermissionMismatch"):
            adds.submit_transaction([("create", entity("3")), ("delete", entity("1"))])
        self.assertEqual([e["RowKey"] for e in table.list_entities()], ["1", "2"])

    def test_only_for_the_services_they_name(self):
        attempts = {
            "qt": lambda sas: list(blob_client(sas).list_containers()),
            "bt": lambda sas: list(queue_client(sas).list_queues()),
            "bq": lambda sas: list(table_client(sas).list_tables()),
        }
        for services, attempt in attempts.items():
            with self.fails(403, "AuthorizationServiceMismatch", SERVICE):
                attempt(account_sas("rwdlacup", services=services))

    def test_only_for_the_resource_types_they_name(self):
        name = unique("types")
        blob_service.create_container(name)
        queue_service.create_queue(name)
        table_service.create_table(name)
        attempts = [
            ("co", lambda sas: list(blob_client(sas).list_containers())),
            ("so", lambda sas: list(blob_client(sas).get_container_client(name).list_blobs())),
            ("sc", lambda sas: blob_client(sas).get_blob_client(name, "b").upload_blob(b"x")),
            ("co", lambda sas: list(queue_client(sas).list_queues())),
            ("so", lambda sas: queue_client(sas).create_queue("never")),
            ("sc", lambda sas: queue_client(sas).get_queue_client(name).send_message("x")),
            ("so", lambda sas: table_client(sas).create_table("never")),
            ("sc", lambda sas: table_client(sas).get_table_client(name).create_entity({"PartitionKey": "p", "RowKey": "r"})),
        ]
        for number, (resource_types, attempt) in enumerate(attempts):
            with self.subTest(number), self.fails(403, "AuthorizationResourceTypeMismatch", RESOURCE_TYPE):
                attempt(account_sas("rwdlacup", resource_types))

    def test_only_in_their_time(self):
        for times in ({"expiry": now() - HOUR}, {"start": now() + HOUR, "expiry": now() + 2 * HOUR}):
            sas = account_sas("rwdlacup", **times)
            for attempt in (
                lambda: list(blob_client(sas).list_containers()),
                lambda: list(queue_client(sas).list_queues()),
                lambda: list(table_client(sas).list_tables()),
            ):
                with self.fails(403, "AuthenticationFailed", UNAUTHENTICATED):
                    attempt()
        list(blob_client(account_sas("l", start=now() - HOUR)).list_containers())

    def test_only_from_their_address_and_by_their_protocol(self):
        with self.fails(403, "AuthorizationSourceIPMismatch"):
            list(blob_client(account_sas("l", ip="10.1.2.3")).list_containers())
        with self.fails(403, "AuthorizationProtocolMismatch"):
            list(queue_client(account_sas("l", protocol="https")).list_queues())
        list(blob_client(account_sas("l", ip="127.0.0.0-127.0.0.9", protocol="https,http")).list_containers())

    def test_with_a_bent_signature(self):
        sas = account_sas("rl")
        for bent in (sas.replace("sp=rl", "sp=rwl"), sas.replace("sig=", "sig=A")):
            with self.fails(403, "AuthenticationFailed"):
                list(blob_client(bent).list_containers())

    def test_made_by_the_queue_and_table_clients(self):
        sas = queues.generate_account_sas(
            ACCOUNT, KEY, queues.ResourceTypes(service=True), queues.AccountSasPermissions(list=True), now() + HOUR
        )
        list(queue_client(sas).list_queues())
        sas = tables.generate_account_sas(
            table_key, tables.ResourceTypes(service=True, object=True), tables.AccountSasPermissions(list=True, read=True), now() + HOUR
        )
        with self.fails(403, "AuthorizationResourceTypeMismatch"):
            list(table_client(sas).list_tables())
        sas = tables.generate_account_sas(
            table_key, tables.ResourceTypes(container=True), tables.AccountSasPermissions(list=True), now() + HOUR
        )
        list(table_client(sas).list_tables())


class BlobSignatures(harness.Test):
    @classmethod
    def setUpClass(cls):
        cls.container = blob_service.create_container(unique("service"))
        cls.container.upload_blob("dir/a b+c.txt", b"one")
        cls.container.upload_blob("two", b"two")

    def container_sas(self, permission=None, **options):
        times = {} if "policy_id" in options else {"expiry": now() + HOUR}
        return blobs.generate_container_sas(
            ACCOUNT, self.container.container_name, account_key=KEY, permission=permission, **{**times, **options}
        )

    def with_blob(self, name, permission, blob=None, **options):
        sas = blobs.generate_blob_sas(
            ACCOUNT, self.container.container_name, name, account_key=KEY, permission=permission,
            **{"expiry": now() + HOUR, **options},
        )
        return blob_client(sas).get_blob_client(self.container.container_name, blob or name)

    def with_container(self, *arguments, **options):
        return blob_client(self.container_sas(*arguments, **options)).get_container_client(self.container.container_name)

    def test_of_a_blob(self):
        self.assertEqual(self.with_blob("dir/a b+c.txt", "r").download_blob().readall(), b"one")
        with self.fails(403, "AuthorizationPermissionMismatch", PERMISSION):
            self.with_blob("dir/a b+c.txt", "r").upload_blob(b"x", overwrite=True)
        with self.fails(403, "AuthorizationPermissionMismatch", PERMISSION):
            self.with_blob("dir/a b+c.txt", "w").download_blob()
        with self.fails(403, "AuthenticationFailed"):
            self.with_blob("dir/a b+c.txt", "r", blob="two").download_blob()
        with self.fails(403, "AuthenticationFailed"):
            self.with_blob("two", "r", expiry=now() - HOUR).download_blob()
        self.with_blob("new", "c").upload_blob(b"x")
        with self.fails(403, "UnauthorizedBlobOverwrite"):
            self.with_blob("new", "c").upload_blob(b"x", overwrite=True)
        self.with_blob("new", "w").upload_blob(b"y", overwrite=True)
        self.with_blob("new", "d").delete_blob()

    def test_of_a_container(self):
        self.assertEqual([b.name for b in self.with_container("l").list_blobs()], ["dir/a b+c.txt", "two"])
        self.assertEqual(self.with_container("r").download_blob("two").readall(), b"two")
        with self.fails(403, "AuthorizationPermissionMismatch", PERMISSION):
            list(self.with_container("r").list_blobs())
        other = blob_service.create_container(unique("other")).container_name
        with self.fails(403, "AuthenticationFailed"):
            list(blob_client(self.container_sas("rl")).get_container_client(other).list_blobs())
        with self.fails(403, "AuthorizationFailure"):
            self.with_container("rwdl").get_container_access_policy()

    def test_replaces_headers_of_the_answer(self):
        blob = self.with_blob("two", "r", content_type="text/sas", content_disposition="attachment; filename=x", cache_control="no-store")
        found = blob.get_blob_properties().content_settings
        self.assertEqual((found.content_type, found.content_disposition, found.cache_control),
                         ("text/sas", "attachment; filename=x", "no-store"))

    def test_by_stored_policy(self):
        policy = blobs.AccessPolicy(permission="rl", start=now() - HOUR, expiry=now() + HOUR)
        self.container.set_container_access_policy({"readers": policy})
        sas = self.container_sas(policy_id="readers")
        client = blob_client(sas).get_container_client(self.container.container_name)
        self.assertEqual(client.download_blob("two").readall(), b"two")
        with self.fails(403, "AuthorizationPermissionMismatch"):
            client.upload_blob("never", b"x")
        with self.fails(403, "AuthenticationFailed"):
            list(self.with_container(policy_id="unknown").list_blobs())
        self.container.set_container_access_policy({})
        with self.fails(403, "AuthenticationFailed"):
            client.download_blob("two")


class QueueSignatures(harness.Test):
    @classmethod
    def setUpClass(cls):
        cls.queue = queue_service.create_queue(unique("service"))

    def client(self, permission=None, queue=None, **options):
        times = {} if "policy_id" in options else {"expiry": now() + HOUR}
        sas = queues.generate_queue_sas(ACCOUNT, self.queue.queue_name, KEY, permission, **{**times, **options})
        return queue_client(sas).get_queue_client(queue or self.queue.queue_name)

    def test_each_permission(self):
        self.client("a").send_message("x")
        self.assertEqual(self.client("r").peek_messages()[0].content, "x")
        self.assertEqual(self.client("r").get_queue_properties().approximate_message_count, 1)
        got = self.client("p").receive_message()
        changed = self.client("u").update_message(got, content="y")
        self.client("p").delete_message(got.id, changed.pop_receipt)
        for attempt in (
            lambda: self.client("r").send_message("x"),
            lambda: self.client("a").receive_message(),
            lambda: self.client("aup").peek_messages(),
            lambda: self.client("rap").update_message(got.id, changed.pop_receipt, content="z"),
        ):
            with self.fails(403, "AuthorizationPermissionMismatch", PERMISSION):
                attempt()
        with self.fails(403, "AuthorizationFailure"):
            self.client("raup").get_queue_access_policy()

    def test_other_queue_and_other_time(self):
        other = queue_service.create_queue(unique("other")).queue_name
        with self.fails(403, "AuthenticationFailed"):
            self.client("raup", queue=other).peek_messages()
        with self.fails(403, "AuthenticationFailed"):
            self.client("raup", expiry=now() - HOUR).peek_messages()

    def test_by_stored_policy(self):
        policy = queues.AccessPolicy(permission="a", expiry=now() + HOUR)
        self.queue.set_queue_access_policy({"senders": policy})
        client = self.client(policy_id="senders")
        client.send_message("x")
        with self.fails(403, "AuthorizationPermissionMismatch"):
            client.receive_message()
        self.queue.set_queue_access_policy({})
        with self.fails(403, "AuthenticationFailed"):
            client.send_message("x")
        self.queue.clear_messages()


class TableSignatures(harness.Test):
    @classmethod
    def setUpClass(cls):
        cls.table = table_service.create_table(unique("Service"))
        for key in "abcde":
            cls.table.create_entity({"PartitionKey": key, "RowKey": key})

    def client(self, permission=None, table=None, **options):
        times = {} if "policy_id" in options else {"expiry": now() + HOUR}
        permission = permission and tables.TableSasPermissions(_str=permission)
        sas = tables.generate_table_sas(table_key, self.table.table_name, permission=permission, **{**times, **options})
        return table_client(sas).get_table_client(table or self.table.table_name)

    def test_each_permission(self):
        entity = {"PartitionKey": "p", "RowKey": "r", "n": 1}
        self.client("a").create_entity(entity)
        self.assertEqual(self.client("r").get_entity("p", "r")["n"], 1)
        self.client("u").update_entity({**entity, "n": 2})
        self.client("au").upsert_entity({**entity, "n": 3})
        for attempt in (
            lambda: self.client("r").create_entity(entity),
            lambda: self.client("aud").get_entity("p", "r"),
            lambda: list(self.client("aud").list_entities()),
            lambda: self.client("rad").update_entity(entity),
            lambda: self.client("rau").delete_entity("p", "r"),
        ):
            with self.fails(403, "AuthorizationPermissionMismatch", PERMISSION):
                attempt()
        self.client("d").delete_entity("p", "r")

    def test_a_name_in_other_case(self):
        self.assertEqual(len(list(self.client("r", table=self.table.table_name.upper()).list_entities())), 5)

    def test_other_table_and_other_time(self):
        other = table_service.create_table(unique("other")).table_name
        with self.fails(403, "AuthorizationFailure"):
            list(self.client("r", table=other).list_entities())
        with self.fails(403, "AuthenticationFailed"):
            list(self.client("r", expiry=now() - HOUR).list_entities())

    def test_key_ranges(self):
        client = self.client("raud", start_pk="b", end_pk="d")
        self.assertEqual(client.get_entity("c", "c")["RowKey"], "c")
        self.assertEqual([e["PartitionKey"] for e in client.list_entities()], ["b", "c", "d"])
        with self.fails(403, "AuthorizationFailure"):
            client.get_entity("a", "a")
        with self.fails(403, "AuthorizationFailure"):
            client.create_entity({"PartitionKey": "e", "RowKey": "new"})
        client = self.client("r", start_pk="b", start_rk="c", end_pk="d", end_rk="a")
        self.assertEqual([e["PartitionKey"] for e in client.list_entities()], ["c"])

    def test_by_stored_policy(self):
        policy = tables.TableAccessPolicy(permission="r", expiry=now() + HOUR, start=now() - HOUR)
        self.table.set_table_access_policy({"readers": policy})
        client = self.client(policy_id="readers")
        self.assertEqual(client.get_entity("a", "a")["RowKey"], "a")
        with self.fails(403, "AuthorizationPermissionMismatch"):
            client.delete_entity("a", "a")
        self.table.set_table_access_policy({})
        with self.fails(403, "AuthenticationFailed"):
            client.get_entity("a", "a")


if __name__ == "__main__":
    harness.main()
