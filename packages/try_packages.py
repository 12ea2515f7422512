"""Installs the packages of a directory into empty environments, by their own tools, and uses them as their READMEs show. Run by
`.ci/package test`; needs a way to the registries of Python and npm.

Then it measures, ours and Azurite beside each other: sizes, start to the first answer, and suites of 200 tests for pytest, Jest and Vitest, each
of which creates a container and puts a blob into it. Last, a hundred servers at once.
"""

import http.client
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PACKAGES = Path(__file__).resolve().parent
TESTS = 200
STARTS = 5
CROWD = 100

PYTEST_OURS = """
import pytest
from azure.storage.blob import BlobServiceClient

@pytest.mark.parametrize("number", range(TESTS))
def test_upload(number, lazurite_connection_string):
    service = BlobServiceClient.from_connection_string(lazurite_connection_string)
    service.create_container("photos").upload_blob("lake.txt", b"blue")
"""
# As people write it for Azurite: one server for the session, and names that no other test has.
PYTEST_AZURITE = """
import subprocess, os, pytest
from azure.storage.blob import BlobServiceClient

KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

@pytest.fixture(scope="session")
def connection_string():
    command = [os.environ["AZURITE"], "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    command += ["--blobPort", "0", "--queuePort", "0", "--tablePort", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    lines = iter(server.stdout.readline, "")
    blob = next(line.split(" at ")[1].strip() for line in lines if line.startswith("Azurite Blob service is successfully"))
    yield f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={KEY};BlobEndpoint={blob}/devstoreaccount1;"
    server.terminate()

@pytest.mark.parametrize("number", range(TESTS))
def test_upload(number, connection_string):
    service = BlobServiceClient.from_connection_string(connection_string)
    service.create_container(f"photos{number}").upload_blob("lake.txt", b"blue")
"""
SCRIPT_OURS = """
const { BlobServiceClient } = require("@azure/storage-blob");
const { useLazurite } = require("lazurite/RUNNER");
const lazurite = useLazurite();
for (let number = 0; number < TESTS; number++) {
  test(`upload ${number}`, async () => {
    const container = BlobServiceClient.fromConnectionString(lazurite.connectionString).getContainerClient("photos");
    await container.create();
    await container.getBlockBlobClient("lake.txt").upload("blue", 4);
  });
}
"""
SCRIPT_FIXTURE = """
import { BlobServiceClient } from "@azure/storage-blob";
import { test } from "lazurite/vitest";
for (let number = 0; number < TESTS; number++) {
  test(`upload ${number}`, async ({ lazurite }) => {
    const container = BlobServiceClient.fromConnectionString(lazurite.connectionString).getContainerClient("photos");
    await container.create();
    await container.getBlockBlobClient("lake.txt").upload("blue", 4);
  });
}
"""
SCRIPT_AZURITE = """
import { spawn } from "node:child_process";
import { BlobServiceClient } from "@azure/storage-blob";
import { afterAll, beforeAll, test } from "vitest";
const key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
let server, connection;
beforeAll(async () => {
  const words = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"];
  server = spawn(process.env.AZURITE, [...words, "--blobPort", "0", "--queuePort", "0", "--tablePort", "0"]);
  let text = "";
  const blob = await new Promise((resolve) => server.stdout.on("data", (chunk) => {
    text += chunk;
    const found = text.match(/Azurite Blob service is successfully listening at (\\S+)/);
    if (found) resolve(found[1]);
  }));
  connection = `DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=${key};BlobEndpoint=${blob}/devstoreaccount1;`;
}, 60_000);
afterAll(() => server.kill());
for (let number = 0; number < TESTS; number++) {
  test(`upload ${number}`, async () => {
    const container = BlobServiceClient.fromConnectionString(connection).getContainerClient(`photos${number}`);
    await container.create();
    await container.getBlockBlobClient("lake.txt").upload("blue", 4);
  });
}
"""


def main() -> None:
    made = Path(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="lazurite-packages-") as scratch:
        work = Path(scratch)
        environment = try_wheel(made, work)
        project = try_npm(made, work)
        azurite = install_azurite(work)
        compare_sizes(made, work)
        compare_starts(made, environment, project, azurite)
        compare_suites(environment, project, azurite)
        crowd(environment)


def run(*command: object, cwd: "Path | None" = None, env: "dict[str, str] | None" = None) -> float:
    """Runs a command that has to succeed; the seconds it took."""
    began = time.monotonic()
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout}")
    return time.monotonic() - began


def one(directory: Path, pattern: str) -> Path:
    [path] = directory.glob(pattern)
    return path


def example(readme: Path, language: str, part: str) -> str:
    blocks = re.findall(f"```{language}\n(.*?)```", readme.read_text(), re.DOTALL)
    return next(block for block in blocks if part in block)


