"""Finds the program that is installed with this package."""

import os
import shutil
import sys
import sysconfig
from pathlib import Path


def find_program() -> str:
    """Returns the path of the program.

    `LAZURITE_PROGRAM` in the environment comes first, then the scripts of this installation, then `PATH`.

    Raises FileNotFoundError if there is none.
    """
    chosen = os.environ.get("LAZURITE_PROGRAM")
    if chosen:
        return chosen
    name = "lazurite" + (sysconfig.get_config_var("EXE") or "")
    for directory in _script_directories():
        program = Path(directory) / name
        if program.is_file():
            return str(program)
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(
            f"{name} is neither beside this package nor on PATH: install lazurite-storage again, "
            "or name the program in LAZURITE_PROGRAM"
        )
    return found


def _script_directories() -> "list[str]":
    """Where installers put programs: of this environment, of the user, and of `pip install --target` and `--prefix`."""
    package = Path(__file__).resolve().parent
    user_scheme = "nt_user" if os.name == "nt" else "posix_user"
    if sys.platform == "darwin" and getattr(sys, "_framework", ""):
        user_scheme = "osx_framework_user"
    return [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", scheme=user_scheme),
        str(package.parent / "bin"),
        *[str(parent / "bin") for parent in list(package.parents)[1:4]],
    ]
