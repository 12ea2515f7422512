"""A container daemon for Testcontainers, without containers: it answers the calls of the Docker API that they make, and runs the image's
command as a process of this machine.

    daemon.py CONTAINERFILE PROGRAM

Prints its address, then serves until its standard input ends. The image is what CONTAINERFILE says (ENV, CMD, HEALTHCHECK) with PROGRAM in it.
Two things differ from a container, so that tests run beside each other: absolute paths lie below a directory of the container's own, and the
program listens on free ports, which are then reported as the ports mapped to those it was told.
"""

import io
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

START_SECONDS_MAX = 20
# A client that believes itself in a container as well asks the gateway for mapped ports.
NETWORK = {"NetworkID": "bridge", "IPAddress": "127.0.0.1", "Gateway": "127.0.0.1", "Aliases": None}
NO_TIME = "0001-01-01T00:00:00Z"
STDOUT, STDERR = 1, 2


class Image:
    """What a Containerfile sets for the process."""

    def __init__(self, containerfile: Path, program: Path) -> None:
        text = containerfile.read_text().replace("\\\n", " ")
        self.program = program
        self.environment = dict(pair.split("=", 1) for line in re.findall(r"^ENV (.*)$", text, re.M) for pair in shlex.split(line))
        self.command = json.loads(re.search(r"^CMD (.*)$", text, re.M)[1])
        self.health = json.loads(re.search(r"^HEALTHCHECK .*?CMD (.*)$", text, re.M)[1])


