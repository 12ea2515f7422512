"""One version, and the directory of its packages. Packages for several platforms may be made one after the other; those that name all
platforms, as the main package of npm does, name the ones that lie there."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from . import targets
from .program import Program, read

ROOT = targets.ROOT
PACKAGES = ROOT / "packages"


class Release:
    def __init__(self, out: Path, is_quick: bool, repository: "str | None") -> None:
        self.out = out
        self.repository = repository
        self.is_quick = is_quick
        self.level = 1 if is_quick else 9
        cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())
        self.version = cargo["workspace"]["package"]["version"]
        self.license = (ROOT / "LICENSE").read_bytes()

    def check_version(self, version: str, place: str) -> None:
        if version != self.version:
            sys.exit(f"{place} has version {version}, the workspace {self.version}")

    def add(self, binary: Path) -> Program:
        """Puts a program into the directory, without debug information, which lies beside it."""
        found = read(binary)
        place = self.out / "programs" / found.platform
        place.mkdir(parents=True, exist_ok=True)
        program, debug = place / found.file, place / f"{found.file}.debug"
        tool = objcopy(found)
        # The linker has stripped and signed a program for macOS, and macOS runs none that was changed since.
        if found.system == "darwin" or (self.is_quick and tool is None):
            shutil.copyfile(binary, program)
        elif tool is None:
            sys.exit("objcopy is not there, which takes debug information out of the program: install binutils")
        else:
            # That of Rust finds its library by this.
            settings = os.environ | {"LD_LIBRARY_PATH": str(targets.sysroot() / "lib")}
            if not self.is_quick:
                run(tool, "--only-keep-debug", binary, debug, env=settings)
            run(tool, "--strip-all", binary, program, env=settings)
            if not self.is_quick:
                run(tool, f"--add-gnu-debuglink={debug.name}", program.name, cwd=place, env=settings)
        program.chmod(0o755)
        return read(program)

    def programs(self) -> "dict[str, Program]":
        """The programs of the directory, by platform."""
        found = [read(path) for path in sorted(self.out.glob("programs/*/lazurite*")) if path.suffix != ".debug"]
        return {program.platform: program for program in found}


def objcopy(program: Program) -> "str | None":
    if program.platform == targets.host():
        return shutil.which("objcopy")
    # That of Rust knows the files of every system.
    [*found] = targets.sysroot().glob("lib/rustlib/*/bin/rust-objcopy")
    return str(found[0]) if found else None


def run(*command: object, **options: object) -> str:
    """Standard output of a command that has to succeed."""
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, **options).stdout
