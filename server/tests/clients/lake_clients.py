"""Clients of Data Lake Storage that Microsoft did not write: adlfs, PyArrow, OpenDAL, delta-rs, PyIceberg, DuckDB and GDAL. Each
reads back what it wrote, and lists, renames and deletes directories where it can."""

import os
import pathlib
import unittest

import adlfs
import duckdb
import duckdb_extension_azure
import opendal
import pyarrow
import pyarrow.parquet
import pyogrio
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


class DuckDb(Client):
    EXTENSION = next(pathlib.Path(duckdb_extension_azure.__file__).parent.rglob("azure.duckdb_extension"))
    # The suffix alone gives the client the addresses of both protocols: it needs them for `abfss`.
    HOSTED = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};EndpointSuffix=localhost:{PORT}"

    def setUp(self):
        super().setUp()
        self.database = duckdb.connect()
        self.addCleanup(self.database.close)
        self.database.load_extension(os.fspath(self.EXTENSION))
        # 4 MB of text: a file of several blocks.
        count = 300_000
        self.rows = pyarrow.table({"number": list(range(count)), "text": [f"the row of {number}" for number in range(count)]})
        self.database.register("rows", self.rows)

    def connect(self, connection):
        self.database.execute(f"CREATE OR REPLACE SECRET lake (TYPE azure, CONNECTION_STRING '{connection}')")

    def find(self, pattern):
        found = self.database.execute(f"SELECT file FROM glob('{pattern}') ORDER BY file").fetchall()
        return [file.partition(self.name + "/")[2] for (file,) in found]

    def check(self, scheme, directory):
        root = f"{scheme}://{self.name}/{directory}"
        for _ in "write", "overwrite":
            self.database.execute(f"COPY rows TO '{root}/all.parquet'")
        self.database.execute(f"COPY rows TO '{root}/all.csv'")
        self.database.execute(f"COPY (SELECT *, number % 3 AS part FROM rows) TO '{root}/set' (FORMAT parquet, PARTITION_BY part)")
        parts = [f"{directory}/set/part={part}/data_0.parquet" for part in range(3)]
        self.assertEqual(self.find(f"{root}/*.parquet"), [f"{directory}/all.parquet"])
        self.assertEqual(self.find(f"{root}/*/*/*.parquet"), parts)
        # At `abfss`, the client takes ** as the last segment alone. At `az`, ** finds directories too.
        everything = self.find(f"{root}/**" if scheme == "abfss" else f"{root}/**/*.*")
        self.assertEqual(everything, [f"{directory}/all.csv", f"{directory}/all.parquet", *parts])
        for files in "all.parquet", "all.csv", "set/*/*.parquet":
            read = self.database.execute(f"SELECT number, text FROM '{root}/{files}' ORDER BY number").to_arrow_table()
            self.assertEqual(read, self.rows, files)
        query = f"SELECT part, count(*) FROM read_parquet('{root}/set/*/*.parquet', hive_partitioning=true) WHERE part > 0 GROUP BY part ORDER BY part"
        self.assertEqual(self.database.execute(query).fetchall(), [(1, 100_000), (2, 100_000)])
        with self.assertRaises(duckdb.Error):
            self.database.execute(f"SELECT * FROM '{root}/missing.parquet'")

    def test_both_protocols(self):
        self.connect(CONNECTION)
        self.check("az", "in the path")
        self.connect(self.HOSTED)
        self.check("az", "in the host")
        self.check("abfss", "lake")


class Gdal(Client):
    """GDAL, by its Python face for vectors: `/vsiaz/` speaks Blob, and `/vsiadls/` Data Lake Storage."""

    def setUp(self):
        super().setUp()
        os.environ["AZURE_STORAGE_CONNECTION_STRING"] = CONNECTION
        # A point at (1, 2) a row, in the binary format of geometries that GDAL takes.
        point = bytes.fromhex("0101000000000000000000f03f0000000000000040")
        self.rows = ROWS.append_column("wkb_geometry", [[point] * len(ROWS)])

    def write(self, path):
        pyogrio.write_arrow(self.rows, path, driver="FlatGeobuf", geometry_name="wkb_geometry", geometry_type="Point", crs="EPSG:4326")

    def test_blobs_and_paths(self):
        for root in f"/vsiaz/{self.name}", f"/vsiadls/{self.name}":
            path = f"{root}/a/b/points.fgb"
            self.write(path)
            _, read = pyogrio.read_arrow(path)
            self.assertEqual(read.sort_by("number").select(["number", "text"]), ROWS)
            _, read = pyogrio.read_arrow(path, where="number >= 990", bbox=(0, 0, 3, 3))
            self.assertEqual(sorted(read["number"].to_pylist()), list(range(990, 1000)))
            found = [one.removeprefix(root + "/").rstrip("/") for one in pyogrio.vsi_listtree(root)]
            self.assertEqual(sorted(found), ["a", "a/b", "a/b/points.fgb"])
            pyogrio.vsi_unlink(path)
        pyogrio.vsi_rmtree(f"{root}/a")
        self.assertEqual(pyogrio.vsi_listtree(root), [])


if __name__ == "__main__":
    unittest.main()
