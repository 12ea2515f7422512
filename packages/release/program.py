"""A program as its bytes show it: the system, the processor and the C library that it was built for."""

import re
import sys
from pathlib import Path


class Program:
    """`platform` is a name of `targets.TARGETS`. `content` is the program as it is packaged."""

    def __init__(self, content: bytes, name: str = "the program") -> None:
        self.content = content
        self.libc = ""
        # The oldest version that it runs on: of glibc, or of macOS.
        self.oldest = ""
        readers = {b"\x7fELF": self._elf, b"MZ": self._windows, b"\xcf\xfa\xed\xfe": self._darwin}
        reader = next((reader for magic, reader in readers.items() if content.startswith(magic)), None)
        self.system, self.machine = reader() if reader else ("", "")
        if not self.machine:
            sys.exit(f"{name} is no program for Linux, Windows or macOS on x86-64 or arm64")
        self.platform = f"{self.system}-{self.machine}" + ("-musl" if self.libc == "musl" else "")
        self.file = "lazurite.exe" if self.system == "windows" else "lazurite"

    def _number(self, start: int, size: int) -> int:
        return int.from_bytes(self.content[start : start + size], "little")

    def _elf(self) -> "tuple[str, str]":
        headers, size, count = self._number(32, 8), self._number(54, 2), self._number(56, 2)
        interpreter = 3
        if any(self._number(headers + size * index, 4) == interpreter for index in range(count)):
            self.libc = "glibc"
            # Names of symbol versions stand in the string table as they are.
            needed = {int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)\b", self.content)}
            self.oldest = f"2.{max(needed, default=0)}"
        else:
            # Static, so it contains its C library.
            self.libc = "musl"
        return "linux", {62: "x64", 183: "arm64"}.get(self._number(18, 2), "")

    def _windows(self) -> "tuple[str, str]":
        start = self._number(0x3C, 4)
        is_x64 = self.content[start : start + 6] == b"PE\0\0\x64\x86"
        return "windows", "x64" if is_x64 else ""

    def _darwin(self) -> "tuple[str, str]":
        at = 32
        for _ in range(min(self._number(16, 4), 1000)):
            kind, size = self._number(at, 4), self._number(at + 4, 4)
            # LC_BUILD_VERSION: the platform, then the oldest version as X.Y.Z in 16, 8 and 8 bits.
            if kind == 0x32:
                oldest = self._number(at + 12, 4)
                self.oldest = f"{oldest >> 16}.{oldest >> 8 & 0xFF}"
            at += size
        return "darwin", {0x01000007: "x64", 0x0100000C: "arm64"}.get(self._number(4, 4), "")


def read(path: Path) -> Program:
    return Program(path.read_bytes(), path.name)
