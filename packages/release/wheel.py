"""The Python package, a wheel for each platform."""

import base64
import hashlib
import re
import tomllib
from pathlib import Path

from .archives import write_zip
from .program import Program
from .release import PACKAGES, Release

MACHINES = {"x64": "x86_64", "arm64": "aarch64"}


def make(release: Release, program: Program) -> "list[Path]":
    source = PACKAGES / "python"
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    release.check_version(project["version"], "pyproject.toml")
    init = (source / "lazurite/__init__.py").read_text()
    release.check_version(re.search(r'__version__ = "(.*)"', init)[1], "__init__.py")
    name, version = project["name"].replace("-", "_"), release.version
    info = f"{name}-{version}.dist-info"
    files = {
        f"lazurite/{path.name}": (path.read_bytes(), 0o644) for path in sorted((source / "lazurite").iterdir()) if path.is_file()
    }
    files[f"{name}-{version}.data/scripts/{program.file}"] = (program.content, 0o755)
    tags = "".join(f"Tag: py3-none-{platform}\n" for platform in platforms(program))
    texts = {
        "METADATA": metadata(project, (source / "README.md").read_text()),
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: lazurite\nRoot-Is-Purelib: false\n{tags}",
        "entry_points.txt": entry_points(project),
        "licenses/LICENSE": release.license.decode(),
    }
    files |= {f"{info}/{file}": (text.encode(), 0o644) for file, text in texts.items()}
    record = f"{info}/RECORD"
    lines = [f"{path},sha256={hash_of(content)},{len(content)}\n" for path, (content, _) in files.items()]
    files[record] = ("".join([*lines, f"{record},,\n"]).encode(), 0o644)
    wheel = release.out / f"{name}-{version}-py3-none-{'.'.join(platforms(program))}.whl"
    write_zip(wheel, release.level, files)
    return [wheel]


def platforms(program: Program) -> "list[str]":
    """The tags of the systems that may install the wheel."""
    if program.system == "windows":
        return ["win_amd64"]
    if program.system == "darwin":
        return [f"macosx_{program.oldest.replace('.', '_')}_{MACHINES[program.machine].replace('aarch64', 'arm64')}"]
    machine = MACHINES[program.machine]
    if program.libc == "musl":
        # A static program runs on any Linux: on Alpine, and where glibc is older than the other wheel needs.
        return [f"manylinux_2_17_{machine}", f"musllinux_1_1_{machine}"]
    return [f"manylinux_{program.oldest.replace('.', '_')}_{machine}"]


def metadata(project: dict, readme: str) -> str:
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License-Expression: {project['license']}",
        "License-File: LICENSE",
        f"Keywords: {','.join(project['keywords'])}",
        *[f"Classifier: {classifier}" for classifier in project["classifiers"]],
        f"Requires-Python: {project['requires-python']}",
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + readme


def entry_points(project: dict) -> str:
    groups = project["entry-points"].items()
    return "".join(f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in points.items()) for group, points in groups)


def hash_of(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
