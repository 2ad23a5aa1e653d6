"""What keeps failures small: backoff, the lines before hosts, the log of failures, secrets that stay secret."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.core.errors import ApiStatusError, ApiUnreachable, ConfigurationError
from kizami.core.targets.hosts import RequestLimit
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target
from kizami.local.engine.failures.backoff import MAX_SECONDS, retry_delay_seconds
from kizami.local.engine.failures.failure_log import FailureLog
from kizami.local.engine.host_limits import (
    LIVE_WAIT_MS,
    OLD_LINE,
    OLD_UNTRIED,
    OLD_WAIT_MS,
    SILENT_AFTER,
    SILENT_LIVE,
    Entry,
    HostLimits,
)
from kizami.local.http.fetcher import Fetcher
from kizami.local.http.handle import RequestProfile
from kizami.local.http.request_window import RequestWindow
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


def enter(
    hosts: HostLimits[str], host: str, request: str, *, live: bool = True, now_ms: float = 0, target: str = "t"
) -> Entry:
    return hosts.enter(host, target, request, live=live, now_ms=now_ms)


def done(
    hosts: HostLimits[Any],
    host: str,
    *,
    live: bool = True,
    answered: bool = True,
    target: str = "t",
    sent_ms: float = 0,
    took_ms: float = 1,
) -> bool:
    now_ms = sent_ms + took_ms
    return hosts.done(host, target, live=live, answered=answered, sent_ms=sent_ms, now_ms=now_ms)


def fall_silent(hosts: HostLimits[str], host: str, target: str = "t", *, live: bool = True) -> None:
    for _ in range(SILENT_AFTER):
        enter(hosts, host, "x", live=live, target=target)
        list(hosts.advance())
        done(hosts, host, live=live, answered=False, target=target)


def answer_an_old_one(hosts: HostLimits[str], host: str, target: str = "t") -> None:
    """From now on its old requests need not be asked for one at a time."""
    enter(hosts, host, "first", live=False, target=target)
    assert list(hosts.advance()) == ["first"]
    done(hosts, host, live=False, target=target)


class TestHosts:
    def test_requests_leave_at_once_where_no_other_one_is_in_the_way(self) -> None:
        hosts: HostLimits[str] = HostLimits(10, 2)
        assert [enter(hosts, "a", name) for name in "xyz"] == [Entry.SENT, Entry.SENT, Entry.WAITING]
        assert enter(hosts, "b", "w") is Entry.SENT

    def test_a_full_host_holds_up_only_its_own_line(self) -> None:
        hosts: HostLimits[str] = HostLimits(10, 1)
        assert [enter(hosts, "a", name) for name in "xy"] == [Entry.SENT, Entry.WAITING]
        assert list(hosts.advance()) == []
        assert done(hosts, "a")
        assert list(hosts.advance()) == ["y"]

    def test_live_requests_go_before_old_ones(self) -> None:
        hosts: HostLimits[str] = HostLimits(10, 1)
        enter(hosts, "a", "first")
        for name, live in (("old", False), ("live", True)):
            enter(hosts, "a", name, live=live, target=name)
        sent = []
        for target, live in (("t", True), ("live", True), ("old", False)):
            done(hosts, "a", live=live, target=target)
            sent += list(hosts.advance())
        assert sent == ["live", "old"]

    def test_old_requests_leave_most_of_a_host_to_live_ones(self) -> None:
        hosts: HostLimits[str] = HostLimits(100, 16)
        answer_an_old_one(hosts, "a")
        for n in range(10):
            enter(hosts, "a", f"old {n}", live=False)
        assert len(list(hosts.advance())) == 2
        assert enter(hosts, "a", "live") is Entry.SENT

    def test_the_limit_in_all_is_kept_and_hosts_take_turns(self) -> None:
        hosts: HostLimits[str] = HostLimits(2, 2)
        for name in ("a1", "b1", "a2", "b2", "a3"):
            enter(hosts, name[0], name)
        assert hosts.in_flight == 2
        order = []
        for host in "abab":
            done(hosts, host)
            order += list(hosts.advance())
        assert order == ["a2", "b2", "a3"]

    def test_a_host_that_does_not_answer_has_a_few_requests_in_flight_until_it_answers(self) -> None:
        hosts: HostLimits[str] = HostLimits(1000, 256)
        fall_silent(hosts, "a")
        entries = [enter(hosts, "a", f"{n}") for n in range(SILENT_LIVE + 5)]
        assert entries == [Entry.SENT] * SILENT_LIVE + [Entry.WAITING] * 5
        done(hosts, "a")
        assert len(list(hosts.advance())) == 5

    def test_a_host_that_does_not_answer_has_a_few_of_all_its_targets_in_flight(self) -> None:
        hosts: HostLimits[str] = HostLimits(1000, 256)
        targets = [f"t{n}" for n in range(50)]
        for target in targets[:SILENT_AFTER]:
            enter(hosts, "a", "x", target=target)
            done(hosts, "a", answered=False, target=target)
        entries = [enter(hosts, "a", "y", target=target) for target in targets]
        assert entries.count(Entry.SENT) == SILENT_LIVE

    def test_a_host_that_does_not_answer_gets_its_old_requests_one_at_a_time(self) -> None:
        hosts: HostLimits[str] = HostLimits(1000, 256)
        assert hosts.old_room("a") == OLD_LINE
        fall_silent(hosts, "a")
        assert hosts.old_room("a") == 1
        for n in range(5):
            enter(hosts, "a", f"old {n}", live=False)
        assert list(hosts.advance()) == ["old 0"]
        assert hosts.old_room("a") < 0
        done(hosts, "a", live=False)
        assert list(hosts.advance()) == ["old 1", "old 2", "old 3", "old 4"]
        assert hosts.old_room("a") == OLD_LINE - 4

    def test_an_old_request_waits_while_a_live_one_of_a_target_that_answers_does(self) -> None:
        hosts: HostLimits[str] = HostLimits(1000, 256)
        for n in range(SILENT_AFTER):
            enter(hosts, "a", "x", target=f"t{n}")
            done(hosts, "a", answered=False, target=f"t{n}")
        for n in range(SILENT_LIVE + 1):
            enter(hosts, "a", f"live {n}")
        enter(hosts, "a", "old", live=False)
        assert list(hosts.advance()) == []

    def test_what_was_let_through_and_not_sent_makes_room_again(self) -> None:
        hosts: HostLimits[str] = HostLimits(1, 1)
        assert enter(hosts, "a", "early") is Entry.SENT
        assert enter(hosts, "a", "next") is Entry.WAITING
        hosts.unsent("a", "t", live=True)
        assert list(hosts.advance()) == ["next"]

    @pytest.mark.parametrize(("live", "longest"), [(True, LIVE_WAIT_MS), (False, OLD_WAIT_MS)])
    def test_a_line_that_stands_still_takes_no_more(self, live: bool, longest: float) -> None:
        hosts: HostLimits[str] = HostLimits(10, 1)
        assert enter(hosts, "a", "x") is Entry.SENT
        assert enter(hosts, "a", "y", live=live, now_ms=0) is Entry.WAITING
        assert enter(hosts, "a", "z", live=live, now_ms=longest) is Entry.WAITING
        assert enter(hosts, "a", "!", live=live, now_ms=longest + 1) is Entry.REFUSED

    def test_old_requests_do_not_strand_before_a_host_that_is_stuck(self) -> None:
        hosts: HostLimits[str] = HostLimits(10, 1)
        for host, name, live in (("a", "x", True), ("a", "old", False), ("a", "live", True), ("b", "y", False)):
            enter(hosts, host, name, live=live)
        assert list(hosts.advance()) == ["y"]
        assert hosts.stranded(OLD_WAIT_MS) == []
        assert hosts.stranded(OLD_WAIT_MS + 1) == ["old"]
        assert hosts.old == 1  # the one in flight
        done(hosts, "a")
        assert list(hosts.advance()) == ["live"]

    def test_what_waits_can_be_drained(self) -> None:
        hosts: HostLimits[str] = HostLimits(10, 1)
        for name, live in (("x", True), ("y", True), ("z", False)):
            enter(hosts, "a", name, live=live)
        assert hosts.drain() == ["y", "z"]
        done(hosts, "a")
        assert list(hosts.advance()) == []
        assert (hosts.in_flight, hosts.old) == (0, 0)


class TestNeighbours:
    """Targets of one host, some of which hang."""

    @pytest.mark.parametrize("live", [True, False])
    def test_take_turns_whatever_one_of_them_has_waiting(self, live: bool) -> None:
        hosts: HostLimits[str] = HostLimits(100, 1)
        enter(hosts, "a", "first")
        for n in range(50):
            enter(hosts, "a", f"busy {n}", live=live, target="busy")
        enter(hosts, "a", "neighbour", live=live, target="neighbour")
        done(hosts, "a")
        assert list(hosts.advance()) == ["busy 0"]
        done(hosts, "a", live=live, target="busy")
        assert list(hosts.advance()) == ["neighbour"]

    def test_have_places_beside_one_that_has_just_begun_to_hang(self) -> None:
        hosts: HostLimits[str] = HostLimits(1000, 64)
        for target in ("hangs", "neighbour"):
            answer_an_old_one(hosts, "a", target)
        enter(hosts, "a", "live", target="neighbour")
        done(hosts, "a", target="neighbour")
        for n in range(100):
            enter(hosts, "a", f"live {n}", target="hangs")
            enter(hosts, "a", f"old {n}", target="hangs", live=False)
        list(hosts.advance())
        assert enter(hosts, "a", "live", target="neighbour") is Entry.SENT
        enter(hosts, "a", "retry", target="neighbour", live=False)
        assert list(hosts.advance()) == ["retry"]

    def test_are_not_taken_for_silent_with_one_whose_timeouts_come_together(self) -> None:
        hosts: HostLimits[str] = HostLimits(1000, 256)
        for _ in range(20):
            assert enter(hosts, "a", "x", target="hangs") is Entry.SENT
        enter(hosts, "a", "y", target="neighbour", now_ms=500)
        done(hosts, "a", target="neighbour", sent_ms=500)
        for _ in range(20):
            done(hosts, "a", target="hangs", answered=False, sent_ms=400, took_ms=10_000)
        assert hosts.old_room("a") == OLD_LINE
        sent = [enter(hosts, "a", "z", target="neighbour", now_ms=600) for _ in range(100)]
        assert set(sent) == {Entry.SENT}

    def test_a_clock_that_was_set_back_does_not_hide_that_a_host_is_silent(self) -> None:
        hosts: HostLimits[str] = HostLimits(1000, 256)
        enter(hosts, "a", "x", now_ms=3_600_000)
        done(hosts, "a", sent_ms=3_600_000)
        fall_silent(hosts, "a")
        assert hosts.old_room("a") == 1

    def test_go_on_while_those_that_hang_are_all_that_the_host_has_heard_of_for_long(self) -> None:
        hosts: HostLimits[str] = HostLimits(1000, 256)
        fall_silent(hosts, "a", "hangs")
        assert [enter(hosts, "a", "x", target="hangs") for _ in range(9)].count(Entry.SENT) == SILENT_LIVE
        assert enter(hosts, "a", "hourly", target="neighbour") is Entry.SENT

    def test_those_that_hang_have_half_of_the_places_and_one_at_least(self) -> None:
        hosts: HostLimits[str] = HostLimits(1000, 16)
        for n in range(20):
            fall_silent(hosts, "a", f"hangs-{n}")
        enter(hosts, "a", "x", target="neighbour")
        done(hosts, "a", target="neighbour")
        entries = [enter(hosts, "a", "x", target=f"hangs-{n}") for n in range(20)]
        assert entries.count(Entry.SENT) == 8
        assert [enter(hosts, "a", "x", target="neighbour") for _ in range(8)] == [Entry.SENT] * 8
        enter(hosts, "a", "next", target="neighbour")
        done(hosts, "a", target="hangs-0", answered=False)
        assert list(hosts.advance()) == ["next"]

    def test_one_that_hangs_is_not_forgotten_while_the_others_are_busy(self) -> None:
        hosts: HostLimits[str] = HostLimits(1000, 1)
        fall_silent(hosts, "a", "hangs")
        enter(hosts, "a", "first", target="busy")
        for n in range(3):
            enter(hosts, "a", f"busy {n}", target="busy")
        enter(hosts, "a", "hanging", target="hangs")
        done(hosts, "a", target="busy")
        assert list(hosts.advance()) == ["hanging"]

    def test_one_that_does_not_answer_is_handed_out_one_old_request_at_a_time(self) -> None:
        hosts: HostLimits[str] = HostLimits(1000, 256)
        for target in ("hangs", "neighbour"):
            answer_an_old_one(hosts, "a", target)
        assert hosts.old_room_of("a", "hangs") == OLD_LINE // 2
        fall_silent(hosts, "a", "hangs", live=False)
        assert hosts.old_room_of("a", "hangs") == hosts.old_room_of("a", "other") == OLD_UNTRIED
        enter(hosts, "a", "x", target="hangs", live=False)
        list(hosts.advance())
        done(hosts, "a", target="hangs", live=False, answered=False)
        assert hosts.old_room_of("a", "hangs") == 1
        enter(hosts, "a", "x", target="hangs", live=False)
        assert hosts.old_room_of("a", "hangs") == 0
        assert hosts.old_room_of("a", "neighbour") == OLD_LINE // 2
        list(hosts.advance())
        done(hosts, "a", target="hangs", live=False)
        assert hosts.old_room_of("a", "hangs") == OLD_LINE // 2

    @given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 5)), max_size=120))
    def test_no_limit_is_exceeded_and_nothing_that_waits_is_forgotten(
        self, steps: list[tuple[int, bool, int]]
    ) -> None:
        hosts: HostLimits[tuple[str, bool, int]] = HostLimits(20, 8)
        flying: list[tuple[str, bool, int]] = []
        waiting: set[tuple[str, bool, int]] = set()

        def advance() -> None:
            for request in hosts.advance():
                waiting.remove(request)
                flying.append(request)

        def end(index: int, *, answered: bool) -> None:
            target, live, number = flying.pop(index)
            done(hosts, "a", target=target, live=live, answered=answered, sent_ms=number)

        for number, (of, live, action) in enumerate(steps):
            request = f"t{of}", live, number
            if action < 4:
                entry = hosts.enter("a", f"t{of}", request, live=live, now_ms=number)
                flying += [request] if entry is Entry.SENT else []
                waiting |= {request} if entry is Entry.WAITING else set()
            elif flying:
                end(of % len(flying), answered=action == 4)
            advance()
            assert hosts.in_flight == len(flying) <= 8
            assert sum(not live for _, live, _ in flying) <= 1
        while flying:
            end(0, answered=True)
            advance()
        assert not waiting
        assert (hosts.in_flight, hosts.old) == (0, 0)


class TestRequestsPerTime:
    """At most so many requests to a host in any period, of which live ones have their share."""

    LIMIT = RequestLimit("a", 6, 60, Fraction(4))

    def hosts(self, limit: RequestLimit = LIMIT) -> tuple[HostLimits[str], list[float]]:
        now = [1000.0]
        hosts: HostLimits[str] = HostLimits(100, 100, lambda: now[0])
        hosts.use_limits([limit])
        answer_an_old_one(hosts, "b")
        return hosts, now

    def live(self, hosts: HostLimits[str], count: int) -> list[Entry]:
        return [enter(hosts, "a", f"live {n}", target=f"t{n}") for n in range(count)]

    def test_no_more_leave_in_any_period_and_the_next_one_as_soon_as_it_may(self) -> None:
        hosts, now = self.hosts()
        assert self.live(hosts, 2) == [Entry.SENT] * 2
        now[0] += 20
        assert self.live(hosts, 6) == [Entry.SENT] * 4 + [Entry.WAITING] * 2
        assert list(hosts.advance()) == []
        assert hosts.pause_seconds() == pytest.approx(40)
        assert enter(hosts, "b", "other") is Entry.SENT
        now[0] += 39.9
        assert hosts.pause_seconds() > 0
        assert list(hosts.advance()) == []
        now[0] += 0.1
        assert hosts.pause_seconds() == 0
        assert list(hosts.advance()) == ["live 4", "live 5"]

    def test_old_ones_leave_live_ones_their_share_and_go_after_them(self) -> None:
        hosts, now = self.hosts()
        hosts.pause_seconds()
        assert hosts.old_room("a") == 2
        for n in range(4):
            enter(hosts, "a", f"old {n}", live=False, target=f"t{n}")
        assert list(hosts.advance()) == ["old 0", "old 1"]
        assert self.live(hosts, 5) == [Entry.SENT] * 4 + [Entry.WAITING]
        now[0] += 60
        assert hosts.pause_seconds() == 0
        assert list(hosts.advance()) == ["live 4", "old 2", "old 3"]

    def test_what_was_not_sent_after_all_is_not_counted(self) -> None:
        hosts, _ = self.hosts()
        for _ in range(10):
            assert enter(hosts, "a", "x") is Entry.SENT
            hosts.unsent("a", "t", live=True)
        assert self.live(hosts, 6) == [Entry.SENT] * 6

    def test_requests_of_an_earlier_run_count_and_those_beyond_the_live_share_as_old_ones(self) -> None:
        hosts, now = self.hosts()
        hosts.use_limits(
            [self.LIMIT], [(60_000.0, "a", 9), (59_000.0, "a", 4), (10_000.0, "a", 1), (0.0, "gone", 9)]
        )
        hosts.pause_seconds()
        assert hosts.old_room("a") == 1
        assert self.live(hosts, 2) == [Entry.SENT, Entry.WAITING]
        assert list(hosts.advance()) == []
        assert hosts.pause_seconds() == pytest.approx(1)
        now[0] += 1
        hosts.pause_seconds()
        assert list(hosts.advance()) == ["live 1"]

    def test_the_newest_requests_of_an_earlier_run_count_although_there_are_more_than_the_limit(self) -> None:
        hosts, now = self.hosts()
        hosts.use_limits([self.LIMIT], [(59_000.0, "a", 6), (0.0, "a", 5)])
        now[0] += 30
        assert self.live(hosts, 2) == [Entry.SENT, Entry.WAITING]

    def test_a_limit_may_end_while_another_thread_asks_for_room(self) -> None:
        hosts, _ = self.hosts()

        class Ending(RequestWindow):
            def __bool__(self) -> bool:
                hosts.use_limits([])  # as the loop may do right after the other thread has looked
                return True

        hosts._host("a").window = Ending(self.LIMIT)
        assert hosts.old_room("a") == 0
        assert not hosts.has_limit("a")

    def test_another_limit_counts_what_was_sent_under_the_first_and_none_ends_it(self) -> None:
        hosts, _ = self.hosts()
        assert self.live(hosts, 5).count(Entry.SENT) == 5
        hosts.use_limits([replace(self.LIMIT, requests=7)])
        assert self.live(hosts, 3) == [Entry.SENT, Entry.SENT, Entry.WAITING]
        hosts.use_limits([])
        assert list(hosts.advance()) == ["live 2"]
        assert hosts.pause_seconds() == math.inf

    @given(st.lists(st.tuples(st.floats(0, 30), st.booleans(), st.integers(0, 3)), max_size=60))
    def test_whatever_comes_no_period_has_more(self, steps: list[tuple[float, bool, int]]) -> None:
        hosts, now = self.hosts()
        sent: list[float] = []

        def advance() -> None:
            hosts.pause_seconds()
            for request in list(hosts.advance()):
                sent.append(now[0])
                done(hosts, "a", target=request[:2], live=request.endswith("True"))

        for number, (pause, live, of) in enumerate(steps):
            if enter(hosts, "a", f"t{of} {number} {live}", live=live, target=f"t{of}") is Entry.SENT:
                sent.append(now[0])
                done(hosts, "a", target=f"t{of}")
            advance()
            now[0] += pause
            advance()
        assert all(late - early >= 60 for early, late in zip(sent, sent[6:], strict=False))


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
