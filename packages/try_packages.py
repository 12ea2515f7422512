"""Installs the packages of a directory into empty environments, by their own tools, and uses them as their READMEs show. Run by
`.ci/package test`; needs a way to the registries of Python and npm.

    packages/try_packages.py DIR [--only STEP,...] [--work WORK] [--write-docs README.md]

DIR holds the packages. The steps, all of them unless --only names some:

    install   the packages, and Azurite from npm, into WORK, with their tests
    sizes     ours and Azurite's beside each other
    starts    from the start to the first answer, ours and Azurite's
    suites    the 200 tests in `suites`, with ours and with Azurite
    crowds    a hundred servers at once, of ours and of Azurite
    python, javascript, rust   the way of a new user of the language, from an empty directory to a passing test

WORK is a temporary directory by default; one with a name keeps what `install` has installed for other steps. --write-docs writes the
figures of all steps so far into the block `packages` of a page.
"""

import argparse
import functools
import http.client
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import crowd
import figures

PACKAGES = Path(__file__).resolve().parent
ROOT = PACKAGES.parent
TESTS = 200
# How the runners report that all of them passed.
PASSED = rf"(?<!\d){TESTS} passed|# pass {TESTS}\b"
STARTS = 5
CROWD = 100
# What an Azurite takes at most when it is idle.
AZURITE_BYTES = 100_000_000

# By the names of figures.
TABLE = """\
| | Lazurite | Azurite |
| --- | --- | --- |
| download | {wheel} (wheel), {npm} (npm), {deb} (Debian); the image is {image} over its base | {azurite_download} |
| size on disk | {on_disk} | {azurite_on_disk} (`node_modules`) |
| start to the first response | {start}; by npm {start_npm}, the start of Node included | {start_azurite} |
| 200 tests of real work, each with an empty store: pytest | {pytest} | {pytest_azurite} |
| the same: Vitest | {vitest} | {vitest_azurite} |
| 100 servers at once, and the memory of each (PSS) | {crowd} | {crowd_azurite} |
| from an empty directory to a passing test, installations included | Python {python_trial}, JavaScript (node:test and Vitest) {javascript_trial}, Rust {rust_trial} (everything is compiled) | |"""


@dataclass
class Place:
    """Where packages are, and where they are installed."""

    made: Path
    work: Path

    def __post_init__(self) -> None:
        self.environment = self.work / "venv"
        self.project = self.work / "project"
        self.azurite = self.work / "azurite/node_modules/.bin/azurite"


def main() -> None:
    steps = {
        "install": install,
        "sizes": compare_sizes,
        "starts": compare_starts,
        "suites": compare_suites,
        "crowds": compare_crowds,
        "python": functools.partial(try_trial, "python", python_trial),
        "javascript": functools.partial(try_trial, "javascript", javascript_trial),
        "rust": functools.partial(try_trial, "rust", rust_trial),
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("made", type=Path, metavar="DIR")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(steps), metavar="STEP,...")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--write-docs", type=Path, metavar="PAGE")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lazurite-packages-") as scratch:
        place = Place(arguments.made.resolve(), (arguments.work or Path(scratch)).resolve())
        place.work.mkdir(parents=True, exist_ok=True)
        for step in arguments.only:
            steps[step](place)
        if arguments.write_docs:
            write_figures(arguments.write_docs, figures.read(place.made))


def write_figures(page: Path, measured: "dict[str, str]") -> None:
    begin, end = "<!-- figures: packages -->", "<!-- end -->"
    before, rest = page.read_text().split(begin, 1)
    page.write_text(f"{before}{begin}\n{TABLE.format(**measured)}\n{end}{rest.split(end, 1)[1]}")
    print(f"{page.name}: its figures are written")


def run(*command: object, cwd: "Path | None" = None, env: "dict[str, str] | None" = None) -> float:
    """Runs a command that has to succeed; the seconds it took."""
    return output_of(*command, cwd=cwd, env=env)[0]