def try_wheel(made: Path, work: Path) -> Path:
    environment = work / "venv"
    run(sys.executable, "-m", "venv", environment)
    pip = [environment / "bin/pip", "--disable-pip-version-check", "install", "--quiet"]
    seconds = run(*pip, "--no-index", one(made, "*.whl"))
    print(f"wheel: installed in {seconds:.1f} s")
    run(*pip, "pytest", "mypy", "azure-storage-blob", "azure-storage-queue", "azure-data-tables")
    tests = work / "python-tests"
    shutil.copytree(PACKAGES / "python/tests", tests)
    (tests / "test_readme.py").write_text(example(PACKAGES / "python/README.md", "python", "def test_upload"))
    seconds = run(environment / "bin/pytest", "-q", cwd=tests)
    print(f"wheel: its tests and its README's passed in {seconds:.1f} s")
    run(environment / "bin/mypy", "--strict", "--package", "lazurite", cwd=tests)
    print("wheel: mypy --strict finds nothing")
    return environment


def try_npm(made: Path, work: Path) -> Path:
    project = work / "project"
    project.mkdir()
    (project / "package.json").write_text("{}")
    install = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"]
    packages = [one(made, "lazurite-linux-*.tgz"), one(made, "lazurite-0*.tgz"), one(made, "lazurite-azurite-*.tgz")]
    seconds = run(*install, *packages, cwd=project)
    print(f"npm: installed in {seconds:.1f} s")
    clients = ["@azure/storage-blob", "@azure/storage-queue", "@azure/data-tables"]
    run(*install, "jest", "vitest", "typescript", "@types/node", *clients, cwd=project)
    tests = project / "tests"
    shutil.copytree(PACKAGES / "npm/tests", tests)
    (tests / "readme.test.js").write_text(example(PACKAGES / "npm/lazurite/README.md", "js", "lazurite/node-test"))
    seconds = run("node", "--test", *sorted(tests.glob("*.test.js")), cwd=project)
    print(f"npm: its tests and its README's passed in {seconds:.1f} s")
    (project / "types.mts").write_text(
        'import { Lazurite, Store } from "lazurite";\nimport { test, useLazurite } from "lazurite/vitest";\n'
        'import { useLazurite as forNode } from "lazurite/node-test";\nimport { useLazurite as forJest } from "lazurite/jest";\n'
        "const server: Lazurite = await Lazurite.start({ accounts: ['one'] });\nconst store: Store = server.account('one');\n"
        "const text: string = store.connectionString + useLazurite().blobEndpoint + forNode().accountKey + forJest().tableEndpoint;\n"
        "test(text, async ({ lazurite }) => { const key: string = lazurite.accountKey; void key; });\nawait server.stop();\n"
    )
    flags = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022", "--types", "node"]
    run("npx", "tsc", *flags, "types.mts", cwd=project)
    print("npm: its types hold (tsc --strict)")
    return project


def install_azurite(work: Path) -> Path:
    project = work / "azurite"
    project.mkdir()
    (project / "package.json").write_text("{}")
    # A cache of its own, which then holds the downloaded packages.
    cache = ["--cache", work / "azurite-cache"]
    seconds = run("npm", "install", *cache, "--no-audit", "--no-fund", "--loglevel=error", "azurite", cwd=project)
    print(f"Azurite: installed by npm in {seconds:.1f} s")
    return project / "node_modules/.bin/azurite"


def bytes_of(path: Path) -> int:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file() and not file.is_symlink()]
    return sum(file.stat().st_size for file in files)


def size(path: Path) -> str:
    return f"{bytes_of(path) / 1e6:.1f} MB"


def compare_sizes(made: Path, work: Path) -> None:
    wheel, packages = one(made, "*.whl"), [path for path in made.glob("lazurite-*.tgz")]
    program, npm = size(made / "lazurite"), sum(map(bytes_of, packages)) / 1e6
    print(f"size: program {program}; download of the wheel {size(wheel)}, of the {len(packages)} npm packages {npm:.1f} MB")
    content = [path for path in (work / "azurite-cache/_cacache/content-v2").rglob("*") if path.is_file()]
    archives = [path for path in content if path.open("rb").read(2) == b"\x1f\x8b"]
    download = sum(path.stat().st_size for path in archives) / 1e6
    print(f"size: Azurite's download {download:.1f} MB in {len(archives)} packages, its node_modules {size(work / 'azurite/node_modules')}")
    modules = work / "project/node_modules"
    by_npm = sum(bytes_of(path) for path in modules.glob("lazurite*"))
    by_pip = bytes_of(work / "venv/bin/lazurite") + sum(
        bytes_of(path) for path in (work / "venv").glob("lib/python*/site-packages/lazurite*")
    )
    print(f"size: on disk, ours by pip {by_pip / 1e6:.1f} MB, by npm {by_npm / 1e6:.1f} MB")
    print(f"size: download of the Debian package {', '.join(map(size, made.glob('lazurite_*.deb'))) or 'not measured: it was not made'}")
    print("size: Azurite's image and its program for Windows not measured: no registry here has them; ours over its base: see `image:` above")


