"""Requests with secrets that change: files that are rotated, tokens that expire, endpoints that hang."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import fakes.fault_server as faults
from fakes.fault_server import FaultServer
from fakes.tokens import TokenedApi
from kizami.core.access import tokens
from kizami.core.access.auth import BasicAuth, BearerAuth, OAuth2Auth
from kizami.core.collector import Response
from kizami.core.errors import ApiError, ApiUnreachable, ConfigurationError, TokenRefused
from kizami.core.redaction import KNOWN
from kizami.core.requests.query import Query
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target
from kizami.local.http import secrets
from kizami.local.http.fetcher import Fetcher, Finished
from kizami.local.http.requester import Requester
from kizami.local.http.target_access import TargetAccess
from programs.daemon import wait_for

PATH = "/response_count?from=2025-12-02T10:23:00Z&to=2025-12-02T10:23:05Z"


@pytest.fixture
def requester() -> Iterator[Requester]:
    with Requester(Fetcher()) as requester:
        yield requester


@pytest.fixture(autouse=True)
def _logs_reach_caplog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("kizami"), "propagate", True)
    monkeypatch.setenv("CLIENT_SECRET", "s3cret")


def access_to(requester: Requester, target: Target) -> TargetAccess:
    (access,) = requester.read_accesses([target])
    requester.use_accesses([access])
    return access


def look_at_files(requester: Requester) -> set[Target]:
    """As the daemon does: one thread reads, the loop's thread uses what was read."""
    requester.look_at_files()
    return requester.take_changed()


def gather(requester: Requester, finished: list[Finished]) -> list[Finished]:
    """What has finished so far, with what finishes now."""
    finished.extend(requester.wait(0.05))
    return finished


def finish(requester: Requester, count: int) -> list[Finished]:
    finished: list[Finished] = []
    wait_for(lambda: len(gather(requester, finished)) >= count, f"{count} outcomes")
    assert requester.in_flight == 0
    return finished


def ask(requester: Requester, access: TargetAccess, times: int = 1) -> list[Response | ApiError]:
    for number in range(times):
        requester.start(access.target.url + PATH, access, number)
    finished = finish(requester, times)
    assert sorted(each.tag for each in finished) == list(range(times))
    return [each.outcome for each in finished]


def status_of(requester: Requester, access: TargetAccess) -> int:
    (outcome,) = ask(requester, access)
    assert isinstance(outcome, Response), outcome
    return outcome.status


def client_of(server: FaultServer, scope: str = "", timeout: float = 60.0, name: str = "calls") -> Target:
    auth = OAuth2Auth(f"{server.url}/token", "me", SecretReference("env", "CLIENT_SECRET"), scope)
    return Target(name=name, url=server.url, auth=auth, timeout_seconds=timeout)


