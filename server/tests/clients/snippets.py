"""Runs the snippets of the console's page "Connect" as they are shown: those in Python, in JavaScript and for the shell.

Those in .NET, Java and Go, and those for the Azure CLI, need tools that the tests do not install.
"""

import os
import subprocess
import sys
import tempfile
import urllib.request
from html.parser import HTMLParser
from pathlib import Path

from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

CONNECTION = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
PARTS = dict(part.split("=", 1) for part in CONNECTION.strip(";").split(";"))
PAGE = f"{PARTS['BlobEndpoint'].rsplit('/', 1)[0]}/_lazurite/connect/{PARTS['AccountName']}"


class Snippets(HTMLParser):
    """Collects the text in `pre`, by the headings above it: language and service."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[tuple[str, str], str] = {}
        self._headings = {"h2": "", "h3": ""}
        self._open: "str | None" = None

    def handle_starttag(self, tag: str, attributes: object) -> None:
        if tag in (*self._headings, "pre"):
            self._open = tag
            if tag != "pre":
                self._headings[tag] = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == self._open:
            self._open = None

    def handle_data(self, data: str) -> None:
        if self._open == "pre":
            key = (self._headings["h2"], self._headings["h3"])
            self.found[key] = self.found.get(key, "") + data
        elif self._open is not None:
            self._headings[self._open] += data


def snippets() -> "dict[tuple[str, str], str]":
    parser = Snippets()
    with urllib.request.urlopen(PAGE) as answer:
        parser.feed(answer.read().decode())
    return parser.found


def main() -> None:
    found = snippets()
    services = ("Blob", "Queue", "Table")
    for language in ("Python", "JavaScript", "Shell", ".NET", "Java", "Go", "Azure CLI"):
        for service in services:
            assert (language, service) in found, f"no snippet for {service} in {language}"
    BlobServiceClient.from_connection_string(CONNECTION).create_container("albums")
    QueueServiceClient.from_connection_string(CONNECTION).create_queue("letters")
    TableServiceClient.from_connection_string(CONNECTION).create_table("Invoices")
    listed = dict(zip(services, ("albums", "letters", "Invoices")))
    with tempfile.TemporaryDirectory() as scratch:
        # Modules are found beside the program alone.
        os.symlink(os.environ["NODE_PATH"], Path(scratch, "node_modules"))
        script = Path(scratch, "snippet.mjs")
        for service, name in listed.items():
            expect(name, [sys.executable, "-c", found["Python", service]])
            script.write_text(found["JavaScript", service])
            expect(name, ["node", os.fspath(script)])
        for service, text in zip(services, ("lake.txt", '"order": 7', "Anna")):
            expect(text, ["sh", "-ec", found["Shell", service]])


def expect(text: str, command: "list[str]") -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0 and text in done.stdout, f"{command[-1]}\nprinted\n{done.stdout}"


main()
