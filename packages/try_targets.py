"""Builds the program for platforms that this machine is not, and uses it there: Windows under Wine, Linux on arm64 under QEMU, Linux
without a C library (musl).

    packages/try_targets.py [PLATFORM]... [--binary PROGRAM] [--host-binary PROGRAM] [--only CHECK,...] [--tests] [--work WORK]
        [--clients VENV] [--requests N]

PLATFORM is windows-x64, linux-arm64, linux-x64-musl or linux-arm64-musl; all of them by default, and linux-x64 is this machine itself.
Prints one line for each check, and ends with 1 if one failed. --binary uses a program that is built already, for one platform;
--host-binary one for this machine, whose answers and files the checks `answers` and `files` compare with. --tests also runs the tests of
the engine and the unit tests of the other crates there. WORK is a temporary directory by default. VENV has the packages of
server/tests/clients/requirements.txt; by default it is target/clients/venv, which the end-to-end tests make, or a new one in WORK.

It installs nothing on the machine. `packages/release/targets.py` says what building needs; running needs, of Debian, wine64 or qemu-user.

Wine shows that the program starts, serves and stops, and that its files are read and written as Windows does it. It shows nothing about
virus scanners, power cuts, or the speed of Windows.
"""

import argparse
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Callable, Iterator

import same_answers
from release import targets

ROOT = Path(__file__).resolve().parent.parent
CLIENTS = ROOT / "server/tests/clients"
PLATFORMS = ["windows-x64", "linux-arm64", "linux-x64-musl", "linux-arm64-musl"]
# The engine with its integration tests; of the others, the unit tests.
ENGINE = "lazurite-engine"
CRATES = [f"lazurite-{name}" for name in ["base", "table", "queue", "blob", "query", "protocol", "services", "mover", "cost", "design"]]
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
SERVICES = ["blob", "queue", "table"]
START_SECONDS, STOP_SECONDS, COMMAND_SECONDS = 120, 60, 600
SEED = 1

# Wine 8 lacks the library from which Rust's standard library takes its random bytes.
RANDOM_BYTES = """\
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T length) { return SystemFunction036(bytes, (ULONG)length); }
"""


@dataclass
class Place:
    """A platform, and how programs for it run here."""

    name: str
    runner: "list[str]"
    environment: "dict[str, str]"
    # The directory that programs take for `/`.
    root: Path = Path("/")

    @property
    def is_windows(self) -> bool:
        return self.name.startswith("windows")

    def path(self, path: Path) -> str:
        """A path of this machine as a program there writes it."""
        return "Z:" + str(path).replace("/", "\\") if self.is_windows else f"/{path.relative_to(self.root)}"


def place(name: str, work: Path) -> Place:
    found = targets.runner(name)
    if found is None:
        sys.exit(f"{name}: nothing here runs its programs; of Debian, it needs: {targets.TARGETS[name].packages}")
    runner, environment = found
    made = Place(name, runner, environment)
    if made.is_windows:
        # A prefix is a Windows of its own, with its own files and its own server.
        prefix = work / "wine"
        made.environment = environment | {"WINEPREFIX": str(prefix)}
        subprocess.run([*runner, "wineboot", "-i"], env=os.environ | made.environment, check=True, capture_output=True)
        code, library = work / "random_bytes.c", prefix / "drive_c/windows/system32/bcryptprimitives.dll"
        code.write_text(RANDOM_BYTES)
        subprocess.run([targets.TARGETS[name].compiler, "-shared", "-o", library, code, "-ladvapi32"], check=True)
    return made


def built(name: str) -> Path:
    targets.build(name, ["build", "-p", "lazurite", "--bin", "lazurite"], [], check=True)
    return targets.program(name, "debug")


@dataclass
class Run:
    """The program on its platform, and a directory for the files of the checks."""

    place: Place
    program: Path
    work: Path
    clients: Path
    # The program for this machine.
    host: "Run | None" = None
    requests: int = same_answers.COUNT

    @property
    def environment(self) -> "dict[str, str]":
        return os.environ | self.place.environment

    def command(self, *words: object) -> "list[str]":
        shown = [self.place.path(word) if isinstance(word, Path) else str(word) for word in (self.program, *words)]
        return [*self.place.runner, *shown]

    def output(self, *words: object, status: int = 0) -> str:
        """What a command prints. It must end with this status."""
        done = subprocess.run(
            self.command(*words), env=self.environment, cwd=self.work, capture_output=True, text=True, timeout=COMMAND_SECONDS
        )
        printed = done.stdout + done.stderr
        assert done.returncode == status, f"{words} ended with {done.returncode}:\n{printed}"
        return printed

    @contextlib.contextmanager
    def server(self, location: Path, *more: object) -> "Iterator[Server]":
        started = Server(self, location, *more)
        try:
            yield started
        finally:
            if started.process.poll() is None:
                started.process.kill()
                started.process.wait()

    def python(self, script: Path, server: "Server") -> str:
        """Runs a script with the official clients; the number of its tests."""
        settings = os.environ | {"AZURE_STORAGE_CONNECTION_STRING": server.connection_string}
        command = [str(self.clients / "bin/python"), str(script)]
        done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=COMMAND_SECONDS)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        [count] = re.findall(r"Ran (\d+) tests?", done.stderr)
        return count


