"""Copies from other servers: a second Lazurite, and servers that break off or never go on. The first has `--allow-copy-from=127.0.0.1`."""

import os
import socket
import threading
import uuid
from datetime import datetime, timedelta, timezone

from azure.core import MatchConditions
from azure.storage.blob import BlobServiceClient, ContentSettings, generate_account_sas

import harness
from harness import ACCOUNT, CONNECTION, KEY, ONCE, eventually, unique

OTHER = os.environ["LAZURITE_OTHER"]
here = BlobServiceClient.from_connection_string(CONNECTION, **ONCE)
there = BlobServiceClient.from_connection_string(OTHER, **ONCE)
DATA = bytes(range(256)) * 8192


class Halting:
    """A server that sends a head, part of a body of 1,000 bytes, and then nothing until it closes the connection."""

    def __init__(self, sent):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/file"
        self.release = threading.Event()
        threading.Thread(target=self.serve, args=(sent,), daemon=True).start()

    def serve(self, sent):
        connection, _ = self.listener.accept()
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * sent)
        self.release.wait()
        connection.close()


class ForeignTest(harness.Test):
    @classmethod
    def setUpClass(cls):
        cls.container = here.create_container(unique("con"))
        source = there.create_container(unique("src"))
        cls.source = source.get_blob_client("b c")
        cls.source.upload_blob(DATA, metadata={"a": "1"}, content_settings=ContentSettings(content_type="text/odd"))
        expiry = datetime.now(timezone.utc) + timedelta(hours=1)
        sas = generate_account_sas(ACCOUNT, KEY, resource_types="o", permission="r", expiry=expiry)
        cls.url = f"{cls.source.url}?{sas}"

    def blob(self):
        return self.container.get_blob_client(unique("blob"))

    def test_content_comes_from_another_server(self):
        blob = self.blob()
        blob.upload_blob_from_url(self.url)
        found = blob.download_blob()
        self.assertEqual((found.readall(), found.properties.content_settings.content_type), (DATA, "text/odd"))
        blob = self.blob()
        half = len(DATA) // 2
        blob.stage_block_from_url("a", self.url, 0, half)
        blob.stage_block_from_url("b", self.url, half, len(DATA) - half)
        blob.commit_block_list(["b", "a"])
        self.assertEqual(blob.download_blob().readall(), DATA[half:] + DATA[:half])
        blob = self.blob()
        blob.create_append_blob()
        blob.append_block_from_url(self.url, 10, 100)
        self.assertEqual(blob.download_blob().readall(), DATA[10:110])
        blob = self.blob()
        blob.create_page_blob(1024)
        blob.upload_pages_from_url(self.url, offset=512, length=512, source_offset=7)
        self.assertEqual(blob.download_blob().readall(), bytes(512) + DATA[7:519])

    def test_copies_say_how_they_went(self):
        blob = self.blob()
        blob.start_copy_from_url(self.url)
        done = eventually(lambda: (p := blob.get_blob_properties()).copy.status != "pending" and p)
        self.assertEqual((done.copy.status, done.copy.progress), ("success", f"{len(DATA)}/{len(DATA)}"))
        self.assertEqual((done.copy.source, done.metadata), (self.source.url, {"a": "1"}))
        self.assertEqual(blob.download_blob().readall(), DATA)
        blob = self.blob()
        self.assertEqual(blob.start_copy_from_url(self.url, requires_sync=True)["copy_status"], "success")
        self.assertEqual(blob.download_blob().readall(), DATA)

    def test_what_the_source_refuses_is_told(self):
        # What others may not read is not there for them.
        for url in (self.url.replace("b%20c", "none"), self.source.url):
            for ask in (lambda b: b.upload_blob_from_url(url), lambda b: b.start_copy_from_url(url)):
                blob = self.blob()
                with self.fails(404, "CannotVerifyCopySource"):
                    ask(blob)
                self.assertFalse(blob.exists())
        with self.fails(412, "SourceConditionNotMet"):
            self.blob().start_copy_from_url(self.url, source_etag='"0x1"', source_match_condition=MatchConditions.IfNotModified)
        with self.fails(412, "CannotVerifyCopySource"):
            self.blob().upload_blob_from_url(self.url, source_etag='"0x1"', source_match_condition=MatchConditions.IfNotModified)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
        with self.fails(500, "CannotVerifyCopySource"):
            self.blob().upload_blob_from_url(f"http://127.0.0.1:{port}/x")

    def test_hosts_that_are_not_named_are_not_asked(self):
        for host in ("127.0.0.2", "example.org", "127.0.0.1.example.org"):
            with self.subTest(host), self.fails(501, "NotImplemented", "--allow-copy-from"):
                self.blob().upload_blob_from_url(f"http://{host}/x")

    def test_a_copy_under_way_keeps_its_destination(self):
        source, blob = Halting(10), self.blob()
        copy = blob.start_copy_from_url(source.url)
        self.assertEqual(copy["copy_status"], "pending")
        for change in (lambda: blob.upload_blob(b"x", overwrite=True), lambda: blob.set_blob_metadata({}), blob.create_snapshot):
            with self.fails(409, "PendingCopyOperation"):
                change()
        with self.fails(409, "CopyIdMismatch"):
            blob.abort_copy(str(uuid.uuid4()))
        blob.abort_copy(copy["copy_id"])
        found = blob.get_blob_properties()
        self.assertEqual((found.copy.status, found.size), ("aborted", 0))
        source.release.set()
        with self.fails(409, "NoPendingCopyOperation"):
            blob.abort_copy(copy["copy_id"])

    def test_a_copy_whose_source_breaks_off_fails(self):
        source, blob = Halting(10), self.blob()
        blob.start_copy_from_url(source.url)
        source.release.set()
        failed = eventually(lambda: (p := blob.get_blob_properties()).copy.status != "pending" and p)
        self.assertEqual((failed.copy.status, failed.size), ("failed", 0))
        self.assertIn("CannotVerifyCopySource", failed.copy.status_description)
        blob.upload_blob(b"x", overwrite=True)


if __name__ == "__main__":
    harness.main()
