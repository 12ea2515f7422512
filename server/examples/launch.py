"""What the examples in Python share: a server of their own, which they can kill, or one that is
there already."""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from azure.core.exceptions import (
    HttpResponseError,
    IncompleteReadError,
    ResourceExistsError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.blob import LinearRetry as BlobRetry
from azure.storage.queue import LinearRetry as QueueRetry
from azure.storage.queue import QueueServiceClient

KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
SERVICES = ("blob", "queue", "table")
ANSWER_SECONDS_MAX = 30

# A store refuses some requests for a moment (503) and some answers are lost: the clients repeat such
# requests. Their defaults wait for seconds each time, as suits a store far away that serves many.
TRIES = {f"retry_{kind}": 50 for kind in ("total", "connect", "read", "status")}
STORAGE_RETRIES = {**TRIES, "backoff": 0.1, "random_jitter_range": 0.05}
TABLE_RETRIES = {**TRIES, "retry_backoff_factor": 0.05, "retry_backoff_max": 0.5}


class Server:
    """A server on free ports whose data outlives it."""

    def __init__(self, program, directory):
        self.program, self.directory = program, Path(directory)
        self.ports = dict.fromkeys(SERVICES, 0)
        self._start()

    def _start(self):
        port_file = self.directory / "ports.json"
        port_file.unlink(missing_ok=True)
        flags = [f"--{service}Port={port}" for service, port in self.ports.items()]
        # The server ends with this program, whatever ends it.
        command = [self.program, "--silent", "--until-stdin-ends", "--port-file", port_file, *flags]
        try:
            with open(self.directory / "server.log", "a") as log:
                self.process = subprocess.Popen(
                    [*command, "--location", self.directory / "data"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                )
        except OSError as error:
            sys.exit(f"the server cannot be started: {error}")
        while not port_file.exists():
            if self.process.poll() is not None:
                sys.exit(
                    "the server did not start:\n" + (self.directory / "server.log").read_text()
                )
            time.sleep(0.01)
        self.ports = json.loads(port_file.read_text())

    def kill(self):
        """SIGKILL: the server cannot finish anything. Then it starts again, with the same ports and
        data."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._start()

    def stop(self):
        self.process.stdin.close()
        self.process.wait()

    @property
    def connection(self):
        endpoints = (
            f"{name.title()}Endpoint=http://127.0.0.1:{port}/devstoreaccount1"
            for name, port in self.ports.items()
        )
        return f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={KEY};{';'.join(endpoints)};"


class NoKills:
    """A server that was running already."""

    def __init__(self, connection):
        self.connection = connection


class Kills:
    """Kills the server each time that another quarter of the work is done."""

    def __init__(self, server, total, is_wanted):
        self.server = server
        self.marks = [total * quarter // 4 for quarter in (1, 2, 3)] if is_wanted else []
        self.total = total

    def at(self, done):
        if self.marks and done >= self.marks[0]:
            self.marks.pop(0)
            self.server.kill()
            print(
                f"killed the server after {done} of {self.total}, and started it again", flush=True
            )


def parse(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--connection-string", help="use this store instead of a server of this program's own"
    )
    parser.add_argument(
        "--server",
        default=_program(),
        help="the program lazurite [default: that on the PATH, or one that cargo built]",
    )
    parser.add_argument(
        "--kill", action="store_true", help="kill the server three times on the way, with SIGKILL"
    )
    options = parser.parse_args()
    if options.kill and options.connection_string:
        parser.error("--kill needs a server that this program starts itself")
    if not options.connection_string and options.server is None:
        parser.error(
            "there is no program lazurite on the PATH: name one with --server, or a store with --connection-string"
        )
    return options


def _program():
    built = Path(__file__).parents[2] / "target"
    places = [built / profile / "lazurite" for profile in ("release", "debug")]
    return (
        os.environ.get("LAZURITE")
        or shutil.which("lazurite")
        or next((str(place) for place in places if place.exists()), None)
    )


@contextmanager
def store(options):
    """A server, stopped at the end, or the store that the options name."""
    if options.connection_string:
        try:
            yield NoKills(options.connection_string)
        except ServiceRequestError as error:
            sys.exit(f"the store does not answer: {error}")
        return
    with tempfile.TemporaryDirectory() as directory:
        server = Server(options.server, directory)
        try:
            yield server
        finally:
            server.stop()


def clients(connection):
    """The clients of the three services, which repeat what the store refuses for a moment."""
    return (
        TableServiceClient.from_connection_string(connection, **TABLE_RETRIES),
        BlobServiceClient.from_connection_string(
            connection, retry_policy=BlobRetry(**STORAGE_RETRIES)
        ),
        QueueServiceClient.from_connection_string(
            connection, retry_policy=QueueRetry(**STORAGE_RETRIES)
        ),
    )


def table(tables, name):
    """A table that is there afterwards, also if the answer to the first request was lost."""
    return patiently(lambda: tables.create_table_if_not_exists(name))


def container(blobs, name):
    """A container that is there afterwards."""
    made = blobs.get_container_client(name)
    with suppress(ResourceExistsError):
        made.create_container()
    return made


def queue(queues, name):
    """A queue that is there afterwards."""
    made = queues.get_queue_client(name)
    with suppress(ResourceExistsError):
        made.create_queue()
    return made


def delete_all(tables=(), containers=(), queues=()):
    """Deletes them. A request whose answer was lost may have done it, or have begun to."""
    deletions = [one.delete_table for one in tables]
    deletions += [one.delete_container for one in containers]
    deletions += [one.delete_queue for one in queues]
    for delete in deletions:
        try:
            delete()
        except HttpResponseError as error:
            if error.status_code not in (404, 409):
                raise


def patiently(work):
    """Repeats `work` while the server does not answer, for what the clients do not repeat: some
    writes, and downloads that broke off. A write whose answer was lost may have been made: every step in `work`
    must be one that may be repeated."""
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while True:
        try:
            return work()
        except (ServiceRequestError, ServiceResponseError, IncompleteReadError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
