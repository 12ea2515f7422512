"""Runs every program of the guide in one process, and says which failed."""

import runpy
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).parent
SHARED = {"all.py", "staff.py", "store.py"}


def main(wanted):
    failed = []
    for program in sorted(HERE.glob("*.py")):
        if program.name in SHARED or (wanted and program.stem not in wanted):
            continue
        start = time.monotonic()
        try:
            runpy.run_path(str(program))
        except Exception:
            traceback.print_exc()
            failed.append(program.name)
        print(f"{program.name}: {time.monotonic() - start:.2f} s", flush=True)
    sys.exit(f"failed: {' '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    main(sys.argv[1:])
