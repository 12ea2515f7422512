"""Azure's clients for Go: the snippets of the console's page "Connect", and that of Data Lake Storage.

The clients come from Debian's package golang-github-azure-azure-sdk-for-go-dev (of a version that has the directory sdk), below
/usr/share/gocode, or from another directory of GOPATH. No module is downloaded."""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from connect_page import CONNECTION, SERVICES, snippets
from harness import Test, unique

SOURCES = Path(__file__).with_name("go")
AZURE = "github.com/Azure/azure-sdk-for-go/sdk"
PACKAGES = {"azblob": f"{AZURE}/storage/azblob", "azqueue": f"{AZURE}/storage/azqueue", "aztables": f"{AZURE}/data/aztables"}
ENVIRONMENT = {**os.environ, "GO111MODULE": "off", "GOFLAGS": "", "GOTOOLCHAIN": "local"}
ENVIRONMENT.setdefault("GOPATH", "/usr/share/gocode")


class Go(Test):
    def go(self, program, *arguments):
        command = ["go", "run", os.fspath(program), *arguments]
        done = subprocess.run(command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_a_lake(self):
        self.go(SOURCES / "lake.go", unique("go"))

    def test_the_snippets_of_the_console(self):
        BlobServiceClient.from_connection_string(CONNECTION).create_container("gophers")
        QueueServiceClient.from_connection_string(CONNECTION).create_queue("burrows")
        TableServiceClient.from_connection_string(CONNECTION).create_table("Tunnels")
        shown = snippets()
        with tempfile.TemporaryDirectory() as directory:
            for service, name in zip(SERVICES, ("gophers", "burrows", "Tunnels")):
                lines = shown["Go", service]
                used = set(re.findall(r"\b([a-z]+)\.", lines))
                imports = [PACKAGES.get(package, package) for package in ["context", "fmt", "log", "os", *PACKAGES] if package in used]
                program = Path(directory, "main.go")
                program.write_text("\n".join(["package main", *(f'import "{path}"' for path in imports), "func main() {", lines, "}"]))
                self.assertIn(name, self.go(program))


if __name__ == "__main__":
    unittest.main(verbosity=2)