def output_of(*command: object, cwd: "Path | None" = None, env: "dict[str, str] | None" = None) -> "tuple[float, str]":
    """Runs a command that has to succeed; the seconds it took, and what it printed."""
    began = time.monotonic()
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout}")
    return time.monotonic() - began, done.stdout


def one(directory: Path, pattern: str) -> Path:
    [path] = directory.glob(pattern)
    return path


def wheel_of(made: Path) -> Path:
    """The wheel for this machine, of those for all platforms."""
    [found] = [path for path in made.glob("*linux*_x86_64.whl") if "musllinux" not in path.name]
    return found


def example(readme: Path, language: str, part: str) -> str:
    blocks = re.findall(f"```{language}\n(.*?)```", readme.read_text(), re.DOTALL)
    return next(block for block in blocks if part in block)


def install(place: Place) -> None:
    try_wheel(place)
    try_npm(place)
    try_vscode(place)
    install_azurite(place)


def try_wheel(place: Place) -> None:
    environment = place.environment
    run(sys.executable, "-m", "venv", environment)
    pip = [environment / "bin/pip", "--disable-pip-version-check", "install", "--quiet"]
    seconds = run(*pip, "--no-index", wheel_of(place.made))
    print(f"wheel: installed in {seconds:.1f} s")
    run(*pip, "pytest", "mypy", "azure-storage-blob", "azure-storage-queue", "azure-data-tables")
    tests = place.work / "python-tests"
    shutil.copytree(PACKAGES / "python/tests", tests)
    (tests / "test_readme.py").write_text(example(PACKAGES / "python/README.md", "python", "def test_upload"))
    seconds = run(environment / "bin/pytest", "-q", cwd=tests)
    print(f"wheel: its tests and its README's passed in {seconds:.1f} s")
    run(environment / "bin/mypy", "--strict", "--package", "lazurite", cwd=tests)
    print("wheel: mypy --strict finds nothing")


def try_npm(place: Place) -> None:
    made, project = place.made, place.project
    project.mkdir()
    (project / "package.json").write_text("{}")
    install = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"]
    packages = [one(made, "lazurite-linux-x64-0*.tgz"), one(made, "lazurite-0*.tgz"), one(made, "lazurite-azurite-*.tgz")]
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


def try_vscode(place: Place) -> None:
    """The packed extension with its program, in the stand-in for the editor."""
    extension = place.work / "vscode"
    with zipfile.ZipFile(one(place.made, "lazurite-linux-x64-0*.vsix")) as archive:
        for entry in archive.infolist():
            # As the editor does, which keeps the mode of the program.
            Path(archive.extract(entry, extension)).chmod(entry.external_attr >> 16 & 0o777)
    settings = os.environ | {"EXTENSION": str(extension / "extension")}
    seconds = run("node", "--test", *sorted((PACKAGES / "vscode/tests").glob("*.test.js")), env=settings)
    print(f"vscode: its tests passed in {seconds:.1f} s; it was not installed into an editor")


def install_azurite(place: Place) -> None:
    project = place.work / "azurite"
    project.mkdir()
    (project / "package.json").write_text("{}")
    # A cache of its own, which then holds the downloaded packages.
    cache = ["--cache", place.work / "azurite-cache"]
    seconds = run("npm", "install", *cache, "--no-audit", "--no-fund", "--loglevel=error", "azurite", cwd=project)
    print(f"Azurite: installed by npm in {seconds:.1f} s")


def bytes_of(path: Path) -> int:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file() and not file.is_symlink()]
    return sum(file.stat().st_size for file in files)


def size(path: Path) -> str:
    return f"{bytes_of(path) / 1e6:.1f} MB"