class Container:
    def __init__(self, number: int, image: Image, root: Path, settings: dict) -> None:
        self.id = f"{number:064x}"
        self.name = settings.get("name") or f"container{number}"
        self.image, self.root, self.settings = image, root, settings
        self.words = [*(settings.get("Entrypoint") or []), *(settings.get("Cmd") or [])] or image.command
        self.process: "subprocess.Popen | None" = None
        self.started = self.finished = NO_TIME
        self.frames: list[bytes] = []
        self.log = threading.Condition()
        self.ports: dict[str, int] = {}
        bin_directory = root / "usr/local/bin"
        for directory in [bin_directory, root / "data", root / "seed", root / "tmp"]:
            directory.mkdir(parents=True)
        (bin_directory / "lazurite").symlink_to(image.program)
        subprocess.run([image.program, "shim", "install", bin_directory], check=True, stdout=subprocess.DEVNULL)

    def inside(self, word: str) -> str:
        """A word of a command line, its path below the container's root."""
        return f"{self.root}{word}" if word.startswith("/") and not word.startswith("/dev/") else word

    def environment(self) -> dict[str, str]:
        given = dict(pair.split("=", 1) for pair in self.settings.get("Env") or [])
        image = {name: self.inside(value) for name, value in self.image.environment.items()}
        path = f"{self.root / 'usr/local/bin'}:{os.environ['PATH']}"
        return {"PATH": path, "LAZURITE_PORT": "0", **image, **given}

    def start(self) -> None:
        words, told = [], {"blob": 10000, "queue": 10001, "table": 10002}
        for word in self.words:
            service = re.fullmatch(r"--(blob|queue|table)Port", words[-1]) if words else None
            if service:
                told[service[1]] = int(word)
            words.append("0" if service else self.inside(word))
        environment = self.environment()
        port_file = Path(environment["LAZURITE_PORT_FILE"])
        port_file.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            words,
            executable=self.root / "usr/local/bin" / words[0],
            cwd=self.root / "data",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.started = now()
        for kind, stream in [(STDOUT, self.process.stdout), (STDERR, self.process.stderr)]:
            threading.Thread(target=self.keep_log, args=[kind, stream], daemon=True).start()
        deadline = time.monotonic() + START_SECONDS_MAX
        while self.running() and time.monotonic() < deadline:
            if port_file.exists() and port_file.stat().st_size > 0:
                ports = json.loads(port_file.read_text())
                self.ports = {f"{told[service]}/tcp": port for service, port in ports.items()}
                return
            time.sleep(0.01)

    def keep_log(self, kind: int, stream: io.BufferedReader) -> None:
        for line in stream:
            with self.log:
                self.frames.append(frame(kind, line))
                self.log.notify_all()
        with self.log:
            self.log.notify_all()

    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.running():
            self.process.send_signal(number)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.finished = now()

    def run(self, command: list[str]) -> tuple[int, bytes]:
        words = [self.inside(word) for word in command]
        try:
            done = subprocess.run(
                words, env=self.environment(), cwd=self.root / "data", stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except FileNotFoundError as error:
            return 127, frame(STDERR, str(error).encode())
        output = [(STDOUT, done.stdout), (STDERR, done.stderr)]
        return done.returncode, b"".join(frame(kind, data) for kind, data in output if data)

    def described(self) -> dict:
        running = self.running()
        state = {
            "Status": "running" if running else "exited" if self.process else "created",
            "Running": running,
            "ExitCode": (self.process.poll() or 0) if self.process else 0,
            "StartedAt": self.started,
            "FinishedAt": self.finished,
        }
        if running:
            healthy = self.run(self.image.health)[0] == 0
            state["Health"] = {"Status": "healthy" if healthy else "starting", "FailingStreak": 0, "Log": []}
        host = self.settings.get("HostConfig") or {}
        asked = set(host.get("PortBindings") or {}) | set(self.settings.get("ExposedPorts") or {})
        ports = {port: [{"HostIp": "0.0.0.0", "HostPort": str(self.ports[port])}] for port in asked if port in self.ports}
        return {
            "Id": self.id,
            "Name": f"/{self.name}",
            "Created": self.started,
            "Image": "sha256:" + "0" * 64,
            "State": state,
            "Config": {
                "Hostname": self.id[-12:],
                "Image": self.settings["Image"],
                "Labels": self.settings.get("Labels") or {},
                "Env": self.settings.get("Env") or [],
                "Cmd": self.settings.get("Cmd"),
                "Tty": False,
            },
            "HostConfig": {**host, "LogConfig": {"Type": "json-file", "Config": {}}, "NetworkMode": "bridge"},
            "NetworkSettings": {"Ports": ports if running else {}, "Networks": {"bridge": NETWORK}, **NETWORK},
            "Mounts": [],
        }


class Daemon(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, image: Image, scratch: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.image, self.scratch = image, scratch
        self.pulled: set[str] = set()
        self.containers: dict[str, Container] = {}
        self.commands: dict[str, dict] = {}
        self.numbers = itertools.count(1)

    def handle_error(self, request: object, client_address: object) -> None:
        # Clients close a stream of logs as soon as they have read the line they wait for.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def container(self, name: str) -> Container:
        found = [one for one in self.containers.values() if name in (one.id, one.name)]
        if not found:
            raise Refusal(404, f"No such container: {name}")
        return found[0]


class Refusal(Exception):
    """A status and what is wrong."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Daemon

    def log_message(self, *words: object) -> None:
        pass

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path = re.sub(r"^/v[0-9.]+", "", unquote(url.path))
        self.query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        self.body = self.read_body()
        try:
            for method, pattern, function in ROUTES:
                found = re.fullmatch(pattern, path)
                if found and method == self.command:
                    return function(self, *found.groups())
            raise Refusal(404, f"this daemon does not know {self.command} {path}")
        except Refusal as refusal:
            status, message = refusal.args
            self.answer({"message": message}, status)

    do_HEAD = do_POST = do_PUT = do_DELETE = do_GET

    def read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while length := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(length))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def answer(self, value: object = None, status: int = 200) -> None:
        data = b"" if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Api-Version", "1.44")
        self.send_header("Content-Type", "text/plain" if isinstance(value, bytes) else "application/json")
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    # The daemon

    def ping(self) -> None:
        self.answer(b"OK")

    def version(self) -> None:
        self.answer({"Version": "25.0.0", "ApiVersion": "1.44", "MinAPIVersion": "1.24", "Os": "linux", "Arch": "amd64"})

    def info(self) -> None:
        about = {"ServerVersion": "25.0.0", "OperatingSystem": "Linux", "OSType": "linux", "Architecture": "x86_64"}
        self.answer({**about, "NCPU": 1, "MemTotal": 1 << 30, "Labels": [], "Runtimes": {}})

    # Images

    def image(self, name: str) -> None:
        if name not in self.server.pulled:
            raise Refusal(404, f"No such image: {name}")
        self.answer({"Id": "sha256:" + "0" * 64, "RepoTags": [name], "Config": {"Cmd": self.server.image.command}})

    def pull(self) -> None:
        name = self.query["fromImage"]
        tag = self.query.get("tag")
        self.server.pulled.update({name, f"{name}:{tag}" if tag else name})
        self.answer({"status": f"Pulled {name}"})

    # Containers

    def list_containers(self) -> None:
        asked = json.loads(self.query.get("filters", "{}")).get("id")
        found = [one.described() for one in self.server.containers.values() if not asked or one.id in asked]
        self.answer([{**one, "Names": [one["Name"]], "State": one["State"]["Status"], "Labels": one["Config"]["Labels"]} for one in found])

    def create(self) -> None:
        settings = json.loads(self.body)
        name = settings["Image"]
        if not self.server.pulled & {name, f"{name}:latest"}:
            raise Refusal(404, f"No such image: {name}")
        number = next(self.server.numbers)
        settings["name"] = self.query.get("name")
        container = Container(number, self.server.image, self.server.scratch / str(number), settings)
        self.server.containers[container.id] = container
        self.answer({"Id": container.id, "Warnings": []}, 201)

    def inspect(self, name: str) -> None:
        self.answer(self.server.container(name).described())

    def start(self, name: str) -> None:
        self.server.container(name).start()
        self.answer(status=204)

    def stop(self, name: str) -> None:
        self.server.container(name).stop()
        self.answer(status=204)

    def kill(self, name: str) -> None:
        self.server.container(name).stop(signal.SIGKILL)
        self.answer(status=204)

    def restart(self, name: str) -> None:
        container = self.server.container(name)
        container.stop()
        container.start()
        self.answer(status=204)

    def wait(self, name: str) -> None:
        process = self.server.container(name).process
        self.answer({"StatusCode": process.wait() if process else 0})

    def remove(self, name: str) -> None:
        container = self.server.container(name)
        container.stop()
        del self.server.containers[container.id]
        self.answer(status=204)

    def put_archive(self, name: str) -> None:
        root = self.server.container(name).root
        with tarfile.open(fileobj=io.BytesIO(self.body)) as archive:
            archive.extractall(root / self.query["path"].lstrip("/"), filter="data")
        self.answer()

    def logs(self, name: str) -> None:
        container = self.server.container(name)
        kinds = {kind for kind, word in [(STDOUT, "stdout"), (STDERR, "stderr")] if self.query.get(word) in ("1", "true", "True")}
        follow = self.query.get("follow") in ("1", "true", "True")
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.docker.multiplexed-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        sent = 0
        while True:
            with container.log:
                if follow and sent == len(container.frames) and container.running():
                    container.log.wait(0.2)
                frames = container.frames[sent:]
            sent += len(frames)
            for data in frames:
                if data[0] in kinds:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            if not frames and not (follow and container.running()):
                break
        self.wfile.write(b"0\r\n\r\n")

    # Commands in a container

    def make_command(self, name: str) -> None:
        container = self.server.container(name)
        command = {"container": container, "words": json.loads(self.body)["Cmd"], "status": None}
        number = f"{next(self.server.numbers):064x}"
        self.server.commands[number] = command
        self.answer({"Id": number}, 201)

    def run_command(self, number: str) -> None:
        command = self.server.commands[number]
        command["status"], output = command["container"].run(command["words"])
        if self.headers.get("Upgrade") != "tcp":
            return self.answer(output)
        self.close_connection = True
        head = "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
        self.wfile.write(head.encode() + output)

    def inspect_command(self, number: str) -> None:
        self.answer({"ID": number, "Running": False, "ExitCode": self.server.commands[number]["status"]})


ROUTES = [
    ("GET", "/_ping", Handler.ping),
    ("HEAD", "/_ping", Handler.ping),
    ("GET", "/version", Handler.version),
    ("GET", "/info", Handler.info),
    ("GET", "/images/(.+)/json", Handler.image),
    ("POST", "/images/create", Handler.pull),
    ("GET", "/containers/json", Handler.list_containers),
    ("POST", "/containers/create", Handler.create),
    ("GET", "/containers/([^/]+)/json", Handler.inspect),
    ("POST", "/containers/([^/]+)/start", Handler.start),
    ("POST", "/containers/([^/]+)/stop", Handler.stop),
    ("POST", "/containers/([^/]+)/kill", Handler.kill),
    ("POST", "/containers/([^/]+)/restart", Handler.restart),
    ("POST", "/containers/([^/]+)/wait", Handler.wait),
    ("DELETE", "/containers/([^/]+)", Handler.remove),
    ("PUT", "/containers/([^/]+)/archive", Handler.put_archive),
    ("GET", "/containers/([^/]+)/logs", Handler.logs),
    ("POST", "/containers/([^/]+)/exec", Handler.make_command),
    ("POST", "/exec/([^/]+)/start", Handler.run_command),
    ("GET", "/exec/([^/]+)/json", Handler.inspect_command),
]


def frame(kind: int, data: bytes) -> bytes:
    """Output as the Docker API multiplexes it: kind, three zero bytes, length, data."""
    return bytes([kind, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def main() -> None:
    image = Image(Path(sys.argv[1]), Path(sys.argv[2]).resolve())
    with tempfile.TemporaryDirectory(prefix="lazurite-containers-") as scratch:
        daemon = Daemon(image, Path(scratch))
        threading.Thread(target=daemon.serve_forever, daemon=True).start()
        print(f"tcp://127.0.0.1:{daemon.server_port}", flush=True)
        sys.stdin.read()
        for container in list(daemon.containers.values()):
            container.stop(signal.SIGKILL)


if __name__ == "__main__":
    main()