class Server:
    """A server that listens on free ports, which its port file names."""

    def __init__(self, run: Run, location: Path, *more: object) -> None:
        self.location, self.port_file = location, location.parent / f"{location.name} ports.json"
        self.port_file.unlink(missing_ok=True)
        ports = [word for service in SERVICES for word in (f"--{service}Port", "0")]
        command = run.command("--location", location, "--port-file", self.port_file, *ports, *more)
        location.parent.mkdir(parents=True, exist_ok=True)
        self.log = location.parent / f"{location.name} log.txt"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, env=run.environment, cwd=run.work, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        self.ports = self._ports()

    def _ports(self) -> "dict[str, int]":
        deadline = time.monotonic() + START_SECONDS
        while not self.port_file.exists():
            assert self.process.poll() is None, f"the server ended:\n{self.printed()}"
            assert time.monotonic() < deadline, f"the server did not start:\n{self.printed()}"
            time.sleep(0.05)
        return json.loads(self.port_file.read_text())

    @property
    def connection_string(self) -> str:
        endpoints = "".join(
            f"{service.title()}Endpoint=http://127.0.0.1:{self.ports[service]}/devstoreaccount1;" for service in SERVICES
        )
        return f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={KEY};{endpoints}"

    def printed(self) -> str:
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


# What the checks store, through the official clients. Run by the Python of the clients.
FILL = """
import os, sys
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient
connection, what = os.environ["AZURE_STORAGE_CONNECTION_STRING"], sys.argv[1]
blobs, queues, tables = (it.from_connection_string(connection) for it in (BlobServiceClient, QueueServiceClient, TableServiceClient))
large = bytes(range(256)) * 20000
if what == "fill":
    container = blobs.create_container("things")
    for number in range(20):
        container.upload_blob(f"blob {number}", f"{number}")
    container.upload_blob("large", large)
    queue = queues.create_queue("work")
    table = tables.create_table("People")
    for number in range(20):
        queue.send_message(f"{number}")
        table.create_entity({"PartitionKey": "p", "RowKey": f"{number:02}", "Number": number})
container = blobs.get_container_client("things")
assert sorted(it.name for it in container.list_blobs()) == sorted([f"blob {number}" for number in range(20)] + ["large"])
assert container.download_blob("large").readall() == large
assert container.download_blob("blob 7").readall() == b"7"
assert sorted(int(it.content) for it in queues.get_queue_client("work").peek_messages(32)) == list(range(20))
found = [it["Number"] for it in tables.get_table_client("People").query_entities("PartitionKey eq 'p'")]
assert found == list(range(20)), found
"""


def stored(run: Run, server: Server, what: str) -> None:
    """Stores things ("fill"), and checks that they are there."""
    settings = os.environ | {"AZURE_STORAGE_CONNECTION_STRING": server.connection_string}
    command = [str(run.clients / "bin/python"), "-c", FILL, what]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=COMMAND_SECONDS)
    assert done.returncode == 0, done.stderr[-3000:]


