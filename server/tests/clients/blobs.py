"""The Blob service through azure-storage-blob."""

import base64
import hashlib
import http.client
import io
import random
import uuid
from datetime import datetime, timedelta, timezone

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.storage.blob import (
    AccessPolicy,
    BlobBlock,
    BlobClient,
    BlobPrefix,
    BlobServiceClient,
    ContainerClient,
    ContentSettings,
    CorsRule,
    ImmutabilityPolicy,
    Metrics,
    PartialBatchErrorException,
    RetentionPolicy,
    StandardBlobTier,
    StaticWebsite,
    generate_blob_sas,
    generate_container_sas,
)

import harness
from harness import ACCOUNT, CONNECTION, KEY, ONCE, Headers, eventually, unique

KIB = 1024
MIB = 1024 * KIB

service = BlobServiceClient.from_connection_string(CONNECTION, **ONCE)
# The same client with small pieces, so that small data takes the ways of large data.
pieces = BlobServiceClient.from_connection_string(
    CONNECTION, max_single_put_size=64 * KIB, max_block_size=16 * KIB, max_single_get_size=32 * KIB, max_chunk_get_size=10_000, **ONCE
)


def noise(length, seed=1):
    return random.Random(seed).randbytes(length)


def block_id(number):
    return base64.b64encode(f"{number:06}".encode()).decode()


class Containers(harness.Test):
    def test_create_get_and_delete(self):
        headers = Headers()
        container = service.get_container_client(unique("container"))
        container.create_container(metadata={"Colour": "red"}, raw_response_hook=headers)
        self.assertEqual(headers.status, 201)
        self.assertRegex(headers["ETag"], '^"0x[0-9A-F]+"$')
        with self.fails(409, "ContainerAlreadyExists", "The specified container already exists.") as caught:
            container.create_container()
        self.assertIsInstance(caught.error, ResourceExistsError)
        found = container.get_container_properties()
        self.assertEqual((found.name, found.metadata), (container.container_name, {"Colour": "red"}))
        self.assertEqual(found.etag, headers["ETag"])
        self.assertEqual((found.lease.state, found.lease.status, found.public_access), ("available", "unlocked", None))
        self.assertFalse(found.has_immutability_policy)
        self.assertTrue(container.exists())
        container.delete_container(raw_response_hook=headers)
        self.assertEqual(headers.status, 202)
        self.assertFalse(container.exists())
        with self.fails(404, "ContainerNotFound", "The specified container does not exist.") as caught:
            container.delete_container()
        self.assertIsInstance(caught.error, ResourceNotFoundError)

    def test_list(self):
        prefix = unique("list-") + "-"
        for letter in "cab":
            service.create_container(prefix + letter, metadata={"Letter": letter})
        names = [prefix + letter for letter in "abc"]
        self.assertEqual([c.name for c in service.list_containers(name_starts_with=prefix)], names)
        listed = list(service.list_containers(name_starts_with=prefix, include_metadata=True))
        self.assertEqual([c.metadata for c in listed], [{"Letter": letter} for letter in "abc"])
        self.assertEqual(listed[0].etag, service.get_container_client(names[0]).get_container_properties().etag)
        pages = service.list_containers(name_starts_with=prefix, results_per_page=1).by_page()
        self.assertEqual([[c.name for c in page] for page in pages], [[name] for name in names])
        first = service.list_containers(name_starts_with=prefix, results_per_page=2).by_page()
        next(first)
        rest = service.list_containers(name_starts_with=prefix).by_page(first.continuation_token)
        self.assertEqual([[c.name for c in page] for page in rest], [names[2:]])

    def test_bad_names(self):
        for name in ["ab", "a" * 64]:
            with self.fails(400, "OutOfRangeInput", "The specified resource name length is not within the permissible limits."):
                service.create_container(name)
        for name in ["Upper", "under_score", "edge-", "double--hyphen"]:
            with self.fails(400, "InvalidResourceName", "The specified resource name contains invalid characters."):
                service.create_container(name)
            with self.fails(400, "InvalidResourceName"):
                service.get_container_client(name).get_container_properties()

    def test_metadata(self):
        container = service.create_container(unique("metadata"), metadata={"old": "1"})
        before = container.get_container_properties()
        container.set_container_metadata({"New": "with blank", "_x": "2"})
        after = container.get_container_properties()
        self.assertEqual(after.metadata, {"New": "with blank", "_x": "2"})
        self.assertNotEqual(after.etag, before.etag)
        container.set_container_metadata()
        self.assertEqual(container.get_container_properties().metadata, {})

    def test_dates_as_conditions(self):
        container = service.create_container(unique("dates"))
        now = datetime.now(timezone.utc)
        with self.fails(412, "ConditionNotMet"):
            container.delete_container(if_modified_since=now + timedelta(hours=1))
        with self.fails(412, "ConditionNotMet"):
            container.delete_container(if_unmodified_since=now - timedelta(hours=1))
        container.delete_container(if_modified_since=now - timedelta(hours=1))
        container.create_container()
        container.delete_container(if_unmodified_since=now + timedelta(hours=1))

    def test_access_policies(self):
        container = service.create_container(unique("policies"))
        self.assertEqual(container.get_container_access_policy(), {"public_access": None, "signed_identifiers": []})
        start = datetime(2024, 3, 1, tzinfo=timezone.utc)
        full = AccessPolicy(permission="rwdl", start=start, expiry=start + timedelta(days=1))
        container.set_container_access_policy({"full": full, "empty": None}, public_access="blob")
        found = container.get_container_access_policy()
        self.assertEqual(found["public_access"], "blob")
        policies = {identifier.id: identifier.access_policy for identifier in found["signed_identifiers"]}
        self.assertEqual(sorted(policies), ["empty", "full"])
        self.assertEqual(policies["full"].permission, "rwdl")
        self.assertEqual(container.get_container_properties().public_access, "blob")
        with self.assertRaises(ValueError):
            container.set_container_access_policy({str(n): full for n in range(6)})
        container.set_container_access_policy({})
        self.assertEqual(container.get_container_access_policy(), {"public_access": None, "signed_identifiers": []})

    def test_public_access(self):
        container = service.create_container(unique("public"), public_access="blob")
        container.upload_blob("b", b"for all")
        anyone = BlobClient.from_blob_url(container.get_blob_client("b").url, **ONCE)
        self.assertEqual(anyone.download_blob().readall(), b"for all")
        anonymous = ContainerClient.from_container_url(container.url, **ONCE)
        with self.assertRaises(Exception):
            list(anonymous.list_blobs())
        container.set_container_access_policy({}, public_access="container")
        self.assertEqual([b.name for b in anonymous.list_blobs()], ["b"])
        with self.assertRaises(Exception):
            anyone.upload_blob(b"not by all", overwrite=True)
        container.set_container_access_policy({})
        with self.assertRaises(Exception):
            anyone.download_blob()

    def test_a_missing_container_is_named_by_every_operation(self):
        missing = service.get_container_client("no-such-container")
        blob = missing.get_blob_client("b")
        operations = [
            missing.get_container_properties,
            missing.set_container_metadata,
            missing.get_container_access_policy,
            lambda: missing.set_container_access_policy({}),
            lambda: list(missing.list_blobs()),
            lambda: list(missing.walk_blobs()),
            lambda: blob.upload_blob(b"x"),
            lambda: blob.stage_block(block_id(1), b"x"),
            lambda: blob.commit_block_list([]),
            blob.get_block_list,
            blob.download_blob,
            blob.get_blob_properties,
            blob.set_http_headers,
            blob.set_blob_metadata,
            blob.delete_blob,
        ]
        for operation in operations:
            with self.fails(404, "ContainerNotFound"):
                operation()

    def test_a_recreated_container_is_empty(self):
        container = service.create_container(unique("again"))
        container.upload_blob("b", b"x")
        container.get_blob_client("staged").stage_block(block_id(1), b"x")
        container.delete_container()
        container.create_container()
        self.assertEqual(list(container.list_blobs(include=["uncommittedblobs"])), [])
        self.assertFalse(container.get_blob_client("b").exists())

    def test_service_properties_are_set_part_by_part(self):
        self.check_service_properties(service, CorsRule, Metrics, RetentionPolicy)
        service.set_service_properties(target_version="2020-10-02")
        self.assertEqual(service.get_service_properties()["target_version"], "2020-10-02")

    def test_a_static_website_is_served_without_credentials(self):
        website = StaticWebsite(enabled=True, index_document="index.html", error_document404_path="error/404.html")
        service.set_service_properties(static_website=website)
        self.addCleanup(service.set_service_properties, static_website=StaticWebsite(enabled=False))
        found = service.get_service_properties()["static_website"]
        self.assertEqual((found.enabled, found.index_document, found.error_document404_path), (True, "index.html", "error/404.html"))
        web = service.get_container_client("$web")
        self.addCleanup(web.delete_container)
        pages = {"index.html": b"home", "deep/index.html": b"deep", "style.css": b"body {}", "error/404.html": b"lost"}
        for name, content in pages.items():
            kind = "text/css" if name.endswith("css") else "text/html"
            web.upload_blob(name, content, content_settings=ContentSettings(content_type=kind, cache_control="max-age=60"))
        for path, status, content in [
            ("/", 200, b"home"),
            ("/index.html", 200, b"home"),
            ("/deep/", 200, b"deep"),
            ("/style.css?v=1&snapshot=x", 200, b"body {}"),
            # Without a slash a directory is answered with its index, not with a redirect.
            ("/deep", 200, b"deep"),
            ("/nowhere", 404, b"lost"),
            ("/INDEX.html", 404, b"lost"),
            ("/devstoreaccount1/$web/index.html", 404, b"lost"),
        ]:
            answer, read = self.browse("GET", path)
            self.assertEqual((answer.status, read), (status, content), path)
            self.assertEqual(answer.getheader("Content-Type"), "text/css" if "css" in path else "text/html")
            self.assertEqual(answer.getheader("Cache-Control"), "max-age=60")
        answer, _ = self.browse("GET", "/", {"Range": "bytes=1-2"})
        self.assertEqual((answer.status, answer.getheader("Content-Range")), (206, "bytes 1-2/4"))
        answer, _ = self.browse("GET", "/", {"If-None-Match": answer.getheader("ETag")})
        self.assertEqual(answer.status, 304)
        answer, read = self.browse("HEAD", "/nowhere")
        self.assertEqual((answer.status, read), (404, b""))
        for method in ("PUT", "DELETE", "POST", "OPTIONS"):
            self.assertEqual(self.browse(method, "/index.html")[0].status, 405)
        service.set_service_properties(static_website=StaticWebsite(enabled=True, default_index_document_path="style.css"))
        self.assertEqual(self.browse("GET", "/any/")[1], b"body {}")
        answer, read = self.browse("GET", "/nowhere")
        self.assertEqual((answer.status, answer.getheader("x-ms-error-code")), (404, "WebContentNotFound"))
        self.assertIn(b"does not exist", read)
        service.set_service_properties(static_website=StaticWebsite(enabled=False))
        self.assertEqual(self.browse("GET", "/")[0].status, 404)

    def browse(self, method, path, headers={}):
        """What a browser gets at the address of the account's website."""
        host, port = harness.SETTINGS["BlobEndpoint"].split("/")[2].split(":")
        connection = http.client.HTTPConnection(host, int(port))
        connection.request(method, path, headers={"Host": f"devstoreaccount1.web.localhost:{port}", **headers})
        answer = connection.getresponse()
        return answer, answer.read()

    def test_account_information(self):
        found = service.get_account_information()
        self.assertEqual(found["account_kind"], "StorageV2")
        self.assertFalse(found["is_hns_enabled"])


