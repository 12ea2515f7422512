"""The services over HTTPS, as a client with the server's certificate sees them, by key, by token and by delegation."""

import base64
import hashlib
import json
import os
import ssl
import time
import urllib.request
import uuid
from datetime import datetime, timedelta, timezone

from azure.core.credentials import AccessToken
from azure.core.exceptions import HttpResponseError, ServiceRequestError
from azure.data.tables import TableServiceClient
from azure.storage.blob import (
    AccessPolicy,
    BlobBlock,
    BlobClient,
    BlobServiceClient,
    ContainerClient,
    ContainerEncryptionScope,
    CustomerProvidedEncryptionKey,
    generate_blob_sas,
    generate_container_sas,
)
from azure.storage.queue import QueueClient, QueueServiceClient, generate_queue_sas

import harness
from harness import ACCOUNT, CONNECTION, KEY, ONCE, SETTINGS, unique

CERTIFICATE = os.environ["LAZURITE_CERTIFICATE"]
TRUST = {"connection_verify": CERTIFICATE, **ONCE}


OBJECT, TENANT = str(uuid.uuid4()), str(uuid.uuid4())
HOUR = timedelta(hours=1)


def utc():
    return datetime.now(timezone.utc)


def token(**changes):
    """A token as an issuer would write it, but for its signature."""
    now = int(time.time())
    claims = {
        "iss": f"https://sts.windows.net/{TENANT}/", "aud": "https://storage.azure.com", "oid": OBJECT, "tid": TENANT,
        "nbf": now - 60, "iat": now - 60, "exp": now + 600, **changes,
    }
    part = lambda value: base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
    return f"{part({'alg': 'RS256', 'typ': 'JWT'})}.{part(claims)}.c2lnbmF0dXJl"


class Credential:
    def __init__(self, **changes):
        self.changes = changes
        self.asked = []

    def get_token(self, *scopes, **options):
        self.asked.append((scopes, options))
        return AccessToken(token(**self.changes), int(time.time()) + 600)


def blobs(credential):
    return BlobServiceClient(SETTINGS["BlobEndpoint"], credential, **TRUST)


def queues(credential):
    return QueueServiceClient(SETTINGS["QueueEndpoint"], credential, **TRUST)


def tables(credential):
    return TableServiceClient(SETTINGS["TableEndpoint"], credential=credential, **TRUST)


class Tokens(harness.Test):
    def test_a_token_opens_all_services(self):
        container = blobs(Credential()).create_container(unique("con"))
        container.upload_blob("b", b"1")
        self.assertEqual(container.download_blob("b").readall(), b"1")
        container.set_container_access_policy({"p": AccessPolicy("r", utc() + HOUR)})
        self.assertIn("p", [i.id for i in container.get_container_access_policy()["signed_identifiers"]])
        queue = queues(Credential()).create_queue(unique("queue"))
        queue.send_message("x")
        self.assertEqual(queue.receive_message().content, "x")
        table = tables(Credential()).create_table(unique("table"))
        table.create_entity({"PartitionKey": "p", "RowKey": "r"})
        table.submit_transaction([("create", {"PartitionKey": "p", "RowKey": f"{n}"}) for n in range(3)])
        self.assertEqual(len(list(table.query_entities("PartitionKey eq 'p'"))), 4)

    def test_access_policies_of_tables_are_for_the_owner(self):
        queue = queues(Credential()).create_queue(unique("queue"))
        queue.set_queue_access_policy({})
        self.assertEqual(queue.get_queue_access_policy(), {})
        table = tables(Credential()).create_table(unique("table"))
        with self.assertRaises(HttpResponseError) as caught:
            table.get_table_access_policy()
        self.assertEqual(caught.exception.status_code, 404)

    def test_what_a_token_says_must_hold(self):
        for changes in [
            {"exp": int(time.time()) - 1},
            {"nbf": int(time.time()) + 60},
            {"iss": "https://sts.example/"},
            {"aud": "https://other.blob.core.windows.net"},
        ]:
            credential = Credential(**changes)
            with self.fails(401, "InvalidAuthenticationInfo"):
                list(blobs(credential).list_containers())
            # The challenge makes the client fetch another token, once.
            self.assertEqual(len(credential.asked), 2, changes)

    def test_a_client_without_credentials_learns_that_a_token_would_do(self):
        with self.fails(401, "NoAuthenticationInformation") as caught:
            list(BlobServiceClient(SETTINGS["BlobEndpoint"], **TRUST).list_containers())
        self.assertIn("resource_id=https://storage.azure.com", caught.error.response.headers["WWW-Authenticate"])


