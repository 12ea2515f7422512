"""Installs the Debian package and the feature for dev containers into roots of their own and builds the image on one, then uses them:
`dpkg -i`, the unit, the commands of Azurite, the start with the container, the image's CMD as a user of any number, and the health checks
of compose files. Installs the wheel by the root's own Python, if it has one. Run by `.ci/package test` as root, where mmdebstrap and buildah
are there; needs a way to a Debian mirror.

    packages/try_roots.py DIR [BASE.tar]
    packages/qemu.py python3 packages/try_roots.py DIR [BASE.tar] --processor arm64

DIR holds the packages. BASE.tar is a Debian root; without it, one is made.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import figures
from release import targets
from release.debian import MACHINES

SUITE = "bookworm"
TARGETS = ["sysinit", "basic", "multi-user", "network", "shutdown"]
# A user that the image does not know.
USER = "12345:12345"
PORT = 21600
# The command of compose files inside the container, with the port that this test gives to the server.
HEALTH_CHECKS = [
    f"nc 127.0.0.1 {PORT} -z",
    f"nc -z localhost {PORT + 1}",
    f"wget --quiet --spider 'http://localhost:{PORT}/_lazurite/health'",
    f"lazurite health {PORT}",
]
# Most bytes that the image adds to its base.
IMAGE_BYTES_MAX = 25_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("made", type=Path)
    parser.add_argument("base", type=Path, nargs="?")
    parser.add_argument("--processor", choices=MACHINES, default=targets.host().split("-")[1])
    arguments = parser.parse_args()
    processor = arguments.processor
    missing = [tool for tool in ["mmdebstrap", "buildah", "systemd-analyze", "dpkg-deb"] if not shutil.which(tool)]
    if os.geteuid() != 0 or missing:
        print(f"roots: not tried, they need root and {', '.join(missing) or 'nothing else'}")
        return
    with tempfile.TemporaryDirectory(prefix="lazurite-roots-") as scratch:
        work = Path(scratch)
        base = arguments.base or work / "base.tar"
        if not base.exists():
            # The check wants a tool, where a foreign processor is emulated.
            make = ["mmdebstrap", "--mode=root", "--skip=check/qemu", f"--arch={MACHINES[processor]}", "--variant=minbase"]
            run(*make, "--include=python3,python3-pip", SUITE, base, seconds=3600)
        try_deb(arguments.made, processor, base, work / "root")
        try_wheel(arguments.made, processor, base, work / "wheel")
        try_feature(arguments.made, processor, base, work / "feature")
        try_image(arguments.made, processor, base, work)


def run(*command: object, seconds: int = 900, **options: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout}")
    return done.stdout


def extracted(base: Path, root: Path) -> None:
    root.mkdir()
    # In a namespace of users, not even root makes devices.
    run("tar", "--extract", "--file", base, "--directory", root, "--exclude=./dev/*")
    (root / "dev/null").touch(0o666)


def try_deb(made: Path, processor: str, base: Path, root: Path) -> None:
    extracted(base, root)
    [package] = made.glob(f"lazurite_*_{MACHINES[processor]}.deb")
    shutil.copy(package, root / "tmp/lazurite.deb")
    run("mount", "--rbind", "/proc", root / "proc")
    try:
        run("chroot", root, "dpkg", "-i", "/tmp/lazurite.deb")
        check_unit(root)
        run("chroot", root, "lazurite", "shim", "install", "/usr/local/bin")
        assert run("chroot", root, "azurite", "--version").startswith("3.")
        serves(["chroot", str(root)], f"lazurite --inMemoryPersistence --port {PORT}", [f"lazurite health {PORT}"])
        run("chroot", root, "lazurite", "shim", "remove", "/usr/local/bin")
        run("chroot", root, "dpkg", "--purge", "lazurite")
        left = [path for path in ["usr/bin/lazurite", "etc/default/lazurite"] if (root / path).exists()]
        assert not left, left
    finally:
        run("umount", "--lazy", root / "proc")
    print(f"deb: {package.name} installed by dpkg, its unit verified, used and purged")


def check_unit(root: Path) -> None:
    """The small root has no systemd: its targets are empty here."""
    units = root / "lib/systemd/system"
    for target in TARGETS:
        (units / f"{target}.target").write_text("[Unit]\n")
    run("systemd-analyze", "verify", "--man=no", f"--root={root}", "lazurite.service", env=os.environ | {"SYSTEMD_PAGER": ""})


def try_wheel(made: Path, processor: str, base: Path, root: Path) -> None:
    """By the pip of the root, which chooses among all wheels."""
    extracted(base, root)
    if not (root / "usr/bin/pip3").exists():
        print("wheel: not tried, the root has no pip")
        return
    wheels = shutil.copytree(made, root / "tmp/wheels", ignore=lambda _, found: [name for name in found if not name.endswith(".whl")])
    printed = run("chroot", root, "pip3", "install", "--break-system-packages", "--no-index", "--find-links", "/tmp/wheels", "lazurite-storage")
    program = "import lazurite\nwith lazurite.Lazurite() as store: print(store.connection_string)"
    assert "AccountName=devstoreaccount1" in run("chroot", root, "python3", "-c", program)
    chosen = re.search(r"Processing \S*/(\S+\.whl)", printed)[1]
    print(f"wheel: {chosen} chosen by pip among {len(list(wheels.iterdir()))}, installed, and used from Python")


def try_feature(made: Path, processor: str, base: Path, root: Path) -> None:
    """As the tools for dev containers do: the script as root in the image, then the entry point alone on its line."""
    extracted(base, root)
    feature = shutil.copytree(made / "devcontainer/src/lazurite", root / "tmp/lazurite")
    [package] = made.glob(f"lazurite-linux-{processor}-0*.tgz")
    shutil.copy(package, feature)
    entry = json.loads((feature / "devcontainer-feature.json").read_text())["entrypoint"]
    # Its processes end with it. The package is used instead of a download, for which the root has no curl.
    alone = ["unshare", "--pid", "--fork", "--kill-child", f"--mount-proc={root}/proc", "chroot", root]
    script = f"fail() {{ exit 1; }}; set -e; sh /tmp/lazurite/install.sh; {entry}; azurite --version; {until(f'lazurite health {PORT}')}"
    run(*alone, "sh", "-c", script, env=os.environ | {"LAZURITE_PORT": str(PORT)})
    print("feature: installed into a root, and started by its entry point")


def until(check: str) -> str:
    """A line of shell that waits until a check passes."""
    return f"n=0; until {{ {check}; }}; do n=$((n+1)); [ $n -lt 150 ] || fail; sleep 0.2; done"


def try_image(made: Path, processor: str, base: Path, work: Path) -> None:
    store = ["--root", work / "storage", "--runroot", work / "run", "--storage-driver", "vfs"]

    def buildah(*words: object) -> str:
        return run("buildah", *store, *words).strip()

    empty = buildah("from", "scratch")
    buildah("config", "--arch", MACHINES[processor], empty)
    buildah("add", empty, base, "/")
    buildah("commit", empty, "base")
    build = ["build-using-dockerfile", "--arch", MACHINES[processor], "--isolation", "chroot", "--format", "docker", "--build-arg", "BASE=localhost/base", "--build-arg", f"TARGETARCH={MACHINES[processor]}"]
    buildah(*build, "--file", made / "image/Containerfile", "--tag", "lazurite", made / "image")
    config = json.loads(buildah("inspect", "--type", "image", "lazurite"))["Docker"]["config"]
    assert not config.get("Entrypoint"), config
    assert config["Healthcheck"]["Test"] == ["CMD", "lazurite", "health"], config
    assert "/data" in config["Volumes"], config
    added = size(buildah, "lazurite") - size(buildah, "base")
    container = buildah("from", "lazurite")
    enter = ["buildah", *map(str, store), "run", "--isolation", "chroot", "--user", USER, container, "--"]
    serves(enter, f"LAZURITE_PORT={PORT} {' '.join(config['Cmd'])}", HEALTH_CHECKS)
    for command in ["azurite-blob", "azurite-queue", "azurite-table"]:
        assert run(*enter, command, "--version").startswith("3."), command
    print(f"image: built by buildah, its commands run as user {USER}, {len(HEALTH_CHECKS)} health checks; {added / 1e6:.1f} MB over its base")
    figures.add(made, image=f"{added / 1e6:.1f} MB")
    assert added < IMAGE_BYTES_MAX, added


def size(buildah, image: str) -> int:
    container = buildah("from", image)
    root = Path(buildah("mount", container))
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    total = sum(path.stat().st_size for path in files)
    buildah("rm", container)
    return total


def serves(enter: "list[object]", command: str, checks: "list[str]") -> None:
    """Starts a server inside, runs each check until it passes, and stops the server."""
    attempts = "; ".join(map(until, checks))
    command = command.replace("LAZURITE_PORT=", "env LAZURITE_PORT=")
    fail = "fail() { kill $server; cat /tmp/out; exit 1; }"
    script = f"{command} >/tmp/out 2>&1 & server=$!; {fail}; {attempts}; kill $server; wait $server"
    run(*enter, "sh", "-c", script)


if __name__ == "__main__":
    main()
