"""What was measured of a directory of packages, in `figures.json` beside them: each step adds its figures, and a page shows them together."""

import json
from pathlib import Path

NAME = "figures.json"


def read(made: Path) -> "dict[str, str]":
    path = made / NAME
    return json.loads(path.read_text()) if path.exists() else {}


def add(made: Path, **measured: str) -> None:
    text = json.dumps(read(made) | measured, indent=2, sort_keys=True)
    (made / NAME).write_text(text + "\n")
