"""`kizami aggregate`: the batch on the embedded database, against the real mock server and misbehaving ones."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fakes.fault_server as faults
from fakes.fault_server import FaultServer
from kizami.aggregation.local_runner import Aggregator
from kizami.aggregation.stores.sqlite import SqliteLockStore
from kizami.cli.exit_codes import CONFIGURATION, FAILURE, OK, UNREACHABLE, USAGE
from kizami.cli.main import main
from kizami.local.store.database import open_database
from kizami.mock_api.server import MockServer

KEY = "canary-key-4f1d"
ACME = ("run", "--company-id", "acme")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOCK_KEY", "mock-aggregation-key")
    monkeypatch.setenv("WRONG_KEY", KEY)
    for name in ("AGGREGATION_TZ", "AGGREGATION_API_BASE_URL", "KIZAMI_DATABASE", "KIZAMI_MOCK_USERS_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture(scope="module")
def server() -> Iterator[MockServer]:
    with MockServer(port=0) as server:
        yield server


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], server: MockServer) -> Any:
    """Runs `kizami aggregate …`, by default against the mock server; gives exit code, stdout and stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["aggregate", *arguments])
        assert isinstance(ended.value.code, int)
        return ended.value.code, *capsys.readouterr()

    return call


def on(url: str, key: str = "MOCK_KEY", company: str = "acme") -> list[str]:
    return ["run", "--company-id", company, "--api-url", url, "--api-key-env", key]


def test_a_run_grants_points_and_says_how_many(run: Any, server: MockServer) -> None:
    code, output, words = run(*on(server.url))
    assert code == OK
    assert output.splitlines()[1:3] == ["granted          6", "already granted  0"]
    assert words == "kizami: acme: completed (AGGREGATION-012)\n"


def test_a_second_run_on_the_same_day_grants_nothing_more(run: Any, server: MockServer) -> None:
    run(*on(server.url))
    code, output, _ = run(*on(server.url), "--json")
    assert code == OK
    assert json.loads(output) == {
        "companyId": "acme", "ending": "completed", "code": "AGGREGATION-012", "granted": 0, "alreadyGranted": 6,
        "neverDetected": 3, "notToday": 3, "malformed": 0, "failed": 0,
    }  # fmt: skip


def test_points_shows_the_months_points(run: Any, server: MockServer) -> None:
    run(*on(server.url, company="acme-4"))
    code, output, words = run("points", "--company-id", "acme-4")
    assert code == OK
    assert [line.split()[:2] for line in output.splitlines()] == [
        ["user_number", "points"], ["u000000", "1"], ["u000001", "1"],
    ]  # fmt: skip
    assert words.endswith(": 2 points of 2 users\n")


def test_points_in_json(run: Any, server: MockServer) -> None:
    run(*on(server.url, company="acme-1"))
    document = json.loads(run("points", "--company-id", "acme-1", "--json")[1])
    (found,) = document["users"]
    assert (document["companyId"], document["total"], found["userNumber"], found["points"]) == (
        "acme-1",
        1,
        "u000000",
        1,
    )
    assert (
        abs(time.time() - time.mktime(time.strptime(found["updateTimestamp"], "%Y-%m-%dT%H:%M:%SZ"))) < 86_400 * 2
    )


def test_points_of_another_month_or_company_are_none(run: Any, server: MockServer) -> None:
    run(*on(server.url))
    assert json.loads(run("points", "--company-id", "acme", "--month", "2001-01", "--json")[1])["users"] == []
    assert json.loads(run("points", "--company-id", "other", "--json")[1])["total"] == 0


