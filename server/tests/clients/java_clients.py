"""Clients in Java: Azure's client of blobs, with the snippet of the console's page "Connect", and Hadoop's driver WASB.

The jars are in Python packages that carry them, in the directory LAZURITE_JARS. There the classes are below packages of those that
made the jars, so the names are put in front of the imports before a program is run."""

import os
import shutil
import subprocess
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

from azure.storage.blob import BlobServiceClient

from connect_page import snippets
from harness import ACCOUNT, CONNECTION, KEY, SETTINGS, Test, unique

SOURCES = Path(__file__).with_name("java")
DIRECTORY = Path(os.environ["LAZURITE_JARS"])
AZURE = {"com.azure.": "is.hail.shadedazure.com.azure."}
HADOOP = {"org.apache.hadoop.": "org.apache.flink.fs.shaded.hadoop3.org.apache.hadoop."}
PORT = SETTINGS["BlobEndpoint"].split(":")[2].split("/")[0]
HOST = f"{ACCOUNT}.blob.localhost"


def jars_of_azure():
    jar = DIRECTORY / "hail-all-spark.jar"
    if not jar.exists():
        with zipfile.ZipFile(next(DIRECTORY.glob("hail-*.whl"))) as wheel:
            unpack(wheel.open("hail/backend/hail-all-spark.jar"), jar)
    return [jar]


def jars_of_hadoop():
    names = ["opt/flink-azure-fs-hadoop-1.10.3.jar", "lib/flink-dist_2.11-1.10.3.jar", "lib/log4j-1.2.17.jar", "lib/slf4j-log4j12-1.7.15.jar"]
    jars = [DIRECTORY / Path(name).name for name in names]
    if not all(jar.exists() for jar in jars):
        with tarfile.open(next(DIRECTORY.glob("apache-flink-*.tar.gz"))) as package:
            for name, jar in zip(names, jars):
                unpack(package.extractfile(f"apache-flink-1.10.3/deps/{name}"), jar)
    return jars


def unpack(member, path):
    partial = path.with_suffix(".partial")
    with member, partial.open("wb") as file:
        shutil.copyfileobj(member, file)
    partial.rename(path)


class Java(Test):
    def setUp(self):
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def java(self, source, names, jars, *arguments):
        """Compiles and runs a program, and returns its output."""
        for name, real in names.items():
            source = source.replace(name, real)
        program = self.directory / "Program.java"
        program.write_text(source)
        hosts = self.directory / "hosts"
        # Not every system resolves the names below localhost.
        hosts.write_text(f"127.0.0.1 localhost {HOST}\n")
        path = os.pathsep.join(map(os.fspath, jars))
        command = ["java", f"-Djdk.net.hosts.file={hosts}", "-cp", path, os.fspath(program), *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_blobs(self):
        self.java((SOURCES / "Blobs.java").read_text(), AZURE, jars_of_azure(), unique("java"))

    def test_the_snippet_of_the_console(self):
        name = unique("java")
        BlobServiceClient.from_connection_string(CONNECTION).create_container(name)
        imported, _, lines = snippets()["Java", "Blob"].partition("\n\n")
        program = f"{imported}\npublic class Snippet {{ public static void main(String[] arguments) {{\n{lines}\n}} }}\n"
        self.assertIn(name, self.java(program, AZURE, jars_of_azure()))

    def test_hadoop(self):
        name = unique("hadoop")
        BlobServiceClient.from_connection_string(CONNECTION).create_container(name)
        self.java((SOURCES / "Wasb.java").read_text(), HADOOP, jars_of_hadoop(), f"{HOST}:{PORT}", name, KEY)


if __name__ == "__main__":
    unittest.main(verbosity=2)
