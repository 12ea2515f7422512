"""A server as a context manager, and the stores that it serves."""

import base64
import json
import os
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Dict, List, Optional, Sequence, Type, Union

from ._program import find_program

DEVELOPMENT_ACCOUNT = "devstoreaccount1"
#: Public by design: every client library knows it.
DEVELOPMENT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

_POLL_SECONDS = 0.005
_STOP_SECONDS = 10.0


#: How long the server may take for an answer about its state.
_ANSWER_SECONDS = 60.0


#: How long a fork lives without requests, if no flag says otherwise: longer than a debugger stops a test, and than failed tests are kept.
FORK_LIFETIME_SECONDS = 3600


#: Most requests of a fork in one list: as many as a server keeps, if no flag says otherwise.
_REQUESTS_MAX = 2000


class LazuriteError(RuntimeError):
    """The server did not start, with its output on standard error in the text, or it refused a change of its state.

    `code` is that of a refusal, such as `ForkNotFound`, and None otherwise.
    """

    code: Optional[str] = None


class Store:
    """An account of a running server: names, key, endpoints."""

    def __init__(self, account_name: str, account_key: str, host: str, ports: Dict[str, int], scheme: str) -> None:
        self.account_name = account_name
        self.account_key = account_key
        self.blob_endpoint = f"{scheme}://{host}:{ports['blob']}/{account_name}"
        self.queue_endpoint = f"{scheme}://{host}:{ports['queue']}/{account_name}"
        self.table_endpoint = f"{scheme}://{host}:{ports['table']}/{account_name}"
        self._scheme = scheme

    @property
    def connection_string(self) -> str:
        """The argument of `from_connection_string` of every client library."""
        return (
            f"DefaultEndpointsProtocol={self._scheme};AccountName={self.account_name};AccountKey={self.account_key};"
            f"BlobEndpoint={self.blob_endpoint};QueueEndpoint={self.queue_endpoint};TableEndpoint={self.table_endpoint};"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.blob_endpoint}>"


class Fork(Store):
    """A store of its own on the ports of a server, which begins as the store of the server or as a snapshot of it.

    It ends with `release`, which a `with` block calls.
    """

    def __init__(self, server: "Lazurite", name: str, origin: Store, ports: Dict[str, int], host: str, scheme: str) -> None:
        super().__init__(f"{origin.account_name}--{name}", origin.account_key, host, ports, scheme)
        self.name = name
        self._server = server

    def release(self) -> None:
        """Ends the fork, with everything in it. Raises LazuriteError with the code `ForkNotFound` if it has ended already."""
        self._server._ask("DELETE", f"state/forks/{self.name}")

    @property
    def console_url(self) -> str:
        """The page of the console that shows the fork."""
        return f"{self._server._console}blobs/{self.account_name}"

    @property
    def requests_url(self) -> str:
        """The page of the console with the requests to the fork."""
        return f"{self._server._console}requests?filter={urllib.parse.quote(f'/{self.account_name}', '')}"

    def diff(self, limit: int = 1000) -> Dict[str, Any]:
        """What differs from the snapshot that the fork began as, or from the store of the server: `GET /_lazurite/state/diff`."""
        answer: Dict[str, Any] = self._server._ask("GET", f"state/diff?fork={self.name}&limit={limit}")
        return answer

    def requests(self) -> List[Dict[str, Any]]:
        """The latest requests to the fork that name its account in the path, at most 2,000, oldest first: `GET /_lazurite/api/requests`."""
        # The filter finds the name anywhere in a request.
        words = urllib.parse.quote(f"/{self.account_name}")
        accounts = (self.account_name, f"{self.account_name}-secondary")
        requests: List[Dict[str, Any]] = []
        after = 0
        while True:
            page: Dict[str, Any] = self._server._ask("GET", f"api/requests?filter={words}&after={after}")
            requests += [one for one in page["requests"] if _account_of(one["target"]) in accounts]
            del requests[:-_REQUESTS_MAX]
            # A page may be empty although later ones are not.
            if page["next"] == after:
                return requests
            after = page["next"]

    def __enter__(self) -> "Fork":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        try:
            self.release()
        except LazuriteError as refusal:
            # It has ended already: it was released, or no request has used it for its lifetime.
            if refusal.code != "ForkNotFound":
                raise