class TestSteadySecrets:
    def test_a_bearer_token_and_a_password_are_sent(
        self, requester: Requester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TOKEN", "t0ken-of-mine")
        reference = SecretReference("env", "TOKEN")
        with FaultServer(faults.answer()) as server:
            for auth in (BearerAuth(reference), BasicAuth("me", reference)):
                access = access_to(requester, Target(url=server.url, auth=auth))
                assert access.is_steady
                assert status_of(requester, access) == 200
        sent = [request.headers["authorization"] for request in server.requests]
        assert sent == ["Bearer t0ken-of-mine", "Basic bWU6dDBrZW4tb2YtbWluZQ=="]
        assert KNOWN.hide(f"it said {sent[1]}") == "it said Basic ***"

    def test_who_is_refused_is_not_sent_again_where_nothing_can_change(
        self, requester: Requester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TOKEN", "t0ken-of-mine")
        with FaultServer(faults.status(401)) as server:
            target = Target(url=server.url, auth=BearerAuth(SecretReference("env", "TOKEN")))
            assert status_of(requester, access_to(requester, target)) == 401
            assert len(server.requests) == 1

    def test_a_secret_that_is_not_there_is_a_mistake_at_its_place(self, requester: Requester) -> None:
        target = Target(auth=BearerAuth(SecretReference("env", "NOT_SET_ANYWHERE")))
        with pytest.raises(ConfigurationError, match=r"^ai_response_count: auth\.bearer: the environment"):
            requester.read_accesses([target])


class TestFiles:
    @pytest.fixture
    def token(self, tmp_path: Path) -> Path:
        path = tmp_path / "token"
        path.write_text("first-t0ken\n")
        return path

    def server(self, token: str) -> FaultServer:
        """Takes this one only."""

        def serve(exchange: faults.Exchange) -> None:
            sent = exchange.request.headers["authorization"]
            (faults.answer() if sent == f"Bearer {token}" else faults.status(401))(exchange)

        return FaultServer(serve)

    def target(self, server: FaultServer, token: Path) -> Target:
        return Target(url=server.url, auth=BearerAuth(SecretReference("file", str(token))))

    def test_a_file_that_changed_is_read_again_when_it_is_looked_at(
        self, requester: Requester, token: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with self.server("second-t0ken") as server, caplog.at_level(logging.INFO):
            access = access_to(requester, self.target(server, token))
            look_at_files(requester)
            assert caplog.records == []
            token.write_text("second-t0ken")
            look_at_files(requester)
            assert status_of(requester, access) == 200
            assert len(server.requests) == 1
        (line,) = caplog.records
        assert (vars(line)["event"], vars(line)["secret"]) == ("secret.changed", f"file:{token}")
        assert "t0ken" not in caplog.text.replace(str(token), "")

    def test_who_is_refused_has_the_file_read_again_and_asks_once_more(
        self, requester: Requester, token: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(secrets, "_REREAD_SECONDS", 0)
        with self.server("second-t0ken") as server:
            access = access_to(requester, self.target(server, token))
            assert status_of(requester, access) == 401
            assert len(server.requests) == 1  # the file said the same: once more would be in vain
            token.write_text("second-t0ken")
            assert status_of(requester, access) == 200
            assert len(server.requests) == 3

    @pytest.mark.parametrize("text", [None, "", "two\nlines"])
    def test_a_file_that_cannot_be_used_leaves_the_last_secret_and_is_told_once(
        self, requester: Requester, token: Path, text: str | None, caplog: pytest.LogCaptureFixture
    ) -> None:
        with self.server("first-t0ken") as server:
            access = access_to(requester, self.target(server, token))
            token.unlink() if text is None else token.write_text(text)
            for _ in range(3):
                look_at_files(requester)
                assert status_of(requester, access) == 200
            assert [vars(line)["event"] for line in caplog.records] == ["secret.unreadable"]
            token.write_text("third-t0ken")
            look_at_files(requester)
            assert status_of(requester, access) == 401

    def test_a_file_that_is_gone_when_the_targets_are_read_again_leaves_the_last_secret(
        self, requester: Requester, token: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with self.server("first-t0ken") as server:
            target = self.target(server, token)
            access_to(requester, target)
            token.unlink()
            assert status_of(requester, access_to(requester, target)) == 200
            assert [vars(line)["event"] for line in caplog.records] == ["secret.unreadable"]
        other = replace(target, auth=BearerAuth(SecretReference("file", f"{token}-of-another")))
        with pytest.raises(ConfigurationError, match="No such file"):
            requester.read_accesses([other])

    def test_a_file_that_changes_while_the_targets_are_read_again_is_used(
        self, requester: Requester, token: Path
    ) -> None:
        with self.server("second-t0ken") as server:
            target = self.target(server, token)
            access_to(requester, target)
            later = [requester.read_accesses([target]) for _ in range(2)]
            token.write_text("second-t0ken")
            look_at_files(requester)
            for accesses in later:
                requester.use_accesses(accesses)
                assert status_of(requester, accesses[0]) == 200
            assert len(server.requests) == 2

    def test_a_file_that_is_read_again_for_a_configuration_that_is_refused_is_used(
        self, requester: Requester, token: Path
    ) -> None:
        with self.server("second-t0ken") as server:
            target = self.target(server, token)
            access = access_to(requester, target)
            token.write_text("second-t0ken")
            with pytest.raises(ConfigurationError):
                requester.read_accesses([target, replace(target, auth=BearerAuth(SecretReference("env", "NO")))])
            assert look_at_files(requester) == {target}
            assert status_of(requester, access) == 200
            assert len(server.requests) == 1

    def test_what_was_replaced_twice_is_forgotten_and_what_is_in_use_stays_hidden(
        self, requester: Requester, token: Path
    ) -> None:
        with self.server("x") as server:
            access_to(requester, self.target(server, token))
            for text in ("second-t0ken", "third-t0ken-"):
                token.write_text(text)
                look_at_files(requester)
        assert KNOWN.hide("first-t0ken second-t0ken third-t0ken-") == "first-t0ken *** ***"

    def test_many_files_are_looked_at_a_few_at_a_time(
        self, requester: Requester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("kizami.local.http.requester.LOOKS_A_TURN", 2)
        paths = [tmp_path / f"token-{number}" for number in range(5)]
        for path in paths:
            path.write_text("first-t0ken")
        targets = [Target(name=path.name, auth=BearerAuth(SecretReference("file", str(path)))) for path in paths]
        accesses = requester.read_accesses(targets)
        requester.use_accesses(accesses)
        for path in paths:
            path.write_text("second-t0ken")
        for turn in range(1, 4):
            look_at_files(requester)
            changed = [access for access in accesses if access.secrets.headers[0].endswith("second-t0ken")]
            assert len(changed) == min(2 * turn, 5)

    def test_a_parameter_and_a_body_are_sent_again_too(
        self, requester: Requester, token: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(secrets, "_REREAD_SECONDS", 0)

        def serve(exchange: faults.Exchange) -> None:
            is_new = exchange.request.query["key"] == ["second t0ken"]
            (faults.raw(exchange.request.body) if is_new else faults.status(401))(exchange)

        with FaultServer(serve) as server:
            query: Query = {"key": (SecretReference("file", str(token)),)}
            target = Target(url=server.url, path="/", query=query, body='{"a": "{from}"}', method="PUT")
            access = access_to(requester, target)
            token.write_text("second t0ken")
            requester.start(f"{server.url}/", access, None, b'{"a": "then"}')
            (finished,) = finish(requester, 1)
        assert finished.outcome == Response(200, b'{"a": "then"}')
        assert [request.method for request in server.requests] == ["PUT", "PUT"]
        assert server.requests[1].headers["content-type"] == "application/json"


class TestOAuth2:
    def test_many_targets_of_one_client_fetch_one_token(self, requester: Requester) -> None:
        api = TokenedApi()
        with api.server() as server:
            targets = [client_of(server, name=f"t{number}") for number in range(50)]
            accesses = requester.read_accesses(targets)
            for number, access in enumerate(accesses):
                requester.start(server.url + PATH, access, number)
            assert requester.in_flight == 51
            finished = finish(requester, 50)
        assert {each.tag for each in finished} == set(range(50))
        assert {each.outcome.status for each in finished if isinstance(each.outcome, Response)} == {200}
        assert api.given == ["token-0-of-all"]
        assert KNOWN.hide("token-0-of-all") == "***"

    def test_a_client_that_has_to_name_itself_in_the_body_does(self, requester: Requester) -> None:
        api = TokenedApi(in_body=True)
        with api.server() as server:
            assert status_of(requester, access_to(requester, client_of(server, "read"))) == 200
        assert api.given == ["token-0-of-read"]
        assert [request.target for request in server.requests if request.method == "POST"] == ["/token", "/token"]

    def test_a_token_is_renewed_when_its_time_is_over(self, requester: Requester) -> None:
        api = TokenedApi(expires_in=0.2)
        with api.server() as server:
            access = access_to(requester, client_of(server))
            assert status_of(requester, access) == 200
            api.revoke()
            time.sleep(0.25)
            assert status_of(requester, access) == 200
        assert len(api.given) >= 2
        assert [request.method for request in server.requests].count("GET") == 2

    def test_a_token_that_is_refused_is_renewed_once_for_all_who_have_it(
        self, requester: Requester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tokens, "YOUNG_SECONDS", 0)
        api = TokenedApi()
        with api.server() as server:
            access = access_to(requester, client_of(server))
            ask(requester, access, 20)
            api.revoke()
            outcomes = ask(requester, access, 20)
        assert {outcome.status for outcome in outcomes if isinstance(outcome, Response)} == {200}
        assert len(api.given) == 2

    def test_an_api_that_refuses_every_token_makes_no_storm_at_the_endpoint(self, requester: Requester) -> None:
        api = TokenedApi()
        with api.server() as server:
            access = access_to(requester, client_of(server))
            for _ in range(5):
                api.revoke()
                ask(requester, access, 10)
            assert {getattr(outcome, "status", None) for outcome in ask(requester, access, 10)} == {401}
        assert len(api.given) == 1  # the first was not old enough to be to blame

    def test_a_refused_client_is_one_line_at_once_for_all_and_asks_no_more_for_a_while(
        self, requester: Requester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CLIENT_SECRET", "hunter2-is-wrong")
        with TokenedApi().server() as server:
            access = access_to(requester, client_of(server))
            outcomes = ask(requester, access, 20) + ask(requester, access, 20)
            assert [request.target for request in server.requests] == ["/token", "/token"]  # in both ways
        (words,) = {str(outcome) for outcome in outcomes}
        assert all(isinstance(outcome, TokenRefused) and outcome.status == 401 for outcome in outcomes)
        reason = "status 401 (invalid_client: wrong secret), expected 200"
        assert words == f"no token from {server.url}/token: {reason}"

    def test_an_endpoint_that_hangs_costs_those_who_need_it_their_time_and_nobody_else_any(
        self, requester: Requester
    ) -> None:
        api = TokenedApi()
        api.at_token = faults.hang_before_headers
        with api.server() as server, FaultServer(faults.answer()) as other:
            access = access_to(requester, client_of(server, timeout=0.5))
            plain = access_to(requester, Target(url=other.url))
            requester.start(server.url + PATH, access, "needs a token")
            requester.start(other.url + PATH, plain, "plain")
            (first,) = wait_for(lambda: requester.wait(0.05), "the plain one")
            assert (first.tag, isinstance(first.outcome, Response)) == ("plain", True)
            (second,) = wait_for(lambda: requester.wait(0.05), "the other")
        assert isinstance(second.outcome, ApiUnreachable)
        assert str(second.outcome) == f"no token from {server.url}/token within 0.5 s"

    def test_an_endpoint_that_nobody_serves_is_named(self, requester: Requester) -> None:
        url = faults.refused_url()
        auth = OAuth2Auth(f"{url}/token", "me", SecretReference("env", "CLIENT_SECRET"))
        (outcome,) = ask(requester, access_to(requester, Target(auth=auth)))
        assert isinstance(outcome, ApiUnreachable)
        assert str(outcome).startswith(f"no token from {url}/token: ")

    def test_a_client_secret_that_was_rotated_in_its_file_is_used_at_once(
        self, requester: Requester, tmp_path: Path
    ) -> None:
        path = tmp_path / "secret"
        path.write_text("old-s3cret")
        with TokenedApi("new-s3cret").server() as server:
            auth = OAuth2Auth(f"{server.url}/token", "me", SecretReference("file", str(path)))
            access = access_to(requester, Target(url=server.url, auth=auth))
            assert isinstance(ask(requester, access)[0], TokenRefused)
            path.write_text("new-s3cret")
            look_at_files(requester)
            assert status_of(requester, access) == 200

    def test_tokens_stay_when_the_targets_are_read_anew(self, requester: Requester) -> None:
        api = TokenedApi()
        with api.server() as server:
            for _ in range(3):
                assert status_of(requester, access_to(requester, client_of(server))) == 200
        assert len(api.given) == 1

    def test_old_tokens_are_forgotten(self, requester: Requester) -> None:
        api = TokenedApi(expires_in=0.1)
        with api.server() as server:
            access = access_to(requester, client_of(server, "some-scope"))
            wait_for(lambda: ask(requester, access) and len(api.given) >= 4, "four tokens")
        assert "***" not in KNOWN.hide(api.given[0] + " ")
        assert KNOWN.hide(api.given[-1]) == "***"
