"""The container images: the files of one that an engine builds on Debian, and one of the static programs alone, which needs no engine.

The second is an archive in the layout of OCI, with an index that has every processor. It contains the program, the commands of Azurite
and two directories: no shell, no `nc` and no `wget`, which the first one has for health checks in compose files."""

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

from .archives import gzipped, json_bytes, tar
from .program import Program
from .release import PACKAGES, Release, run

PROCESSORS = {"x64": "amd64", "arm64": "arm64"}
COMMANDS = ["azurite", "azurite-blob", "azurite-queue", "azurite-table"]
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def make_all(release: Release) -> "list[Path]":
    programs = [program for program in release.programs().values() if program.system == "linux"]
    made = []
    if dynamic := [program for program in programs if program.libc == "glibc"]:
        made.append(context(release, dynamic))
    if static := [program for program in programs if program.libc == "musl"]:
        made.append(archive(release, static))
    return made


def context(release: Release, programs: "list[Program]") -> Path:
    """The files that a container engine builds the image from, on any processor that there is a program for."""
    place = release.out / "image"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for program in programs:
        path = place / f"lazurite-{PROCESSORS[program.machine]}"
        path.write_bytes(program.content)
        path.chmod(0o755)
    shutil.copy(PACKAGES / "docker/Containerfile", place / "Containerfile")
    engine = next((engine for engine in ["docker", "podman"] if engine_runs(engine)), None)
    if engine is None:
        print("image: not built, no docker or podman runs here; its files are in the directory `image`")
    else:
        run(engine, "build", "--file", place / "Containerfile", "--tag", f"lazurite:{release.version}", place)
    return place


def engine_runs(engine: str) -> bool:
    if not shutil.which(engine):
        return False
    info = subprocess.run([engine, "info"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return info.returncode == 0 and "Cannot connect" not in info.stdout


def archive(release: Release, programs: "list[Program]") -> Path:
    blobs: "dict[str, bytes]" = {}

    def add(media_type: str, content: bytes) -> dict:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    manifests = []
    for program in programs:
        files = layer(program)
        layers = [add("application/vnd.oci.image.layer.v1.tar+gzip", gzipped(release.level, files))]
        platform = {"architecture": PROCESSORS[program.machine], "os": "linux"}
        rootfs = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(files).hexdigest()}"]}
        config = add("application/vnd.oci.image.config.v1+json", json_bytes(platform | {"config": settings(), "rootfs": rootfs}))
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}
        manifests.append(add(MANIFEST, json_bytes(manifest)) | {"platform": platform})
    index = add(INDEX, json_bytes({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}))
    index["annotations"] = {"org.opencontainers.image.ref.name": release.version}
    layout = {
        "oci-layout": json_bytes({"imageLayoutVersion": "1.0.0"}),
        "index.json": json_bytes({"schemaVersion": 2, "mediaType": INDEX, "manifests": [index]}),
    }
    path = release.out / f"lazurite-{release.version}-oci.tar"
    path.write_bytes(tar({name: (content, 0o644) for name, content in (layout | blobs).items()}))
    return path


def layer(program: Program) -> bytes:
    # Any user may be chosen by `docker run`, so every user may write to the volume.
    directories = {"tmp": 0o1777, "data": 0o1777, "seed": 0o755, "usr": 0o755, "usr/local": 0o755, "usr/local/bin": 0o755}
    links = {f"usr/local/bin/{command}": "lazurite" for command in COMMANDS}
    return tar({"usr/local/bin/lazurite": (program.content, 0o755)}, directories, links)


def settings() -> dict:
    """Those of the other image. Its instructions are read where they are."""
    text = (PACKAGES / "docker/Containerfile").read_text()
    lines = re.sub(r"\\\n\s*", "", text)

    def values(instruction: str) -> "list[str]":
        return re.findall(rf"^{instruction} (.*)$", lines, re.MULTILINE)

    [ports], [volume], [check], [variables], [labels] = map(values, ["EXPOSE", "VOLUME", "HEALTHCHECK", "ENV", "LABEL"])
    spans = dict(re.findall(r"--([\w-]+)=(\d+)s", check))
    nanoseconds = {name: int(spans[name]) * 10**9 for name in ["interval", "timeout", "start-period"]}
    return {
        "Env": ["PATH=/usr/local/bin", *variables.split()],
        "Cmd": json.loads(values("CMD")[-1]),
        "WorkingDir": values("WORKDIR")[-1],
        "Volumes": {volume: {}},
        "ExposedPorts": {f"{port}/tcp": {} for port in ports.split()},
        "Labels": dict(re.findall(r'(\S+?)="(.*?)"', labels)),
        # Engines read this, though the layout of OCI does not have it.
        "Healthcheck": {
            "Test": ["CMD", *json.loads(check.split("CMD", 1)[1])],
            "Interval": nanoseconds["interval"],
            "Timeout": nanoseconds["timeout"],
            "StartPeriod": nanoseconds["start-period"],
            "Retries": int(re.search(r"--retries=(\d+)", check)[1]),
        },
    }