def compare_sizes(place: Place) -> None:
    made, work = place.made, place.work
    wheel = wheel_of(made)
    packages = [one(made, f"lazurite-{name}0*.tgz") for name in ["linux-x64-", "", "azurite-"]]
    program, npm = size(place.program), sum(map(bytes_of, packages)) / 1e6
    deb = ", ".join(map(size, made.glob("lazurite_*_amd64.deb"))) or "not made"
    figures.add(made, wheel=size(wheel), npm=f"{npm:.1f} MB", deb=deb, on_disk=program)
    print(f"size: program {program}; download of the wheel {size(wheel)}, of the {len(packages)} npm packages {npm:.1f} MB")
    content = [path for path in (work / "azurite-cache/_cacache/content-v2").rglob("*") if path.is_file()]
    archives = [path for path in content if path.open("rb").read(2) == b"\x1f\x8b"]
    download = sum(path.stat().st_size for path in archives) / 1e6
    on_disk = bytes_of(work / "azurite/node_modules") / 1e6
    print(f"size: Azurite's download {download:.1f} MB in {len(archives)} packages, its node_modules {on_disk:.0f} MB")
    figures.add(made, azurite_download=f"{download:.1f} MB ({len(archives)} npm packages)", azurite_on_disk=f"{on_disk:.0f} MB")
    modules = work / "project/node_modules"
    by_npm = sum(bytes_of(path) for path in modules.glob("lazurite*"))
    by_pip = bytes_of(work / "venv/bin/lazurite") + sum(
        bytes_of(path) for path in (work / "venv").glob("lib/python*/site-packages/lazurite*")
    )
    print(f"size: on disk, ours by pip {by_pip / 1e6:.1f} MB, by npm {by_npm / 1e6:.1f} MB")
    print(f"size: download of the Debian package {deb}")
    print("size: Azurite's image and its program for Windows not measured: no registry here has them")
    figures.add(made, image=figures.read(made).get("image", "not built"))


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


def compare_starts(place: Place) -> None:
    bin_directory = place.project / "node_modules/.bin"
    for figure, name, command in [
        ("start", "lazurite as a program", [place.program]),
        ("start_wheel", "lazurite of the wheel", [place.environment / "bin/lazurite"]),
        ("start_npm", "lazurite of npm", [bin_directory / "lazurite"]),
        ("start_shim", "azurite of lazurite-azurite", [bin_directory / "azurite"]),
        ("start_azurite", "Azurite", [place.azurite, "--disableTelemetry"]),
    ]:
        times = [first_answer(command, 21000 + 10 * index) for index in range(STARTS)]
        median = f"{statistics.median(times):.0f} ms"
        figures.add(place.made, **{figure: median})
        print(f"start to the first answer, median of {STARTS}: {name} {median}")


def compare_suites(place: Place) -> None:
    """The work of `suites`, by each runner. Every test has an empty store."""
    suites = place.project / "suites"
    shutil.copytree(PACKAGES / "suites", suites, dirs_exist_ok=True)
    pytest, vitest = [place.environment / "bin/pytest", "-q"], ["npx", "vitest", "run", "--root", suites]
    for figure, name, store, command in [
        ("pytest", "pytest with ours", "lazurite", pytest),
        ("pytest_forks", "pytest with ours, a fork each", "lazurite", [*pytest, "-o", "lazurite_isolation=fork"]),
        ("pytest_servers", "pytest with ours, a server each", "lazurite", [*pytest, "-o", "lazurite_isolation=server"]),
        ("pytest_azurite", "pytest with Azurite", "azurite", pytest),
        ("node_test", "node:test with ours", "node-test", ["node", "--test", "lazurite.test.js"]),
        ("jest", "Jest with ours", "jest", ["npx", "jest", "--rootDir", suites, "lazurite.test.js"]),
        ("vitest", "Vitest with ours", "lazurite", [*vitest, "lazurite.spec.mjs"]),
        ("vitest_azurite", "Vitest with Azurite", "azurite", [*vitest, "emptied-azurite.spec.mjs"]),
    ]:
        settings = os.environ | {"AZURITE": str(place.azurite), "STORE": store, "RUNNER": store}
        seconds, printed = output_of(*command, cwd=suites, env=settings)
        if not re.search(PASSED, printed):
            sys.exit(f"{name}: not {TESTS} tests passed:\n{printed}")
        figures.add(place.made, **{figure: f"{seconds:.1f} s"})
        print(f"{TESTS} tests: {name} {seconds:.1f} s")