class Delegation(harness.Test):
    @classmethod
    def setUpClass(cls):
        cls.container = blobs(Credential()).create_container(unique("con"))
        cls.container.upload_blob("b", b"content")
        cls.container.upload_blob("other", b"content")
        cls.key = blobs(Credential()).get_user_delegation_key(utc() - HOUR, utc() + HOUR)

    def blob(self, name="b", permission="r", **options):
        options = {"expiry": utc() + HOUR / 2, **options}
        sas = generate_blob_sas(ACCOUNT, self.container.container_name, "b", user_delegation_key=self.key, permission=permission, **options)
        return BlobClient.from_blob_url(f"{self.container.url}/{name}?{sas}", **TRUST)

    def test_the_key_is_the_bearers(self):
        self.assertEqual((self.key.signed_oid, self.key.signed_tid, self.key.signed_service), (OBJECT, TENANT, "b"))
        self.assertEqual(len(base64.b64decode(self.key.value)), 32)

    def test_a_sas_by_the_key_opens_what_it_says(self):
        self.assertEqual(self.blob().download_blob().readall(), b"content")
        with self.fails(403, "AuthenticationFailed"):
            self.blob("other").download_blob()
        with self.fails(403, "AuthorizationPermissionMismatch"):
            self.blob().delete_blob()
        self.blob(permission="w").upload_blob(b"content", overwrite=True)
        # It ends with its key, whatever it says.
        self.assertEqual(self.blob(expiry=utc() + 2 * HOUR).download_blob().readall(), b"content")

    def test_a_sas_for_a_container(self):
        sas = generate_container_sas(ACCOUNT, self.container.container_name, user_delegation_key=self.key, permission="rl", expiry=utc() + HOUR / 2)
        client = ContainerClient.from_container_url(f"{self.container.url}?{sas}", **TRUST)
        self.assertEqual([b.name for b in client.list_blobs()], ["b", "other"])

    def test_who_may_create_may_do_so_in_blocks(self):
        sas = generate_blob_sas(ACCOUNT, self.container.container_name, "blocks", user_delegation_key=self.key, permission="c", expiry=utc() + HOUR / 2)
        blob = BlobClient.from_blob_url(f"{self.container.url}/blocks?{sas}", **TRUST)
        blob.stage_block("1", b"1")
        with self.fails(403, "UnauthorizedBlobOverwrite"):
            blob.stage_block("1", b"2")
        blob.commit_block_list([BlobBlock("1")])
        with self.fails(403, "UnauthorizedBlobOverwrite"):
            blob.stage_block("2", b"2")
        with self.fails(403, "UnauthorizedBlobOverwrite"):
            blob.commit_block_list([BlobBlock("1")])
        self.assertEqual(self.container.download_blob("blocks").readall(), b"1")
        self.container.delete_blob("blocks")

    def test_a_forged_key_is_no_key(self):
        key = blobs(Credential()).get_user_delegation_key(utc() - HOUR, utc() + HOUR)
        key.signed_oid = str(uuid.uuid4())
        sas = generate_blob_sas(ACCOUNT, self.container.container_name, "b", user_delegation_key=key, permission="r", expiry=utc() + HOUR / 2)
        with self.fails(403, "AuthenticationFailed"):
            BlobClient.from_blob_url(f"{self.container.url}/b?{sas}", **TRUST).download_blob()

    def test_keys_are_for_bearers_and_for_a_week(self):
        with self.fails(403, "AuthenticationFailed", "Only authentication scheme Bearer is supported"):
            BlobServiceClient.from_connection_string(CONNECTION, **TRUST).get_user_delegation_key(utc(), utc() + HOUR)
        with self.fails(400, "InvalidXmlNodeValue"):
            blobs(Credential()).get_user_delegation_key(utc(), utc() + timedelta(days=8))

    def test_queues_have_keys_too(self):
        queue = queues(Credential()).create_queue(unique("queue"))
        key = queues(Credential()).get_user_delegation_key(start=utc() - HOUR, expiry=utc() + HOUR)
        sas = generate_queue_sas(ACCOUNT, queue.queue_name, user_delegation_key=key, permission="ap", expiry=utc() + HOUR / 2)
        client = QueueClient.from_queue_url(f"{queue.url}?{sas}", **TRUST)
        client.send_message("x")
        self.assertEqual(client.receive_message().content, "x")
        with self.fails(403, "AuthorizationPermissionMismatch"):
            client.peek_messages()


