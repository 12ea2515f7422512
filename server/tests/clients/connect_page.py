"""Reads the snippets of the console's page "Connect", as they are shown."""

import os
import urllib.request
from html.parser import HTMLParser

CONNECTION = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
PARTS = dict(part.split("=", 1) for part in CONNECTION.strip(";").split(";"))
PAGE = f"{PARTS['BlobEndpoint'].rsplit('/', 1)[0]}/_lazurite/connect/{PARTS['AccountName']}"
SERVICES = ("Blob", "Queue", "Table")


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