def get(port: int, path: str) -> "tuple[int, bytes]":
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers={"Accept": "text/html"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def version(run: Run) -> str:
    return run.output("--version").strip()


def alone(run: Run) -> "str | None":
    """In a root without libraries, settings, devices and programs. Only for static programs, without an emulator, which is not static."""
    if not run.place.name.endswith("-musl") or run.place.runner:
        return None
    root = run.work / "alone"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    shutil.copy(run.program, root)
    unshare = ["env", "-i", "unshare", "--user", "--map-root-user", "--root", str(root)]
    inside = replace(run, place=Place(run.place.name, unshare, {}, root), program=root / run.program.name, work=root)
    with inside.server(root / "data") as server:
        stored(inside, server, "fill")
        server.kill()
    with inside.server(root / "data") as server:
        stored(inside, server, "check")
    inside.output("verify", root / "data")
    return "in a root that has nothing but the program: filled, killed, opened again, verified"


def clients(run: Run) -> str:
    counts = []
    shutil.rmtree(run.work / "clients", ignore_errors=True)
    with run.server(run.work / "clients") as server:
        for service in ["blobs", "queues", "tables"]:
            counts.append(f"{run.python(CLIENTS / f'{service}.py', server)} tests of {service}")
    return ", ".join(counts)


def kill(run: Run) -> str:
    location = run.work / "killed"
    for durability in ["process", "disk"]:
        shutil.rmtree(location, ignore_errors=True)
        with run.server(location, "--durability", durability) as server:
            stored(run, server, "fill")
            server.kill()
        with run.server(location, "--durability", durability) as server:
            stored(run, server, "check")
            assert "Writes recovered from the log" in server.printed(), server.printed()
            server.kill()
    return "killed with -9 and opened again: everything is there"


def verify(run: Run) -> str:
    """Checks the store that `kill` left."""
    location = run.work / "killed"
    lines = run.output("verify", location).strip().splitlines()
    return lines[-1].replace(run.place.path(location), "DIR")


def locked(run: Run) -> str:
    location = run.work / "locked"
    with run.server(location) as server:
        ports = [word for service in SERVICES for word in (f"--{service}Port", "0")]
        printed = run.output("--location", location, *ports, status=1)
        sentence = re.search(r"in use by process (\d+)", printed)
        assert sentence and sentence[1] != "0", printed
        assert server.process.poll() is None
    return "a second server on the directory is refused, and told the process"


def forks(run: Run) -> str:
    with run.server(run.work / "forks", "--forks") as server:
        return f"{run.python(CLIENTS / 'forks.py', server)} tests of forks"


def moves(run: Run) -> str:
    archive, again = run.work / "export.tar.zst", run.work / "again.tar.zst"
    with run.server(run.work / "exported") as server:
        stored(run, server, "fill")
        run.output("export", archive, "--connection-string", server.connection_string)
    with run.server(run.work / "imported") as server:
        run.output("import", archive, "--connection-string", server.connection_string)
        stored(run, server, "check")
        run.output("export", again, "--connection-string", server.connection_string)
        run.output("export", run.work / "export directory", "--connection-string", server.connection_string)
    assert archive.read_bytes() == again.read_bytes(), "the second export differs from the first"
    return "an export to an archive, imported into another server, and exported to a directory"


def console(run: Run) -> str:
    with run.server(run.work / "console") as server:
        for path in ["/_lazurite/", "/_lazurite/health"]:
            status, page = get(server.ports["blob"], path)
            assert status == 200, (path, status, page)
    return "its pages answer 200"


def paths(run: Run) -> str:
    location = run.work / "with blanks" / "ünïcödé 日本" / "/".join(["long" * 20] * 3) / "data"
    assert len(str(location)) > 260
    with run.server(location) as server:
        stored(run, server, "fill")
        server.kill()
    with run.server(location) as server:
        stored(run, server, "check")
    run.output("verify", location)
    return f"blanks, letters beyond ASCII, {len(str(location))} characters"


def stop(run: Run) -> str:
    """Ends a server as a person does, and opens its store again."""
    ways = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM}
    if run.place.is_windows:
        # Wine makes the console event of a Ctrl-C of this signal, and has none for the others.
        ways = {"Ctrl-C": signal.SIGINT}
    location = run.work / "stopped"
    for way, sent in ways.items():
        shutil.rmtree(location, ignore_errors=True)
        with run.server(location) as server:
            stored(run, server, "fill")
            server.process.send_signal(sent)
            status = server.process.wait(STOP_SECONDS)
            assert status == 0, f"{way}: {status}\n{server.printed()}"
            assert not server.port_file.exists(), f"{way}: the port file is left"
        with run.server(location) as server:
            stored(run, server, "check")
            assert "recovered" not in server.printed(), f"{way}:\n{server.printed()}"
    return f"{' and '.join(ways)}: it ends in order, and the next start has nothing to recover"


def answers(run: Run) -> str:
    """The answers to the same requests, beside those of the program for this machine."""
    flat, lake = same_answers_to(run), same_answers_to(run, "--hns")
    return f"as on this machine, but for ids, times and ETags: {flat}; with --hns {lake}"


def same_answers_to(run: Run, *more: object) -> str:
    directories = [run.work / "answers", run.work / "answers of this machine"]
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
    with run.server(directories[0], *more) as there, run.host.server(directories[1], *more) as here:
        statuses, different = same_answers.compare(here.port_file, there.port_file, SEED, run.requests, has_lake="--hns" in more)
    assert not different, "\n\n".join(different)
    shown = ", ".join(f"{count} with {hundreds}" for hundreds, count in statuses.items())
    return f"{sum(statuses.values())} requests ({shown})"