def test_the_key_is_read_from_a_file(run: Any, server: MockServer, directory: Path) -> None:
    (directory / "key").write_text("mock-aggregation-key\n")
    code, _, _ = run("run", "--company-id", "acme", "--api-url", server.url, "--api-key-file", "key")
    assert code == OK


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["run"], USAGE, "Missing option '--company-id' (see kizami aggregate run --help)"),
        (["points"], USAGE, "Missing option '--company-id' (see kizami aggregate points --help)"),
        (["run", "--company-id", "a b"], USAGE, "--company-id: is not 1 to 128 printable characters"),
        (
            [*ACME, "--api-key-env", "NOPE"],
            CONFIGURATION,
            "--api-key-env: the environment variable NOPE is not set",
        ),
        ([*ACME, "--api-key-file", "nope"], CONFIGURATION, "--api-key-file: file:nope cannot be read"),
        (
            [*ACME, "--api-key-env", "EMPTY"],
            CONFIGURATION,
            "--api-key-env: the environment variable EMPTY is",
        ),
        (
            [*ACME, "--api-key-env", "WRONG_KEY", "--api-key-file", "nope"],
            USAGE,
            "--api-key-env and --api-key-file exclude each other",
        ),
        (
            [*ACME, "--api-url", "https://users.example.com"],
            USAGE,
            "--api-key-env NAME or --api-key-file PATH is needed for any API but the mock",
        ),
        (
            [*ACME, "--api-url", "users.example.com", "--api-key-env", "WRONG_KEY"],
            CONFIGURATION,
            "--api-url: must be",
        ),
        (
            ["run", "--company-id", "a", "--time-zone", "Asia/Tokio"],
            CONFIGURATION,
            "--time-zone: 'Asia/Tokio' is not",
        ),
        (
            ["points", "--company-id", "a", "--month", "2025-13"],
            USAGE,
            "--month: '2025-13' is not a month",
        ),
        (["points", "--company-id", "a"], FAILURE, "kizami.db: there is no database yet"),
    ],
)
def test_a_mistake_is_one_line_and_its_exit_code(
    run: Any, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, line: str
) -> None:
    monkeypatch.setenv("EMPTY", " ")
    ended, output, words = run(*arguments)
    assert (ended, output) == (code, "")
    assert words.startswith(f"kizami: {line}")
    assert words.count("\n") == 1
    assert "canary" not in words


def test_the_key_is_no_option(run: Any) -> None:
    """Whatever stands on a command line, everybody on the machine can read."""
    assert run("run", "--company-id", "a", "--api-key", KEY)[0] == USAGE


def test_a_wrong_key_is_a_failure_in_one_line_without_a_traceback(run: Any, server: MockServer) -> None:
    code, output, words = run(*on(server.url, "WRONG_KEY"))
    assert (code, output) == (FAILURE, "")
    first, second = words.splitlines()
    assert first.startswith("kizami: AGGREGATION-007 failed to access API API. request:")
    assert first.endswith("error: ApiStatusError: status 401, expected 200")
    assert second == "kizami: acme: failed; run it again (AGGREGATION-007)"
    assert "canary" not in words


