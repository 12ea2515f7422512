"""Keeps the server of failed tests alive after the tests, so that the links in their reports work."""

import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Dict, Union

from ._server import Lazurite

#: Runs in a process of its own, which holds the pipe that keeps the server alive: its standard output. It ends after some seconds, or
#: once the file no longer holds its word, which is when the next run begins.
_WAIT = """
import sys, time
path, word, seconds = sys.argv[1:]
end = time.monotonic() + float(seconds)
while time.monotonic() < end:
    try:
        with open(path) as file:
            if file.read() != word:
                break
    except OSError:
        break
    time.sleep(0.5)
"""


def keep(server: Lazurite, marker: Path, seconds: int) -> None:
    """Lets a server run on for some seconds, or until `end` is called for the same marker. The caller no longer stops it."""
    word = secrets.token_hex(8)
    marker.write_text(word)
    options: Dict[str, Union[bool, int]] = {"start_new_session": True}
    if sys.platform == "win32":
        options = {"creationflags": subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP}
    pipe = server._hand_over()
    with pipe:
        keeper = subprocess.Popen(
            [sys.executable, "-S", "-c", _WAIT, os.fspath(marker), word, str(seconds)],
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            **options,  # type: ignore[call-overload]
        )
    # Not awaited, which would be a warning.
    keeper.returncode = 0


def end(marker: Path) -> None:
    """Ends what an earlier run has kept."""
    try:
        marker.unlink()
    except FileNotFoundError:
        pass
