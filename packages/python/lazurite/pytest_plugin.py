"""Fixtures for pytest: a store for each test.

Accounts of one server are handed out to tests, because nothing has to be started then. When all are taken, the next server starts. With
isolation by fork, each test has a fork of one store, which a suite fills once.
"""

from typing import Any, Dict, Iterator, List, Union

import pytest

from . import _report
from ._server import Fork, Lazurite, LazuriteError, Store

#: How many tests one server serves. Every account takes some memory of the server.
_ACCOUNTS_OF_SERVER = 256


#: The snapshot that the forks of a session begin as.
_SEED = "lazurite-seed"


class _Pool:
    """Servers of this session, and the accounts that no test has had."""

    def __init__(self, arguments: List[str], is_for_forks: bool) -> None:
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

    def stop(self) -> None:
        for server in self._servers:
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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("lazurite_isolation", "account: one server, an account for each test; fork: one server, a fork for each test; server: a server for each test", default="account")
    parser.addini("lazurite_arguments", "further flags of Lazurite", type="args", default=[])


@pytest.fixture(scope="session")
def _lazurite_pool(pytestconfig: pytest.Config) -> Iterator[_Pool]:
    is_for_forks = pytestconfig.getini("lazurite_isolation") == "fork"
    pool = _Pool(list(pytestconfig.getini("lazurite_arguments")), is_for_forks)
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
        with server.fork(snapshot) as fork:
            yield fork
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
    """Adds the requests of a failed test and the changes of its fork to the report."""
    outcome: Any = yield
    report: pytest.TestReport = outcome.get_result()
    arguments: Dict[str, Any] = getattr(item, "funcargs", {})
    fork = arguments.get("lazurite")
    if report.when != "call" or not report.failed or not isinstance(fork, Fork):
        return
    try:
        report.sections.append(("Requests to Lazurite", _report.requests(fork.requests())))
        report.sections.append(("Changes of the store in Lazurite", _report.changes(fork.diff(_report.CHANGES_MAX))))
    except LazuriteError as error:
        report.sections.append(("Lazurite", str(error)))
