"""Clients of Data Lake Storage that Microsoft did not write: adlfs, PyArrow, OpenDAL, delta-rs and PyIceberg. Each reads back
what it wrote, and lists, renames and deletes directories."""

import os
import unittest

import adlfs
import opendal
import pyarrow
import pyarrow.parquet
from azure.storage.blob import ContainerClient
from deltalake import DeltaTable, write_deltalake
from pyarrow.fs import AzureFileSystem, FileSelector
from pyiceberg.catalog.sql import SqlCatalog

from harness import ACCOUNT, CONNECTION, KEY, SETTINGS, Test, unique

URL = SETTINGS["BlobEndpoint"]
PORT = URL.split(":")[2].split("/")[0]
ROWS = pyarrow.table({"number": list(range(1000)), "text": [f"row {number}" for number in range(1000)]})


class Client(Test):
    def setUp(self):
        self.name = unique("lake")
        container = ContainerClient.from_connection_string(CONNECTION, self.name)
        container.create_container()
        self.addCleanup(container.delete_container)


class Adlfs(Client):
    def setUp(self):
        super().setUp()
        self.files = adlfs.AzureBlobFileSystem(connection_string=CONNECTION, skip_instance_cache=True)

    def find(self, path=""):
        self.files.invalidate_cache()
        found = self.files.find(f"{self.name}/{path}", withdirs=True)
        return [path.removeprefix(self.name + "/") for path in found]

    def test_directories(self):
        content = os.urandom(6 << 20)
        self.files.makedirs(f"{self.name}/a/b")
        self.files.pipe_file(f"{self.name}/a/b/f", content)
        self.assertEqual(self.files.cat_file(f"{self.name}/a/b/f"), content)
        with self.files.open(f"{self.name}/a/log", "ab") as log:
            log.write(b"one")
        with self.files.open(f"{self.name}/a/log", "ab") as log:
            log.write(b"two")
        self.assertEqual(self.files.cat_file(f"{self.name}/a/log"), b"onetwo")
        self.assertEqual(self.find(), ["a", "a/b", "a/b/f", "a/log"])
        self.assertTrue(self.files.isdir(f"{self.name}/a/b"))
        self.files.mv(f"{self.name}/a/b/f", f"{self.name}/a/g")
        self.assertEqual(self.find("a"), ["a/b", "a/g", "a/log"])
        self.files.rm(f"{self.name}/a", recursive=True)
        self.assertEqual(self.find(), [])


class Arrow(Client):
    def setUp(self):
        super().setUp()
        # The client of Data Lake Storage that Arrow uses loses an account in the path: it is in the host name.
        self.files = AzureFileSystem(
            account_name=ACCOUNT,
            account_key=KEY,
            blob_storage_authority=f".blob.core.localhost:{PORT}",
            dfs_storage_authority=f".dfs.core.localhost:{PORT}",
            blob_storage_scheme="http",
            dfs_storage_scheme="http",
        )

    def find(self):
        found = self.files.get_file_info(FileSelector(self.name, recursive=True))
        return sorted(one.path.removeprefix(self.name + "/") for one in found)

    def test_directories(self):
        self.files.create_dir(f"{self.name}/a/b")
        with self.files.open_output_stream(f"{self.name}/a/b/f") as file:
            file.write(b"hello")
        with self.files.open_append_stream(f"{self.name}/a/b/f") as file:
            file.write(b" world")
        self.assertEqual(self.files.open_input_file(f"{self.name}/a/b/f").read(), b"hello world")
        self.files.move(f"{self.name}/a", f"{self.name}/c")
        self.assertEqual(self.find(), ["c", "c/b", "c/b/f"])
        self.files.move(f"{self.name}/c/b/f", f"{self.name}/g")
        self.assertEqual(self.files.open_input_stream(f"{self.name}/g").read(), b"hello world")
        with self.assertRaises(FileNotFoundError):
            self.files.move(f"{self.name}/missing", f"{self.name}/new")
        with self.assertRaisesRegex(OSError, "InvalidRenameSourcePath"):
            self.files.move(f"{self.name}/c", f"{self.name}/c/below")

    def test_a_data_set(self):
        rows = ROWS.append_column("part", [[number % 3 for number in range(1000)]])
        pyarrow.parquet.write_to_dataset(rows, f"{self.name}/set", partition_cols=["part"], filesystem=self.files)
        found = pyarrow.parquet.read_table(f"{self.name}/set", filesystem=self.files)
        self.assertEqual(found.sort_by("number").select(["number", "text"]), ROWS)
        self.files.delete_dir_contents(f"{self.name}/set")
        self.assertEqual(self.find(), ["set"])
        self.files.delete_dir(f"{self.name}/set")
        self.assertEqual(self.find(), [])


class OpenDal(Client):
    def test_directories(self):
        files = opendal.Operator("azdls", filesystem=self.name, endpoint=URL, account_name=ACCOUNT, account_key=KEY)
        content = os.urandom(1 << 20)
        files.create_dir("a/b/")
        files.write("a/b/f", content)
        self.assertEqual(bytes(files.read("a/b/f")), content)
        files.write("a/log", b"one", append=True)
        files.write("a/log", b"two", append=True)
        self.assertEqual(bytes(files.read("a/log")), b"onetwo")
        self.assertTrue(files.stat("a/b/").mode.is_dir())
        files.rename("a/b/f", "a/g")
        self.assertEqual(sorted(entry.path for entry in files.scan("a/")), ["a/", "a/b/", "a/g", "a/log"])
        files.remove_all("a/")
        self.assertFalse(files.exists("a/"))


class Tables(Client):
    """Table formats. Both clients take account and address from their options, and ignore the host of an `abfss` URL."""

    OPTIONS = {"account_name": ACCOUNT, "account_key": KEY, "endpoint": URL, "allow_http": "true"}

    def urls(self, path):
        return [f"az://{self.name}/{path}", f"abfss://{self.name}@{ACCOUNT}.dfs.core.windows.net/{path}"]

    def test_delta(self):
        for url in self.urls("delta"):
            write_deltalake(url, ROWS, mode="overwrite", storage_options=self.OPTIONS)
            write_deltalake(url, ROWS, mode="append", storage_options=self.OPTIONS)
            table = DeltaTable(url, storage_options=self.OPTIONS)
            table.delete("number >= 500")
            table.optimize.compact()
            table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
            table.create_checkpoint()
            found = DeltaTable(url, storage_options=self.OPTIONS).to_pyarrow_table()
            self.assertEqual(sorted(found["number"].to_pylist()), sorted([*range(500)] * 2))

    def test_iceberg(self):
        settings = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO", "adls.connection-string": CONNECTION}
        catalog = SqlCatalog("lake", uri="sqlite:///:memory:", warehouse=self.urls("iceberg")[1], **settings)
        catalog.create_namespace("space")
        table = catalog.create_table("space.table", schema=ROWS.schema)
        table.append(ROWS)
        table.append(ROWS)
        table.delete("number >= 500")
        found = table.scan().to_arrow()
        self.assertEqual(sorted(found["number"].to_pylist()), sorted([*range(500)] * 2))
        catalog.purge_table("space.table")


if __name__ == "__main__":
    unittest.main()
