"""The Azure CLI, `az storage`, with the connection string in its environment variable: all four services, and the snippets of
the console's page "Connect"."""

import filecmp
import json
import os
import shlex
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path

from connect_page import SERVICES, snippets
from harness import Test, unique

AZ = Path(sys.executable).with_name("az")
USER = "11111111-1111-1111-1111-111111111111"
# The CLI keeps settings and logs in the user's home otherwise.
HOME = tempfile.TemporaryDirectory()
ENVIRONMENT = {**os.environ, "AZURE_CONFIG_DIR": HOME.name, "AZURE_CORE_COLLECT_TELEMETRY": "no", "AZURE_CORE_ONLY_SHOW_ERRORS": "yes"}


def run(words):
    """What the CLI printed: JSON, unless the words name another format."""
    command = [os.fspath(AZ), *words]
    done = subprocess.run(command, env=ENVIRONMENT, cwd=HOME.name, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, f"{words} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def az(line, *words):
    """A command of `az storage`. Words with blanks are given separately."""
    return json.loads(run(["storage", *line.split(), *words, "--output", "json"]) or "null")


class Cli(Test):
    def setUp(self):
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.large = self.directory / "large"
        self.large.write_bytes(os.urandom(5 << 20))
        self.tree = self.directory / "tree"
        (self.tree / "below").mkdir(parents=True)
        (self.tree / "one.txt").write_text("one")
        (self.tree / "below/two é.txt").write_text("two")
        self.name = unique("cli")

    def check_download(self, *words):
        got = self.directory / "got"
        az(*words, os.fspath(got))
        self.assertTrue(filecmp.cmp(self.large, got, shallow=False))
        got.unlink()

    def test_blobs(self):
        c = f"--container-name {self.name}"
        self.assertEqual(az(f"container create --name {self.name}"), {"created": True})
        az(f"blob upload {c} --name a/large --file", os.fspath(self.large))
        az(f"blob upload {c} --name a/large --overwrite --metadata lake=blue --tier Cool --file", os.fspath(self.large))
        found = az(f"blob show {c} --name a/large")
        self.assertEqual((found["properties"]["contentLength"], found["metadata"], found["properties"]["blobTier"]), (5 << 20, {"lake": "blue"}, "Cool"))
        self.check_download(f"blob download {c} --name a/large --file")
        az(f"blob upload-batch --destination {self.name} --destination-path tree --source", os.fspath(self.tree))
        names = [blob["name"] for blob in az(f"blob list {c} --prefix tree/")]
        self.assertEqual([name for name in names if name.endswith(".txt")], ["tree/below/two é.txt", "tree/one.txt"])
        back = self.directory / "back"
        back.mkdir()
        # The CLI would download a directory as an empty file, so the pattern names files alone.
        az(f"blob download-batch --source {self.name} --pattern tree/*.txt --destination", os.fspath(back))
        self.assertEqual((back / "tree/below/two é.txt").read_text(), "two")
        url = run(shlex.split(f"storage blob generate-sas {c} --name a/large --permissions r --expiry 2099-01-01 --full-uri --output tsv"))
        with urllib.request.urlopen(url.strip()) as answer:
            self.assertEqual(answer.read(), self.large.read_bytes())
        az(f"blob copy start --destination-container {self.name} --destination-blob copy --source-uri {url.strip()}")
        self.check_download(f"blob download {c} --name copy --file")
        lease = az(f"blob lease acquire {c} --blob-name copy --lease-duration 60")
        with self.assertRaisesRegex(AssertionError, "LeaseIdMissing"):
            az(f"blob delete {c} --name copy")
        az(f"blob delete {c} --name copy --lease-id {lease}")
        self.assertEqual(az(f"blob exists {c} --name copy"), {"exists": False})
        snapshot = az(f"blob snapshot {c} --name a/large")["snapshot"]
        self.assertEqual(az(f"blob show {c} --name a/large --snapshot {snapshot}")["snapshot"], snapshot)
        az(f"blob delete-batch --source {self.name} --delete-snapshots include --pattern *large")
        self.assertEqual(az(f"blob exists {c} --name a/large"), {"exists": False})
        self.assertEqual(az(f"container delete --name {self.name}"), {"deleted": True})

    def test_queues(self):
        q = f"--queue-name {self.name}"
        az(f"queue create --name {self.name}")
        az(f"message put {q} --content", "two words")
        self.assertEqual(az(f"message peek {q}")[0]["content"], "two words")
        taken = az(f"message get {q} --visibility-timeout 60")[0]
        self.assertEqual(taken["content"], "two words")
        az(f"message delete {q} --id {taken['id']} --pop-receipt {taken['popReceipt']}")
        self.assertEqual(az(f"message peek {q}"), [])
        az(f"queue delete --name {self.name}")

    def test_tables(self):
        t = f"--table-name {self.name}"
        az(f"table create --name {self.name}")
        az(f"entity insert {t} --entity PartitionKey=Sales RowKey=1 Age=34 Age@odata.type=Edm.Int32 Name=Anna")
        az(f"entity insert {t} --entity PartitionKey=Sales RowKey=2 Age=28 Age@odata.type=Edm.Int32 Name=Ben")
        found = az(f"entity query {t} --filter", "Age gt 30")
        self.assertEqual([(entity["Name"], entity["Age"]) for entity in found["items"]], [("Anna", 34)])
        az(f"entity merge {t} --entity PartitionKey=Sales RowKey=1 Town=Rome")
        shown = az(f"entity show {t} --partition-key Sales --row-key 1")
        self.assertEqual((shown["Name"], shown["Town"]), ("Anna", "Rome"))
        az(f"entity delete {t} --partition-key Sales --row-key 1 --if-match *")
        self.assertEqual([entity["Name"] for entity in az(f"entity query {t}")["items"]], ["Ben"])
        az(f"table delete --name {self.name}")

    def test_a_lake(self):
        fs = f"--file-system {self.name}"
        az(f"fs create --name {self.name}")
        az(f"fs directory create {fs} --name a/b")
        az(f"fs file upload {fs} --path a/b/large --source", os.fspath(self.large))
        self.check_download(f"fs file download {fs} --path a/b/large --destination")
        az(f"fs file append {fs} --path a/b/large --content more")
        self.assertEqual(az(f"fs file show {fs} --path a/b/large")["size"], (5 << 20) + 4)
        az(f"fs directory move {fs} --name a/b --new-directory {self.name}/a/c")
        az(f"fs file move {fs} --path a/c/large --new-path {self.name}/large")
        self.assertEqual([path["name"] for path in az(f"fs file list {fs}")], ["a", "a/c", "large"])
        self.assertEqual(az(f"fs directory exists {fs} --name a/b"), {"exists": False})
        az(f"fs access set {fs} --path large --acl user::rwx,group::r-x,other::--x")
        shown = az(f"fs access show {fs} --path large")
        self.assertEqual((shown["acl"], shown["permissions"]), ("user::rwx,group::r-x,other::--x", "rwxr-x--x"))
        az(f"fs access set {fs} --path large --permissions rw-r-----")
        self.assertEqual(az(f"fs access show {fs} --path large")["permissions"], "rw-r-----")
        changed = az(f"fs access update-recursive {fs} --path a --acl user:{USER}:r-x")
        self.assertEqual((changed["counters"]["directoriesSuccessful"], changed["counters"]["failureCount"]), (2, 0))
        self.assertIn(f"user:{USER}:r-x", az(f"fs access show {fs} --path a/c")["acl"])
        az(f"fs access remove-recursive {fs} --path a --acl user:{USER}")
        self.assertNotIn(USER, az(f"fs access show {fs} --path a/c")["acl"])
        az(f"fs directory delete {fs} --name a --yes")
        self.assertEqual([path["name"] for path in az(f"fs file list {fs}")], ["large"])
        az(f"fs delete --name {self.name} --yes")

    def test_the_snippets_of_the_console(self):
        az("container create --name albums")
        az("queue create --name letters")
        az("table create --name Invoices")
        for service, name in zip(SERVICES, ("albums", "letters", "Invoices")):
            command = shlex.split(snippets()["Azure CLI", service])
            self.assertEqual(command[0], "az")
            self.assertIn(name, run(command[1:]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
