"""The installed package: the program, the API, the fixtures. Run by `cargo test` and by `.ci/package test`."""

import http.client
import os
import subprocess
import sys
import time
import urllib.parse

import pytest
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from lazurite import Lazurite, LazuriteError, find_program


def create_everything(connection_string: str) -> None:
    """Fails if the names are taken: each caller has a store of its own."""
    BlobServiceClient.from_connection_string(connection_string).create_container("same")
    QueueServiceClient.from_connection_string(connection_string).create_queue("same")
    TableServiceClient.from_connection_string(connection_string).create_table("same")


def containers(connection_string: str) -> "list[str]":
    service = BlobServiceClient.from_connection_string(connection_string)
    return [container.name for container in service.list_containers()]


@pytest.mark.parametrize("number", range(3))
def test_every_test_has_an_empty_store(number: int, lazurite, lazurite_connection_string: str) -> None:
    assert lazurite.connection_string == lazurite_connection_string
    create_everything(lazurite_connection_string)


def test_a_store_is_not_open_to_the_key_of_another(lazurite, lazurite_server: Lazurite) -> None:
    other = next(name for name in lazurite_server.accounts if name != lazurite.account_name)
    stolen = lazurite.connection_string.replace(lazurite.account_key, lazurite_server.account(other).account_key)
    with pytest.raises(HttpResponseError):
        containers(stolen)


def test_isolation_by_server_gives_the_well_known_account(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        """
        import pytest
        from test_package import create_everything

        @pytest.mark.parametrize("number", range(2))
        def test_store(number, lazurite, lazurite_connection_string):
            assert lazurite.account_name == "devstoreaccount1"
            create_everything(lazurite_connection_string)
        """
    )
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))
    result = pytester.runpytest_subprocess("-o", "lazurite_isolation=server", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2)


_FORK_TESTS = """
import pytest
from azure.storage.blob import BlobServiceClient

@pytest.fixture(scope="session")
def lazurite_seed(lazurite_server):
    BlobServiceClient.from_connection_string(lazurite_server.connection_string).create_container("seed")

@pytest.mark.parametrize("number", range(3))
def test_store(number, lazurite, lazurite_connection_string):
    service = BlobServiceClient.from_connection_string(lazurite_connection_string)
    assert [container.name for container in service.list_containers()] == ["seed"]
    service.get_container_client("seed").upload_blob("photo", b"blue")
    assert lazurite.diff()["count"] == 1
    assert number < 2, "the third one fails"

def test_forks_are_released(lazurite_server):
    assert lazurite_server._ask("GET", "state/forks") == {"forks": []}
"""


def test_isolation_by_fork_gives_the_seed_to_each_test_and_reports_a_failed_one(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(_FORK_TESTS)
    result = pytester.runpytest_subprocess("-o", "lazurite_isolation=fork", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*Requests to Lazurite*",
            "201 PUT /devstoreaccount1--*/seed/photo*PutBlob",
            "*Changes of the store in Lazurite*",
            "+ blob seed/photo",
        ]
    )


def test_a_test_passes_although_its_fork_has_ended_already(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_release(lazurite): lazurite.release()")
    result = pytester.runpytest_subprocess("-o", "lazurite_isolation=fork", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)


def test_a_fork_of_a_server_is_a_store_of_its_own() -> None:
    with Lazurite() as server:
        create_everything(server.connection_string)
        server.snapshot("full")
        server.reset()
        with server.fork("full", "one") as fork, server.fork() as empty:
            assert fork.account_name == "devstoreaccount1--one"
            assert containers(fork.connection_string) == ["same"]
            create_everything(empty.connection_string)
            changes = empty.diff()["changes"]
            assert [(change["change"], change["kind"]) for change in changes] == [
                ("created", "container"),
                ("created", "queue"),
                ("created", "table"),
            ]
            assert {request["operation"] for request in fork.requests()} == {"ListContainers"}
        assert containers(server.connection_string) == []
        server.restore("full")
        assert containers(server.connection_string) == ["same"]
        with pytest.raises(LazuriteError, match="SnapshotNotFound") as refused:
            server.fork("none")
        assert refused.value.code == "SnapshotNotFound"


def test_a_fork_that_has_ended_already_counts_as_released() -> None:
    with Lazurite() as server:
        with server.fork() as fork:
            fork.release()
        with pytest.raises(LazuriteError) as refused:
            fork.release()
        assert refused.value.code == "ForkNotFound"


def test_the_requests_of_a_fork_are_those_of_its_account_and_the_latest_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    def send(url: str, count: int) -> None:
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc)
        for _ in range(count):
            connection.request("GET", urllib.parse.urlsplit(url).path)
            connection.getresponse().read()
        connection.close()

    monkeypatch.setattr("lazurite._server._REQUESTS_MAX", 20)
    with Lazurite() as server, server.fork(name="ta") as fork, server.fork(name="tab") as longer:
        # More than a page of the server's answer.
        send(f"{longer.blob_endpoint}/devstoreaccount1--ta/photo", 600)
        assert fork.requests() == []
        send(f"{fork.blob_endpoint}/first", 1)
        send(f"{fork.blob_endpoint}-secondary/second", 1)
        targets = [request["target"] for request in fork.requests()]
        assert targets == ["/devstoreaccount1--ta/first", "/devstoreaccount1--ta-secondary/second"]
        send(f"{fork.blob_endpoint}/third", 30)
        targets = [request["target"] for request in fork.requests()]
        assert targets == ["/devstoreaccount1--ta/third"] * 20


def test_a_server_in_memory_serves_all_services() -> None:
    with Lazurite() as store:
        assert store.account_name == "devstoreaccount1"
        create_everything(store.connection_string)
        assert containers(store.connection_string) == ["same"]
    with pytest.raises(LazuriteError, match="does not run"):
        store.connection_string


def test_a_directory_keeps_what_it_was_given(tmp_path) -> None:
    for expected in [[], ["same"]]:
        with Lazurite(location=tmp_path / "data") as store:
            assert containers(store.connection_string) == expected
            if not expected:
                create_everything(store.connection_string)


def test_accounts_are_served_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURITE_ACCOUNTS", "settings:of another server")
    with Lazurite(accounts=["one", "two"]) as server:
        create_everything(server.account("two").connection_string)
        assert containers(server.connection_string) == []
        assert server.accounts == ["one", "two"]


def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(LazuriteError, match="--nonsense"):
        Lazurite(arguments=["--nonsense"]).start()


def test_a_server_ends_with_the_process_that_started_it() -> None:
    code = "import os, lazurite; s = lazurite.Lazurite().start(); print(s._process.pid, flush=True); os._exit(9)"
    pid = int(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE).stdout)
    deadline = time.monotonic() + 20
    while os.path.exists(f"/proc/{pid}/exe") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{pid}/exe")


def test_the_program_is_on_path_and_makes_the_commands_of_azurite(tmp_path) -> None:
    program = find_program()
    assert os.path.dirname(program) == os.path.dirname(sys.executable)
    subprocess.run([program, "shim", "install", tmp_path], check=True, stdout=subprocess.DEVNULL)
    version = subprocess.check_output([tmp_path / "azurite", "--version"], text=True)
    assert version.startswith("3.")
    own = subprocess.check_output([sys.executable, "-m", "lazurite", "--version"], text=True)
    assert own.startswith("lazurite 0.")
