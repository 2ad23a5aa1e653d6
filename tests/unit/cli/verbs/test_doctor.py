"""doctor: each check can find a fault, and has a remedy for it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from threading import Lock
from types import SimpleNamespace

import pytest

from fakes.authority import Authority
from fakes.fault_server import (
    Exchange,
    FaultServer,
    another_window,
    answer,
    hang_before_headers,
    head,
    html,
    huge_body,
    raw,
    redirect,
    status,
)
from fakes.tokens import TokenedApi
from kizami.cli.checks import machine
from kizami.cli.checks.machine import Check, Health, check_clock, check_database, check_sqlite
from kizami.cli.checks.targets import check_targets
from kizami.cli.exit_codes import CHECK_FAILED, CONFIGURATION, OK
from kizami.core.access.auth import OAuth2Auth
from kizami.core.access.tls import Tls
from kizami.core.answers.answer import Answer
from kizami.core.answers.values import Expression
from kizami.core.requests.query import Query
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target
from kizami.mock_api import service
from kizami.mock_api.server import MockServer
from programs.command import Command
from programs.local_processes import hold_port
from samples.database import make_database

NOW = datetime(2025, 12, 2, 10, 23, 7, tzinfo=UTC)


@pytest.fixture
def kizami(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    for name in ("KIZAMI_CONFIG", "KIZAMI_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    return Command(capsys)


@pytest.fixture
def mock_url() -> Iterator[str]:
    with MockServer(port=0) as server:
        yield server.url


def configure(url: str, settings: str = "") -> None:
    Path("kizami.toml").write_text(f'[[targets]]\nname = "calls"\nurl = "{url}"\n{settings}')


def asked_once(target: Target) -> Check:
    (check,) = check_targets([target], NOW)
    return check


class TestVerb:
    def test_all_is_well(self, kizami: Command, mock_url: str) -> None:
        configure(mock_url)
        found = kizami("doctor")
        assert found.code == OK
        lines = found.out.splitlines()
        assert [line.split()[:2] for line in lines[1:]] == [
            ["ok", "sqlite"],
            ["ok", "database"],
            ["ok", "clock"],
            ["ok", "target"],
        ]
        assert found.err == "kizami: 4 checks, none failed\n"

    def test_a_failed_check_has_a_remedy_and_an_exit_code(self, kizami: Command) -> None:
        configure("http://127.0.0.1:9")
        found = kizami("doctor", "--json")
        assert found.code == CHECK_FAILED
        *_, target = found.json["checks"]
        assert (target["check"], target["health"]) == ("target calls", "failed")
        assert target["remedy"].startswith("is its server up, and are host and port of url right?")

    def test_of_many_targets_only_those_that_are_not_well_are_shown(self, kizami: Command, mock_url: str) -> None:
        tables = [f'[[targets]]\nname = "m{n}"\nurl = "{mock_url}"\n' for n in range(30)]
        Path("kizami.toml").write_text(
            "".join([*tables, '[[targets]]\nname = "bad"\nurl = "http://127.0.0.1:9"\n'])
        )
        lines = kizami("doctor").out.splitlines()
        assert sum("target m" in line for line in lines) == 0
        assert any("30 others answer validly" in line for line in lines)
        assert any("target bad" in line for line in lines)

    def test_a_broken_configuration_comes_first(self, kizami: Command) -> None:
        Path("kizami.toml").write_text("[")
        assert kizami("doctor").code == CONFIGURATION


class TestPort:
    """The mock API's port is borrowed from the system, so that a busy port 3000 cannot disturb the tests."""

    @pytest.fixture
    def port(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
        with hold_port() as port:
            monkeypatch.setattr(service, "DEFAULT_PORT", port)
            monkeypatch.setattr(service, "MOCK_API_URL", f"http://127.0.0.1:{port}")
            monkeypatch.setattr("kizami.core.targets.target.MOCK_API_URL", f"http://127.0.0.1:{port}")
            yield port

    def test_the_seed_target_is_checked_against_a_mock_served_for_that(self, kizami: Command, port: int) -> None:
        configure(f"http://127.0.0.1:{port}", 'lag = "0s"\n')
        document = kizami("doctor", "--json").json
        found = {check["check"].split()[0]: check for check in document["checks"]}
        assert found["port"]["finding"] == "free; `kizami up` serves the mock API there"
        assert found["target"]["health"] == "ok"

    def test_a_mock_that_runs_already_is_used(self, kizami: Command, port: int) -> None:
        configure(f"http://127.0.0.1:{port}", 'lag = "0s"\n')
        with MockServer(port=port):
            document = kizami("doctor", "--json").json
        assert document["checks"][2]["finding"] == "the mock API is there already"

    def test_another_program_on_the_port_is_found(self, kizami: Command, port: int) -> None:
        configure(f"http://127.0.0.1:{port}", 'lag = "0s"\n')
        with FaultServer(html, port=port):
            found = kizami("doctor", "--json")
        check = found.json["checks"][2]
        assert (found.code, check["health"]) == (CHECK_FAILED, "failed")
        assert check["finding"] == "another program has the mock API's port"
        assert check["remedy"] == "stop it, or poll something else with --config"


class TestTargets:
    @pytest.mark.parametrize(
        ("behaviour", "finding", "remedy"),
        [
            (status(401), "status 401, expected 200", "the key is refused: check the target's headers"),
            (
                status(403, X_RateLimit_Remaining="0", X_RateLimit_Reset="3000"),
                "status 403, expected 200: a rate limit; it ends at 20",
                "it is asked again by itself",
            ),
            (status(403, RateLimit_Remaining="9"), "status 403, expected 200", "the key is refused: check"),
            (status(404), "status 404, expected 200", "check the target's url and path"),
            (status(500), "status 500, expected 200", "check the target's url and path"),
            (redirect("http://127.0.0.1:9/"), "status 302, expected 200", "redirects are not followed"),
            (html, "the body is not JSON but HTML", "is url right? A page is often a login"),
            (another_window, "which was not asked for", "is the window asked for as the API wants it?"),
            (answer(-1), "count: -1 is not an integer", "compare the answer with the target's count"),
            (huge_body, "the body is larger than 1048576 bytes", "max_body of the target allows more"),
            (hang_before_headers, "no complete answer within 0.3 s", "is http://127.0.0.1"),
        ],
    )
    def test_a_target_that_does_not_answer_validly(self, behaviour: object, finding: str, remedy: str) -> None:
        with FaultServer(behaviour) as server:  # type: ignore[arg-type]
            seconds = 0.3 if behaviour is hang_before_headers else 60.0
            check = asked_once(Target(name="calls", url=server.url, lag_seconds=5, timeout_seconds=seconds))
        assert check.health is Health.FAILED
        assert finding in check.finding
        assert check.remedy.startswith(remedy)

    def test_a_certificate_in_the_way_names_the_setting_that_helps(self, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        with FaultServer(answer(), tls=authority.serve(authority.sign("server"))) as server:
            check = asked_once(Target(name="calls", url=server.url, lag_seconds=5))
        assert check.finding == "the certificate of the server is not trusted (its authority is unknown here)"
        assert check.remedy == 'set tls = { ca = "…" } to the file of its authority'

    def test_a_certificate_of_ours_that_has_expired_fails(self, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        old = authority.sign("old", lasts=timedelta(days=-1))
        tls = Tls(str(authority.file), str(old.cert), str(old.key))
        with FaultServer(answer(), then=answer(0), tls=authority.serve(authority.sign("server"))) as server:
            first, second = check_targets([Target(name="calls", url=server.url, lag_seconds=5, tls=tls)], NOW)
        assert (first.name, first.health, first.remedy) == ("tls.cert of calls", Health.FAILED, "renew it")
        assert second.health is Health.OK

    def test_a_client_without_a_token_is_told_what_to_check(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CLIENT_SECRET", "hunter2-is-wrong")
        with TokenedApi().server() as server:
            auth = OAuth2Auth(f"{server.url}/token", "me", SecretReference("env", "CLIENT_SECRET"))
            check = asked_once(Target(name="calls", url=server.url, lag_seconds=5, auth=auth))
        assert check.finding.startswith(f"no token from {server.url}/token: status 401 (invalid_client")
        assert check.remedy == "check token_url, client_id, scope and the secret of the target's auth"

    def test_the_newest_window_that_has_ended_is_asked_for_with_the_headers(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("API_TOKEN", "hunter2")
        headers = {"Authorization": SecretReference("env", "API_TOKEN")}
        with FaultServer(answer(4), then=answer(0)) as server:
            check = asked_once(Target(name="calls", url=server.url, lag_seconds=5, headers=headers))
        assert (check.health, check.finding.split(" in ")[0]) == (Health.OK, "count 4")
        request, another = server.requests
        assert another.headers["authorization"] == "hunter2"
        assert request.query == {"from": ["2025-12-02T10:23:00Z"], "to": ["2025-12-02T10:23:05Z"]}
        assert request.headers["authorization"] == "hunter2"

    def test_a_target_of_any_shape_is_asked_as_the_daemon_would(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("API_KEY", "hunter2")
        target = {
            "query": {"at": ("{from:unix}",), "key": (SecretReference("env", "API_KEY"),)},
            "body": '{"to": "{to-1s:iso_ms}"}',
            "method": "POST",
        }
        with FaultServer(raw(b'{"count": 4}'), then=raw(b'{"count": 0}')) as server:
            url = f"{server.url}/v1/{{from:%Y}}"
            check = asked_once(Target("calls", url, "", lag_seconds=5, answer=Answer(), **target))  # type: ignore[arg-type]
        assert (check.health, check.finding.split(" in ")[0]) == (Health.OK, "count 4")
        request, _ = server.requests
        assert (request.method, request.target) == ("POST", "/v1/2025?at=1764670980&key=hunter2")
        assert (request.headers["content-type"], request.body) == (
            "application/json",
            b'{"to": "2025-12-02T10:23:04.000Z"}',
        )

    def test_a_secret_of_the_query_that_is_not_there_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("API_KEY", raising=False)
        query: Query = {"at": ("{from}",), "key": (SecretReference("env", "API_KEY"),)}
        check = asked_once(Target(name="calls", url="http://127.0.0.1:9", path="", lag_seconds=5, query=query))
        assert (check.health, check.finding) == (Health.FAILED, "the environment variable API_KEY is not set")
        assert check.remedy == "set it, or change the target's query"

    def test_a_secret_that_is_not_there_is_named_and_nothing_is_asked(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("API_TOKEN", raising=False)
        headers = {"Authorization": SecretReference("env", "API_TOKEN")}
        with FaultServer(answer()) as server:
            check = asked_once(Target(name="calls", url=server.url, lag_seconds=5, headers=headers))
        assert check.health is Health.FAILED
        assert "API_TOKEN" in check.finding
        assert server.requests == []

    def test_a_real_api_that_is_asked_too_early_is_a_warning(self) -> None:
        with FaultServer(answer(), then=answer(0)) as server:
            check = asked_once(Target(name="calls", url=server.url, lag_seconds=0))
        assert check.health is Health.WARNING
        assert check.finding.startswith("lag 0s is shorter than the interval")
        assert check.remedy == 'set lag = "5s" or more'


class TestOtherWindows:
    def test_an_api_that_ignores_the_window_is_a_warning(self, kizami: Command) -> None:
        with FaultServer(answer(789)) as server:
            configure(server.url)
            found = kizami("doctor", "--json")
        *_, check = found.json["checks"]
        assert (found.code, check["check"], check["health"]) == (OK, "target calls", "warning")
        assert check["finding"] == (
            "count 789 in this window, a year ahead and over a day earlier: the API seems to ignore the window"
        )
        assert check["remedy"].startswith("check the filter's parameter names: compare those with {from} and {to}")

    def test_several_values_are_all_named(self) -> None:
        expressions = (("a", Expression(("a",))), ("b", Expression(("b",))))
        with FaultServer(raw(b'{"a": 7, "b": 0}')) as server:
            check = asked_once(Target("calls", server.url, lag_seconds=5, answer=Answer(values=expressions)))
        assert check.finding.startswith("a 7, b 0 in this window, ")

    def test_one_that_is_asked_too_early_as_well_has_both_warnings(self) -> None:
        with FaultServer(answer()) as server:
            checks = list(check_targets([Target(name="calls", url=server.url, lag_seconds=0)], NOW))
        assert [(check.health, check.finding.partition(" ")[0]) for check in checks] == [
            (Health.WARNING, "lag"),
            (Health.WARNING, "count"),
        ]

    def test_a_host_is_asked_for_other_windows_one_after_the_other(self) -> None:
        now_there = Lock()
        overlaps: list[str] = []

        def count(exchange: Exchange) -> None:
            if exchange.request.query["from"][0] < "2026":
                answer(7)(exchange)
                return
            if not now_there.acquire(blocking=False):
                overlaps.append(exchange.request.target)
                return
            exchange.stopping.wait(0.01)
            now_there.release()
            answer(0)(exchange)

        with FaultServer(count) as server:
            targets = [Target(name=f"calls{number}", url=server.url, lag_seconds=5) for number in range(20)]
            checks = list(check_targets(targets, NOW))
        assert [check.health for check in checks] == [Health.OK] * 20
        assert (overlaps, len(server.requests)) == ([], 40)

    @pytest.mark.parametrize("code", [429, 403])
    def test_a_host_that_limits_its_requests_is_asked_for_no_more_windows(self, code: int) -> None:
        limit = status(code, **{"X-RateLimit-Remaining": "0"}) if code == 403 else status(code)

        def count(exchange: Exchange) -> None:
            (answer(7) if exchange.request.query["from"][0] < "2026" else limit)(exchange)

        with FaultServer(count) as server:
            targets = [Target(name=f"calls{number}", url=server.url, lag_seconds=5) for number in range(20)]
            *checks, rest = check_targets(targets, NOW)
        assert [check.health for check in checks] == [Health.OK] * 20
        assert len(server.requests) == 21
        assert rest.finding == f"20 targets not asked for other windows: the host answered {code}"
        assert (rest.health, rest.remedy) == (Health.OK, "`kizami try NAME` asks for those of one")

    def test_of_many_targets_of_a_host_a_hundred_are_looked_at(self) -> None:
        with FaultServer(answer(7), then=answer(7)) as server:
            targets = [Target(name=f"calls{number}", url=server.url, lag_seconds=5) for number in range(103)]
            *checks, rest = check_targets(targets, NOW)
        assert Counter(check.health for check in checks) == {Health.WARNING: 100, Health.OK: 3}
        assert len(server.requests) == 303
        assert rest.finding.startswith("3 targets not asked for other windows: ")


class TestMachine:
    def test_an_old_sqlite_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert check_sqlite().health is Health.OK
        monkeypatch.setattr("apsw.sqlite_lib_version", lambda: "3.40.1")
        check = check_sqlite()
        assert (check.health, check.remedy) == (Health.FAILED, "pip install --upgrade apsw")

    def test_a_database_that_is_there_or_can_be_made(self, tmp_path: Path) -> None:
        assert check_database(tmp_path / "none.db").finding.endswith("does not exist yet; `kizami up` makes it")
        assert not (tmp_path / "none.db").exists()
        assert check_database(make_database(tmp_path / "kizami.db", {"calls": range(9)})).health is Health.OK

    def test_a_file_that_is_damaged_or_not_ours(self, tmp_path: Path) -> None:
        path = tmp_path / "notes.db"
        path.write_bytes(b"hello" * 100)
        check = check_database(path)
        assert (check.health, check.finding) == (Health.FAILED, f"{path}: is not an SQLite database")
        assert path.read_bytes() == b"hello" * 100
        damaged = make_database(tmp_path / "kizami.db", {"calls": range(5000)})
        with damaged.open("r+b") as file:
            file.seek(8192)
            file.write(os.urandom(4096 * 20))
        check = check_database(damaged)
        assert (check.health, "is damaged" in check.finding) == (Health.FAILED, True)
        assert "`kizami restore` a backup" in check.remedy

    def test_a_directory_that_is_not_there(self, tmp_path: Path) -> None:
        check = check_database(tmp_path / "none" / "kizami.db")
        assert (check.health, check.remedy) == (Health.FAILED, "use another --database")

    def test_a_full_disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.local.store.database.LITTLE_ROOM_BYTES", 2**62)
        check = check_database(tmp_path / "kizami.db")
        assert (check.health, check.finding.startswith("only ")) == (Health.FAILED, True)

    @pytest.mark.parametrize(
        ("ahead_seconds", "health", "finding"),
        [(0, Health.OK, "agrees with"), (-90, Health.FAILED, "90 s ahead of"), (90, Health.FAILED, "90 s behind")],
    )
    def test_the_clock_is_compared_with_the_servers(
        self, monkeypatch: pytest.MonkeyPatch, ahead_seconds: int, health: Health, finding: str
    ) -> None:
        def tell_the_time(exchange: object) -> None:
            date = NOW + timedelta(seconds=ahead_seconds)
            exchange.write(head(0, Date=format_datetime(date, usegmt=True)))  # type: ignore[attr-defined]

        # In the middle of the second that the header names.
        monkeypatch.setattr(machine, "time", SimpleNamespace(time=lambda: NOW.timestamp() + 0.5))
        with FaultServer(tell_the_time) as server:
            check = check_clock([Target(url="http://127.0.0.1:9"), Target(url=server.url)])
        assert check.health is health
        assert check.finding.startswith(finding)

    def test_without_a_server_that_tells_the_time_the_clock_is_taken_as_it_is(self) -> None:
        with FaultServer(answer()) as server:
            check = check_clock([Target(url=server.url)])
        assert check.health is Health.OK
        assert check.finding.endswith("no server to compare it with")
