"""`python -m lazurite` is the program `lazurite`."""

import os
import subprocess
import sys

from ._program import find_program


def main() -> None:
    """Becomes the program, or runs it where a process cannot become another."""
    command = [find_program(), *sys.argv[1:]]
    if os.name == "posix":
        os.execv(command[0], command)
    sys.exit(subprocess.call(command))


if __name__ == "__main__":
    main()
