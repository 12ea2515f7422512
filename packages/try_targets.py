"""Builds the program for systems that this machine is not, and uses it there: Windows under Wine, Linux on arm64 under QEMU, Linux
without a C library (musl).

    packages/try_targets.py [windows | arm64 | musl]... [--binary PROGRAM] [--only CHECK,...] [--tests] [--work WORK]
        [--clients VENV]

Prints one line for each check, and ends with 1 if one failed. --binary uses a program that is built already, for one target. --tests also
runs the unit tests of the engine and the services there. WORK is a temporary directory by default. VENV has the packages of
server/tests/clients/requirements.txt; by default it is target/clients/venv, which the end-to-end tests make, or a new one in WORK.

It installs nothing on the machine. It needs the nightly toolchain with rust-src, whose standard library it compiles, and of Debian:

    windows   gcc-mingw-w64-x86-64 wine64
    arm64     gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
    musl      nothing; the package ziglang of PyPI, in VENV, is the linker

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Iterator

ROOT = Path(__file__).resolve().parent.parent
CLIENTS = ROOT / "server/tests/clients"
CRATES = ["lazurite-base", "lazurite-engine", "lazurite-table", "lazurite-queue", "lazurite-blob"]
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
SERVICES = ["blob", "queue", "table"]
START_SECONDS, STOP_SECONDS, COMMAND_SECONDS = 120, 60, 600

# Wine 8 lacks the library from which Rust's standard library takes its random bytes.
RANDOM_BYTES = """\
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T length) { return SystemFunction036(bytes, (ULONG)length); }
"""

@dataclass
class Target:
    """A system, and how programs for it are built and run here."""

    name: str
    triple: str
    tools: "list[str]"
    packages: str
    cargo: "dict[str, str]" = field(default_factory=dict)
    runner: "list[str]" = field(default_factory=list)
    environment: "dict[str, str]" = field(default_factory=dict)
    suffix: str = ""

    @property
    def is_windows(self) -> bool:
        return self.name == "windows"

    def path(self, path: Path) -> str:
        """A path of this machine as a program there writes it."""
        return "Z:" + str(path).replace("/", "\\") if self.is_windows else str(path)


def upper(triple: str) -> str:
    return triple.upper().replace("-", "_")


def target(name: str, work: Path, clients: Path) -> Target:
    if name == "windows":
        # A prefix is a Windows of its own, with its own files and its own server.
        environment = {"WINEPREFIX": str(work / "wine"), "WINEDEBUG": "-all"}
        wine = next(filter(os.path.exists, ["/usr/lib/wine/wine64"]), "wine64")
        tools = ["x86_64-w64-mingw32-gcc", wine]
        triple = "x86_64-pc-windows-gnu"
        return Target(name, triple, tools, "gcc-mingw-w64-x86-64 wine64", {}, [wine], environment, ".exe")
    if name == "arm64":
        triple, compiler = "aarch64-unknown-linux-gnu", "aarch64-linux-gnu-gcc"
        cargo = {f"CARGO_TARGET_{upper(triple)}_LINKER": compiler, f"CC_{triple.replace('-', '_')}": compiler}
        environment = {"QEMU_LD_PREFIX": "/usr/aarch64-linux-gnu"}
        packages = "gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
        return Target(name, triple, [compiler, "qemu-aarch64"], packages, cargo, ["qemu-aarch64"], environment)
    triple, linker = "x86_64-unknown-linux-musl", work / "zig-cc"
    # Cargo and the crate `cc` add names of targets that zig does not know; it needs none but its own.
    linker.write_text(
        "#!/bin/sh\nfor word do shift; case $word in --target=*) ;; *) set -- \"$@\" \"$word\" ;; esac; done\n"
        f'exec "{clients}/bin/python" -m ziglang cc -target x86_64-linux-musl "$@"\n'
    )
    linker.chmod(0o755)
    archiver = work / "zig-ar"
    archiver.write_text(f'#!/bin/sh\nexec "{clients}/bin/python" -m ziglang ar "$@"\n')
    archiver.chmod(0o755)
    cargo = {f"CARGO_TARGET_{upper(triple)}_LINKER": str(linker), "RUSTFLAGS": "-C link-self-contained=no"}
    cargo |= {f"CC_{triple.replace('-', '_')}": str(linker), f"AR_{triple.replace('-', '_')}": str(archiver)}
    return Target(name, triple, [], "", cargo)


def cargo(place: Target, *words: str) -> "list[str]":
    """A command of cargo that compiles the standard library too: the toolchains here have it for this machine only."""
    build, *rest = words
    return ["cargo", "+nightly", build, "-Zbuild-std=std,panic_unwind", "--target", place.triple, *rest]


def built(place: Target) -> Path:
    command = cargo(place, "build", "--no-default-features", "-p", "lazurite")
    subprocess.run(command, cwd=ROOT, env=os.environ | place.cargo, check=True)
    directory = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / place.triple
    return directory / f"debug/lazurite{place.suffix}"


def prepare(place: Target, work: Path) -> None:
    """Makes a Windows for the tests, with what Wine lacks."""
    if not place.is_windows:
        return
    subprocess.run([place.tools[1], "wineboot", "-i"], env=os.environ | place.environment, check=True, capture_output=True)
    code, library = work / "random_bytes.c", work / "wine/drive_c/windows/system32/bcryptprimitives.dll"
    code.write_text(RANDOM_BYTES)
    subprocess.run([place.tools[0], "-shared", "-o", library, code, "-ladvapi32"], check=True)


@dataclass
class Run:
    """The program on its target, and a directory for the files of the checks."""

    place: Target
    program: Path
    work: Path
    clients: Path

    @property
    def environment(self) -> "dict[str, str]":
        return os.environ | self.place.environment

    def command(self, *words: object) -> "list[str]":
        shown = [self.place.path(word) if isinstance(word, Path) else str(word) for word in words]
        return [*self.place.runner, str(self.program), *shown]

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


CHECKS: "dict[str, Callable[[Run], str]]" = {
    "starts": version,
    "kill": kill,
    "verify": verify,
    "lock": locked,
    "forks": forks,
    "moves": moves,
    "console": console,
    "paths": paths,
    "stop": stop,
    "clients": clients,
}


def check(run: Run, names: "list[str]") -> bool:
    """Runs checks. True if none failed."""
    is_well = True
    for name in names:
        try:
            outcome = f"ok: {CHECKS[name](run)}"
        except (AssertionError, OSError, subprocess.SubprocessError, ValueError) as error:
            is_well, outcome = False, f"FAILED: {error}"
        print(f"{run.place.name}: {name}: {outcome}", flush=True)
    return is_well


def unit_tests(place: Target) -> bool:
    """Runs the unit tests of the crates. True if none failed."""
    is_well = True
    settings = os.environ | place.cargo | place.environment
    settings[f"CARGO_TARGET_{upper(place.triple)}_RUNNER"] = " ".join(place.runner)
    for crate in CRATES:
        command = cargo(place, "test", "-p", crate, "--lib", "--no-fail-fast")
        done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True)
        counts = re.findall(r"(\d+) passed; (\d+) failed; (\d+) ignored", done.stdout)
        passed, failed, ignored = (sum(map(int, column)) for column in zip(*counts)) if counts else (0, 0, 0)
        is_well &= done.returncode == 0 and passed > 0
        print(f"{place.name}: tests of {crate}: {passed} passed, {failed} failed, {ignored} ignored", flush=True)
        if done.returncode != 0:
            print(done.stdout[-5000:] + done.stderr[-2000:])
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
    parser.add_argument("targets", nargs="*", default=["windows", "arm64", "musl"], metavar="windows | arm64 | musl")
    parser.add_argument("--binary", type=Path)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(CHECKS), metavar="CHECK,...")
    parser.add_argument("--tests", action="store_true")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--clients", type=Path)
    arguments = parser.parse_args()
    unknown = set(arguments.targets) - {"windows", "arm64", "musl"}
    if unknown or (arguments.binary and len(arguments.targets) != 1):
        parser.error(f"unknown: {', '.join(unknown)}" if unknown else "--binary is for one target")
    is_well = True
    with tempfile.TemporaryDirectory(prefix="lazurite-targets-") as scratch:
        base = (arguments.work or Path(scratch)).resolve()
        made = ROOT / "target/clients/venv"
        clients = arguments.clients or (made if made.exists() else base / "venv")
        venv(clients.absolute(), ["ziglang"] if "musl" in arguments.targets else [])
        for name in arguments.targets:
            work = base / name
            work.mkdir(parents=True, exist_ok=True)
            place = target(name, work, clients.absolute())
            missing = [tool for tool in place.tools if not shutil.which(tool)]
            if missing:
                sys.exit(f"{name}: {' and '.join(missing)} is missing; of Debian, it needs: {place.packages}")
            program = arguments.binary.resolve() if arguments.binary else built(place)
            prepare(place, work)
            is_well &= check(Run(place, program, work, clients.absolute()), arguments.only)
            if arguments.tests:
                is_well &= unit_tests(place)
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
