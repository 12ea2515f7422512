"""Inspects the packages of every platform in a directory: the program in each is that of the platform in the package's name, and needs
nothing that the platform lacks. Installs those that this machine runs, as it is, by qemu-user or by Wine, with their own tools.

    packages/inspect_packages.py DIR

Prints one line for each package, and ends with 1 at the first fault. It needs the package `lief` of PyPI, which reads programs of every
system; npm, dpkg-deb and skopeo are used where they are there.
"""

import base64
import contextlib
import hashlib
import http.server
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile
from pathlib import Path
from typing import Iterator

import lief
from release import targets
from release.program import Program
from try_targets import place

# The libraries that every installation of a system has.
LIBRARIES = {
    "glibc": {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"},
    "musl": set(),
    "darwin": {
        "/usr/lib/libSystem.B.dylib",
        "/System/Library/Frameworks/CoreFoundation.framework/Versions/A/CoreFoundation",
        "/System/Library/Frameworks/Security.framework/Versions/A/Security",
    },
    # Those of Windows itself: neither MinGW's, nor the C runtime of a compiler.
    "windows": {
        *["advapi32", "bcrypt", "bcryptprimitives", "crypt32", "kernel32", "kernelbase", "msvcrt", "ncrypt", "ntdll", "ole32", "secur32"],
        *["shell32", "user32", "userenv", "ws2_32"],
    },
}
DEBIAN = {"amd64": "linux-x64", "arm64": "linux-arm64"}


def main() -> None:
    made = Path(sys.argv[1])
    lief.logging.disable()
    packages = {
        "*.whl": (wheel_platform, try_wheel),
        "lazurite-*-*-*.tgz": (npm_platform, try_npm),
        "*.deb": (lambda path: DEBIAN[path.stem.split("_")[2]], try_deb),
        "lazurite-windows-*.zip": (lambda path: "windows-x64", try_zip),
        "lazurite-*-*-*.vsix": (vsix_platform, None),
    }
    for pattern, (platform, install) in packages.items():
        for path in sorted(made.glob(pattern)):
            facts = inspected(path, platform(path))
            how = "not installed"
            if install and targets.runner(platform(path)):
                with tempfile.TemporaryDirectory() as scratch:
                    how = install(path, platform(path), Path(scratch))
            print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB; {facts}; {how}", flush=True)
    for path in [path for pattern in ["*.whl", "*.tgz", "*.vsix"] for path in sorted(made.glob(pattern))]:
        check_links(path)
    for path in sorted(made.glob("*-oci.tar")):
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB; {inspected_image(path)}")


def wheel_platform(path: Path) -> str:
    tag = path.stem.split("-")[-1]
    machine = "arm64" if re.search("aarch64|arm64", tag) else "x64"
    if tag.startswith(("win", "macosx")):
        return f"{'windows' if tag.startswith('win') else 'darwin'}-{machine}"
    return f"linux-{machine}" + ("-musl" if "musllinux" in tag else "")


def npm_platform(path: Path) -> str:
    return re.sub(r"^lazurite-(.*)-\d.*", r"\1", path.name).replace("win32", "windows")


def vsix_platform(path: Path) -> str:
    return re.sub("^alpine-(.*)", r"linux-\1-musl", npm_platform(path))


def inspected(path: Path, platform: str) -> str:
    """What the program of a package needs. Ends the run if that is more than its platform has."""
    content = program_of(path)
    program = Program(content, path.name)
    assert program.platform == platform, f"{path.name} contains a program for {program.platform}"
    parsed = lief.parse(io.BytesIO(content))
    libraries = {library if isinstance(library, str) else library.name for library in parsed.libraries}
    if program.system == "windows":
        libraries = {name.lower().removesuffix(".dll") for name in libraries}
        # The universal C runtime is part of Windows 10; the names are those of its parts.
        libraries = {name for name in libraries if not name.startswith("api-ms-win-")}
    allowed = LIBRARIES[program.libc or program.system]
    assert libraries <= allowed, f"{path.name} needs {libraries - allowed}"
    if program.libc == "musl":
        assert not list(parsed.imported_symbols), path.name
    if program.platform == "darwin-arm64":
        check_signature(content, parsed.code_signature, path.name)
    oldest = {"glibc": "glibc {} or newer", "": "macOS {} or newer"}.get(program.libc, "") if program.oldest else ""
    needs = [*filter(None, [oldest.format(program.oldest)]), *sorted(name.split("/")[-1] for name in libraries)]
    return f"{program.platform}, {len(content) / 1e6:.1f} MB, needs {', '.join(needs) or 'nothing'}"


def check_signature(content: bytes, place: "lief.MachO.CodeSignature | None", name: str) -> None:
    """macOS on arm64 starts no program without a signature, which has a hash of each page. The linker makes it."""
    assert place is not None, f"{name} contains a program without a signature"
    signature = content[place.data_offset :]
    [directory] = [offset for kind, offset in struct.iter_unpack(">II", signature[12:20]) if kind == 0]
    # The fields of a code directory behind its magic, length and version.
    flags, hashes, _, _, pages, end, hash_size = struct.unpack_from(">6IB", signature, directory + 12)
    page_size = 1 << signature[directory + 39]
    assert flags & 2, f"{name}: the signature names a person"
    assert end == place.data_offset, f"{name}: the signature is one for {end} bytes"
    for page in range(pages):
        start = page * page_size
        expected = signature[directory + hashes + page * hash_size :][:hash_size]
        found = hashlib.sha256(content[start : min(start + page_size, end)]).digest()
        assert found == expected, f"{name}: the signature is not that of page {page}"


def program_of(path: Path) -> bytes:
    [content] = files_of(path, r"(^|.*/)(bin|scripts)/lazurite(\.exe)?$|^lazurite\.exe$").values()
    return content


def files_of(path: Path, names: str) -> "dict[str, bytes]":
    """The files of a package whose names match."""
    if path.suffix in [".whl", ".zip", ".vsix"]:
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist() if re.match(names, name)}
    archive = path.read_bytes()
    if path.suffix == ".deb":
        archive = subprocess.run(["dpkg-deb", "--fsys-tarfile", path], check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        found = [entry for entry in opened.getmembers() if re.match(names, entry.name)]
        return {entry.name: opened.extractfile(entry).read() for entry in found}


def check_links(path: Path) -> None:
    """A page in a package lies in no directory of the repository: its links have whole addresses."""
    for name, content in files_of(path, r".*(\.md|/METADATA)$").items():
        relative = re.findall(r"\]\((?![a-z]+:|#)([^)]*)\)", content.decode())
        assert not relative, f"{name} in {path.name} links to {relative}"


def run(*words: object, **options: object) -> str:
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    assert done.returncode == 0, f"{words} failed:\n{done.stdout}"
    return done.stdout


def started(platform: str, program: Path) -> str:
    """What the installed program prints; the loader finds all its symbols first."""
    with tempfile.TemporaryDirectory() as scratch:
        here = place(platform, Path(scratch))
        printed = run(*here.runner, program, "--version", env=os.environ | here.environment | {"LD_BIND_NOW": "1"}).strip()
    assert printed.startswith("lazurite 0."), printed
    return f"it prints `{printed}`" + (f" under {Path(here.runner[0]).name}" if here.runner else "")


def try_wheel(path: Path, platform: str, scratch: Path) -> str:
    tag = path.stem.split("-")[-1].split(".")[-1]
    only = ["--platform", tag, "--only-binary", ":all:", "--no-index", "--no-deps", "--find-links", path.parent]
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--target", scratch, *only, "lazurite-storage")
    return f"installed by pip for {tag}: {started(platform, scratch / 'bin' / Program(program_of(path)).file)}"


def try_npm(path: Path, platform: str, scratch: Path) -> str:
    """Installs the main package as on that platform: npm has to choose this one of the packages in the directory."""
    if not shutil.which("npm"):
        return "not installed, npm is not there"
    system, machine, *musl = platform.replace("windows", "win32").split("-")
    chosen = [f"--os={system}", f"--cpu={machine}", *([f"--libc={'musl' if musl else 'glibc'}"] if system == "linux" else [])]
    (scratch / "package.json").write_text("{}")
    with registry(path.parent) as address:
        install = ["npm", "install", f"--registry={address}", f"--cache={scratch / 'cache'}", "--no-audit", "--no-fund", "--loglevel=error"]
        run(*install, *chosen, "lazurite", cwd=scratch)
    installed = sorted(it.name for it in (scratch / "node_modules").iterdir() if it.name.startswith("lazurite-"))
    assert installed == [npm_name(path)], installed
    program = scratch / "node_modules" / npm_name(path) / "bin" / Program(program_of(path)).file
    return f"chosen by npm {' '.join(chosen)}: {started(platform, program)}"


@contextlib.contextmanager
def registry(made: Path) -> "Iterator[str]":
    """A registry of npm that has the packages of a directory, on this machine; its address."""
    packages = {}
    for path in made.glob("lazurite-*.tgz"):
        with tarfile.open(path) as archive:
            package = json.load(archive.extractfile("package/package.json"))
        packages[package["name"]] = (package, path)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = f"http://{self.headers['Host']}"
            package, path = packages.get(self.path.split("/")[1], (None, None))
            if package is None:
                return self.send_error(404)
            content = path.read_bytes()
            if not self.path.endswith(".tgz"):
                digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
                dist = {"tarball": f"{address}/{package['name']}/package.tgz", "integrity": f"sha512-{digest}"}
                versions = {package["version"]: package | {"dist": dist}}
                content = json.dumps({"name": package["name"], "dist-tags": {"latest": package["version"]}, "versions": versions}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def npm_name(path: Path) -> str:
    return re.sub(r"-\d.*", "", path.name)


def try_zip(path: Path, platform: str, scratch: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        archive.extractall(scratch)
    return f"extracted: {started(platform, scratch / 'lazurite.exe')}"


def try_deb(path: Path, platform: str, scratch: Path) -> str:
    run("dpkg-deb", "--extract", path, scratch)
    return f"extracted by dpkg-deb: {started(platform, scratch / 'usr/bin/lazurite')}"


def inspected_image(path: Path) -> str:
    """Every file of the archive has the hash that it is named by; the program of each processor is one for it."""
    with tarfile.open(path) as archive:
        files = {entry.name: archive.extractfile(entry).read() for entry in archive.getmembers()}
    for name, content in files.items():
        assert not name.startswith("blobs/") or name.endswith(hashlib.sha256(content).hexdigest()), name

    def blob(entry: dict) -> bytes:
        return files["blobs/" + entry["digest"].replace(":", "/")]

    [index] = json.loads(files["index.json"])["manifests"]
    found = []
    for entry in json.loads(blob(index))["manifests"]:
        [layer] = json.loads(blob(entry))["layers"]
        with tarfile.open(fileobj=io.BytesIO(blob(layer))) as opened:
            program = Program(opened.extractfile("usr/local/bin/lazurite").read())
        architecture = entry["platform"]["architecture"]
        assert program.platform == DEBIAN[architecture] + "-musl", program.platform
        found.append(architecture)
    how = "skopeo is not there"
    if shutil.which("skopeo"):
        shown = [run("skopeo", "--override-arch", it, "inspect", "--format", "{{.Architecture}}", f"oci-archive:{path}").strip() for it in found]
        assert shown == found, shown
        how = "read by skopeo"
    return f"one index for {' and '.join(found)}, {how}"


if __name__ == "__main__":
    main()
