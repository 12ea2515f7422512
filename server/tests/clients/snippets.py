"""Runs the snippets of the console's page "Connect" as they are shown: those in Python, in JavaScript and for the shell.

Those for the Azure CLI are run by `azure_cli.py`, those in Java and Go by `java_clients.py` and `go_clients.py`, on demand. Those in
.NET need tools that the tests do not install.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from connect_page import CONNECTION, SERVICES, snippets


def main() -> None:
    found = snippets()
    for language in ("Python", "JavaScript", "Shell", ".NET", "Java", "Go", "Azure CLI"):
        for service in SERVICES:
            assert (language, service) in found, f"no snippet for {service} in {language}"
    BlobServiceClient.from_connection_string(CONNECTION).create_container("albums")
    QueueServiceClient.from_connection_string(CONNECTION).create_queue("letters")
    TableServiceClient.from_connection_string(CONNECTION).create_table("Invoices")
    listed = dict(zip(SERVICES, ("albums", "letters", "Invoices")))
    with tempfile.TemporaryDirectory() as scratch:
        # Modules are found beside the program alone.
        os.symlink(os.environ["NODE_PATH"], Path(scratch, "node_modules"))
        script = Path(scratch, "snippet.mjs")
        for service, name in listed.items():
            expect(name, [sys.executable, "-c", found["Python", service]])
            script.write_text(found["JavaScript", service])
            expect(name, ["node", os.fspath(script)])
        for service, text in zip(SERVICES, ("lake.txt", '"order": 7', "Anna")):
            expect(text, ["sh", "-ec", found["Shell", service]])


def expect(text: str, command: "list[str]") -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0 and text in done.stdout, f"{command[-1]}\nprinted\n{done.stdout}"


main()
