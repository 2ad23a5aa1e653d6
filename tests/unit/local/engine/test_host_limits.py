"""What keeps failures small: backoff, the lines before hosts, the log of failures, secrets that stay secret."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.core.errors import ApiStatusError, ApiUnreachable, ConfigurationError
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target
from kizami.local.engine.failures.backoff import MAX_SECONDS, retry_delay_seconds
from kizami.local.engine.failures.failure_log import FailureLog
from kizami.local.engine.host_limits import (
    LIVE_WAIT_MS,
    OLD_LINE,
    OLD_WAIT_MS,
    SILENT_AFTER,
    SILENT_LIVE,
    Entry,
    HostLimits,
)
from kizami.local.http.fetcher import Fetcher
from kizami.local.http.handle import RequestProfile
from kizami.local.http.requester import Requester
from kizami.local.http.target_access import TargetAccess

DOWN = ApiUnreachable("down")


class TestBackoff:
    def test_waits_grow_fourfold(self) -> None:
        assert [retry_delay_seconds(n, DOWN, 2.0, 0.0) for n in (1, 2, 3, 4)] == [2, 8, 32, 128]

    @given(st.integers(1, 100), st.floats(0, 1, exclude_max=True), st.floats(0.01, 300))
    def test_jitter_takes_off_half_at_most_and_nothing_waits_for_ever(
        self, n: int, chance: float, base: float
    ) -> None:
        whole = retry_delay_seconds(n, DOWN, base, 0.0)
        assert whole / 2 <= retry_delay_seconds(n, DOWN, base, chance) <= whole <= MAX_SECONDS

    def test_retry_after_is_honoured_when_it_is_longer(self) -> None:
        assert retry_delay_seconds(1, ApiStatusError(503, 100.0), 2.0, 0.5) == 100
        assert retry_delay_seconds(3, ApiStatusError(503, 1.0), 2.0, 0.0) == 32


class TestHosts:
    def enter(
        self, hosts: HostLimits[str], host: str, request: str, *, live: bool = True, now_ms: float = 0
    ) -> Entry:
        return hosts.enter(host, request, live=live, now_ms=now_ms)

    def test_requests_leave_at_once_where_nobody_is_in_the_way(self) -> None:
        hosts: HostLimits[str] = HostLimits(10, 2)
        assert [self.enter(hosts, "a", name) for name in "xyz"] == [Entry.SENT, Entry.SENT, Entry.WAITING]
        assert self.enter(hosts, "b", "w") is Entry.SENT

    def test_a_full_host_holds_up_only_its_own_line(self) -> None:
        hosts: HostLimits[str] = HostLimits(10, 1)
        assert [self.enter(hosts, "a", name) for name in "xy"] == [Entry.SENT, Entry.WAITING]
        assert list(hosts.advance()) == []
        assert hosts.done("a", live=True, answered=True)
        assert list(hosts.advance()) == ["y"]

    def test_live_requests_go_before_old_ones(self) -> None:
        hosts: HostLimits[str] = HostLimits(10, 1)
        self.enter(hosts, "a", "first")
        for name, live in (("old", False), ("live", True)):
            self.enter(hosts, "a", name, live=live)
        sent = []
        for live in (True, True, False):
            hosts.done("a", live=live, answered=True)
            sent += list(hosts.advance())
        assert sent == ["live", "old"]

    def test_old_requests_leave_most_of_a_host_to_live_ones(self) -> None:
        hosts: HostLimits[str] = HostLimits(100, 16)
        for n in range(10):
            self.enter(hosts, "a", f"old {n}", live=False)
        assert len(list(hosts.advance())) == 2
        assert self.enter(hosts, "a", "live") is Entry.SENT

    def test_the_limit_in_all_is_kept_and_hosts_take_turns(self) -> None:
        hosts: HostLimits[str] = HostLimits(2, 2)
        for name in ("a1", "b1", "a2", "b2", "a3"):
            self.enter(hosts, name[0], name)
        assert hosts.in_flight == 2
        order = []
        for host in "abab":
            hosts.done(host, live=True, answered=True)
            order += list(hosts.advance())
        assert order == ["a2", "b2", "a3"]

    def test_a_host_that_does_not_answer_has_a_few_requests_in_flight_until_it_answers(self) -> None:
        hosts: HostLimits[str] = HostLimits(1000, 256)
        for _ in range(SILENT_AFTER):
            self.enter(hosts, "a", "x")
            hosts.done("a", live=True, answered=False)
        entries = [self.enter(hosts, "a", f"{n}") for n in range(SILENT_LIVE + 5)]
        assert entries == [Entry.SENT] * SILENT_LIVE + [Entry.WAITING] * 5
        hosts.done("a", live=True, answered=True)
        assert len(list(hosts.advance())) == 5

    def test_a_host_that_does_not_answer_gets_its_old_requests_one_at_a_time(self) -> None:
        hosts: HostLimits[str] = HostLimits(1000, 256)
        assert hosts.old_room("a") == OLD_LINE
        for _ in range(SILENT_AFTER):
            self.enter(hosts, "a", "live")
            hosts.done("a", live=True, answered=False)
        assert hosts.old_room("a") == 1
        for n in range(5):
            self.enter(hosts, "a", f"old {n}", live=False)
        assert list(hosts.advance()) == ["old 0"]
        assert hosts.old_room("a") < 0
        hosts.done("a", live=False, answered=True)
        assert list(hosts.advance()) == ["old 1", "old 2", "old 3", "old 4"]
        assert hosts.old_room("a") == OLD_LINE - 4

    def test_an_old_request_waits_while_a_live_one_does(self) -> None:
        hosts: HostLimits[str] = HostLimits(1000, 256)
        for _ in range(SILENT_AFTER):
            self.enter(hosts, "a", "x")
            hosts.done("a", live=True, answered=False)
        for n in range(SILENT_LIVE + 1):
            self.enter(hosts, "a", f"live {n}")
        self.enter(hosts, "a", "old", live=False)
        assert list(hosts.advance()) == []

    def test_what_was_let_through_and_not_sent_makes_room_again(self) -> None:
        hosts: HostLimits[str] = HostLimits(1, 1)
        assert self.enter(hosts, "a", "early") is Entry.SENT
        assert self.enter(hosts, "a", "next") is Entry.WAITING
        hosts.unsent("a", live=True)
        assert list(hosts.advance()) == ["next"]

    @pytest.mark.parametrize(("live", "longest"), [(True, LIVE_WAIT_MS), (False, OLD_WAIT_MS)])
    def test_a_line_that_stands_still_takes_nobody_more(self, live: bool, longest: float) -> None:
        hosts: HostLimits[str] = HostLimits(10, 1)
        assert self.enter(hosts, "a", "x") is Entry.SENT
        assert self.enter(hosts, "a", "y", live=live, now_ms=0) is Entry.WAITING
        assert self.enter(hosts, "a", "z", live=live, now_ms=longest) is Entry.WAITING
        assert self.enter(hosts, "a", "!", live=live, now_ms=longest + 1) is Entry.REFUSED

    def test_old_requests_do_not_strand_before_a_host_that_is_stuck(self) -> None:
        hosts: HostLimits[str] = HostLimits(10, 1)
        for host, name, live in (("a", "x", True), ("a", "old", False), ("a", "live", True), ("b", "y", False)):
            self.enter(hosts, host, name, live=live)
        assert list(hosts.advance()) == ["y"]
        assert hosts.stranded(OLD_WAIT_MS) == []
        assert hosts.stranded(OLD_WAIT_MS + 1) == ["old"]
        assert hosts.old == 1  # the one in flight
        hosts.done("a", live=True, answered=True)
        assert list(hosts.advance()) == ["live"]

    def test_what_waits_can_be_drained(self) -> None:
        hosts: HostLimits[str] = HostLimits(10, 1)
        for name, live in (("x", True), ("y", True), ("z", False)):
            self.enter(hosts, "a", name, live=live)
        assert hosts.drain() == ["y", "z"]
        hosts.done("a", live=True, answered=True)
        assert list(hosts.advance()) == []
        assert (hosts.in_flight, hosts.old) == (0, 0)


class TestFailureLog:
    def test_a_target_that_stays_down_is_told_of_twice_a_minute_at_most(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        log = FailureLog(0)
        for second in range(120):
            log.failed("calls", "down", second * 1000)
            log.summarise(second * 1000)
        assert [vars(record)["event"] for record in caplog.records] == ["target.failing", "targets.failing"]

    def test_recovery_is_told_once(self, caplog: pytest.LogCaptureFixture) -> None:
        log = FailureLog(0)
        log.failed("calls", "down", 0)
        log.failed("calls", "down", 5000)
        for _ in range(3):
            log.succeeded("calls", 10_000)
        recovery = vars(caplog.records[-1])
        assert (recovery["event"], recovery["failures"], recovery["seconds"]) == ("target.recovered", 2, 10.0)
        assert len(caplog.records) == 2

    def test_a_clock_that_was_set_back_does_not_silence_it(self, caplog: pytest.LogCaptureFixture) -> None:
        log = FailureLog(3_600_000)
        log.failed("calls", "down", 3_600_000)
        log.summarise(1_000)
        log.failed("calls", "down", 1_000)
        log.summarise(61_000)
        events = [vars(record)["event"] for record in caplog.records]
        assert events == ["target.failing", "targets.failing", "targets.failing"]

    def test_a_thousand_targets_that_fail_at_once_are_a_few_lines(self, caplog: pytest.LogCaptureFixture) -> None:
        log = FailureLog(0)
        for n in range(1000):
            log.failed(f"t{n}", "down", 10)
        log.summarise(60_000)
        assert len(caplog.records) == 21
        assert vars(caplog.records[-1])["targets"] == 1000


def read_access(target: Target) -> TargetAccess:
    with Requester(Fetcher()) as requester:
        (access,) = requester.read_accesses([target])
        return access


class TestSecrets:
    def test_references_are_read_where_they_point(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("API_TOKEN", "s3cret")
        (tmp_path / "key").write_text("k3y\n")
        headers: dict[str, str | SecretReference] = {
            "Accept": "application/json",
            "Authorization": SecretReference("env", "API_TOKEN"),
            "X-Api-Key": SecretReference("file", str(tmp_path / "key")),
        }
        lines = read_access(Target(headers=headers)).secrets.headers
        assert lines == ("Accept: application/json", "Authorization: s3cret", "X-Api-Key: k3y")

    @pytest.mark.parametrize(
        ("reference", "problem"),
        [
            (SecretReference("env", "NOT_SET_ANYWHERE"), "NOT_SET_ANYWHERE is not set"),
            (SecretReference("file", "/nowhere/key"), "No such file"),
            (SecretReference("ssm", "/prod/key"), "works on AWS only; use env:NAME or file:PATH"),
            (SecretReference("secretsmanager", "key"), "works on AWS only"),
        ],
    )
    def test_what_cannot_be_read_is_a_configuration_error(self, reference: SecretReference, problem: str) -> None:
        with pytest.raises(ConfigurationError, match=problem):
            read_access(Target(headers={"X-Api-Key": reference}))

    @pytest.mark.parametrize("secret", ["", "two\r\nX-Admin: yes", "tab\there"])
    def test_a_secret_that_would_break_the_header_is_refused_without_being_shown(
        self, secret: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("API_TOKEN", secret)
        with pytest.raises(ConfigurationError) as refusal:
            read_access(Target(headers={"X-Api-Key": SecretReference("env", "API_TOKEN")}))
        assert not secret or secret not in str(refusal.value)

    def test_a_profile_does_not_show_its_headers(self) -> None:
        assert "s3cret" not in repr(RequestProfile(1, ("Authorization: s3cret",), direct=True))


@pytest.fixture(autouse=True)
def _logs_reach_caplog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("kizami"), "propagate", True)
