"""The Debian packages."""

import gzip
import os
import re
import shutil
import tempfile
from pathlib import Path

from . import targets
from .program import Program
from .release import PACKAGES, ROOT, Release, run

MACHINES = {"x64": "amd64", "arm64": "arm64"}


def make(release: Release, program: Program) -> "list[Path]":
    if program.libc != "glibc":
        return []
    runner = targets.runner(program.platform)
    if not shutil.which("dpkg-deb") or runner is None:
        print(f"deb: not made for {program.platform}: {'dpkg-deb' if runner else targets.TARGETS[program.platform].packages} is not there")
        return []
    source = PACKAGES / "debian"
    machine = MACHINES[program.machine]
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch)
        tree.chmod(0o755)
        words, variables = runner
        environment = os.environ | {"COLUMNS": "100"} | variables
        help_text = run(*words, release.out / "programs" / program.platform / program.file, "--help", env=environment)
        control = (
            f"Package: lazurite\nVersion: {release.version}\nArchitecture: {machine}\nMaintainer: The Lazurite maintainers\n"
            f"Section: net\nPriority: optional\nDepends: libc6 (>= {program.oldest}), libgcc-s1\n"
            f"Installed-Size: {len(program.content) // 1024}\n"
            "Description: Azure-compatible Blob, Queue and Table storage\n"
            " A storage server for development, tests and demonstrations, and a drop-in for\n"
            " Azurite. `lazurite shim install` makes the commands of Azurite.\n"
        )
        files = {
            "DEBIAN/control": control.encode(),
            "DEBIAN/conffiles": b"/etc/default/lazurite\n",
            "usr/bin/lazurite": program.content,
            "lib/systemd/system/lazurite.service": (source / "lazurite.service").read_bytes(),
            "etc/default/lazurite": (source / "default").read_bytes(),
            "usr/share/man/man1/lazurite.1.gz": gzip.compress(manual(release.version, help_text).encode(), 9, mtime=0),
            "usr/share/bash-completion/completions/lazurite": bash_completion(help_text).encode(),
            "usr/share/zsh/vendor-completions/_lazurite": zsh_completion(help_text).encode(),
            "usr/share/fish/vendor_completions.d/lazurite.fish": fish_completion(help_text).encode(),
            "usr/share/doc/lazurite/copyright": release.license,
            "usr/share/doc/lazurite/changelog.gz": gzip.compress((ROOT / "server/CHANGELOG.md").read_bytes(), 9, mtime=0),
        }
        for name, data in files.items():
            path = tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o755 if name.startswith("usr/bin/") else 0o644)
        for directory in [path for path in tree.rglob("*") if path.is_dir()]:
            directory.chmod(0o755)
        package = release.out / f"lazurite_{release.version}_{machine}.deb"
        compression = ["-Zgzip", "-z1"] if release.is_quick else ["-Zxz"]
        environment = os.environ | {"SOURCE_DATE_EPOCH": "315532800"}
        run("dpkg-deb", "--root-owner-group", *compression, "--build", tree, package, env=environment)
    return [package]


def manual(version: str, help_text: str) -> str:
    """A man page with the text of --help as it is."""
    verbatim = help_text.replace("\\", "\\\\").replace("-", "\\-")
    lines = [f"\\&{line}" for line in verbatim.splitlines()]
    return (
        f'.TH LAZURITE 1 "" "Lazurite {version}" "User Commands"\n.SH NAME\n'
        "lazurite \\- Azure\\-compatible Blob, Queue and Table storage\n.SH DESCRIPTION\n.nf\n" + "\n".join(lines) + "\n.fi\n"
    )


# The names the program is started under.
NAMES = ["lazurite", "azurite", "azurite-blob", "azurite-queue", "azurite-table"]


def flags_of(help_text: str) -> dict[str, str]:
    """The flags that --help lists, each with the name of its value, or nothing."""
    heads = re.findall(r"^ +(?:-\w, )?--([A-Za-z][\w-]*)(?:[ =]<(\w+)>|\[=<\w+>\])?", help_text, re.MULTILINE)
    return dict(sorted(heads))


def commands_of(help_text: str) -> dict[str, str]:
    """The commands that --help lists, each with what it says of them."""
    groups = help_text.split("\nOptions:")[0]
    entries = re.findall(r"^  ([a-z][a-z-]*)  +(.*(?:\n {8,}.*)*)$", groups, re.MULTILINE)
    return {name: " ".join(words.split()) for name, words in entries}


def zsh_completion(help_text: str) -> str:
    values = {"": "", "DIR": ":directory:_files -/", "FILE": ":file:_files"}
    flags = " ".join(
        f"'--{flag}{'=' if value else ''}{values.get(value, f':{value.lower()}: ')}'" for flag, value in flags_of(help_text).items()
    )
    commands = " ".join(commands_of(help_text))
    return f"#compdef {' '.join(NAMES)}\n_arguments {flags} '1:command:({commands})' '*:file:_files'\n"


def fish_completion(help_text: str) -> str:
    lines = []
    for name in NAMES:
        for command, words in commands_of(help_text).items():
            quoted = words.replace("'", "\\'")
            lines.append(f"complete -c {name} -f -n __fish_use_subcommand -a {command} -d '{quoted}'")
        for flag, value in flags_of(help_text).items():
            takes = {"": "", "DIR": " -r", "FILE": " -r"}.get(value, " -x")
            lines.append(f"complete -c {name} -l {flag}{takes}")
    return "\n".join(lines) + "\n"


def bash_completion(help_text: str) -> str:
    flags = [f"--{flag}" for flag in flags_of(help_text)]
    commands = commands_of(help_text)
    return (
        "_lazurite() {\n"
        '    local word="${COMP_WORDS[COMP_CWORD]}"\n'
        '    if [[ "$word" == -* ]]; then\n'
        f'        COMPREPLY=($(compgen -W "{" ".join(flags)}" -- "$word"))\n'
        '    elif [[ "$COMP_CWORD" == 1 ]]; then\n'
        f'        COMPREPLY=($(compgen -W "{" ".join(commands)}" -- "$word"))\n'
        "    else\n"
        '        COMPREPLY=($(compgen -f -- "$word"))\n'
        "    fi\n"
        "}\n"
        f"complete -o filenames -F _lazurite {' '.join(NAMES)}\n"
    )
