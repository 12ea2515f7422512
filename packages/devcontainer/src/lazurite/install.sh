#!/bin/sh
# Installs Lazurite into the image of a dev container. The options of the feature come as variables: START and AZURITECOMMANDS.
# A package that lies beside this script is used instead of a download. DESTDIR is the root to install into, for tests.
set -eu

fail() {
    echo "lazurite: $1" >&2
    exit 1
}

platform="$(uname -s)-$(uname -m)"
# It has musl in place of glibc.
if [ -f /etc/alpine-release ]; then
    platform="$platform-musl"
fi
case "$platform" in
@if linux-x64@
Linux-x86_64)
    url="@URL linux-x64@"
    sha256="@SHA256 linux-x64@"
    ;;
@end@
@if linux-arm64@
Linux-aarch64)
    url="@URL linux-arm64@"
    sha256="@SHA256 linux-arm64@"
    ;;
@end@
@if linux-x64-musl@
Linux-x86_64-musl)
    url="@URL linux-x64-musl@"
    sha256="@SHA256 linux-x64-musl@"
    ;;
@end@
@if linux-arm64-musl@
Linux-aarch64-musl)
    url="@URL linux-arm64-musl@"
    sha256="@SHA256 linux-arm64-musl@"
    ;;
@end@
*) fail "version @VERSION@ has no program for $platform" ;;
esac

root="${DESTDIR:-}"
beside="$(dirname "$0")/${url##*/}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
if [ -f "$beside" ]; then
    cp "$beside" "$work/package.tgz"
elif command -v curl >/dev/null; then
    curl --fail --silent --show-error --location --output "$work/package.tgz" "$url" || fail "$url was not downloaded"
elif command -v wget >/dev/null; then
    wget --quiet --output-document "$work/package.tgz" "$url" || fail "$url was not downloaded"
else
    fail "install curl or wget in the image first: they download $url"
fi
echo "$sha256  $work/package.tgz" | sha256sum -c - >/dev/null 2>&1 || fail "the SHA-256 of ${url##*/} is not $sha256"
tar -xzf "$work/package.tgz" -C "$work"

mkdir -p "$root/usr/local/bin" "$root/usr/local/share/lazurite" "$root/var/lib/lazurite"
# The server runs as the user of the container, which is chosen later.
chmod 1777 "$root/var/lib/lazurite"
program="$root/usr/local/bin/lazurite"
cp "$work/package/bin/lazurite" "$program"
chmod 755 "$program"
"$program" --version || fail "the program does not run in this image: it needs glibc 2.34 or newer, as in Debian 12"
if [ "${AZURITECOMMANDS:-true}" = true ]; then
    "$program" shim install "$root/usr/local/bin"
fi

start="$root/usr/local/share/lazurite/start.sh"
{
    echo '#!/bin/sh'
    if [ "${START:-true}" = true ]; then
        echo '# Starts the server in the background, and then the command that follows.'
        echo "nohup $program --location $root/var/lib/lazurite/data --silent >>$root/var/lib/lazurite/log 2>&1 </dev/null &"
    fi
    # shellcheck disable=SC2016 # The script expands it.
    echo 'exec "$@"'
} >"$start"
chmod 755 "$start"