FAULTS = {
    "a redirect": (faults.raw(b"", 302, Location="http://127.0.0.1:9/"), FAILURE, "status 302"),
    "an error": (faults.raw(b"{}", 500), FAILURE, "status 500"),
    "a page": (faults.html, FAILURE, "not JSON"),
    "a closed connection": (faults.close_without_a_word, UNREACHABLE, "ApiUnreachable"),
    "a huge body": (faults.huge_body, FAILURE, "larger than 16777216 bytes"),
    "an endless body": (faults.endless_chunks, FAILURE, "larger than 16777216 bytes"),
    "no HTTP": (faults.not_http, UNREACHABLE, "ApiUnreachable"),
    "no users": (faults.raw(b"{}"), FAILURE, 'a list "users"'),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_api_that_misbehaves_is_one_line_and_the_lock_is_released(
    run: Any, directory: Path, fault: str
) -> None:
    behaviour, code, problem = FAULTS[fault]
    with FaultServer(behaviour) as server:
        ended, _, words = run(*on(server.url, "WRONG_KEY"))
        signature = server.requests[0].query["signature"][0]
    assert ended == code
    assert problem in words
    assert "canary" not in words
    assert signature not in words
    assert lock_of(directory) is None


@pytest.mark.parametrize("fault", [faults.hang_before_headers, faults.hang_in_body, faults.drip_body])
def test_an_api_that_takes_too_long_is_unreachable(
    run: Any, monkeypatch: pytest.MonkeyPatch, fault: faults.Behaviour
) -> None:
    monkeypatch.setattr("kizami.aggregation.batch.API_TIMEOUT_SECONDS", 0.5)
    with FaultServer(fault) as server:
        code, _, words = run(*on(server.url))
    assert code == UNREACHABLE
    assert "no complete answer within 0.5 s" in words


def test_nobody_there_is_unreachable(run: Any) -> None:
    assert run(*on(faults.refused_url()))[0] == UNREACHABLE


def lock_of(directory: Path, company: str = "acme") -> Any:
    connection = open_database(directory / "kizami.db")
    try:
        return SqliteLockStore(connection, directory / "kizami.db").read(company)
    finally:
        connection.close()


def test_a_run_at_work_is_left_alone_and_a_killed_one_is_taken_over_at_once(
    run: Any, server: MockServer, directory: Path
) -> None:
    command = [sys.executable, "-m", "kizami.cli.main", "aggregate"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with FaultServer(faults.hang_before_headers) as hanging:
        process = subprocess.Popen(command + on(hanging.url), env=environment, stderr=subprocess.PIPE)
        wait_until(lambda: hanging.requests)
        code, output, words = run(*on(server.url))
        assert (code, output) == (OK, "")
        assert words == "kizami: acme: another run is at work on it, nothing was done (AGGREGATION-005)\n"
        assert run(*on(server.url, company="other"))[0] == OK
        process.kill()
        process.communicate(timeout=60)
    assert lock_of(directory) is not None
    assert run(*on(server.url))[2] == "kizami: acme: completed (AGGREGATION-012)\n"
    assert lock_of(directory) is None


def test_ctrl_c_releases_the_lock_and_is_exit_code_130(directory: Path) -> None:
    command = [sys.executable, "-m", "kizami.cli.main", "aggregate"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with FaultServer(faults.hang_before_headers) as hanging:
        process = subprocess.Popen(command + on(hanging.url), env=environment, stderr=subprocess.PIPE)
        wait_until(lambda: hanging.requests)
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in words
    assert lock_of(directory) is None


def test_a_ctrl_c_that_comes_while_libcurl_calls_back_is_heard_too(directory: Path) -> None:
    """An exception that is raised in such a callback comes out as a failure of libcurl, so none may be."""
    script = (
        "import os, signal, sys\n"
        "from kizami.cli.main import main\n"
        "from kizami.local.http.connection_pools import Pool\n"
        "def interrupt(self, *arguments, set_timer=Pool._set_timer):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    set_timer(self, *arguments)\n"
        "Pool._set_timer = interrupt\n"
        "main(sys.argv[1:])\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with FaultServer(faults.answer()) as server:
        (directory / "kizami.toml").write_text(f'[[targets]]\nname = "calls"\nurl = "{server.url}"\n')
        for verb in (["doctor"], ["aggregate", *on(server.url)]):
            command = [sys.executable, "-c", script, *verb]
            ended = subprocess.run(command, env=environment, capture_output=True, timeout=60)
            assert (ended.returncode, ended.stdout, ended.stderr.strip()) == (130, b"", b"")
    assert lock_of(directory) is None


def wait_until(condition: Any, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_verbose_logs_every_step_as_json_where_nobody_looks_on(run: Any, server: MockServer) -> None:
    _, _, words = run(*on(server.url, company="acme-4"), "--verbose")
    lines = [json.loads(line) for line in words.splitlines()[:-1]]
    assert [line["code"][-3:] for line in lines if "code" in line] == ["001", "003", "008", "010", "009", "012"]


def test_a_person_sees_how_far_a_large_company_is(server: MockServer, directory: Path) -> None:
    leader, follower = pty.openpty()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm", "COLUMNS": "80"}
    command = [sys.executable, "-m", "kizami.cli.main", "aggregate", *on(server.url, company="acme-20000")]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=follower)
    os.close(follower)
    shown = b""
    while True:
        try:
            shown += os.read(leader, 65536)
        except OSError:  # the other end is closed: the process is over
            break
    os.close(leader)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == OK
    assert b"users" in shown
    assert b"%" in shown
    assert b"granted          10000" in output


def test_the_default_api_is_the_mock_with_its_known_key(monkeypatch: pytest.MonkeyPatch, run: Any) -> None:
    asked: list[Any] = []

    def note(self: Aggregator, message: Any, now: Any) -> None:
        asked.extend([self, message])
        raise SystemExit(OK)

    monkeypatch.setattr(Aggregator, "run", note)
    run("run", "--company-id", "acme")
    aggregator, message = asked
    assert aggregator.base_url == "http://127.0.0.1:3000"
    assert message.key.value == "mock-aggregation-key"