class Lazurite:
    """A server that runs from `start` to `stop`, or as long as a `with` block.

    The properties of its first account are there on the server itself.
    """

    def __init__(
        self,
        location: Union[str, "os.PathLike[str]", None] = None,
        *,
        port: int = 0,
        accounts: Union[Sequence[str], Dict[str, str], None] = None,
        arguments: Sequence[str] = (),
        program: Optional[str] = None,
        timeout: float = 30.0,
    ) -> None:
        """Chooses the program and flags for `start`.

        location: the data directory. None keeps everything in memory.
        port: the first of three consecutive ports. 0 takes any free ones.
        accounts: names, each of which gets a random key, or names with their keys in base64. None serves `devstoreaccount1` with its
            well-known key.
        arguments: further flags of the program.
        program: the path of the program. None takes the one that is installed with this package.
        timeout: the longest wait for the start, in seconds.
        """
        self._location = location
        self._port = port
        if accounts is None:
            self._keys = {DEVELOPMENT_ACCOUNT: DEVELOPMENT_KEY}
        elif isinstance(accounts, dict):
            self._keys = dict(accounts)
        else:
            self._keys = {name: _random_key() for name in accounts}
        if not self._keys:
            raise ValueError("a server needs at least one account")
        self._is_development = accounts is None
        self._arguments = list(arguments)
        self._program = program
        self._timeout = timeout
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._stores: Dict[str, Store] = {}
        self._ports: Dict[str, int] = {}

    def start(self) -> "Lazurite":
        """Starts the server and returns once it serves requests. Raises LazuriteError if it does not."""
        if self._process is not None:
            raise LazuriteError("the server runs already")
        with tempfile.TemporaryDirectory(prefix="lazurite-") as scratch:
            ports_path, errors_path = Path(scratch, "ports.json"), Path(scratch, "stderr.txt")
            with open(errors_path, "wb") as errors:
                self._process = subprocess.Popen(
                    self._command(ports_path),
                    # The server ends when this process does, because the pipe is closed then.
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    env=self._environment(),
                )
            ports = self._wait_until_ready(ports_path, errors_path)
        self._ports = ports
        host, scheme = self._host, self._scheme
        self._stores = {name: Store(name, key, host, ports, scheme) for name, key in self._keys.items()}
        return self

    def stop(self) -> None:
        """Stops the server. A store in a directory is closed; one in memory is just gone. Does nothing if it does not run."""
        process, self._process = self._process, None
        self._stores = {}
        if process is None:
            return
        assert process.stdin is not None
        if self._location is None and not self._arguments:
            # Nothing outlives it, so it need not wait for idle connections of clients.
            process.kill()
        process.stdin.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _hand_over(self) -> IO[bytes]:
        """The pipe that keeps the server alive: the server runs as long as any process holds it, and is no longer this object's."""
        process, self._process = self._process, None
        self._stores = {}
        if process is None or process.stdin is None:
            raise LazuriteError("the server does not run")
        # Not awaited, which would be a warning.
        process.returncode = 0
        return process.stdin

    def fork(self, source: Optional[str] = None, name: Optional[str] = None) -> Fork:
        """Makes a fork of the store, or of the snapshot `source`. Without a name it has a random one."""
        body = {"from": source, "name": name, "account": self._first.account_name}
        made = self._ask("POST", "state/forks", body)
        return Fork(self, made["name"], self._first, self._ports, self._host, self._scheme)

    def snapshot(self, name: str) -> None:
        """Keeps the store as it is now under a name."""
        self._ask("PUT", f"state/snapshots/{urllib.parse.quote(name, '')}")

    def restore(self, name: str) -> None:
        """Puts a copy of a snapshot in the place of the store."""
        self._ask("POST", f"state/snapshots/{urllib.parse.quote(name, '')}/restore")

    def reset(self) -> None:
        """Deletes everything in the store. Snapshots and forks stay."""
        self._ask("POST", "state/reset")

    def account(self, name: str) -> Store:
        """Returns the store of one account. Raises KeyError if the server has no such account or does not run."""
        return self._stores[name]

    @property
    def accounts(self) -> List[str]:
        """The names of the accounts, in the order in which they were given."""
        return list(self._keys)

    @property
    def connection_string(self) -> str:
        """Of the first account."""
        return self._first.connection_string

    @property
    def account_name(self) -> str:
        """Of the first account."""
        return self._first.account_name

    @property
    def account_key(self) -> str:
        """Of the first account, in base64."""
        return self._first.account_key

    @property
    def blob_endpoint(self) -> str:
        """Of the first account."""
        return self._first.blob_endpoint

    @property
    def queue_endpoint(self) -> str:
        """Of the first account."""
        return self._first.queue_endpoint

    @property
    def table_endpoint(self) -> str:
        """Of the first account."""
        return self._first.table_endpoint

    def __enter__(self) -> "Lazurite":
        return self.start()

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.stop()

    @property
    def _first(self) -> Store:
        if not self._stores:
            raise LazuriteError("the server does not run: use it in a with block, or call start()")
        return next(iter(self._stores.values()))

    @property
    def _scheme(self) -> str:
        return "https" if "--cert" in " ".join(self._arguments) else "http"

    @property
    def _host(self) -> str:
        return "localhost" if self._scheme == "https" else "127.0.0.1"

    @property
    def _console(self) -> str:
        return f"{self._scheme}://{self._host}:{self._ports['blob']}/_lazurite/"

    def _ask(self, method: str, page: str, body: Optional[Dict[str, Any]] = None) -> Any:
        """The JSON that a page of the server answers. Raises LazuriteError with the reason of a refusal."""
        if not self._stores:
            raise LazuriteError("the server does not run: use it in a with block, or call start()")
        url = f"{self._console}{page}"
        data = None if body is None else json.dumps(body).encode()
        # No proxy: the server answers programs of this machine only.
        handlers: List[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if self._scheme == "https":
            # The certificate may be one that nobody knows.
            handlers.append(urllib.request.HTTPSHandler(context=ssl._create_unverified_context()))
        opener = urllib.request.build_opener(*handlers)
        try:
            with opener.open(urllib.request.Request(url, data, method=method), timeout=_ANSWER_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read().decode("utf-8", "replace")
            refusal = LazuriteError(f"{method} /_lazurite/{page}: {error.code} {text}")
            refusal.code = _code_of(text)
            raise refusal from None
        except OSError as error:
            raise LazuriteError(f"{method} /_lazurite/{page}: {error}") from None

    def _command(self, ports_path: Path) -> List[str]:
        command = [self._program or find_program(), "--port", str(self._port), "--port-file", str(ports_path)]
        command += ["--silent", "--until-stdin-ends", "--fork-lifetime", str(FORK_LIFETIME_SECONDS)]
        if self._location is None:
            command.append("--inMemoryPersistence")
        else:
            command += ["--location", os.fspath(self._location)]
        return command + self._arguments

    def _environment(self) -> Dict[str, str]:
        """This process's, without settings of other servers."""
        ours = ("LAZURITE_", "AZURITE_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        if not self._is_development:
            environment["AZURITE_ACCOUNTS"] = ";".join(f"{name}:{key}" for name, key in self._keys.items())
        return environment

    def _wait_until_ready(self, ports_path: Path, errors_path: Path) -> Dict[str, int]:
        assert self._process is not None
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                ports: Dict[str, int] = json.loads(ports_path.read_text("utf-8"))
                return ports
            except FileNotFoundError:
                pass
            status = self._process.poll()
            if status is None and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
                continue
            said = errors_path.read_text("utf-8", "replace").strip()
            reason = f"it ended with status {status}" if status is not None else f"it was not ready after {self._timeout} s"
            self.stop()
            raise LazuriteError(f"Lazurite did not start: {reason}\n{said}")


def _account_of(target: str) -> str:
    """The first segment of the path of a request."""
    return target.partition("?")[0].lstrip("/").partition("/")[0]


def _code_of(text: str) -> Optional[str]:
    """The code of a refusal, or None if the text is not one of ours."""
    try:
        code: Optional[str] = json.loads(text)["error"]["code"]
        return code
    except (ValueError, LookupError, TypeError):
        return None


def _random_key() -> str:
    return base64.b64encode(os.urandom(64)).decode("ascii")
