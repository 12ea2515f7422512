"""The recipes of package managers, with the addresses and hashes of the packages that lie in the directory."""

import hashlib
import re
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit

from .release import PACKAGES, Release


def make_all(release: Release) -> "list[Path]":
    files, made = downloads(release), []
    for directory in ["manifests", "devcontainer"]:
        shutil.rmtree(release.out / directory, ignore_errors=True)
        for template in sorted(path for path in (PACKAGES / directory).rglob("*") if path.is_file()):
            text = template.read_text()
            if release.repository is None and re.search("@(REPOSITORY|FEATURE|URL .*)@", text):
                print(f"manifests: {template.name} not made: it needs --repository")
                continue
            text = filled(text, release.version, release.repository or "", files)
            if not text:
                print(f"manifests: {template.name} not made: there is no program for its platforms")
                continue
            path = release.out / template.relative_to(PACKAGES)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(template.stat().st_mode & 0o777)
            made.append(path)
    print(f"manifests: with the programs for {', '.join(files) or 'no platform'}; no package manager has installed from them")
    return made


def downloads(release: Release) -> "dict[str, Path]":
    """The files that hold a program, by platform: the npm packages, which every tool can unpack, and the zip file of Windows."""
    found = {}
    for suffix in ["tgz", "zip"]:
        end = f"-{release.version}.{suffix}"
        found |= {path.name[len("lazurite-") : -len(end)]: path for path in release.out.glob(f"lazurite-*-*{end}")}
    return {platform: found[platform] for platform in sorted(found) if not platform.startswith("win32")}


def filled(template: str, version: str, repository: str, programs: dict[str, Path]) -> str:
    """A recipe, or nothing if the release has no program for it. The lines from `@if PLATFORM@` to `@end@` stay if the release has a program
    for the platform; those from `@if !PLATFORM@`, if it has none. `@URL PLATFORM@` and `@SHA256 PLATFORM@` are those of its file."""

    def kept(block: re.Match[str]) -> str:
        return block[3] if (block[2] in programs) != bool(block[1]) else ""

    text = re.sub(r"^@if (!?)([\w-]+)@\n(.*?)^@end@\n", kept, template, flags=re.MULTILINE | re.DOTALL)
    if "@URL " in template and "@URL " not in text:
        return ""
    for platform, path in programs.items():
        text = text.replace(f"@URL {platform}@", f"{repository}/releases/download/v{version}/{path.name}")
        text = text.replace(f"@SHA256 {platform}@", hashlib.sha256(path.read_bytes()).hexdigest())
    # Features of dev containers lie in the registry of containers that belongs to the repository.
    feature = f"ghcr.io{urlsplit(repository).path.lower()}/lazurite"
    for name, value in [("VERSION", version), ("REPOSITORY", repository), ("FEATURE", feature)]:
        text = text.replace(f"@{name}@", value)
    if left := re.search(r"@(if|end|[A-Z0-9]+)\b[^@\n]*@", text):
        sys.exit(f"a recipe has {left[0]}, for which there is no value")
    return text
