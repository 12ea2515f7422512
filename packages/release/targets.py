"""The platforms that there are programs for, and how a program is built and run for each on this machine.

A toolchain has the standard library of its own platform, and those that `rustup target add` has fetched. For the others cargo compiles
it, from the sources that `rustup component add rust-src` fetches, or from those that RUST_SOURCES names (the directory `library` of the
same version).
"""

import os
import platform as machines
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass
class Target:
    """A platform for cargo. `zig` is the name that zig has for it, where zig is the C compiler and the linker."""

    triple: str
    compiler: str = ""
    zig: str = ""
    # What Debian calls the tools: those that build, and those that run.
    packages: str = ""
    runner: "list[str]" = field(default_factory=list)
    # Of the runner.
    environment: "dict[str, str]" = field(default_factory=dict)
    suffix: str = ""


QEMU = {"QEMU_LD_PREFIX": "/usr/aarch64-linux-gnu"}
WINE = "/usr/lib/wine/wine64" if os.path.exists("/usr/lib/wine/wine64") else "wine64"
TARGETS = {
    "linux-x64": Target("x86_64-unknown-linux-gnu", "cc"),
    "linux-arm64": Target(
        "aarch64-unknown-linux-gnu",
        "aarch64-linux-gnu-gcc",
        packages="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user",
        runner=["qemu-aarch64"],
        environment=QEMU,
    ),
    "linux-x64-musl": Target("x86_64-unknown-linux-musl", zig="x86_64-linux-musl"),
    "linux-arm64-musl": Target("aarch64-unknown-linux-musl", zig="aarch64-linux-musl", packages="qemu-user", runner=["qemu-aarch64"]),
    "windows-x64": Target(
        "x86_64-pc-windows-gnu",
        "x86_64-w64-mingw32-gcc",
        packages="gcc-mingw-w64-x86-64 wine64",
        runner=[WINE],
        environment={"WINEDEBUG": "-all"},
        suffix=".exe",
    ),
    "darwin-arm64": Target("aarch64-apple-darwin", zig="aarch64-macos.11.0"),
    "darwin-x64": Target("x86_64-apple-darwin", zig="x86_64-macos.11.0"),
}


def host() -> str:
    """The platform of this machine."""
    machine = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(machines.machine())
    return f"{machines.system().lower()}-{machine}"


def runner(name: str) -> "tuple[list[str], dict[str, str]] | None":
    """The words before a command of this platform's programs and the variables that they need; nothing if none run here."""
    target = TARGETS[name]
    if name.removesuffix("-musl") == host():
        return [], {}
    if target.runner and shutil.which(target.runner[0]):
        return target.runner, target.environment
    return None


def build(name: str, words: "list[str]", rustflags: "list[str]", **options: object) -> "subprocess.CompletedProcess[str]":
    """Runs a command of cargo for a platform. `options` are those of `subprocess.run`."""
    target, command = TARGETS[name], ["cargo", *words]
    environment = os.environ | environment_of(name)
    if name != host():
        command += ["--target", target.triple]
        if not has_standard_library(target.triple):
            environment |= {"RUSTC_BOOTSTRAP": "1", "__CARGO_TESTS_ONLY_SRC_ROOT": str(sources(target.triple))}
            command += ["-Zbuild-std=std,panic_unwind"]
            rustflags = [*rustflags, f"--remap-path-prefix={sources(target.triple)}=library"]
        if name.startswith("darwin"):
            sdk = macos_sdk()
            environment["SDKROOT"] = str(sdk)
            places = [f"-F{sdk / FRAMEWORKS_OF_SDK}", f"-L{sdk / 'usr/lib'}"]
            rustflags = [*rustflags, *[f"-Clink-arg={word}" for word in [*places, "-Wl,-dead_strip_dylibs"]]]
        elif target.zig:
            # Rust's own files for the start of a program are not there, and zig has some.
            rustflags = [*rustflags, "-Clink-self-contained=no"]
    environment["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join([*os.environ.get("RUSTFLAGS", "").split(), *rustflags])
    return subprocess.run(command, cwd=ROOT, env=environment | options.pop("env", {}), **options)


def directory(name: str, profile: str) -> Path:
    """Where cargo puts the programs of a platform."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / profile if name == host() else target / TARGETS[name].triple / profile


def program(name: str, profile: str) -> Path:
    return directory(name, profile) / f"lazurite{TARGETS[name].suffix}"


def environment_of(name: str) -> "dict[str, str]":
    """The variables that make cargo, and the crates that compile C, use the compiler of a platform."""
    target = TARGETS[name]
    if name == host():
        return {}
    compiler, archiver = target.compiler, ""
    if target.zig:
        compiler, archiver = zig_commands(target)
    elif not shutil.which(compiler):
        sys.exit(f"{name}: {compiler} is not there; of Debian, it needs: {target.packages}")
    word = target.triple.replace("-", "_")
    found = {f"CARGO_TARGET_{word.upper()}_LINKER": compiler, f"CC_{word}": compiler}
    if archiver:
        found[f"AR_{word}"] = archiver
    if "arm64" in name:
        # Some kernels of arm64 have pages of 64 KiB. jemalloc stops where pages are larger than those that it was built for.
        found["JEMALLOC_SYS_WITH_LG_PAGE"] = "16"
    return found


def has_standard_library(triple: str) -> bool:
    return (sysroot() / "lib/rustlib" / triple / "lib").exists()


def sources(triple: str) -> Path:
    """The sources of the standard library."""
    found = Path(os.environ.get("RUST_SOURCES", sysroot() / "lib/rustlib/src/rust/library"))
    if not (found / "std").exists():
        sys.exit(
            f"the toolchain has no standard library for {triple} (`rustup target add {triple}`), and there are no sources to compile it "
            f"from in {found} (`rustup component add rust-src`, or RUST_SOURCES=DIRECTORY)"
        )
    return found.resolve()


def sysroot() -> Path:
    found = subprocess.run(["rustc", "--print", "sysroot"], check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    return Path(found.stdout.strip())


def zig_commands(target: Target) -> "tuple[str, str]":
    """Scripts that call zig as a C compiler for a target, and as an archiver."""
    zig = zig_command()
    place = ROOT / "target/zig"
    place.mkdir(parents=True, exist_ok=True)
    compiler, archiver = place / f"cc-{target.zig}", place / "ar"
    # Cargo and the crate `cc` add names of targets that zig does not know, and the stand-in for Apple's SDK, in which zig would look for
    # the C library. It needs none but its own.
    without = """\
before=
for word do
    shift
    [ "$before" = -isysroot ] || case $word in --target=* | -isysroot) ;; *) set -- "$@" "$word" ;; esac
    before=$word