class BlobTest(harness.Test):
    @classmethod
    def setUpClass(cls):
        cls.container = service.create_container(unique("blobs"))
        cls.pieces = pieces.get_container_client(cls.container.container_name)

    @classmethod
    def tearDownClass(cls):
        cls.container.delete_container()

    def blob(self, data=None, **options):
        blob = self.container.get_blob_client(unique("blob"))
        if data is not None:
            blob.upload_blob(data, **options)
        return blob


class Uploads(BlobTest):
    def test_in_one_piece(self):
        for data in [b"", b"x", noise(64 * KIB), noise(3 * MIB)]:
            blob, headers = self.blob(), Headers()
            answer = blob.upload_blob(data, raw_response_hook=headers)
            self.assertEqual(headers.status, 201)
            self.assertRegex(answer["etag"], '^"0x[0-9A-F]+"$')
            self.assertEqual(headers["x-ms-request-server-encrypted"], "true")
            self.assertEqual(base64.b64decode(headers["Content-MD5"]), hashlib.md5(data).digest())
            self.assertEqual(blob.download_blob().readall(), data)
            found = blob.get_blob_properties()
            self.assertEqual((found.size, found.etag, found.blob_type), (len(data), answer["etag"], "BlockBlob"))
            self.assertEqual(found.last_modified, answer["last_modified"])
            self.assertEqual(bytes(found.content_settings.content_md5), hashlib.md5(data).digest())
            self.assertEqual(found.content_settings.content_type, "application/octet-stream")

    def test_in_blocks(self):
        for length in (64 * KIB + 1, 100_000, 16 * KIB * 20):
            for concurrency in (1, 4):
                data = noise(length)
                blob = self.pieces.get_blob_client(unique("pieces"))
                blob.upload_blob(data, max_concurrency=concurrency)
                committed, uncommitted = blob.get_block_list("all")
                self.assertEqual(sum(b.size for b in committed), length)
                self.assertEqual(len(committed), -(-length // (16 * KIB)))
                self.assertEqual(uncommitted, [])
                self.assertEqual(blob.download_blob(max_concurrency=concurrency).readall(), data)
                self.assertEqual(b"".join(blob.download_blob().chunks()), data)

    def test_of_a_large_blob_with_the_default_sizes(self):
        data = noise(72 * MIB)
        blob = self.blob()
        blob.upload_blob(data, max_concurrency=4)
        self.assertEqual(len(blob.get_block_list("committed")[0]), 18)
        digest = hashlib.sha256()
        for chunk in blob.download_blob().chunks():
            digest.update(chunk)
        self.assertEqual(digest.digest(), hashlib.sha256(data).digest())
        self.assertEqual(blob.download_blob(offset=40 * MIB - 5, length=10).readall(), data[40 * MIB - 5 : 40 * MIB + 5])
        self.assertEqual(blob.download_blob(max_concurrency=4).readall(), data)

    def test_of_a_stream_and_of_text(self):
        data = noise(200_000)
        blob = self.pieces.get_blob_client(unique("stream"))
        blob.upload_blob(io.BytesIO(data))
        self.assertEqual(blob.download_blob().readall(), data)
        blob.upload_blob((data[n : n + 1000] for n in range(0, len(data), 1000)), overwrite=True)
        self.assertEqual(blob.download_blob().readall(), data)
        blob.upload_blob("Größe 🦀", overwrite=True)
        self.assertEqual(blob.download_blob(encoding="utf-8").readall(), "Größe 🦀")

    def test_over_an_existing_blob(self):
        blob = self.blob(b"old", metadata={"old": "1"}, content_settings=ContentSettings(content_type="text/plain"))
        before = blob.get_blob_properties()
        with self.fails(409, "BlobAlreadyExists", "The specified blob already exists.") as caught:
            blob.upload_blob(b"new")
        self.assertIsInstance(caught.error, ResourceExistsError)
        large = self.pieces.get_blob_client(blob.blob_name)
        with self.fails(409, "BlobAlreadyExists"):
            large.upload_blob(noise(100_000))
        blob.upload_blob(b"new", overwrite=True)
        after = blob.get_blob_properties()
        self.assertEqual(after.metadata, {})
        self.assertEqual(after.content_settings.content_type, "application/octet-stream")
        self.assertEqual(after.creation_time, before.creation_time)
        self.assertEqual(blob.download_blob().readall(), b"new")

    def test_refused_before_its_body_is_read(self):
        blob = self.blob(b"kept")
        wrong = BlobServiceClient.from_connection_string(CONNECTION.replace(harness.KEY, "d3Jvbmc="), **ONCE)
        stranger = wrong.get_blob_client(self.container.container_name, blob.blob_name)
        for length in (100_000, 20 * MIB):
            with self.fails(409, "BlobAlreadyExists"):
                blob.upload_blob(noise(length))
            with self.fails(403, "AuthenticationFailed"):
                stranger.upload_blob(noise(length), overwrite=True)
            self.assertEqual(blob.download_blob().readall(), b"kept")

    def test_checked_by_md5(self):
        data = noise(100_000)
        blob = self.blob(data, validate_content=True)
        self.assertEqual(blob.download_blob(validate_content=True).readall(), data)
        large = self.pieces.get_blob_client(unique("checked"))
        large.upload_blob(data, validate_content=True, max_concurrency=2)
        self.assertEqual(large.download_blob(validate_content=True, max_concurrency=2).readall(), data)
        wrong = ContentSettings(content_md5=bytearray(hashlib.md5(b"other").digest()))
        with self.fails(400, "Md5Mismatch", "The MD5 value specified in the request did not match"):
            self.blob().upload_blob(data, content_settings=wrong)

    def test_properties_given_with_the_upload(self):
        settings = ContentSettings(
            content_type="text/x-thing; charset=utf-8", content_encoding="identity", content_language="de",
            content_disposition='attachment; filename="x.txt"', cache_control="no-store",
        )
        for blob in (self.container.get_blob_client(unique("small")), self.pieces.get_blob_client(unique("large"))):
            blob.upload_blob(noise(70_000), content_settings=settings, metadata={"Key": "Value", "_2": "a b"})
            found = blob.get_blob_properties()
            self.assertEqual(found.metadata, {"Key": "Value", "_2": "a b"})
            for name in ("content_type", "content_encoding", "content_language", "content_disposition", "cache_control"):
                self.assertEqual(found.content_settings[name], settings[name])
            downloaded = blob.download_blob()
            self.assertEqual(downloaded.properties.metadata, {"Key": "Value", "_2": "a b"})
            self.assertEqual(downloaded.properties.content_settings.content_language, "de")


class Blocks(BlobTest):
    def test_stage_and_commit(self):
        blob = self.blob()
        for number, data in enumerate([b"aa", b"bbb", b"c"]):
            blob.stage_block(block_id(number), data)
        with self.fails(404, "BlobNotFound"):
            blob.get_blob_properties()
        with self.fails(404, "BlobNotFound"):
            blob.download_blob()
        with self.fails(404, "BlobNotFound"):
            blob.delete_blob()
        committed, uncommitted = blob.get_block_list("all")
        self.assertEqual(committed, [])
        self.assertEqual([(b.id, b.size) for b in uncommitted], [(block_id(0), 2), (block_id(1), 3), (block_id(2), 1)])
        self.assertEqual([b.name for b in self.container.list_blobs(name_starts_with=blob.blob_name)], [])
        listed = self.container.list_blobs(name_starts_with=blob.blob_name, include=["uncommittedblobs"])
        self.assertEqual([b.name for b in listed], [blob.blob_name])
        blob.commit_block_list([BlobBlock(block_id(2)), BlobBlock(block_id(0))], metadata={"m": "1"})
        self.assertEqual(blob.download_blob().readall(), b"caa")
        committed, uncommitted = blob.get_block_list("all")
        self.assertEqual([(b.id, b.size) for b in committed], [(block_id(2), 1), (block_id(0), 2)])
        self.assertEqual(uncommitted, [])
        self.assertEqual(blob.get_blob_properties().metadata, {"m": "1"})

    def test_commit_mixes_old_and_new(self):
        blob = self.blob()
        blob.stage_block(block_id(1), b"one")
        blob.stage_block(block_id(2), b"two")
        blob.commit_block_list([block_id(1), block_id(2)], content_settings=ContentSettings(content_type="text/plain"))
        blob.stage_block(block_id(2), b"TWO")
        blob.stage_block(block_id(3), b"three")
        self.assertEqual(blob.download_blob().readall(), b"onetwo", "staging changes nothing")
        blob.commit_block_list([BlobBlock(block_id(2)), BlobBlock(block_id(1)), BlobBlock(block_id(3))])
        self.assertEqual(blob.download_blob().readall(), b"TWOonethree")
        self.assertEqual(blob.get_blob_properties().content_settings.content_type, "application/octet-stream")
        blob.commit_block_list([BlobBlock(block_id(1))])
        self.assertEqual(blob.download_blob().readall(), b"one")
        with self.fails(400, "InvalidBlockList"):
            blob.commit_block_list([BlobBlock(block_id(2))])

    def test_a_block_staged_again_replaces_itself(self):
        blob = self.blob()
        blob.stage_block(block_id(1), b"old")
        blob.stage_block(block_id(1), b"newer")
        blob.commit_block_list([block_id(1)])
        self.assertEqual(blob.download_blob().readall(), b"newer")

    def test_unknown_block(self):
        blob = self.blob(b"whole")
        with self.fails(400, "InvalidBlockList", "The specified block list is invalid."):
            blob.commit_block_list([block_id(1)])
        self.assertEqual(blob.download_blob().readall(), b"whole")
        self.assertEqual(blob.get_block_list("all"), ([], []))

    def test_an_empty_list_makes_an_empty_blob(self):
        blob = self.blob()
        blob.commit_block_list([])
        self.assertEqual(blob.download_blob().readall(), b"")

    def test_an_upload_drops_what_was_staged(self):
        blob = self.blob()
        blob.stage_block(block_id(1), b"x")
        blob.upload_blob(b"whole")
        self.assertEqual(blob.get_block_list("all"), ([], []))

    def test_block_ids(self):
        blob = self.blob()
        blob.stage_block("AAAA", b"x")
        with self.fails(400, "InvalidBlobOrBlock", "The specified blob or block content is invalid."):
            blob.stage_block("AAAAAAAA", b"x")
        blob.stage_block("aaaa", b"y")
        self.assertEqual(len(blob.get_block_list("uncommitted")[1]), 2)

    def test_a_block_is_answered_with_its_md5(self):
        blob, headers = self.blob(), Headers()
        blob.stage_block(block_id(1), b"x", validate_content=True, raw_response_hook=headers)
        self.assertEqual(base64.b64decode(headers["Content-MD5"]), hashlib.md5(b"x").digest())

    def test_a_missing_blob_has_no_block_list(self):
        with self.fails(404, "BlobNotFound"):
            self.blob().get_block_list("all")

    def test_commit_under_a_condition(self):
        blob = self.blob(b"there")
        blob.stage_block(block_id(1), b"x")
        with self.fails(412, "ConditionNotMet"):
            blob.commit_block_list([block_id(1)], etag='"0x1"', match_condition=MatchConditions.IfNotModified)
        with self.fails(409, "BlobAlreadyExists"):
            blob.commit_block_list([block_id(1)], match_condition=MatchConditions.IfMissing)
        etag = blob.get_blob_properties().etag
        blob.commit_block_list([block_id(1)], etag=etag, match_condition=MatchConditions.IfNotModified)
        self.assertEqual(blob.download_blob().readall(), b"x")


class Downloads(BlobTest):
    def test_ranges(self):
        data = noise(1000)
        blob = self.blob(data)
        for offset, length in [(0, 1), (0, 1000), (10, 20), (999, 1), (990, 100), (500, None)]:
            expected = data[offset : offset + length if length else None]
            self.assertEqual(blob.download_blob(offset=offset, length=length).readall(), expected)
        headers = Headers()
        blob.download_blob(offset=10, length=20, raw_response_hook=headers).readall()
        self.assertEqual((headers.status, headers["Content-Range"], headers["Content-Length"]), (206, "bytes 10-29/1000", "20"))
        self.assertEqual(headers["Accept-Ranges"], "bytes")
        with self.fails(416, "InvalidRange", "The range specified is invalid for the current size of the resource."):
            blob.download_blob(offset=1000, length=1)

    def test_in_chunks_that_must_belong_together(self):
        data = noise(100_000)
        blob = self.pieces.get_blob_client(unique("chunks"))
        blob.upload_blob(data)
        chunks = list(blob.download_blob().chunks())
        self.assertEqual(b"".join(chunks), data)
        self.assertGreater(len(chunks), 5)
        stream = blob.download_blob()
        blob.upload_blob(data, overwrite=True)
        with self.fails(412, "ConditionNotMet") as caught:
            stream.readall()
        self.assertIsInstance(caught.error, ResourceModifiedError)

    def test_into_a_stream(self):
        data = noise(50_000)
        into = io.BytesIO()
        self.blob(data).download_blob().readinto(into)
        self.assertEqual(into.getvalue(), data)

    def test_missing(self):
        blob = self.blob()
        for operation in (blob.download_blob, blob.get_blob_properties, blob.delete_blob, blob.set_blob_metadata, blob.set_http_headers):
            with self.fails(404, "BlobNotFound") as caught:
                operation()
            self.assertIsInstance(caught.error, ResourceNotFoundError)
        self.assertFalse(blob.exists())
        self.assertTrue(self.blob(b"").exists())


class Batches(BlobTest):
    def test_many_blobs_are_deleted_at_once(self):
        names = [f"dir/{n} é" for n in range(250)]
        for name in names:
            self.container.upload_blob(name, b"")
        answers = list(self.container.delete_blobs(*names))
        self.assertEqual([a.status_code for a in answers], [202] * 250)
        self.assertEqual(list(self.container.list_blobs(name_starts_with="dir/")), [])

    def test_each_deletion_has_its_own_answer(self):
        for name in ("here", "locked"):
            self.container.upload_blob(name, b"")
        answers = list(self.container.delete_blobs("here", "gone", dict(name="locked", etag='"0x1"', match_condition=MatchConditions.IfNotModified), raise_on_any_failure=False))
        self.assertEqual([a.status_code for a in answers], [202, 404, 412])
        self.assertEqual(answers[1].headers["x-ms-error-code"], "BlobNotFound")
        with self.assertRaises(PartialBatchErrorException):
            self.container.delete_blobs("gone", "gone too")

    def test_a_signature_must_cover_each(self):
        self.container.upload_blob("b", b"")
        for permission, status in (("r", 403), ("d", 202)):
            sas = generate_container_sas(ACCOUNT, self.container.container_name, account_key=KEY, permission=permission, expiry=datetime.now(timezone.utc) + timedelta(hours=1))
            client = ContainerClient.from_container_url(f"{self.container.url}?{sas}", **ONCE)
            answers = list(client.delete_blobs("b", raise_on_any_failure=False))
            self.assertEqual([a.status_code for a in answers], [status])

    def test_a_batch_has_at_most_256_requests(self):
        with self.fails(400, "InvalidInput"):
            self.container.delete_blobs(*[f"{n}" for n in range(257)])


class Leases(BlobTest):
    def test_who_has_the_lease_may_write(self):
        blob = self.blob(b"1")
        lease = blob.acquire_lease(15)
        found = blob.get_blob_properties().lease
        self.assertEqual((found.status, found.state, found.duration), ("locked", "leased", "fixed"))
        for write in (
            lambda: blob.upload_blob(b"2", overwrite=True), lambda: blob.set_blob_metadata({}), blob.delete_blob,
            lambda: blob.stage_block(block_id(0), b"x"), lambda: blob.set_http_headers(ContentSettings()),
        ):
            with self.fails(412, "LeaseIdMissing"):
                write()
        with self.fails(412, "LeaseIdMismatchWithBlobOperation"):
            blob.upload_blob(b"2", overwrite=True, lease=str(uuid.uuid4()))
        # Not told to overwrite: the lease is looked at before the existence of the blob.
        with self.fails(412, "LeaseIdMissing"):
            blob.upload_blob(b"2")
        with self.fails(412, "LeaseIdMismatchWithBlobOperation"):
            blob.upload_blob(b"2", lease=str(uuid.uuid4()))
        # Not told to overwrite, but told which lease the blob has.
        blob.upload_blob(b"2", lease=lease)
        self.assertEqual(blob.download_blob().readall(), b"2")
        self.assertEqual(blob.download_blob(lease=lease).readall(), b"2")
        lease.renew()
        lease.change(str(uuid.uuid4()))
        blob.set_blob_metadata({"a": "1"}, lease=lease)
        with self.fails(409, "LeaseAlreadyPresent"):
            blob.acquire_lease(-1)
        held = lease.id
        lease.release()
        self.assertEqual(blob.get_blob_properties().lease.state, "available")
        with self.fails(412, "LeaseNotPresentWithBlobOperation"):
            blob.upload_blob(b"3", overwrite=True, lease=held)

    def test_a_lease_is_broken_at_once_or_after_a_while(self):
        blob = self.blob(b"1")
        lease = blob.acquire_lease(-1, lease_id=str(uuid.uuid4()))
        self.assertEqual(blob.get_blob_properties().lease.duration, "infinite")
        self.assertGreaterEqual(lease.break_lease(30), 29)
        self.assertEqual(blob.get_blob_properties().lease.state, "breaking")
        with self.fails(409, "LeaseIsBreakingAndCannotBeChanged"):
            lease.change(str(uuid.uuid4()))
        self.assertEqual(lease.break_lease(0), 0)
        self.assertEqual(blob.get_blob_properties().lease.state, "broken")
        with self.fails(409, "LeaseIsBrokenAndCannotBeRenewed"):
            lease.renew()
        etag = blob.get_blob_properties().etag
        blob.acquire_lease(15)
        self.assertEqual(blob.get_blob_properties().etag, etag, "leases leave blobs as they are")

    def test_containers_are_leased_against_deletion(self):
        container = service.create_container(unique("leased"))
        lease = container.acquire_lease(60)
        self.assertEqual(container.get_container_properties().lease.state, "leased")
        listed = next(service.list_containers(name_starts_with=container.container_name))
        self.assertEqual((listed.lease.status, listed.lease.duration), ("locked", "fixed"))
        container.upload_blob("b", b"written without the lease")
        container.set_container_metadata({"a": "1"})
        with self.fails(412, "LeaseIdMismatchWithContainerOperation"):
            container.set_container_metadata({}, lease=str(uuid.uuid4()))
        with self.fails(412, "LeaseIdMissing"):
            container.delete_container()
        container.delete_container(lease=lease)

    def test_conditions_hold_for_leases(self):
        blob = self.blob(b"1")
        with self.fails(412, "ConditionNotMet"):
            blob.acquire_lease(15, etag='"0x1"', match_condition=MatchConditions.IfNotModified)
        with self.fails(404, "BlobNotFound"):
            self.blob().acquire_lease(15)
        with self.fails(400, "InvalidHeaderValue"):
            blob.acquire_lease(14)
        with self.fails(400, "InvalidHeaderValue"):
            blob.acquire_lease(15, lease_id="no guid")


class Snapshots(BlobTest):
    def test_a_snapshot_stays_as_the_blob_was(self):
        blob = self.blob(noise(300_000), metadata={"a": "1"})
        kept = blob.create_snapshot()
        etag = blob.get_blob_properties().etag
        self.assertEqual(kept["etag"], etag)
        blob.upload_blob(b"new", overwrite=True)
        old = self.container.get_blob_client(blob.blob_name, snapshot=kept["snapshot"])
        self.assertEqual(old.download_blob().readall(), noise(300_000))
        self.assertEqual(old.download_blob(5, 10).readall(), noise(300_000)[5:15])
        found = old.get_blob_properties()
        self.assertEqual((found.metadata, found.etag, found.lease.state), ({"a": "1"}, etag, None))
        self.assertEqual(blob.download_blob().readall(), b"new")
        with_metadata = blob.create_snapshot(metadata={"b": "2"})
        self.assertEqual(self.container.get_blob_client(blob.blob_name, snapshot=with_metadata).get_blob_properties().metadata, {"b": "2"})
        self.assertNotEqual(with_metadata["etag"], blob.get_blob_properties().etag)

    def test_snapshots_of_block_lists(self):
        blob = self.blob()
        for n in range(3):
            blob.stage_block(block_id(n), b"%d" % n)
        blob.commit_block_list([BlobBlock(block_id(n)) for n in range(3)])
        old = self.container.get_blob_client(blob.blob_name, snapshot=blob.create_snapshot()["snapshot"])
        blob.stage_block(block_id(3), b"3")
        blob.commit_block_list([BlobBlock(block_id(n)) for n in (3, 0)])
        self.assertEqual([b.id for b in old.get_block_list()[0]], [block_id(n) for n in range(3)])
        self.assertEqual((old.download_blob().readall(), blob.download_blob().readall()), (b"012", b"30"))

    def test_snapshots_are_listed_before_their_blob(self):
        container = service.create_container(unique("snapshots"))
        for name in ("a", "b"):
            container.upload_blob(name, b"1")
        moments = [container.get_blob_client("a").create_snapshot()["snapshot"] for _ in range(3)]
        found = [(b.name, b.snapshot) for b in container.list_blobs(include=["snapshots"])]
        self.assertEqual(found, [("a", m) for m in moments] + [("a", None), ("b", None)])
        paged = [b for page in container.list_blobs(include=["snapshots"], results_per_page=2).by_page() for b in page]
        self.assertEqual([(b.name, b.snapshot) for b in paged], found)
        self.assertEqual([b.name for b in container.list_blobs()], ["a", "b"])

    def test_a_blob_goes_with_its_snapshots_or_not_at_all(self):
        blob = self.blob(b"1")
        first, second = (blob.create_snapshot()["snapshot"] for _ in range(2))
        with self.fails(409, "SnapshotsPresent"):
            blob.delete_blob()
        self.container.get_blob_client(blob.blob_name, snapshot=first).delete_blob()
        with self.fails(404, "BlobNotFound"):
            self.container.get_blob_client(blob.blob_name, snapshot=first).download_blob()
        blob.delete_blob(delete_snapshots="only")
        self.assertEqual(blob.download_blob().readall(), b"1")
        with self.fails(404, "BlobNotFound"):
            self.container.get_blob_client(blob.blob_name, snapshot=second).get_blob_properties()
        blob.create_snapshot()
        blob.delete_blob(delete_snapshots="include")
        self.assertFalse(blob.exists())

    def test_snapshots_are_not_written_to(self):
        blob = self.blob(b"1")
        moment = blob.create_snapshot()["snapshot"]
        old = self.container.get_blob_client(blob.blob_name, snapshot=moment)
        with self.fails(409, "SnapshotsPresent"):
            blob.delete_blob()
        with self.fails(404, "BlobNotFound"):
            self.container.get_blob_client(blob.blob_name, snapshot="2024-01-01T00:00:00.0000000Z").download_blob()
        with self.fails(400, "InvalidQueryParameterValue"):
            self.container.get_blob_client(blob.blob_name, snapshot="yesterday").download_blob()
        self.assertEqual(old.download_blob().readall(), b"1")

    def test_a_signature_for_a_snapshot_opens_it_alone(self):
        blob = self.blob(b"1")
        moment = blob.create_snapshot()["snapshot"]
        blob.upload_blob(b"2", overwrite=True)
        expiry = datetime.now(timezone.utc) + timedelta(hours=1)
        sas = generate_blob_sas(ACCOUNT, self.container.container_name, blob.blob_name, snapshot=moment, account_key=KEY, permission="r", expiry=expiry)
        client = BlobClient.from_blob_url(f"{blob.url}?{sas}", snapshot=moment, **ONCE)
        self.assertEqual(client.download_blob().readall(), b"1")
        with self.fails(403, "AuthenticationFailed"):
            BlobClient.from_blob_url(f"{blob.url}?{sas}", **ONCE).download_blob()


class AppendBlobs(BlobTest):
    def test_appends_go_to_the_end(self):
        blob = self.blob()
        blob.create_append_blob(ContentSettings(content_type="text/plain"), {"a": "1"})
        answers = [blob.append_block(part) for part in (b"one", noise(400_000), b"three")]
        self.assertEqual([a["blob_append_offset"] for a in answers], ["0", "3", "400003"])
        self.assertEqual([a["blob_committed_block_count"] for a in answers], [1, 2, 3])
        self.assertEqual(blob.download_blob().readall(), b"one" + noise(400_000) + b"three")
        found = blob.get_blob_properties()
        self.assertEqual((found.blob_type, found.append_blob_committed_block_count), ("AppendBlob", 3))
        self.assertEqual((found.content_settings.content_type, found.metadata, found.blob_tier), ("text/plain", {"a": "1"}, None))
        self.assertEqual(next(self.container.list_blobs(name_starts_with=blob.blob_name)).blob_type, "AppendBlob")
        blob.upload_blob(b"four", blob_type="AppendBlob")
        self.assertEqual(blob.download_blob(400_008).readall(), b"four")

    def test_conditions_of_appends(self):
        blob = self.blob()
        blob.create_append_blob()
        blob.append_block(b"x" * 10, appendpos_condition=0)
        with self.fails(412, "AppendPositionConditionNotMet"):
            blob.append_block(b"x", appendpos_condition=9)
        with self.fails(412, "MaxBlobSizeConditionNotMet"):
            blob.append_block(b"x", maxsize_condition=10)
        with self.fails(400, "Md5Mismatch"):
            blob._client.append_blob.append_block(content_length=1, body=b"x", transactional_content_md5=bytearray(16))
        blob.append_block(b"x", validate_content=True)
        with self.fails(409, "BlobAlreadyExists"):
            blob.create_append_blob(match_condition=MatchConditions.IfMissing)
        with self.fails(404, "BlobNotFound"):
            self.blob().append_block(b"x")

    def test_a_sealed_blob_takes_no_more(self):
        blob = self.blob()
        blob.create_append_blob()
        blob.append_block(b"x")
        self.assertTrue(blob.seal_append_blob()["blob_sealed"])
        with self.fails(409, "BlobIsSealed"):
            blob.append_block(b"y")
        blob.set_blob_metadata({"a": "1"})
        self.assertTrue(blob.get_blob_properties().is_append_blob_sealed)
        self.assertEqual(blob.download_blob().readall(), b"x")
        # A copy is sealed as its source is, unless the request says.
        for said, sealed in ((None, True), (True, True), (False, None)):
            copy = self.blob()
            copy.start_copy_from_url(blob.url, **({} if said is None else {"seal_destination_blob": said}))
            self.assertEqual(copy.get_blob_properties().is_append_blob_sealed, sealed)

    def test_types_do_not_mix(self):
        append, block, page = self.blob(), self.blob(b"x"), self.blob()
        append.create_append_blob()
        page.create_page_blob(512)
        for wrong in (
            lambda: block.append_block(b"x"), lambda: page.append_block(b"x"), lambda: append.stage_block(block_id(0), b"x"),
            lambda: append.get_block_list(), lambda: block.upload_page(b"x" * 512, 0, 512), lambda: append.resize_blob(512),
            lambda: list(block.list_page_ranges()), lambda: block.seal_append_blob(),
        ):
            with self.fails(409, "InvalidBlobType"):
                wrong()
        append.upload_blob(b"a block blob now", overwrite=True)
        self.assertEqual(append.get_blob_properties().blob_type, "BlockBlob")


class PageBlobs(BlobTest):
    def ranges(self, blob, **options):
        return [(r.start, r.end, r.cleared) for r in blob.list_page_ranges(**options)]

    def page_blob(self, pages=8, **options):
        blob = self.blob()
        blob.create_page_blob(pages * 512, **options)
        return blob

    def test_pages_are_written_read_and_cleared(self):
        blob = self.page_blob(content_settings=ContentSettings(content_type="image/x"), metadata={"a": "1"})
        blob.upload_page(noise(1024), 512, 1024)
        answer = blob.upload_page(noise(512, 2), 3 * 512, 512)
        self.assertEqual(answer["blob_sequence_number"], 0)
        content = bytes(512) + noise(1024) + noise(512, 2) + bytes(4 * 512)
        self.assertEqual(blob.download_blob().readall(), content)
        self.assertEqual(blob.download_blob(700, 1000).readall(), content[700:1700])
        self.assertEqual(self.ranges(blob), [(512, 2047, False)])
        blob.clear_page(1024, 512)
        self.assertEqual(self.ranges(blob), [(512, 1023, False), (1536, 2047, False)])
        self.assertEqual(self.ranges(blob, offset=0, length=1024), [(512, 1023, False)])
        self.assertEqual(blob.download_blob(1024, 512).readall(), bytes(512))
        found = blob.get_blob_properties()
        self.assertEqual((found.blob_type, found.size, found.page_blob_sequence_number), ("PageBlob", 4096, 0))
        self.assertEqual((found.content_settings.content_type, found.metadata), ("image/x", {"a": "1"}))

    def test_a_page_blob_of_eight_tebibytes_takes_no_space(self):
        blob = self.page_blob(8 << 31)
        end = 8 << 40
        blob.upload_page(noise(4 << 20), end - (4 << 20), 4 << 20)
        self.assertEqual(blob.download_blob(end - 512, 512).readall(), noise(4 << 20)[-512:])
        self.assertEqual(self.ranges(blob), [(end - (4 << 20), end - 1, False)])

    def test_uploads_of_whole_page_blobs(self):
        data = noise(1 << 20) + bytes(1 << 20)
        blob = self.pieces.get_blob_client(unique("page"))
        blob.upload_blob(data, blob_type="PageBlob", max_concurrency=2)
        self.assertEqual(blob.download_blob(max_concurrency=2).readall(), data)

    def test_the_difference_to_a_snapshot(self):
        blob = self.page_blob()
        blob.upload_page(noise(2048), 0, 2048)
        before = blob.create_snapshot()["snapshot"]
        blob.upload_page(noise(512, 3), 512, 512)
        blob.clear_page(1536, 512)
        self.assertEqual(self.ranges(blob, previous_snapshot=before), [(512, 1023, False), (1536, 2047, True)])
        old = self.container.get_blob_client(blob.blob_name, snapshot=before)
        self.assertEqual((old.download_blob(0, 2048).readall(), self.ranges(old)), (noise(2048), [(0, 2047, False)]))
        after = blob.create_snapshot()["snapshot"]
        self.assertEqual(self.ranges(blob, previous_snapshot=after), [])
        # Pages that are in neither of the two, but were written and cleared in between.
        blob.upload_page(noise(512), 3072, 512)
        blob.clear_page(3072, 512)
        self.assertEqual(self.ranges(blob, previous_snapshot=after), [(3072, 3583, True)])
        with self.fails(409, "PreviousSnapshotNotFound"):
            self.ranges(blob, previous_snapshot="2024-01-01T00:00:00.0000000Z")
        with self.fails(400, "PreviousSnapshotCannotBeNewer"):
            self.ranges(old, previous_snapshot=after)

    def test_ranges_come_in_pages(self):
        blob = self.page_blob(32)
        for page in range(0, 32, 3):
            blob.upload_page(noise(512), page * 512, 512)
        pages = list(blob.list_page_ranges(results_per_page=4).by_page())
        pages = [[r.start // 512 for r in page] for page in pages]
        self.assertEqual(pages, [[0, 3, 6, 9], [12, 15, 18, 21], [24, 27, 30]])

    def test_resizing_and_sequence_numbers(self):
        blob = self.page_blob(4, sequence_number=7)
        blob.upload_page(noise(2048), 0, 2048)
        blob.resize_blob(1024)
        blob.resize_blob(4096)
        self.assertEqual(blob.download_blob().readall(), noise(2048)[:1024] + bytes(3072))
        with self.fails(412, "SequenceNumberConditionNotMet"):
            blob.upload_page(noise(512), 0, 512, if_sequence_number_lt=7)
        blob.upload_page(noise(512), 0, 512, if_sequence_number_lte=7)
        for action, number, expected in (("max", "5", 7), ("max", "9", 9), ("update", "3", 3), ("increment", None, 4)):
            self.assertEqual(blob.set_sequence_number(action, number)["blob_sequence_number"], expected)
        with self.fails(400, "MissingRequiredHeader"):
            blob.set_sequence_number("update", None)

    def test_what_is_no_page_is_refused(self):
        blob = self.page_blob()
        with self.fails(416, "InvalidPageRange"):
            blob.upload_page(noise(512), 4096, 512)
        with self.fails(400, "Md5Mismatch"):
            blob._client.page_blob.upload_pages(content_length=512, body=noise(512), range="bytes=0-511", transactional_content_md5=bytearray(16))
        with self.fails(400, "InvalidHeaderValue"):
            blob._client.page_blob.create(content_length=0, blob_content_length=511)
        with self.fails(400, "InvalidHeaderValue"):
            blob._client.page_blob.upload_pages(content_length=512, body=noise(512), range="bytes=1-512")


class Copies(BlobTest):
    def test_a_copy_is_done_at_once(self):
        source = self.blob(noise(300_000), metadata={"a": "1"}, content_settings=ContentSettings(content_type="text/x"))
        blob = self.blob()
        answer = blob.start_copy_from_url(source.url)
        self.assertEqual(answer["copy_status"], "success")
        found = blob.get_blob_properties()
        self.assertEqual((found.copy.id, found.copy.status, found.copy.source), (answer["copy_id"], "success", source.url))
        self.assertEqual((found.copy.progress, found.metadata, found.content_settings.content_type), ("300000/300000", {"a": "1"}, "text/x"))
        source.delete_blob()
        self.assertEqual(blob.download_blob().readall(), noise(300_000))
        listed = next(self.container.list_blobs(name_starts_with=blob.blob_name, include=["copy"]))
        self.assertEqual(listed.copy.id, answer["copy_id"])
        blob.upload_blob(b"new", overwrite=True)
        self.assertIsNone(blob.get_blob_properties().copy.id)
        with self.fails(409, "NoPendingCopyOperation"):
            blob.abort_copy(answer["copy_id"])

    def test_copies_of_every_type_and_of_snapshots(self):
        block = self.blob()
        block.stage_block(block_id(0), b"x")
        block.commit_block_list([BlobBlock(block_id(0))])
        append, page = self.blob(), self.blob()
        append.create_append_blob()
        append.append_block(b"one")
        page.create_page_blob(1024, sequence_number=5)
        page.upload_page(noise(512), 512, 512)
        for source in (block, append, page):
            content = source.download_blob().readall()
            old = f"{source.url}?snapshot={source.create_snapshot()['snapshot']}"
            for url in (source.url, old):
                blob = self.blob()
                blob.start_copy_from_url(url, metadata={"own": "1"})
                self.assertEqual(blob.download_blob().readall(), content)
                self.assertEqual(blob.get_blob_properties().blob_type, source.get_blob_properties().blob_type)
                self.assertEqual(blob.get_blob_properties().metadata, {"own": "1"})
        self.assertEqual(len(block.get_block_list()[0]), 1)

    def test_conditions_of_source_and_destination(self):
        source, there = self.blob(b"1"), self.blob(b"2")
        with self.fails(412, "SourceConditionNotMet"):
            self.blob().start_copy_from_url(source.url, source_etag='"0x1"', source_match_condition=MatchConditions.IfNotModified)
        with self.fails(412, "ConditionNotMet"):
            self.blob().start_copy_from_url(source.url, source_if_tags_match_condition="\"a\"='1'")
        with self.fails(409, "BlobAlreadyExists"):
            there.start_copy_from_url(source.url, match_condition=MatchConditions.IfMissing)
        with self.fails(404, "BlobNotFound"):
            there.start_copy_from_url(self.blob().url)
        with self.fails(400, "InvalidHeaderValue"):
            there.start_copy_from_url("no url")
        with self.fails(501, "NotImplemented", "another server"):
            there.start_copy_from_url("http://127.0.0.1:9/devstoreaccount1/c/b")
        self.assertEqual(there.download_blob().readall(), b"2")

    def test_content_from_a_url_needs_a_signature(self):
        source, expiry = self.blob(noise(100_000)), datetime.now(timezone.utc) + timedelta(hours=1)
        signed = lambda permission: f"{source.url}?" + generate_blob_sas(
            ACCOUNT, self.container.container_name, source.blob_name, account_key=KEY, permission=permission, expiry=expiry)
        url = signed("r")
        blob = self.blob()
        for ask in (blob.upload_blob_from_url, lambda url: blob.start_copy_from_url(url, requires_sync=True)):
            with self.fails(401, "CannotVerifyCopySource") as caught:
                ask(source.url)
            self.assertEqual(caught.error.response.headers["x-ms-copy-source-error-code"], "NoAuthenticationInformation")
        for status, unmet in ((412, MatchConditions.IfNotModified), (304, MatchConditions.IfModified)):
            etag = source.get_blob_properties().etag if status == 304 else '"0x1"'
            headers = Headers()
            with self.assertRaises(HttpResponseError):
                blob.upload_blob_from_url(url, source_etag=etag, source_match_condition=unmet, raw_response_hook=headers)
            self.assertEqual((headers.status, headers.headers["x-ms-error-code"]), (status, "CannotVerifyCopySource"))
        with self.fails(403, "CannotVerifyCopySource"):
            blob.upload_blob_from_url(signed("w"))
        answer = blob.upload_blob_from_url(url, content_settings=ContentSettings(content_type="a/b"))
        self.assertIsNotNone(answer["content_crc64"])
        self.assertEqual(blob.download_blob().readall(), noise(100_000))
        self.assertEqual(blob.get_blob_properties().content_settings.content_type, "a/b")
        with self.fails(409, "BlobAlreadyExists"):
            blob.upload_blob_from_url(url, overwrite=False)
        answer = blob.start_copy_from_url(url, requires_sync=True)
        self.assertEqual(answer["copy_status"], "success")
        self.assertNotIn("sig=", blob.get_blob_properties().copy.source)
        blocks = self.blob()
        blocks.stage_block_from_url(block_id(0), url, source_offset=10, source_length=20)
        blocks.stage_block_from_url(block_id(1), url)
        blocks.commit_block_list([BlobBlock(block_id(n)) for n in range(2)])
        self.assertEqual(blocks.download_blob().readall(), noise(100_000)[10:30] + noise(100_000))
        md5 = bytearray(hashlib.md5(noise(100_000)).digest())
        append = self.blob()
        append.create_append_blob()
        append.append_block_from_url(url, source_content_md5=md5)
        with self.fails(400, "Md5Mismatch"):
            append.append_block_from_url(url, source_content_md5=bytearray(16))
        self.assertEqual(append.download_blob().readall(), noise(100_000))
        page = self.blob()
        page.create_page_blob(1024)
        page.upload_pages_from_url(url, 512, 512, 1024)
        self.assertEqual(page.download_blob(512, 512).readall(), noise(100_000)[1024:1536])

    def test_incremental_copies_of_page_blobs(self):
        source, blob = self.blob(), self.blob()
        source.create_page_blob(2048)
        for n in range(2):
            source.upload_page(noise(512, n), n * 512, 512)
            moment = source.create_snapshot()["snapshot"]
            blob.start_copy_from_url(f"{source.url}?snapshot={moment}", incremental_copy=True)
        found = blob.get_blob_properties()
        self.assertTrue(found.copy.incremental_copy)
        copied = self.container.get_blob_client(blob.blob_name, snapshot=found.copy.destination_snapshot)
        self.assertEqual(copied.download_blob().readall()[:1024], noise(512, 0) + noise(512, 1))


class Tags(BlobTest):
    def test_tags_are_set_read_and_counted(self):
        blob = self.blob(b"1", tags={"Project": "x y", "Year": "2024"})
        self.assertEqual(blob.get_blob_tags(), {"Project": "x y", "Year": "2024"})
        etag = blob.get_blob_properties().etag
        blob.set_blob_tags({"Year": "2025"})
        found = blob.get_blob_properties()
        self.assertEqual((found.tag_count, found.etag), (1, etag))
        listed = next(self.container.list_blobs(name_starts_with=blob.blob_name, include=["tags"]))
        self.assertEqual((listed.tags, listed.tag_count), ({"Year": "2025"}, 1))
        blob.set_blob_tags(None)
        self.assertEqual(blob.get_blob_tags(), {})
        for tags in ({f"{n}": "" for n in range(11)}, {"": "x"}, {"a?": "x"}, {"a": "v" * 257}):
            with self.subTest(tags), self.assertRaises(HttpResponseError) as caught:
                blob.set_blob_tags(tags)
            self.assertEqual(caught.exception.status_code, 400)

    def test_conditions_on_tags(self):
        blob = self.blob(b"1", tags={"state": "new"})
        with self.fails(412, "ConditionNotMet"):
            blob.upload_blob(b"2", overwrite=True, if_tags_match_condition="\"state\"='done'")
        with self.fails(412, "ConditionNotMet"):
            blob.download_blob(if_tags_match_condition="\"state\"='done'")
        blob.upload_blob(b"2", overwrite=True, if_tags_match_condition="\"state\"='new'")
        self.assertEqual(blob.get_blob_tags(), {})

    def test_blobs_are_found_by_their_tags(self):
        container = service.create_container(unique("tagged"))
        run = unique("run")
        for n in range(12):
            container.upload_blob(f"{n:02}", b"", tags={"run": run, "n": f"{n:02}"})
        self.container.upload_blob("elsewhere", b"", tags={"run": run, "n": "05"})
        query = f"\"run\"='{run}' and \"n\" >= '03' and \"n\" < '07'"
        found = [(b.container_name, b.name) for b in service.find_blobs_by_tags(query)]
        own = [(container.container_name, f"{n:02}") for n in range(3, 7)]
        self.assertEqual(sorted(found), sorted([*own, (self.container.container_name, "elsewhere")]))
        self.assertEqual(sorted(b.name for b in container.find_blobs_by_tags(query)), ["03", "04", "05", "06"])
        paged = [b.name for page in container.find_blobs_by_tags(f"\"run\"='{run}'", results_per_page=5).by_page() for b in page]
        self.assertEqual(sorted(paged), [f"{n:02}" for n in range(12)])
        with self.fails(400, "InvalidQueryParameterValue"):
            list(service.find_blobs_by_tags("nonsense"))


class Tiers(BlobTest):
    def test_tiers_are_set_and_told(self):
        blob = self.blob(b"1")
        found = blob.get_blob_properties()
        self.assertEqual((found.blob_tier, found.blob_tier_inferred), ("Hot", True))
        blob.set_standard_blob_tier("Cool")
        found = blob.get_blob_properties()
        self.assertEqual((found.blob_tier, found.blob_tier_inferred), ("Cool", None))
        self.assertIsNotNone(found.blob_tier_change_time)
        self.assertEqual(next(self.container.list_blobs(name_starts_with=blob.blob_name)).blob_tier, "Cool")
        cold = self.blob(b"1", standard_blob_tier=StandardBlobTier.COLD)
        self.assertEqual(cold.get_blob_properties().blob_tier, "Cold")
        with self.fails(400, "InvalidHeaderValue"):
            blob.set_standard_blob_tier("Tepid")

    def test_the_service_chooses_for_smart_ones(self):
        blob = self.blob(b"1", standard_blob_tier=StandardBlobTier.SMART)
        for found in (
            blob.get_blob_properties(), blob.download_blob().properties,
            next(self.container.list_blobs(name_starts_with=blob.blob_name)),
        ):
            self.assertEqual((found.blob_tier, found.smart_access_tier), ("Smart", "Hot"))

    def test_a_blob_is_deleted_if_its_tier_is_as_old_as_said(self):
        now = datetime.now(timezone.utc)
        before, after = now - timedelta(hours=1), now + timedelta(hours=1)
        old, new = self.blob(b"1"), self.blob(b"1")
        new.set_standard_blob_tier("Cool")
        for blob in (old, new):
            for unmet in ({"access_tier_if_modified_since": after}, {"access_tier_if_unmodified_since": before}):
                with self.fails(412, "AccessTierChangeTimeConditionNotMet"):
                    blob.delete_blob(**unmet)
            blob.delete_blob(access_tier_if_modified_since=before, access_tier_if_unmodified_since=after)
            self.assertFalse(blob.exists())

    def test_the_archive_is_left_after_a_while(self):
        blob = self.blob(b"1")
        blob.set_standard_blob_tier("Archive")
        with self.fails(409, "BlobArchived"):
            blob.download_blob()
        with self.fails(409, "BlobArchived"):
            blob.upload_blob(b"2", overwrite=True)
        with self.fails(409, "BlobArchived"):
            blob.stage_block("1", b"2")
        self.assertEqual(blob.get_blob_properties().blob_tier, "Archive")
        blob.set_standard_blob_tier("Hot", rehydrate_priority="High")
        self.assertEqual(blob.get_blob_properties().archive_status, "rehydrate-pending-to-hot")
        eventually(lambda: blob.get_blob_properties().archive_status is None)
        self.assertEqual((blob.download_blob().readall(), blob.get_blob_properties().blob_tier), (b"1", "Hot"))

    def test_many_tiers_at_once(self):
        names = [self.blob(b"1").blob_name for _ in range(3)]
        answers = list(self.container.set_standard_blob_tier_blobs("Cool", *names))
        self.assertEqual([a.status_code for a in answers], [200] * 3)
        self.assertEqual(self.container.get_blob_client(names[2]).get_blob_properties().blob_tier, "Cool")


class SoftDelete(harness.Test):
    """Properties are the account's, so these tests leave them as they were."""

    def setUp(self):
        service.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=True, days=7))
        self.addCleanup(service.set_service_properties, delete_retention_policy=RetentionPolicy(enabled=False))
        self.container = service.create_container(unique("kept"))

    def test_a_deleted_blob_can_be_had_back(self):
        blob = self.container.upload_blob("b", b"1")
        moment = blob.create_snapshot()["snapshot"]
        blob.delete_blob(delete_snapshots="include")
        self.assertFalse(blob.exists())
        self.assertEqual(list(self.container.list_blobs()), [])
        listed = list(self.container.list_blobs(include=["deleted", "snapshots"]))
        self.assertTrue(all(b.deleted and b.remaining_retention_days in (6, 7) for b in listed))
        self.assertIn("b", [b.name for b in listed])
        blob.undelete_blob()
        self.assertEqual(blob.download_blob().readall(), b"1")
        self.assertEqual(self.container.get_blob_client("b", snapshot=moment).download_blob().readall(), b"1")

    def test_an_overwritten_blob_is_kept_as_a_deleted_snapshot(self):
        blob = self.container.upload_blob("b", b"old")
        blob.upload_blob(b"new", overwrite=True)
        self.assertEqual([b.deleted for b in self.container.list_blobs(include=["snapshots", "deleted"])], [True, None])
        blob.undelete_blob()
        old = next(self.container.list_blobs(include=["snapshots"])).snapshot
        self.assertEqual(self.container.get_blob_client("b", snapshot=old).download_blob().readall(), b"old")
        with self.fails(404, "BlobNotFound"):
            self.container.get_blob_client("none").undelete_blob()


class Protection(BlobTest):
    def test_a_legal_hold_keeps_a_blob_as_it_is(self):
        blob = self.blob(b"1")
        self.assertTrue(blob.set_legal_hold(True)["legal_hold"])
        self.assertTrue(blob.get_blob_properties().has_legal_hold)
        for refused in (blob.delete_blob, lambda: blob.upload_blob(b"2", overwrite=True)):
            with self.fails(409, "BlobImmutableDueToLegalHold"):
                refused()
        blob.set_legal_hold(False)
        blob.delete_blob()

    def test_an_immutability_policy_until_it_is_taken_back(self):
        blob = self.blob(b"1")
        until = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(days=1)
        blob.set_immutability_policy(ImmutabilityPolicy(expiry_time=until, policy_mode="Unlocked"))
        found = blob.get_blob_properties().immutability_policy
        self.assertEqual((found.expiry_time, found.policy_mode), (until, "unlocked"))
        with self.fails(409, "BlobImmutableDueToPolicy"):
            blob.delete_blob()
        blob.delete_immutability_policy()
        held = self.blob(b"1", legal_hold=True)
        self.assertTrue(held.get_blob_properties().has_legal_hold)
        held.set_legal_hold(False)
        for done in (blob, held):
            done.delete_blob()
        with self.fails(400, "InvalidHeaderValue"):
            self.blob(b"1").set_immutability_policy(ImmutabilityPolicy(expiry_time=until - timedelta(days=2), policy_mode="Unlocked"))

    def test_a_blob_that_expires(self):
        blob = self.blob(b"1")
        expire = lambda option, time: blob._client.blob.set_expiry(option, expires_on=time)
        expire("RelativeToNow", "3600000")
        listed = next(self.container.list_blobs(name_starts_with=blob.blob_name))
        self.assertTrue(blob.exists() and listed.name)
        expire("NeverExpire", None)
        expire("RelativeToNow", "1500")
        eventually(lambda: not blob.exists())


class Properties(BlobTest):
    def test_http_headers_are_replaced_as_a_whole(self):
        blob = self.blob(b"x", content_settings=ContentSettings(content_type="text/plain", cache_control="no-cache"))
        before = blob.get_blob_properties()
        blob.set_http_headers(ContentSettings(content_language="fr", content_disposition="inline"))
        after = blob.get_blob_properties()
        self.assertEqual(after.content_settings.content_language, "fr")
        self.assertEqual(after.content_settings.content_disposition, "inline")
        self.assertIsNone(after.content_settings.cache_control)
        self.assertNotEqual(after.content_settings.content_type, "text/plain")
        self.assertNotEqual(after.etag, before.etag)
        self.assertEqual(blob.download_blob().readall(), b"x")

    def test_metadata_is_replaced_as_a_whole(self):
        blob = self.blob(b"x", metadata={"old": "1"})
        before = blob.get_blob_properties().etag
        answer = blob.set_blob_metadata({"New": "with blank", "UPPER": "2"})
        found = blob.get_blob_properties()
        self.assertEqual(found.metadata, {"New": "with blank", "UPPER": "2"})
        self.assertEqual(found.etag, answer["etag"])
        self.assertNotEqual(found.etag, before)
        blob.set_blob_metadata()
        self.assertEqual(blob.get_blob_properties().metadata, {})
        with self.fails(400, "InvalidMetadata"):
            blob.set_blob_metadata({"not-a-name": "1"})
        with self.fails(400, "MetadataTooLarge", "The metadata specified exceeds the maximum permissible limit (8KB)."):
            blob.set_blob_metadata({f"m{n}": "x" * 1000 for n in range(9)})

    def test_what_is_always_there(self):
        found = self.blob(b"abc").get_blob_properties()
        self.assertEqual((found.lease.state, found.lease.status), ("available", "unlocked"))
        self.assertTrue(found.server_encrypted)
        self.assertEqual(found.blob_tier, "Hot")
        self.assertLess(abs(datetime.now(timezone.utc) - found.last_modified), timedelta(minutes=1))
        self.assertLessEqual(found.creation_time, found.last_modified)

    def test_delete(self):
        blob, headers = self.blob(b"x"), Headers()
        blob.delete_blob(raw_response_hook=headers)
        self.assertEqual(headers.status, 202)
        with self.fails(404, "BlobNotFound", "The specified blob does not exist."):
            blob.delete_blob()


class Conditions(BlobTest):
    def setUp(self):
        self.target = self.blob(b"content")
        found = self.target.get_blob_properties()
        self.etag, self.modified = found.etag, found.last_modified
        self.same = {"etag": self.etag, "match_condition": MatchConditions.IfNotModified}
        self.other = {"etag": '"0x123"', "match_condition": MatchConditions.IfNotModified}
        self.changed = {"etag": self.etag, "match_condition": MatchConditions.IfModified}
        self.hour = timedelta(hours=1)

    def test_reads(self):
        for read in (self.target.download_blob, self.target.get_blob_properties):
            read(**self.same)
            read(if_modified_since=self.modified - self.hour)
            read(if_unmodified_since=self.modified + self.hour)
            read(etag='"0x123"', match_condition=MatchConditions.IfModified)
            with self.fails(412, "ConditionNotMet"):
                read(**self.other)
            with self.fails(412, "ConditionNotMet"):
                read(if_unmodified_since=self.modified - self.hour)
            with self.fails(304, "ConditionNotMet"):
                read(**self.changed)
            with self.fails(304, "ConditionNotMet"):
                read(if_modified_since=self.modified + self.hour)

    def test_writes(self):
        writes = [
            lambda **condition: self.target.upload_blob(b"new", overwrite=True, **condition),
            lambda **condition: self.target.set_blob_metadata({"a": "1"}, **condition),
            lambda **condition: self.target.set_http_headers(ContentSettings(content_type="text/plain"), **condition),
            lambda **condition: self.target.commit_block_list([], **condition),
            lambda **condition: self.target.delete_blob(**condition),
        ]
        message = "The condition specified using HTTP conditional header(s) is not met."
        for write in writes:
            for condition in (self.other, self.changed, {"if_modified_since": self.modified + self.hour},
                              {"if_unmodified_since": self.modified - self.hour}):
                with self.fails(412, "ConditionNotMet", message) as caught:
                    write(**condition)
                self.assertIsInstance(caught.error, ResourceModifiedError)
        self.assertEqual(self.target.download_blob().readall(), b"content")
        for write in writes:
            etag = self.target.get_blob_properties().etag
            write(etag=etag, match_condition=MatchConditions.IfNotModified)
        self.assertFalse(self.target.exists())

    def test_of_a_missing_blob(self):
        missing = self.blob()
        with self.fails(412, "ConditionNotMet"):
            missing.upload_blob(b"x", overwrite=True, **self.same)
        with self.fails(412, "ConditionNotMet"):
            missing.upload_blob(b"x", overwrite=True, match_condition=MatchConditions.IfPresent)
        with self.fails(404, "BlobNotFound"):
            missing.get_blob_properties(**self.same)
        missing.upload_blob(b"x", match_condition=MatchConditions.IfMissing)

    def test_every_change_has_a_new_etag(self):
        etags = [self.target.upload_blob(b"x", overwrite=True)["etag"] for _ in range(20)]
        self.assertEqual(len(set(etags)), 20)


class Lists(BlobTest):
    NAMES = ["A", "a", "a/b/c", "a/b/d", "a/c", "b", "dir/", "dir/x", "z/1", "z/2", "ä", "日本語/🦀"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in cls.NAMES:
            cls.container.upload_blob(name, name.encode(), metadata={"Length": str(len(name))})

    def names(self, **options):
        return [b.name for b in self.container.list_blobs(**options)]

    def test_flat(self):
        self.assertEqual(self.names(), self.NAMES)
        self.assertEqual(list(self.container.list_blob_names()), self.NAMES)
        self.assertEqual(self.names(name_starts_with="a/"), ["a/b/c", "a/b/d", "a/c"])
        self.assertEqual(self.names(name_starts_with="日"), ["日本語/🦀"])
        self.assertEqual(self.names(name_starts_with="none"), [])

    def test_pages(self):
        for size in (1, 2, 5, 11, 12, 13):
            pages = [[b.name for b in page] for page in self.container.list_blobs(results_per_page=size).by_page()]
            self.assertEqual(sum(pages, []), self.NAMES)
            self.assertTrue(all(len(page) == size for page in pages[:-1]))
            self.assertTrue(pages[-1], "no page follows the last name")
        first = self.container.list_blobs(results_per_page=4).by_page()
        next(first)
        rest = self.container.list_blobs(results_per_page=100).by_page(first.continuation_token)
        self.assertEqual([[b.name for b in page] for page in rest], [self.NAMES[4:]])

    def test_by_delimiter(self):
        walk = lambda **options: [(type(b) is BlobPrefix, b.name) for b in self.container.walk_blobs(**options)]
        top = [(False, "A"), (False, "a"), (True, "a/"), (False, "b"), (True, "dir/"), (True, "z/"), (False, "ä"), (True, "日本語/")]
        self.assertEqual(sorted(walk()), sorted(top))
        self.assertEqual(sorted(walk(name_starts_with="a/")), [(False, "a/c"), (True, "a/b/")])
        self.assertEqual(walk(name_starts_with="dir/"), [(False, "dir/"), (False, "dir/x")])
        self.assertEqual(sorted(walk(delimiter="/b")), sorted([(False, n) for n in self.NAMES if "/b" not in n] + [(True, "a/b")]))
        for size in (1, 2, 3, 7):
            self.assertEqual(sorted(walk(results_per_page=size)), sorted(top))

    def test_properties(self):
        listed = {b.name: b for b in self.container.list_blobs(include=["metadata"])}
        for name in self.NAMES:
            self.assertEqual(listed[name].size, len(name.encode()))
            self.assertEqual(listed[name].metadata, {"Length": str(len(name))})
            self.assertEqual(bytes(listed[name].content_settings.content_md5), hashlib.md5(name.encode()).digest())
        found = self.container.get_blob_client("A").get_blob_properties()
        self.assertEqual(listed["A"].etag, found.etag.strip('"'))
        self.assertEqual(listed["A"].last_modified, found.last_modified)
        self.assertEqual(listed["A"].creation_time, found.creation_time)
        self.assertEqual(listed["A"].blob_type, "BlockBlob")
        self.assertIsNone(next(iter(self.container.list_blobs())).metadata or None)

    def test_names(self):
        names = ["a b", "a+b", "a%20b", "100%", "#hash", "question?", "(paren)", "it's", "a&b=c", "semi;colon", "a//b", "a/", "[x]",
                 "emoji 🦀", "dot.", "quote\"", "<xml>", "comma,name", "tilde~", "n" * 1024]
        container = service.create_container(unique("names"))
        for name in names:
            container.upload_blob(name, name.encode())
        self.assertEqual([b.name for b in container.list_blobs()], sorted(names, key=lambda n: n.encode()))
        for name in names:
            blob = container.get_blob_client(name)
            self.assertEqual(blob.download_blob().readall(), name.encode())
            blob.set_blob_metadata({"a": "1"})
            self.assertEqual([b.name for b in container.list_blobs(name_starts_with=name)][0], name)
        for name in names:
            container.delete_blob(name)
        self.assertEqual(list(container.list_blobs()), [])


class Clients(harness.Test):
    def test_a_blob_client_from_the_connection_string(self):
        name = unique("direct")
        ContainerClient.from_connection_string(CONNECTION, name, **ONCE).create_container()
        blob = BlobClient.from_connection_string(CONNECTION, name, "b", **ONCE)
        blob.upload_blob(b"x")
        same = BlobClient.from_blob_url(blob.url, credential=harness.KEY_CREDENTIAL, **ONCE)
        self.assertEqual(same.download_blob().readall(), b"x")

    def test_answers_carry_version_and_identifiers(self):
        headers = Headers()
        service.get_account_information(raw_response_hook=headers)
        self.assertEqual(headers["x-ms-version"], headers.request.headers["x-ms-version"])
        self.assertEqual(headers["x-ms-client-request-id"], headers.request.headers["x-ms-client-request-id"])
        self.assertRegex(headers["x-ms-request-id"], r"^[0-9a-f-]{36}$")


if __name__ == "__main__":
    harness.main()
