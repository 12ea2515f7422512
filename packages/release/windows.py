"""The zip file of Windows, which winget and scoop install too."""

from pathlib import Path

from .archives import write_zip
from .program import Program
from .release import Release


def make(release: Release, program: Program) -> "list[Path]":
    if program.system != "windows":
        return []
    path = release.out / f"lazurite-{program.platform}-{release.version}.zip"
    write_zip(path, release.level, {program.file: (program.content, 0o755), "LICENSE.txt": (release.license, 0o644)})
    return [path]
