"""Runs every program of the guide in one process, and says which failed, and which printed other
figures than its page shows.

With the names of programs as arguments it runs these only. `--any-output` is for servers that count
or page in other ways. `--as-azure` is for a server that was started with this flag: the pages show
its output apart."""

import contextlib
import io
import re
import runpy
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).parent
SHARED = {"all.py", "staff.py", "store.py"}


class Copy(io.StringIO):
    """Keeps a copy of the text that goes to a stream."""

    def __init__(self, stream):
        super().__init__()
        self.stream = stream

    def write(self, text):
        self.stream.write(text)
        return super().write(text)


def check_page(program, printed, mark):
    """Fails if the page shows a line of output, after a comment that begins with `mark`, that the
    program did not print."""
    page = HERE.parent / (program.stem.replace("_", "-") + ".md")
    shown = re.findall(
        rf"<!-- {mark}: {re.escape(program.name)} -->\n```text\n(.*?)```",
        page.read_text(),
        re.DOTALL,
    )
    missing = set("".join(shown).splitlines()) - set(printed.splitlines())
    assert not missing, f"{page.name} shows lines that were not printed: {sorted(missing)}"


def main(arguments):
    any_output = "--any-output" in arguments
    mark = "output with --as-azure" if "--as-azure" in arguments else "output"
    wanted = [argument for argument in arguments if not argument.startswith("--")]
    failed = []
    for program in sorted(HERE.glob("*.py")):
        if program.name in SHARED or (wanted and program.stem not in wanted):
            continue
        start = time.monotonic()
        try:
            with contextlib.redirect_stdout(Copy(sys.stdout)) as printed:
                runpy.run_path(str(program))
            if not any_output:
                check_page(program, printed.getvalue(), mark)
        except Exception:
            traceback.print_exc()
            failed.append(program.name)
        print(f"{program.name}: {time.monotonic() - start:.2f} s", flush=True)
    sys.exit(f"failed: {' '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    main(sys.argv[1:])
