"""Fixtures for pytest: a store for each test.

Each test has a fork of one store, which a suite may fill once. The store of a failed test stays for a while, and its report leads there.
With isolation by account, accounts of one server are handed out to tests. When all are taken, the next server starts.
"""

import os
import re
import secrets
from pathlib import Path
from typing import Any, Iterator, List, Set, Tuple, Union

import pytest

from . import _keeper, _report
from ._server import FORK_LIFETIME_SECONDS, Fork, Lazurite, LazuriteError, Store

#: How many tests one server serves. Every account takes some memory of the server.
_ACCOUNTS_OF_SERVER = 256


#: The snapshot that the forks of a session begin as.
_SEED = "lazurite-seed"

#: Seconds for which the stores of failed tests are kept after the tests.
_KEEP_SECONDS = 900
#: Number of failed tests whose stores are kept.
_KEPT_MAX = 50
#: Maximum length of the name of a fork.
_FORK_NAME_MAX = 40


class _Pool:
    """Servers of this session, and the accounts that no test has had."""

    def __init__(self, arguments: List[str], is_for_forks: bool, marker: Path, keep_seconds: int) -> None:
        self.keep_seconds = keep_seconds
        #: Names of the forks of failed tests.
        self.kept: Set[str] = set()
        self._marker = marker
        self._is_for_forks = is_for_forks
        self._arguments = arguments
        self._servers: List[Lazurite] = []
        self._unused: List[Store] = []

    def server(self) -> Lazurite:
        if not self._servers:
            self._start()
        return self._servers[-1]

    def take(self) -> Store:
        if not self._unused:
            self._start()
        return self._unused.pop()

    def keeps(self, fork: Fork) -> bool:
        """Keeps the fork of a failed test, unless many are kept already. Returns whether it is kept."""
        if self.keep_seconds > 0 and len(self.kept) < _KEPT_MAX:
            self.kept.add(fork.name)
        return fork.name in self.kept

    def stop(self) -> None:
        for server in self._servers:
            if self.kept:
                _keeper.keep(server, self._marker, self.keep_seconds)
            else:
                server.stop()

    def _start(self) -> None:
        if self._is_for_forks:
            # Only a server with the development account lets programs without a password make forks.
            self._servers.append(Lazurite(arguments=self._arguments).start())
            return
        # A server whose accounts are taken stays: fixtures of a wider scope may still use it.
        names = [f"test{number:05}" for number in range(_ACCOUNTS_OF_SERVER)]
        server = Lazurite(accounts=names, arguments=self._arguments).start()
        self._servers.append(server)
        self._unused = [server.account(name) for name in reversed(names)]


#: The fork of a test, for its report.
_FORK = pytest.StashKey[Tuple[_Pool, Fork]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("lazurite_isolation", "fork: one server, a fork for each test; account: one server, an account for each test; server: a server for each test", default="fork")
    parser.addini("lazurite_keep_failed", "seconds for which the stores of failed tests are kept after the tests; by default 900, and 0 where CI is set", default="")
    parser.addini("lazurite_arguments", "further flags of Lazurite", type="args", default=[])


def _keep_seconds(config: pytest.Config) -> int:
    chosen = config.getini("lazurite_keep_failed")
    if not chosen:
        return 0 if os.environ.get("CI") else _KEEP_SECONDS
    if not chosen.isdecimal() or int(chosen) > FORK_LIFETIME_SECONDS:
        raise pytest.UsageError(f"lazurite_keep_failed is a number of seconds up to {FORK_LIFETIME_SECONDS}, not {chosen!r}")
    return int(chosen)


def _fork_name(test: str) -> str:
    """A name for the fork of a test, which no other test has."""
    word = re.sub("[^a-z0-9]+", "-", test.lower()).strip("-")[: _FORK_NAME_MAX - 9].strip("-")
    return f"{word or 'test'}-{secrets.token_hex(4)}"


@pytest.fixture(scope="session")
def _lazurite_pool(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Pool]:
    is_for_forks = pytestconfig.getini("lazurite_isolation") == "fork"
    cache = getattr(pytestconfig, "cache", None)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    # Without pytest's cache, a later run does not find what this one keeps.
    directory = cache.mkdir("lazurite") if cache is not None else tmp_path_factory.mktemp("lazurite")
    marker = directory / f"kept-{worker}"
    _keeper.end(marker)
    pool = _Pool(list(pytestconfig.getini("lazurite_arguments")), is_for_forks, marker, _keep_seconds(pytestconfig))
    yield pool
    pool.stop()


@pytest.fixture(scope="session")
def lazurite_server(_lazurite_pool: _Pool) -> Lazurite:
    """The server of this session, whose accounts or forks are those of the tests."""
    return _lazurite_pool.server()


@pytest.fixture(scope="session")
def lazurite_seed(lazurite_server: Lazurite) -> None:
    """Fills the store of which each test gets a fork. A suite replaces it by a fixture of this name."""


@pytest.fixture(scope="session")
def _lazurite_snapshot(lazurite_server: Lazurite, lazurite_seed: Any) -> str:
    lazurite_server.snapshot(_SEED)
    return _SEED


@pytest.fixture
def lazurite(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> Iterator[Union[Store, Lazurite]]:
    """A store for this test alone: empty, or with isolation by fork as `lazurite_seed` has filled it."""
    isolation = pytestconfig.getini("lazurite_isolation")
    if isolation == "account":
        pool: _Pool = request.getfixturevalue("_lazurite_pool")
        yield pool.take()
    elif isolation == "fork":
        snapshot: str = request.getfixturevalue("_lazurite_snapshot")
        server: Lazurite = request.getfixturevalue("lazurite_server")
        pool = request.getfixturevalue("_lazurite_pool")
        fork = server.fork(snapshot, _fork_name(request.node.name))
        request.node.stash[_FORK] = (pool, fork)
        yield fork
        if fork.name not in pool.kept:
            with fork:
                pass
    elif isolation == "server":
        with Lazurite(arguments=list(pytestconfig.getini("lazurite_arguments"))) as own_server:
            yield own_server
    else:
        raise pytest.UsageError(f"lazurite_isolation is account, fork or server, not {isolation!r}")


@pytest.fixture
def lazurite_connection_string(lazurite: Union[Store, Lazurite]) -> str:
    """The connection string of the store of this test."""
    return lazurite.connection_string


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Adds the requests of a failed test, the changes of its fork and links to both to the report."""
    outcome: Any = yield
    report: pytest.TestReport = outcome.get_result()
    kept = item.stash.get(_FORK, None)
    if report.when == "teardown" or not report.failed or kept is None:
        return
    pool, fork = kept
    try:
        if pool.keeps(fork):
            report.sections.append(("Lazurite", _report.places(fork.console_url, fork.requests_url, pool.keep_seconds)))
        report.sections.append(("Requests to Lazurite", _report.requests(fork.requests())))
        report.sections.append(("Changes of the store in Lazurite", _report.changes(fork.diff(_report.CHANGES_MAX))))
    except LazuriteError as error:
        report.sections.append(("Lazurite", str(error)))
