"""Runs a command on a kernel that starts programs for arm64, by QEMU: also those that a program starts, and those in a root of their own.

    packages/qemu.py COMMAND [ARGUMENT]...

The kernel knows QEMU in namespaces that end with the command, so nothing of the machine changes. Needs no rights, and Linux 6.7 or newer.
The command is root there. If root calls, every user of the machine is there too, else only the caller.
"""

import ctypes
import os
import shutil
import subprocess
import sys

CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x00020000
# The first 20 bytes of a program for arm64. The eighth and the lowest bit of its kind may differ.
MAGIC = r"\x7fELF\x02\x01\x01" + r"\x00" * 9 + r"\x02\x00\xb7\x00"
MASK = r"\xff" * 7 + r"\x00" + r"\xff" * 8 + r"\xfe\xff\xff\xff"
FORMATS = "/proc/sys/fs/binfmt_misc"


def main() -> None:
    # Only the static one runs in roots that lack its libraries.
    qemu = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if qemu is None or len(sys.argv) < 2:
        sys.exit(__doc__ if qemu else "qemu-aarch64 is not there; of Debian: qemu-user-static")
    enter_namespaces()
    subprocess.run(["mount", "-t", "binfmt_misc", "none", FORMATS], check=True)
    with open(f"{FORMATS}/register", "w") as formats:
        # F: opened now, for roots where it does not lie.
        formats.write(f":qemu-aarch64:M::{MAGIC}:{MASK}:{qemu}:F")
    os.execvp(sys.argv[1], sys.argv[1:])


def enter_namespaces() -> None:
    user, group, process = os.geteuid(), os.getegid(), os.getpid()
    reader, writer = os.pipe()
    helper = os.fork()
    if helper == 0:
        # Only a process outside may map more than itself.
        os.read(reader, 1)
        for name, own in [("uid_map", user), ("gid_map", group)]:
            if user != 0:
                write(f"/proc/{process}/setgroups", "deny")
            write(f"/proc/{process}/{name}", "0 0 65536" if user == 0 else f"0 {own} 1")
        os._exit(0)
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0:
        sys.exit(f"unshare: {os.strerror(ctypes.get_errno())}")
    os.write(writer, b".")
    os.waitpid(helper, 0)


def write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