def compare_crowds(place: Place) -> None:
    """Many servers at once; of Azurite fewer, if the machine has no memory for all."""
    meminfo = Path("/proc/meminfo").read_text()
    available = 1024 * int(re.search(r"MemAvailable: +(\d+)", meminfo)[1])
    for figure, name, count, command in [
        ("crowd", "Lazurite", CROWD, [place.program]),
        ("crowd_azurite", "Azurite", min(CROWD, available // 2 // AZURITE_BYTES), [place.azurite, "--disableTelemetry"]),
    ]:
        measured = crowd.measure(count, [str(word) for word in command])
        fewer = "" if count == CROWD else f"{count} servers: "
        text = "{seconds:.1f} s until all answer, {pss:.1f} MB each".format(**measured)
        figures.add(place.made, **{figure: fewer + text})
        print(f"{name}: {crowd.describe(measured)}")


def try_trial(language: str, trial: "Callable[[Path, Path], None]", place: Place) -> None:
    """The steps of the READMEs, from an empty directory to the first test that passes."""
    directory = place.work / f"{language}-trial"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    began = time.monotonic()
    trial(place.made, directory)
    seconds = f"{time.monotonic() - began:.0f} s"
    figures.add(place.made, **{f"{language}_trial": seconds})
    print(f"from an empty directory to a passing test: {language} {seconds}")


def python_trial(made: Path, directory: Path) -> None:
    run(sys.executable, "-m", "venv", ".venv", cwd=directory)
    run(".venv/bin/pip", "install", "--quiet", wheel_of(made), "pytest", "azure-storage-blob", cwd=directory)
    (directory / "test_photos.py").write_text(example(ROOT / "server/docs/test-suites.md", "python", "def test_upload"))
    run(".venv/bin/pytest", "-q", cwd=directory)


def javascript_trial(made: Path, directory: Path) -> None:
    """With node:test, and then with Vitest, which is installed for it."""
    install = ["npm", "install", "--save-dev", "--no-audit", "--no-fund", "--loglevel=error"]
    packages = [one(made, "lazurite-linux-x64-0*.tgz"), one(made, "lazurite-0*.tgz")]
    run(*install, *packages, "@azure/storage-blob", cwd=directory)
    (directory / "photos.test.js").write_text(example(ROOT / "server/docs/test-suites.md", "js", "lazurite/node-test"))
    run("node", "--test", cwd=directory)
    run(*install, "vitest", cwd=directory)
    (directory / "photos.test.mjs").write_text(example(PACKAGES / "npm/lazurite/README.md", "js", "lazurite/vitest"))
    run("npx", "vitest", "run", "photos.test.mjs", cwd=directory)


def rust_trial(made: Path, directory: Path) -> None:
    """With the sources of this repository in place of the registry."""
    settings = os.environ | {"CARGO_TARGET_DIR": str(directory / "target")}
    for command in [
        ["cargo", "init", "--quiet", "--lib", "--name", "photos"],
        ["cargo", "add", "--quiet", "--dev", "--path", ROOT / "server", "lazurite", "--no-default-features"],
        ["cargo", "add", "--quiet", "--dev", "object_store", "--features", "azure"],
        ["cargo", "add", "--quiet", "--dev", "tokio", "--features", "macros,rt"],
    ]:
        run(*command, cwd=directory, env=settings)
    (directory / "tests").mkdir()
    (directory / "tests/photos.rs").write_text(example(ROOT / "server/docs/test-suites.md", "rust", "Lazurite::in_memory"))
    run("cargo", "test", "--quiet", cwd=directory, env=settings)


if __name__ == "__main__":
    main()