done
"""
    # A header of macOS that zig lacks: jemalloc includes it, and uses nothing of it there.
    header = place / "include/sys/syscall.h"
    header.parent.mkdir(parents=True, exist_ok=True)
    header.touch()
    # Without optimization, zig adds checks of its own to C, and what they need to the program.
    more = "-fno-sanitize=undefined" + (f" -idirafter '{place}/include'" if "macos" in target.zig else "")
    scripts = {compiler: f'{without}exec {zig} cc -target {target.zig} {more} "$@"\n', archiver: f'exec {zig} ar "$@"\n'}
    for path, script in scripts.items():
        # Two builds may run at once.
        made = path.with_name(f"{path.name}.{os.getpid()}")
        made.write_text(f"#!/bin/sh\n{script}")
        made.chmod(0o755)
        made.rename(path)
    return str(compiler), str(archiver)


# The frameworks of macOS that the program uses, and the crates that declare their symbols.
FRAMEWORKS = {"Security": "security-framework-sys", "CoreFoundation": "core-foundation-sys"}
FRAMEWORKS_OF_SDK = "System/Library/Frameworks"


def macos_sdk() -> Path:
    """A stand-in for the part of Apple's SDK that zig has not: for the linker, its libraries export what the crates declare."""
    # The crates may not be there yet.
    subprocess.run(["cargo", "fetch", "--quiet", "--target", TARGETS["darwin-arm64"].triple], cwd=ROOT, check=True)
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    sdk = ROOT / "target/zig/sdk"
    for name, crate in FRAMEWORKS.items():
        code = "".join(path.read_text() for path in sorted(home.glob(f"registry/src/*/{crate}-*/src/**/*.rs")))
        symbols = sorted(set(re.findall(r"\b(?:fn|static) (k?[A-Z]\w+)\s*[(:]", code)))
        library(sdk / FRAMEWORKS_OF_SDK / f"{name}.framework/{name}.tbd", f"/{FRAMEWORKS_OF_SDK}/{name}.framework/Versions/A/{name}", symbols)
    # The crate `libc` names it for every program. None of the program's code calls it, so the linker leaves it out.
    library(sdk / "usr/lib/libiconv.tbd", "/usr/lib/libiconv.2.dylib", ["iconv", "iconv_close", "iconv_open"])
    return sdk


def library(path: Path, name: str, symbols: "list[str]") -> None:
    """Describes a library of macOS to the linker: where it lies there, and what it exports."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "--- !tapi-tbd\ntbd-version: 4\ntargets: [x86_64-macos, arm64-macos]\n"
        f"install-name: '{name}'\nexports:\n"
        f"  - targets: [x86_64-macos, arm64-macos]\n    symbols: [{', '.join(f'_{symbol}' for symbol in symbols)}]\n...\n"
    )


def zig_command() -> str:
    """How zig is called: as a program, or by the package `ziglang` of PyPI in ZIG_PYTHON, or in this Python."""
    if shutil.which("zig"):
        return "zig"
    python = os.environ.get("ZIG_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import ziglang"], capture_output=True).returncode != 0:
        sys.exit("zig, the linker for this platform, is not there: `pip install ziglang`, or name a Python that has it in ZIG_PYTHON")
    return f"'{python}' -m ziglang"
