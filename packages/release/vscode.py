"""The extension of Visual Studio Code: with the program of each platform, and without one for all others."""

import functools
import json
import posixpath
import re
import shutil
import subprocess
from pathlib import Path
from xml.sax.saxutils import escape

from .archives import json_bytes, write_zip
from .npm import platform
from .program import Program
from .release import PACKAGES, ROOT, Release, run


def make(release: Release, program: Program) -> "list[Path]":
    name, version = platform(program), release.version
    if program.libc == "musl":
        # The editor's name for Linux without glibc.
        name = f"alpine-{program.machine}"
    extension, files = compiled(release)
    path = release.out / f"{extension['name']}-{name}-{version}.vsix"
    write_zip(path, release.level, vsix_manifests(extension, name) | files | {f"extension/bin/{program.file}": (program.content, 0o755)})
    return [path]


def make_all(release: Release) -> "list[Path]":
    extension, files = compiled(release)
    path = release.out / f"{extension['name']}-{release.version}.vsix"
    write_zip(path, release.level, vsix_manifests(extension, None) | files)
    return [path]


@functools.cache
def compiled(release: Release) -> "tuple[dict, dict[str, tuple[bytes, int]]]":
    """The settings of the extension, and its files."""
    source = PACKAGES / "vscode"
    extension = json.loads((source / "package.json").read_text())
    release.check_version(extension["version"], "vscode/package.json")
    run("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", cwd=source)
    shutil.rmtree(source / "out", ignore_errors=True)
    # The compiler prints its errors to standard output.
    subprocess.run(["npm", "run", "--silent", "build"], check=True, cwd=source)
    # What only a checkout can use.
    extension = {name: value for name, value in extension.items() if name not in ["scripts", "devDependencies"]}
    texts = {
        "package.json": json_bytes(extension),
        "readme.md": (source / "README.md").read_bytes(),
        "changelog.md": linked(release, "server", (ROOT / "server/CHANGELOG.md").read_text()).encode(),
        "LICENSE.txt": release.license,
        "icon.png": (source / "icon.png").read_bytes(),
    }
    texts |= {f"out/{path.name}": path.read_bytes() for path in sorted((source / "out").iterdir())}
    return extension, {f"extension/{name}": (content, 0o644) for name, content in texts.items()}


def linked(release: Release, directory: str, text: str) -> str:
    """Markdown of a directory of the repository, whose links lead into the repository on the web; without an address, nowhere."""

    def link(found: "re.Match[str]") -> str:
        if release.repository is None:
            return found[1]
        return f"[{found[1]}]({release.repository}/blob/v{release.version}/{posixpath.normpath(f'{directory}/{found[2]}')})"

    return re.sub(r"\[([^\]]*)\]\((?![a-z]+:|#)([^)]*)\)", link, text)


def vsix_manifests(extension: dict, target: "str | None") -> "dict[str, tuple[bytes, int]]":
    """The files beside an extension, from which galleries and editors read what it is."""
    identity = {"Language": "en-US", "Id": extension["name"], "Version": extension["version"], "Publisher": extension["publisher"]}
    identity |= {"TargetPlatform": target} if target else {}
    properties = {
        "Microsoft.VisualStudio.Code.Engine": extension["engines"]["vscode"],
        "Microsoft.VisualStudio.Code.ExtensionKind": ",".join(extension["extensionKind"]),
        "Microsoft.VisualStudio.Code.ExecutesCode": "true",
        "Microsoft.VisualStudio.Services.GitHubFlavoredMarkdown": "true",
        "Microsoft.VisualStudio.Services.Content.Pricing": "Free",
    }
    assets = {
        "Microsoft.VisualStudio.Code.Manifest": "package.json",
        "Microsoft.VisualStudio.Services.Content.Details": "readme.md",
        "Microsoft.VisualStudio.Services.Content.Changelog": "changelog.md",
        "Microsoft.VisualStudio.Services.Content.License": "LICENSE.txt",
        "Microsoft.VisualStudio.Services.Icons.Default": "icon.png",
    }
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        '<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">',
        "<Metadata>",
        "<Identity " + " ".join(f'{name}="{value}"' for name, value in identity.items()) + "/>",
        f"<DisplayName>{escape(extension['displayName'])}</DisplayName>",
        f'<Description xml:space="preserve">{escape(extension["description"])}</Description>',
        f"<Tags>{escape(','.join(extension['keywords']))}</Tags>",
        f"<Categories>{escape(','.join(extension['categories']))}</Categories>",
        "<GalleryFlags>Public</GalleryFlags>",
        "<Properties>",
        *[f'<Property Id="{name}" Value="{escape(value)}"/>' for name, value in properties.items()],
        "</Properties>",
        "<License>extension/LICENSE.txt</License>",
        "<Icon>extension/icon.png</Icon>",
        "</Metadata>",
        '<Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>',
        "<Dependencies/>",
        "<Assets>",
        *[f'<Asset Type="{name}" Path="extension/{path}" Addressable="true"/>' for name, path in assets.items()],
        "</Assets>",
        "</PackageManifest>",
    ]
    types = {
        ".json": "application/json",
        ".js": "application/javascript",
        ".md": "text/markdown",
        ".png": "image/png",
        ".txt": "text/plain",
        ".vsixmanifest": "text/xml",
    }
    content_types = [
        '<?xml version="1.0" encoding="utf-8"?>',
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">',
        *[f'<Default Extension="{name}" ContentType="{content}"/>' for name, content in types.items()],
        "</Types>",
    ]
    texts = {"extension.vsixmanifest": lines, "[Content_Types].xml": content_types}
    return {name: ("\n".join([*text, ""]).encode(), 0o644) for name, text in texts.items()}
