"""Fixtures for pytest: an empty store for each test.

Accounts of one server are handed out to tests, because nothing has to be started then. When all are taken, the next server starts.
"""

from typing import Iterator, List, Union

import pytest

from ._server import Lazurite, Store

#: How many tests one server serves. Every account takes some memory of the server.
_ACCOUNTS_OF_SERVER = 256


class _Pool:
    """Servers of this session, and the accounts that no test has had."""

    def __init__(self, arguments: List[str]) -> None:
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
        # A server whose accounts are taken stays: fixtures of a wider scope may still use it.
        names = [f"test{number:05}" for number in range(_ACCOUNTS_OF_SERVER)]
        server = Lazurite(accounts=names, arguments=self._arguments).start()
        self._servers.append(server)
        self._unused = [server.account(name) for name in reversed(names)]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("lazurite_isolation", "account: one server, an account for each test; server: a server for each test", default="account")
    parser.addini("lazurite_arguments", "further flags of Lazurite", type="args", default=[])


@pytest.fixture(scope="session")
def _lazurite_pool(pytestconfig: pytest.Config) -> Iterator[_Pool]:
    pool = _Pool(list(pytestconfig.getini("lazurite_arguments")))
    yield pool
    pool.stop()


@pytest.fixture(scope="session")
def lazurite_server(_lazurite_pool: _Pool) -> Lazurite:
    """The server of this session, whose accounts are those of the tests."""
    return _lazurite_pool.server()


@pytest.fixture
def lazurite(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> Iterator[Union[Store, Lazurite]]:
    """An empty store for this test alone."""
    isolation = pytestconfig.getini("lazurite_isolation")
    if isolation == "account":
        pool: _Pool = request.getfixturevalue("_lazurite_pool")
        yield pool.take()
    elif isolation == "server":
        with Lazurite(arguments=list(pytestconfig.getini("lazurite_arguments"))) as server:
            yield server
    else:
        raise pytest.UsageError(f"lazurite_isolation is account or server, not {isolation!r}")


@pytest.fixture
def lazurite_connection_string(lazurite: Union[Store, Lazurite]) -> str:
    """The connection string of the store of this test."""
    return lazurite.connection_string
