"""The installed package: the program, the API, the fixtures. Run by `cargo test` and by `.ci/package test`."""

import http.client
import os
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import pytest
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
    assert lazurite.account_name.startswith("devstoreaccount1--test-every-test")
    create_everything(lazurite_connection_string)


_ACCOUNT_TESTS = """
import pytest
from azure.core.exceptions import HttpResponseError
from test_package import containers, create_everything

@pytest.mark.parametrize("number", range(3))
def test_store(number, lazurite_connection_string):
    create_everything(lazurite_connection_string)

def test_a_store_is_not_open_to_the_key_of_another(lazurite, lazurite_server):
    other = next(name for name in lazurite_server.accounts if name != lazurite.account_name)
    stolen = lazurite.connection_string.replace(lazurite.account_key, lazurite_server.account(other).account_key)
    with pytest.raises(HttpResponseError):
        containers(stolen)
"""


def test_isolation_by_account_gives_an_account_to_each_test(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(_ACCOUNT_TESTS)
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))
    result = pytester.runpytest_subprocess("-o", "lazurite_isolation=account", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=4)


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


def test_each_test_has_a_fork_of_the_seed_and_a_failed_one_is_reported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(_FORK_TESTS)
    result = pytester.runpytest_subprocess("-o", "lazurite_keep_failed=0", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*Requests to Lazurite*",
            "201 PUT /devstoreaccount1--*/seed/photo*PutBlob",
            "*Changes of the store in Lazurite*",
            "+ blob seed/photo",
        ]
    )
    result.stdout.no_fnmatch_line("Store: *")


_FAILING = """
import os
import pytest

@pytest.fixture
def photos(lazurite):
    from azure.storage.blob import BlobServiceClient
    container = BlobServiceClient.from_connection_string(lazurite.connection_string).create_container("photos")
    container.upload_blob("lake.txt", b"blue")
    assert "BREAK_SETUP" not in os.environ
    return container

def test_Upload(photos):
    assert "BREAK_TEST" not in os.environ
"""


def page(url: str) -> str:
    with urllib.request.urlopen(url) as answer:
        text: str = answer.read().decode()
        return text


@pytest.mark.parametrize("broken", ["BREAK_TEST", "BREAK_SETUP"])
def test_the_report_of_a_failed_test_links_to_its_store_until_the_next_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    monkeypatch.delenv("CI", raising=False)
    pytester.makepyfile(_FAILING)
    monkeypatch.setenv(broken, "1")
    output = pytester.runpytest_subprocess().stdout.str()
    store, requests = re.findall(r"(?:Store|Requests): +(http\S+)", output)
    assert "/devstoreaccount1--test-upload-" in store
    assert "photos" in page(store)
    assert "lake.txt" in page(store + "/photos")
    assert "PutBlob" in page(requests)
    monkeypatch.delenv(broken)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
    assert is_gone(store)


def is_gone(url: str) -> bool:
    """Whether a server ends."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            page(url)
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_nothing_is_kept_of_failed_tests_where_ci_is_set(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("BREAK_TEST", "1")
    pytester.makepyfile(_FAILING)
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["201 PUT /devstoreaccount1--*/photos/lake.txt*PutBlob"])
    result.stdout.no_fnmatch_line("Store: *")


def test_a_wrong_time_for_failed_tests_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(_FAILING)
    result = pytester.runpytest_subprocess("-o", "lazurite_keep_failed=long")
    result.stdout.fnmatch_lines(["*lazurite_keep_failed is a number of seconds up to 3600, not 'long'*"])


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
