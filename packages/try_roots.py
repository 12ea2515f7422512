"""Installs the Debian package and the feature for dev containers into roots of their own and builds the image on one, then uses them:
`dpkg -i`, the unit, the commands of Azurite, the start with the container, the image's CMD as a user of any number, and the health checks
of compose files. Run by `.ci/package test` as root, where
mmdebstrap and buildah are there; needs a way to a Debian mirror.

    packages/try_roots.py DIR [BASE.tar]

DIR holds the packages. BASE.tar is a Debian root (`mmdebstrap --variant=minbase bookworm BASE.tar`); without it, one is made.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import figures

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
    made = Path(sys.argv[1])
    missing = [tool for tool in ["mmdebstrap", "buildah", "systemd-analyze", "dpkg-deb"] if not shutil.which(tool)]
    if os.geteuid() != 0 or missing:
        print(f"roots: not tried, they need root and {', '.join(missing) or 'nothing else'}")
        return
    with tempfile.TemporaryDirectory(prefix="lazurite-roots-") as scratch:
        work = Path(scratch)
        base = Path(sys.argv[2]) if len(sys.argv) > 2 else work / "base.tar"
        if not base.exists():
            run("mmdebstrap", "--variant=minbase", SUITE, base)
        try_deb(made, base, work / "root")
        try_feature(made, base, work / "feature")
        try_image(made, base, work)


def run(*command: object, **options: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout}")
    return done.stdout


def try_deb(made: Path, base: Path, root: Path) -> None:
    root.mkdir()
    run("tar", "--extract", "--file", base, "--directory", root)
    [package] = made.glob("lazurite_*_amd64.deb")
    shutil.copy(package, root / "tmp/lazurite.deb")
    run("mount", "-t", "proc", "proc", root / "proc")
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
        run("umount", root / "proc")
    print("deb: installed by dpkg, its unit verified, used and purged")


def check_unit(root: Path) -> None:
    """The small root has no systemd: its targets are empty here."""
    units = root / "lib/systemd/system"
    for target in TARGETS:
        (units / f"{target}.target").write_text("[Unit]\n")
    run("systemd-analyze", "verify", "--man=no", f"--root={root}", "lazurite.service", env=os.environ | {"SYSTEMD_PAGER": ""})


def try_feature(made: Path, base: Path, root: Path) -> None:
    """As the tools for dev containers do: the script as root in the image, then the entry point alone on its line."""
    root.mkdir()
    run("tar", "--extract", "--file", base, "--directory", root)
    feature = shutil.copytree(made / "devcontainer/src/lazurite", root / "tmp/lazurite")
    [package] = made.glob("lazurite-linux-x64-0*.tgz")
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


def try_image(made: Path, base: Path, work: Path) -> None:
    store = ["--root", work / "storage", "--runroot", work / "run", "--storage-driver", "vfs"]

    def buildah(*words: object) -> str:
        return run("buildah", *store, *words).strip()

    empty = buildah("from", "scratch")
    buildah("add", empty, base, "/")
    buildah("commit", empty, "base")
    build = ["build-using-dockerfile", "--isolation", "chroot", "--format", "docker", "--build-arg", "BASE=localhost/base", "--build-arg", "TARGETARCH=amd64"]
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
