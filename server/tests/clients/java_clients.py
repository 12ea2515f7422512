"""Clients in Java: Azure's client of blobs, with the snippet of the console's page "Connect", and Hadoop's driver WASB.

The classes in the jars are below packages of the jars' makers, so their names are put in front of the imports before a program
is run."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from azure.storage.blob import BlobServiceClient

from connect_page import snippets
from harness import ACCOUNT, CONNECTION, KEY, SETTINGS, Test, unique
from jars import AZURE_PREFIX, HADOOP_PREFIX, jars_of_azure, jars_of_hadoop

SOURCES = Path(__file__).with_name("java")
AZURE = {"com.azure.": f"{AZURE_PREFIX}com.azure."}
HADOOP = {"org.apache.hadoop.": f"{HADOOP_PREFIX}org.apache.hadoop."}
PORT = SETTINGS["BlobEndpoint"].split(":")[2].split("/")[0]
HOST = f"{ACCOUNT}.blob.localhost"


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