class Keys(harness.Test):
    """Keys that the client brings, which it does over HTTPS alone."""

    def key(self, letter):
        key = letter.encode() * 32
        digest = hashlib.sha256(key).digest()
        encoded = [base64.b64encode(part).decode() for part in (key, digest)]
        return CustomerProvidedEncryptionKey(*encoded)

    def test_a_blob_opens_with_its_key_alone(self):
        container = BlobServiceClient.from_connection_string(CONNECTION, max_single_put_size=64 << 10, max_block_size=32 << 10, **TRUST).create_container(unique("con"))
        key, data = self.key("k"), bytes(range(256)) * 1000
        for name in ("small", "large"):
            blob, content = container.get_blob_client(name), data if name == "large" else b"small"
            blob.upload_blob(content, cpk=key)
            self.assertEqual(blob.download_blob(cpk=key).readall(), content)
            self.assertEqual(blob.download_blob(3, 2, cpk=key).readall(), content[3:5])
            self.assertEqual(blob.get_blob_properties(cpk=key).encryption_key_sha256, key.key_hash)
            blob.set_blob_metadata({"kind": "secret"}, cpk=key)
            [listed] = container.list_blobs(name_starts_with=blob.blob_name, include=["metadata"])
            self.assertTrue(listed.encrypted_metadata)
            self.assertFalse(listed.metadata)
            with self.fails(409, "BlobUsesCustomerSpecifiedEncryption"):
                blob.download_blob()
            with self.fails(409, "BlobCustomerSpecifiedEncryptionMismatch"):
                blob.download_blob(cpk=self.key("x"))
        self.assertEqual([b.name for b in container.list_blobs()], ["large", "small"])
        plain = container.upload_blob("plain", b"x")
        with self.fails(409, "BlobDoesNotUseCustomerSpecifiedEncryption"):
            plain.download_blob(cpk=key)

    def test_keys_of_other_kinds_of_blobs(self):
        container = BlobServiceClient.from_connection_string(CONNECTION, **TRUST).create_container(unique("con"))
        key = self.key("k")
        append, page = container.get_blob_client("append"), container.get_blob_client("page")
        append.create_append_blob(cpk=key)
        append.append_block(b"one", cpk=key)
        append.append_block(b"two", cpk=key)
        self.assertEqual(append.download_blob(cpk=key).readall(), b"onetwo")
        page.create_page_blob(1024, cpk=key)
        page.upload_page(b"p" * 512, 512, 512, cpk=key)
        self.assertEqual(page.download_blob(cpk=key).readall(), bytes(512) + b"p" * 512)
        for change in (lambda **key: page.clear_page(512, 512, **key), lambda **key: page.resize_blob(512, **key)):
            with self.fails(409, "BlobUsesCustomerSpecifiedEncryption"):
                change()
            with self.fails(409, "BlobCustomerSpecifiedEncryptionMismatch"):
                change(cpk=self.key("x"))
            change(cpk=key)
        self.assertEqual(page.download_blob(cpk=key).readall(), bytes(512))

    def test_copies_are_not_made_with_a_key_that_is_not_used(self):
        container = BlobServiceClient.from_connection_string(CONNECTION, **TRUST).create_container(unique("con"))
        source, key = container.upload_blob("source", b"x"), self.key("k")
        headers = {
            "x-ms-encryption-key": key.key_value,
            "x-ms-encryption-key-sha256": key.key_hash,
            "x-ms-encryption-algorithm": "AES256",
        }
        copy = container.get_blob_client("copy")
        with self.fails(501, "NotImplemented"):
            copy.start_copy_from_url(source.url, headers=headers)
        self.assertFalse(copy.exists())

    def test_encryption_scopes_are_kept_and_insisted_on(self):
        scope = ContainerEncryptionScope(default_encryption_scope="mine", prevent_encryption_scope_override=True)
        service = BlobServiceClient.from_connection_string(CONNECTION, **TRUST)
        container = service.create_container(unique("con"), container_encryption_scope=scope)
        found = container.get_container_properties().encryption_scope
        self.assertEqual((found.default_encryption_scope, found.prevent_encryption_scope_override), ("mine", True))
        blob = container.upload_blob("b", b"x")
        self.assertEqual(blob.get_blob_properties().encryption_scope, "mine")
        with self.fails(403, "RequestForbiddenByContainerEncryptionPolicy"):
            container.upload_blob("c", b"x", encryption_scope="other")
        other = service.create_container(unique("con")).upload_blob("b", b"x", encryption_scope="other")
        self.assertEqual(other.get_blob_properties().encryption_scope, "other")
        other.create_snapshot(encryption_scope="other")
        other.set_blob_metadata({"a": "1"}, encryption_scope="other")
        for change in (other.create_snapshot, lambda **scope: other.set_blob_metadata({}, **scope)):
            with self.fails(409, "BlobCustomerSpecifiedEncryptionMismatch"):
                change(encryption_scope="mine")
            with self.fails(409, "BlobUsesCustomerSpecifiedEncryption"):
                change()

    def test_blocks_are_committed_in_the_scope_they_were_staged_in(self):
        container = BlobServiceClient.from_connection_string(CONNECTION, **TRUST).create_container(unique("con"))
        blob = container.upload_blob("b", b"")
        blob.stage_block("1", b"one", encryption_scope="mine")
        with self.fails(409, "BlobCustomerSpecifiedEncryptionMismatch"):
            blob.stage_block("2", b"two", encryption_scope="other")
        with self.fails(409, "BlobUsesCustomerSpecifiedEncryption"):
            blob.commit_block_list(["1"])
        self.assertEqual(blob.commit_block_list(["1"], encryption_scope="mine")["encryption_scope"], "mine")
        self.assertEqual(blob.get_blob_properties().encryption_scope, "mine")
        log = container.get_blob_client("log")
        log.upload_blob(b"one", blob_type="AppendBlob", encryption_scope="mine")
        with self.fails(409, "BlobUsesCustomerSpecifiedEncryption"):
            log.append_block(b"two")
        log.append_block(b"two", encryption_scope="mine")
        pages = container.get_blob_client("pages")
        pages.create_page_blob(1024, encryption_scope="mine")
        with self.fails(409, "BlobUsesCustomerSpecifiedEncryption"):
            pages.clear_page(0, 512)
        pages.upload_page(bytes(512), 0, 512, encryption_scope="mine")