def files(run: Run) -> str:
    """A store that one of the two leaves when it is killed is read by the other."""
    for writer, reader in [(run, run.host), (run.host, run)]:
        location = run.work / "files"
        shutil.rmtree(location, ignore_errors=True)
        with writer.server(location) as server:
            stored(run, server, "fill")
            server.kill()
        with reader.server(location) as server:
            stored(run, server, "check")
            assert "Writes recovered from the log" in server.printed(), server.printed()
        reader.output("verify", location)
        with writer.server(location) as server:
            stored(run, server, "check")
    return "a store that was killed there is read, verified and closed here, and read there again; and the other way round"


# Each gives what it found, or nothing if it is not for the platform.
CHECKS: "dict[str, Callable[[Run], str | None]]" = {
    "starts": version,
    "kill": kill,
    "verify": verify,
    "lock": locked,
    "forks": forks,
    "moves": moves,
    "console": console,
    "paths": paths,
    "stop": stop,
    "alone": alone,
    "clients": clients,
    "answers": answers,
    "files": files,
}


def check(run: Run, names: "list[str]") -> bool:
    """Runs checks. True if none failed."""
    is_well = True
    for name in names:
        try:
            found = CHECKS[name](run)
            if found is None:
                continue
            outcome = f"ok: {found}"
        except (AssertionError, OSError, subprocess.SubprocessError, ValueError) as error:
            is_well, outcome = False, f"FAILED: {error}"
        print(f"{run.place.name}: {name}: {outcome}", flush=True)
    return is_well


def tests(place: Place) -> bool:
    """Runs the tests of the crates. True if none failed."""
    is_well = True
    triple = targets.TARGETS[place.name].triple.upper().replace("-", "_")
    settings = dict(place.environment)
    if place.runner:
        # One of the tests starts its own program again.
        runner = [sys.executable, str(ROOT / "packages/qemu.py")] if "qemu" in place.runner[0] else place.runner
        settings[f"CARGO_TARGET_{triple}_RUNNER"] = " ".join(runner)
    for crate, kinds in [(ENGINE, ["--lib", "--tests"]), *[(crate, ["--lib"]) for crate in CRATES]]:
        words = ["test", "-p", crate, *kinds, "--no-fail-fast"]
        done = targets.build(place.name, words, [], env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        counts = re.findall(r"(\d+) passed; (\d+) failed; (\d+) ignored", done.stdout)
        passed, failed, ignored = (sum(map(int, column)) for column in zip(*counts)) if counts else (0, 0, 0)
        is_well &= done.returncode == 0 and passed > 0
        print(f"{place.name}: tests of {crate}: {passed} passed, {failed} failed, {ignored} ignored", flush=True)
        if done.returncode != 0:
            print(done.stdout[-7000:])
    return is_well


def venv(clients: Path, more: "list[str]") -> None:
    """Makes an environment with the official clients, unless it is there."""
    if not (clients / "bin/python").exists():
        subprocess.run([sys.executable, "-m", "venv", clients], check=True)
        more = ["-r", str(CLIENTS / "requirements.txt"), *more]
    if more:
        subprocess.run([clients / "bin/pip", "install", "--quiet", "--disable-pip-version-check", *more], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("platforms", nargs="*", default=PLATFORMS, metavar="PLATFORM")
    parser.add_argument("--binary", type=Path)
    parser.add_argument("--host-binary", type=Path)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(CHECKS), metavar="CHECK,...")
    parser.add_argument("--tests", action="store_true")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--clients", type=Path)
    parser.add_argument("--requests", type=int, default=same_answers.COUNT, help="of the check `answers`")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.only) - set(CHECKS)):
        parser.error(f"no such check: {', '.join(unknown)}. The checks are {', '.join(CHECKS)}")
    unknown = set(arguments.platforms) - {*PLATFORMS, targets.host()}
    if unknown or (arguments.binary and len(arguments.platforms) != 1):
        parser.error(f"unknown: {', '.join(unknown)}" if unknown else "--binary is for one platform")
    is_well = True
    with tempfile.TemporaryDirectory(prefix="lazurite-targets-") as scratch:
        base = (arguments.work or Path(scratch)).resolve()
        made = ROOT / "target/clients/venv"
        clients = (arguments.clients or (made if made.exists() else base / "venv")).absolute()
        needs_zig = any("musl" in name for name in arguments.platforms) and not arguments.binary
        venv(clients, ["ziglang"] if needs_zig else [])
        os.environ.setdefault("ZIG_PYTHON", str(clients / "bin/python"))
        host_place = Place(targets.host(), [], {})
        host = Run(host_place, (arguments.host_binary or built(targets.host())).resolve(), base, clients)
        for name in arguments.platforms:
            work = base / name
            work.mkdir(parents=True, exist_ok=True)
            there = place(name, work)
            program = (arguments.binary or built(name)).resolve()
            is_well &= check(Run(there, program, work, clients, host, arguments.requests), arguments.only)
            if arguments.tests:
                is_well &= tests(there)
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