def first_answer(command: "list[object]", port: int) -> float:
    """Milliseconds from the start of the command to an answer of its Blob service."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as location:
        words = [str(word) for word in command] + ["--silent", "--location", location]
        for index, service in enumerate(["blob", "queue", "table"]):
            words += [f"--{service}Port", str(port + index)]
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while True:
                if server.poll() is not None or time.monotonic() - began > 60:
                    sys.exit(f"{words} did not answer")
                try:
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                    connection.request("GET", "/devstoreaccount1?comp=list")
                    connection.getresponse().read()
                    return (time.monotonic() - began) * 1000
                except OSError:
                    time.sleep(0.001)
        finally:
            server.terminate()
            server.wait()


def compare_starts(made: Path, environment: Path, project: Path, azurite: Path) -> None:
    bin_directory = project / "node_modules/.bin"
    for name, command in [
        ("lazurite as a program", [made / "lazurite"]),
        ("lazurite of the wheel", [environment / "bin/lazurite"]),
        ("lazurite of npm", [bin_directory / "lazurite"]),
        ("azurite of lazurite-azurite", [bin_directory / "azurite"]),
        ("Azurite", [azurite, "--disableTelemetry"]),
    ]:
        times = [first_answer(command, 21000 + 10 * index) for index in range(STARTS)]
        print(f"start to the first answer, median of {STARTS}: {name} {statistics.median(times):.0f} ms")


def compare_suites(environment: Path, project: Path, azurite: Path) -> None:
    settings = os.environ | {"AZURITE": str(azurite)}
    suites = project / "suites"
    suites.mkdir()
    texts = {
        "test_ours.py": PYTEST_OURS,
        "test_azurite.py": PYTEST_AZURITE,
        "jest.test.js": SCRIPT_OURS.replace("RUNNER", "jest"),
        "ours.spec.mjs": SCRIPT_FIXTURE,
        "azurite.spec.mjs": SCRIPT_AZURITE,
    }
    for name, text in texts.items():
        (suites / name).write_text(text.replace("TESTS", str(TESTS)))
    for name, command in [
        ("pytest with ours", [environment / "bin/pytest", "-q", "test_ours.py"]),
        ("pytest with ours, a server each", [environment / "bin/pytest", "-q", "-o", "lazurite_isolation=server", "test_ours.py"]),
        ("pytest with Azurite", [environment / "bin/pytest", "-q", "test_azurite.py"]),
        ("Jest with ours", ["npx", "jest", "--rootDir", suites, "jest.test.js"]),
        ("Vitest with ours", ["npx", "vitest", "run", "--root", suites, "ours.spec.mjs"]),
        ("Vitest with Azurite", ["npx", "vitest", "run", "--root", suites, "azurite.spec.mjs"]),
    ]:
        print(f"{TESTS} tests: {name} {run(*command, cwd=suites, env=settings):.1f} s")


def crowd(environment: Path) -> None:
    """Starts many servers, first one after the other and then all at the same time, and adds up their memory."""
    code = (
        "import sys, time, lazurite\nbegan = time.monotonic()\n"
        f"servers = [lazurite.Lazurite().start() for _ in range({CROWD})]\nseconds = time.monotonic() - began\n"
        "def kib(server):\n    text = open(f'/proc/{server._process.pid}/smaps_rollup').read()\n"
        "    return int(next(line.split()[1] for line in text.splitlines() if line.startswith('Pss:')))\n"
        "mb = sum(map(kib, servers)) * 1024 / 1e6\n"
        f"print(f'{CROWD} servers at once: started one after the other in {{seconds:.1f}} s, {{mb:.0f}} MB together')\n"
        "for server in servers: server.stop()\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        f"with ThreadPoolExecutor({CROWD}) as pool:\n    began = time.monotonic()\n"
        f"    servers = list(pool.map(lambda _: lazurite.Lazurite().start(), range({CROWD})))\n"
        f"    print(f'{CROWD} servers at once: all started at the same time in {{time.monotonic() - began:.1f}} s')\n"
        "for server in servers: server.stop()\n"
    )
    print(subprocess.run([environment / "bin/python", "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout.strip())


if __name__ == "__main__":
    main()
