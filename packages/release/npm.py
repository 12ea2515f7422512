"""The npm packages: one with the program for each platform, which npm chooses by `os`, `cpu` and `libc`, and those that use it."""

import json
from pathlib import Path

from .archives import gzipped, json_bytes, tar
from .program import Program
from .release import PACKAGES, Release


def platform(program: Program) -> str:
    """The platform as Node.js spells it."""
    return program.platform.replace("windows", "win32")


def make(release: Release, program: Program) -> "list[Path]":
    system = platform(program).split("-")[0]
    package = {
        "name": f"lazurite-{platform(program)}",
        "version": release.version,
        "description": f"The program of lazurite for {program.platform}",
        "license": "MIT",
        "os": [system],
        "cpu": [program.machine],
        **({"libc": [program.libc]} if program.libc else {}),
    }
    files = {"package.json": json_bytes(package), f"bin/{program.file}": program.content, "LICENSE": release.license}
    return [write(release, files)]


def make_all(release: Release) -> "list[Path]":
    """The packages for every platform."""
    made = sorted(release.out.glob(f"lazurite-*-*-{release.version}.tgz"))
    names = [path.name.removesuffix(f"-{release.version}.tgz") for path in made]
    return [main_package(release, directory, names) for directory in ["lazurite", "lazurite-azurite"]]


def main_package(release: Release, directory: str, platforms: "list[str]") -> Path:
    source = PACKAGES / "npm" / directory
    files = {str(path.relative_to(source)): path.read_bytes() for path in sorted(source.rglob("*")) if path.is_file()}
    package = json.loads(files["package.json"])
    release.check_version(package["version"], f"{directory}/package.json")
    if directory == "lazurite":
        package["optionalDependencies"] = dict.fromkeys(platforms, release.version)
    return write(release, files | {"package.json": json_bytes(package), "LICENSE": release.license})


def write(release: Release, files: "dict[str, bytes]") -> Path:
    package = json.loads(files["package.json"])
    path = release.out / f"{package['name']}-{package['version']}.tgz"
    entries = {f"package/{name}": (data, 0o755 if name.startswith("bin/") else 0o644) for name, data in files.items()}
    path.write_bytes(gzipped(release.level, tar(entries)))
    return path
