"""Starts many servers at once on this machine: the time until all services of all of them answer, and the memory that each one takes.

    packages/crowd.py COUNT COMMAND...

COMMAND is `lazurite` or `azurite`, with flags of its own if needed. Every server keeps its data in memory and has ports of its own,
from 22000 on. PSS counts memory that several processes share once, RSS counts it in each of them. Linux only.
"""

import http.client
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict, List

PORT_FIRST = 22000
SERVICES = {"blob": "/devstoreaccount1?comp=list", "queue": "/devstoreaccount1?comp=list", "table": "/devstoreaccount1/Tables"}
# As many starts at a time as there are threads that wait for them.
WAITERS = 32
SECONDS_MAX = 240


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    print(describe(measure(int(sys.argv[1]), sys.argv[2:])))


def measure(count: int, command: "List[str]") -> "Dict[str, float]":
    """Seconds until all answered, and the memory of the servers in MB."""
    began = time.monotonic()
    servers: "List[subprocess.Popen[bytes]]" = []
    try:
        for number in range(count):
            servers.append(start(command, PORT_FIRST + 3 * number))
        with ThreadPoolExecutor(WAITERS) as pool:
            list(pool.map(lambda number: wait(servers[number], PORT_FIRST + 3 * number, began), range(count)))
        seconds = time.monotonic() - began
        pss, rss = ([memory(server.pid, kind) for server in servers] for kind in ["Pss", "Rss"])
    finally:
        for server in servers:
            server.kill()
        for server in servers:
            server.wait()
    return {
        "count": count,
        "seconds": seconds,
        "pss": statistics.median(pss),
        "pss_max": max(pss),
        "pss_sum": sum(pss),
        "rss": statistics.median(rss),
        "rss_max": max(rss),
    }


def describe(figures: "Dict[str, float]") -> str:
    return (
        "{count} servers: all answer after {seconds:.1f} s; each takes {pss:.1f} MB (PSS, median; at most {pss_max:.1f}), "
        "{rss:.1f} MB (RSS; at most {rss_max:.1f}); all together {pss_sum:.0f} MB (PSS)"
    ).format(**figures)


def start(command: "List[str]", port: int) -> "subprocess.Popen[bytes]":
    words = [*command, "--inMemoryPersistence", "--silent"]
    for index, service in enumerate(SERVICES):
        words += [f"--{service}Port", str(port + index)]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait(server: "subprocess.Popen[bytes]", port: int, began: float) -> None:
    """Returns once each service has answered a request."""
    for index, target in enumerate(SERVICES.values()):
        while not answers(port + index, target):
            if server.poll() is not None or time.monotonic() - began > SECONDS_MAX:
                sys.exit(f"the server on port {port} did not answer")
            time.sleep(0.005)


def answers(port: int, target: str) -> bool:
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", target)
        connection.getresponse().read()
        return True
    except OSError:
        return False


def memory(pid: int, kind: str) -> float:
    """MB of a process and of the processes that it has started: a command of npm may be two."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    own = next(int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{kind}:"))
    children = [child for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    return own * 1024 / 1e6 + sum(memory(int(child), kind) for child in children)


if __name__ == "__main__":
    main()
