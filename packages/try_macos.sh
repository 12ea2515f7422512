#!/usr/bin/env bash
# Tries Lazurite on a Mac: builds it, runs the tests of the engine, uses the three services with curl, kills the server and opens the
# store again. Ends with a report to paste into an issue.
#
#     packages/try_macos.sh                      # everything; needs Rust and Apple's command line tools
#     packages/try_macos.sh --program FILE       # only the services, with a program that is built already
#
# Runs on Linux too. Bash 3.2 and the curl and openssl of macOS are enough.
# shellcheck disable=SC2317 # Steps are called by their names.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
program=
if [ "${1:-}" = --program ] && [ -n "${2:-}" ]; then
    program=$2
elif [ $# -gt 0 ]; then
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
work=$(mktemp -d)
server=
report=$work/report
failed=0

cleanup() {
    if [ -n "$server" ]; then
        kill -9 "$server" 2>/dev/null
    fi
    rm -rf "$work"
}
trap cleanup EXIT

# One line of the report: the step, whether it passed, and its seconds. The output of a step that failed is shown.
step() {
    local name=$1 began=$SECONDS
    shift
    if "$@" >"$work/output" 2>&1; then
        echo "pass  $((SECONDS - began)) s  $name" >>"$report"
    else
        failed=1
        echo "FAIL  $((SECONDS - began)) s  $name" >>"$report"
        echo "--- $name failed:" >&2
        tail -n 100 "$work/output" >&2
    fi
    tail -n 1 "$report"
}

system() {
    if command -v sw_vers >/dev/null; then
        echo "macOS $(sw_vers -productVersion), $(uname -m), $(sysctl -n machdep.cpu.brand_string)"
    else
        uname -srm
    fi
}

account=devstoreaccount1
key=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==
sas=

# An account SAS for everything. Source: Create an account SAS, "Construct the signature string".
sign() {
    local hex signature
    hex=$(printf %s "$key" | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \n')
    signature=$(printf '%s\nrwdlacup\nbqt\nsco\n\n2099-01-01\n\n\n2020-08-04\n' "$account" |
        openssl dgst -sha256 -mac HMAC -macopt "hexkey:$hex" -binary | openssl base64 -A |
        sed -e 's/+/%2B/g' -e 's,/,%2F,g' -e 's/=/%3D/g')
    sas="sv=2020-08-04&ss=bqt&srt=sco&sp=rwdlacup&se=2099-01-01&sig=$signature"
}

# Starts the server on the data of this run and waits until it is ready.
start() {
    "$program" --location "$work/data" --port 0 --port-file "$work/ports.json" --silent >"$work/server" 2>&1 &
    server=$!
    local tries=0
    until [ -s "$work/ports.json" ]; do
        tries=$((tries + 1))
        if [ "$tries" -gt 300 ] || ! kill -0 "$server" 2>/dev/null; then
            cat "$work/server"
            return 1
        fi
        sleep 0.1
    done
}

# The address of something in a service, with the SAS.
address() {
    local port separator='?'
    port=$(sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$work/ports.json")
    case $2 in *\?*) separator='&' ;; esac
    echo "http://127.0.0.1:$port/$account/$2$separator$sas"
}

ask() {
    local service=$1 path=$2
    shift 2
    curl --silent --show-error --fail-with-body --max-time 60 -H 'x-ms-version: 2020-08-04' "$@" "$(address "$service" "$path")"
}

blobs() {
    head -c 3000000 /dev/urandom >"$work/sent"
    ask blob 'photos?restype=container' -X PUT -H 'Content-Length: 0' &&
        ask blob photos/lake.jpg -T "$work/sent" -H 'x-ms-blob-type: BlockBlob' &&
        same_blob
}

same_blob() {
    ask blob photos/lake.jpg -o "$work/received" && cmp "$work/sent" "$work/received"
}

queues() {
    ask queue work -X PUT -H 'Content-Length: 0' &&
        ask queue work/messages -d '<QueueMessage><MessageText>resize</MessageText></QueueMessage>' -H 'Content-Type: application/xml' &&
        ask queue work/messages | grep resize
}

tables() {
    ask table Tables -d '{"TableName":"People"}' -H 'Content-Type: application/json' -H 'Accept: application/json' &&
        ask table People -d '{"PartitionKey":"p","RowKey":"r","Age":34}' -H 'Content-Type: application/json' -H 'Accept: application/json' &&
        same_entity
}

same_entity() {
    ask table "People(PartitionKey='p',RowKey='r')" -H 'Accept: application/json;odata=nometadata' | grep '"Age":34'
}

# Neither the blob nor the entity may be lost.
killed() {
    kill -9 "$server" && { wait "$server"; rm -f "$work/ports.json"; start && same_blob && same_entity; } 2>/dev/null
}

ended() {
    kill -TERM "$server" && wait "$server" && server= && "$program" verify "$work/data"
}

commands() {
    mkdir "$work/bin" && "$program" shim install "$work/bin" && "$work/bin/azurite" --version
}

cd "$root" || exit 1
{
    system
    echo "commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
} >"$report"
if [ -z "$program" ]; then
    rustc --version >>"$report" 2>&1
    step 'the program is built' cargo build --release --locked -p lazurite
    step 'tests of the engine' cargo test --locked -p lazurite-engine
    program=${CARGO_TARGET_DIR:-$root/target}/release/lazurite
fi
"$program" --version >>"$report" 2>&1
sign
step 'a server starts' start
step 'blobs' blobs
step 'queues' queues
step 'tables' tables
step 'nothing is lost by kill -9' killed
step 'the server ends, and the store is sound' ended
step 'the commands of Azurite' commands
echo ----------------------------------------
cat "$report"
echo ----------------------------------------
exit "$failed"
