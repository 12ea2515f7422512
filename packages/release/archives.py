"""Archives whose bytes follow from their files: no times, no owners."""

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path

# A name, and the content and the mode of its file.
Files = "dict[str, tuple[bytes, int]]"
# 1980-01-01, the oldest time that a zip file can hold.
ZIP_TIME = (1980, 1, 1, 0, 0, 0)


def write_zip(path: Path, level: int, files: Files) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for name, (content, mode) in files.items():
            entry = zipfile.ZipInfo(name, ZIP_TIME)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)


def tar(files: Files, directories: "dict[str, int] | None" = None, links: "dict[str, str] | None" = None) -> bytes:
    """Directories by name with their modes, then files, then symbolic links with their targets."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, mode in (directories or {}).items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            archive.addfile(entry)
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
        for name, target in (links or {}).items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, target, 0o777
            archive.addfile(entry)
    return buffer.getvalue()


def gzipped(level: int, content: bytes) -> bytes:
    return gzip.compress(content, level, mtime=0)


def json_bytes(value: object) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
