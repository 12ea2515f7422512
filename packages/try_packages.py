"""Installs the packages of a directory into empty environments, by their own tools, and uses them as their READMEs show. Run by
`.ci/package test`; needs a way to the registries of Python and npm.

Then it measures, ours and Azurite beside each other: sizes, start to the first answer, and suites of 200 tests for pytest, Jest and Vitest, each
of which creates a container and puts a blob into it; a hundred servers at once. Last, it goes a new user's way in three languages: from an
empty directory to a passing test.

    packages/try_packages.py DIR [--write-docs README.md]

DIR holds the packages. --write-docs writes the figures into the block `packages` of a page.
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
ROOT = PACKAGES.parent
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
# A test around the lines of the README: the store answers.
RUST_TEST = """
#[test]
fn store_answers() -> Result<(), Box<dyn std::error::Error>> {
    use std::io::{Read, Write};
    LINES
    let text = store.connection_string();
    let host = text.split("BlobEndpoint=http://").nth(1).and_then(|rest| rest.split('/').next());
    let mut connection = std::net::TcpStream::connect(host.expect("it names a host"))?;
    write!(connection, "GET /_lazurite/health HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    Ok(())
}
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


# What was measured, by the names in TABLE.
FIGURES: "dict[str, str]" = {}
TABLE = """\
| | Lazurite | Azurite |
| --- | --- | --- |
| download | {wheel} (wheel), {npm} (npm), {deb} (Debian) | {azurite_download} |
| size on disk | {on_disk} | {azurite_on_disk} (`node_modules`) |
| start to the first response | {start}; by npm {start_npm}, the start of Node included | {start_azurite} |
| 200 tests, each with a container and a blob: pytest | {pytest} | {pytest_azurite} |
| the same: Vitest | {vitest} | {vitest_azurite} |
| 100 servers at once | {crowd} | |
| from an empty directory to a passing test | Python {python_trial}, JavaScript {javascript_trial}, Rust {rust_trial} (all is compiled) | |"""


def main() -> None:
    made = Path(sys.argv[1])
    page = Path(sys.argv[3]) if sys.argv[2:3] == ["--write-docs"] else None
    with tempfile.TemporaryDirectory(prefix="lazurite-packages-") as scratch:
        work = Path(scratch)
        environment = try_wheel(made, work)
        project = try_npm(made, work)
        azurite = install_azurite(work)
        compare_sizes(made, work)
        compare_starts(made, environment, project, azurite)
        compare_suites(environment, project, azurite)
        crowd(environment)
        try_trials(made, work)
    if page:
        write_figures(page)


def write_figures(page: Path) -> None:
    begin, end = "<!-- figures: packages -->", "<!-- end -->"
    before, rest = page.read_text().split(begin, 1)
    page.write_text(f"{before}{begin}\n{TABLE.format(**FIGURES)}\n{end}{rest.split(end, 1)[1]}")
    print(f"{page.name}: its figures are written")


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
    deb = ", ".join(map(size, made.glob("lazurite_*.deb"))) or "not made"
    FIGURES.update(wheel=size(wheel), npm=f"{npm:.1f} MB", deb=deb, on_disk=program)
    print(f"size: program {program}; download of the wheel {size(wheel)}, of the {len(packages)} npm packages {npm:.1f} MB")
    content = [path for path in (work / "azurite-cache/_cacache/content-v2").rglob("*") if path.is_file()]
    archives = [path for path in content if path.open("rb").read(2) == b"\x1f\x8b"]
    download = sum(path.stat().st_size for path in archives) / 1e6
    on_disk = bytes_of(work / "azurite/node_modules") / 1e6
    print(f"size: Azurite's download {download:.1f} MB in {len(archives)} packages, its node_modules {on_disk:.0f} MB")
    FIGURES.update(azurite_download=f"{download:.1f} MB ({len(archives)} npm packages)", azurite_on_disk=f"{on_disk:.0f} MB")
    modules = work / "project/node_modules"
    by_npm = sum(bytes_of(path) for path in modules.glob("lazurite*"))
    by_pip = bytes_of(work / "venv/bin/lazurite") + sum(
        bytes_of(path) for path in (work / "venv").glob("lib/python*/site-packages/lazurite*")
    )
    print(f"size: on disk, ours by pip {by_pip / 1e6:.1f} MB, by npm {by_npm / 1e6:.1f} MB")
    print(f"size: download of the Debian package {deb}")
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
    for figure, name, command in [
        ("start", "lazurite as a program", [made / "lazurite"]),
        ("start_wheel", "lazurite of the wheel", [environment / "bin/lazurite"]),
        ("start_npm", "lazurite of npm", [bin_directory / "lazurite"]),
        ("start_shim", "azurite of lazurite-azurite", [bin_directory / "azurite"]),
        ("start_azurite", "Azurite", [azurite, "--disableTelemetry"]),
    ]:
        times = [first_answer(command, 21000 + 10 * index) for index in range(STARTS)]
        FIGURES[figure] = f"{statistics.median(times):.0f} ms"
        print(f"start to the first answer, median of {STARTS}: {name} {FIGURES[figure]}")


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
    pytest = [environment / "bin/pytest", "-q"]
    for figure, name, command in [
        ("pytest", "pytest with ours", [*pytest, "test_ours.py"]),
        ("pytest_servers", "pytest with ours, a server each", [*pytest, "-o", "lazurite_isolation=server", "test_ours.py"]),
        ("pytest_azurite", "pytest with Azurite", [*pytest, "test_azurite.py"]),
        ("jest", "Jest with ours", ["npx", "jest", "--rootDir", suites, "jest.test.js"]),
        ("vitest", "Vitest with ours", ["npx", "vitest", "run", "--root", suites, "ours.spec.mjs"]),
        ("vitest_azurite", "Vitest with Azurite", ["npx", "vitest", "run", "--root", suites, "azurite.spec.mjs"]),
    ]:
        FIGURES[figure] = f"{run(*command, cwd=suites, env=settings):.1f} s"
        print(f"{TESTS} tests: {name} {FIGURES[figure]}")


def crowd(environment: Path) -> None:
    """Starts many servers, first one after the other and then all at the same time, and adds up their memory."""
    code = (
        "import sys, time, lazurite\nbegan = time.monotonic()\n"
        f"servers = [lazurite.Lazurite().start() for _ in range({CROWD})]\nseconds = time.monotonic() - began\n"
        "def kib(server):\n    text = open(f'/proc/{server._process.pid}/smaps_rollup').read()\n"
        "    return int(next(line.split()[1] for line in text.splitlines() if line.startswith('Pss:')))\n"
        "mb = sum(map(kib, servers)) * 1024 / 1e6\n"
        "print(f'{seconds:.1f} s to start them one after the other, {mb:.0f} MB together')\n"
        "for server in servers: server.stop()\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        f"with ThreadPoolExecutor({CROWD}) as pool:\n    began = time.monotonic()\n"
        f"    servers = list(pool.map(lambda _: lazurite.Lazurite().start(), range({CROWD})))\n"
        "    print(f'{time.monotonic() - began:.1f} s to start all at the same time')\n"
        "for server in servers: server.stop()\n"
    )
    done = subprocess.run([environment / "bin/python", "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    FIGURES["crowd"] = "; ".join(done.stdout.splitlines())
    print(f"{CROWD} servers at once: {FIGURES['crowd']}")


def try_trials(made: Path, work: Path) -> None:
    """The steps of the READMEs, from an empty directory to the first test that passes."""
    for language, trial in [("python", python_trial), ("javascript", javascript_trial), ("rust", rust_trial)]:
        directory = work / f"{language}-trial"
        directory.mkdir()
        began = time.monotonic()
        trial(made, directory)
        FIGURES[f"{language}_trial"] = f"{time.monotonic() - began:.0f} s"
        print(f"from an empty directory to a passing test: {language} {FIGURES[f'{language}_trial']}")


def python_trial(made: Path, directory: Path) -> None:
    run(sys.executable, "-m", "venv", "venv", cwd=directory)
    run("venv/bin/pip", "install", "--quiet", one(made, "*.whl"), "pytest", "azure-storage-blob", cwd=directory)
    (directory / "test_photos.py").write_text(example(PACKAGES / "python/README.md", "python", "def test_upload"))
    run("venv/bin/pytest", "-q", cwd=directory)


def javascript_trial(made: Path, directory: Path) -> None:
    (directory / "package.json").write_text("{}")
    packages = [one(made, "lazurite-linux-*.tgz"), one(made, "lazurite-0*.tgz")]
    run("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *packages, "@azure/storage-blob", cwd=directory)
    (directory / "photos.test.js").write_text(example(PACKAGES / "npm/lazurite/README.md", "js", "lazurite/node-test"))
    run("node", "--test", cwd=directory)


def rust_trial(made: Path, directory: Path) -> None:
    """With the sources of this repository in place of the registry."""
    settings = os.environ | {"CARGO_TARGET_DIR": str(directory / "target")}
    run("cargo", "init", "--quiet", "--lib", "--name", "photos", cwd=directory, env=settings)
    run("cargo", "add", "--quiet", "--dev", "--path", ROOT / "server", "lazurite", cwd=directory, env=settings)
    lines = example(ROOT / "README.md", "rust", "Lazurite::in_memory")
    (directory / "tests").mkdir()
    (directory / "tests/store.rs").write_text(RUST_TEST.replace("LINES", lines))
    run("cargo", "test", "--quiet", cwd=directory, env=settings)


if __name__ == "__main__":
    main()