class Https(harness.Test):
    def test_every_service_is_served(self):
        container = BlobServiceClient.from_connection_string(CONNECTION, **TRUST).create_container(unique("con"))
        container.upload_blob("large", b"x" * 3_000_000)
        self.assertEqual(len(container.download_blob("large").readall()), 3_000_000)
        queue = QueueServiceClient.from_connection_string(CONNECTION, **TRUST).create_queue(unique("queue"))
        queue.send_message("hello")
        self.assertEqual(queue.receive_message().content, "hello")
        table = TableServiceClient.from_connection_string(CONNECTION, **TRUST).create_table(unique("table"))
        table.create_entity({"PartitionKey": "p", "RowKey": "r"})
        found = table.get_entity("p", "r", headers={"Accept": "application/json;odata=fullmetadata"})
        self.assertEqual(found["RowKey"], "r")

    def test_a_certificate_that_is_not_trusted_is_not_talked_to(self):
        with self.assertRaises(ServiceRequestError):
            BlobServiceClient.from_connection_string(CONNECTION, **ONCE).get_service_properties()

    def test_a_sas_for_https_alone_is_good_here(self):
        container = BlobServiceClient.from_connection_string(CONNECTION, **TRUST).create_container(unique("con"))
        expiry = datetime.now(timezone.utc) + timedelta(hours=1)
        sas = generate_container_sas(ACCOUNT, container.container_name, account_key=KEY, permission="wl", protocol="https", expiry=expiry)
        client = ContainerClient.from_container_url(f"{container.url}?{sas}", **TRUST)
        client.upload_blob("b", b"1")
        self.assertEqual([b.name for b in client.list_blobs()], ["b"])

    def test_links_in_answers_are_https(self):
        context = ssl.create_default_context(cafile=CERTIFICATE)
        answer = urllib.request.urlopen(SETTINGS["BlobEndpoint"].replace("/" + ACCOUNT, "/_lazurite/health"), context=context)
        self.assertEqual(answer.status, 200)
        self.assertTrue(CONNECTION.startswith("DefaultEndpointsProtocol=https"))


if __name__ == "__main__":
    harness.main()
