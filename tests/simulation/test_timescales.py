"""The engine with intervals of minutes and hours, lags of days, and an API that can only say "now"."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import fakes.fault_server as faults
from fakes.fault_server import FaultServer
from kizami.backend.values import DeadLetter
from kizami.core.coverage import Span, count_slots
from kizami.core.sender import message_for_slot
from kizami.core.slots import floor_to_slot, shift
from kizami.core.targets.target import Target
from kizami.local.engine.loop import StoredRecord
from kizami.local.engine.options import Options
from kizami.local.store.backfill_queue import BackfillQueue
from kizami.local.store.dead_letters import DeadLetters
from kizami.local.store.missing import find_missing
from kizami.local.store.reader import Reader
from kizami.platform.clock import SystemClock
from programs.daemon import wait_for
from programs.engine_here import TurnableClock, asked, complete, every_second, running
from simulation.test_engine import EVER, News, expected_from, windows

HOUR, DAY = 3600, 86_400


def turned_to_before(interval: int, seconds: float = 3) -> TurnableClock:
    """A clock for which the next slot of that interval begins in so many seconds."""
    clock = TurnableClock()
    now = clock.now()
    clock.turn(shift(floor_to_slot(now, interval), interval - seconds) - now)
    return clock


def slow(server: FaultServer, interval: int, lag: int | None = None, name: str = "calls") -> Target:
    lag_seconds = interval if lag is None else lag
    catch_up = lag_seconds + 10 * interval
    return Target(name, server.url, interval_seconds=interval, lag_seconds=lag_seconds, catch_up_seconds=catch_up)


def slots_of(shown: list[StoredRecord]) -> list[datetime]:
    return [each.record.slot for each in shown]


def letters_of(path: Path) -> list[DeadLetter]:
    letters = DeadLetters(path, SystemClock())
    try:
        return letters.newest()
    finally:
        letters.close()


class TestLongIntervals:
    @pytest.mark.parametrize(("interval", "lag"), [(300, 300), (HOUR, 0), (DAY, 31 * DAY)])
    def test_a_slot_is_asked_for_once_when_it_is_due(self, tmp_path: Path, interval: int, lag: int) -> None:
        clock = turned_to_before(interval)
        tick = shift(floor_to_slot(clock.now(), interval), interval)
        with (
            FaultServer(faults.answer()) as server,
            running(tmp_path / "kizami.db", slow(server, interval, lag), clock=clock) as shown,
        ):
            first: StoredRecord = wait_for(lambda: shown and shown[0], "the slot")
        assert first.record.slot == shift(tick, -lag)
        assert (first.receives, first.backfilled) == (1, False)
        assert asked(server) == {first.record.slot: 1}
        assert windows(server) == [(first.record.slot, interval)]

    @pytest.mark.parametrize("interval", [480, DAY])
    def test_what_was_due_during_a_sleep_is_caught_up_with(self, tmp_path: Path, interval: int) -> None:
        path, clock = tmp_path / "kizami.db", turned_to_before(interval)
        with FaultServer(faults.answer()) as server, running(path, slow(server, interval), clock=clock) as shown:
            first = wait_for(lambda: shown and shown[0], "a slot").record.slot
            clock.turn(timedelta(seconds=5 * interval))
            wait_for(lambda: complete(path, first, shift(first, 6 * interval), interval), "the slots between")
        assert sorted(slots_of(shown)) == [shift(first, number * interval) for number in range(6)]
        assert max(asked(server).values()) == 1

    def test_an_interval_may_become_minutes_and_seconds_again(self, tmp_path: Path) -> None:
        path, news, clock = tmp_path / "kizami.db", News(), turned_to_before(300, 6)
        with (
            FaultServer(faults.answer()) as server,
            running(path, every_second(server), clock=clock, new_config=news.read) as shown,
        ):
            wait_for(lambda: shown, "a row of a second")
            news.save(slow(server, 300, 0))
            first = wait_for(lambda: expected_from(path, 300), "five minutes")
            wait_for(lambda: first in slots_of(shown), "the row of five minutes")
            news.save(every_second(server))
            again = wait_for(lambda: expected_from(path, 1), "a second")
            wait_for(lambda: shown[-1].record.slot >= shift(again, 1), "rows of a second")
            end = shown[-1].record.slot
            wait_for(lambda: complete(path, again, end), "all of them")
        assert [seconds for slot, seconds in windows(server) if slot == first] == [300]
        assert max(asked(server).values()) == 1

    def test_targets_are_spread_over_a_minute_and_not_over_their_hour(self, tmp_path: Path) -> None:
        clock = turned_to_before(HOUR, 4)
        tick = shift(floor_to_slot(clock.now(), HOUR), HOUR)
        with FaultServer(faults.answer()) as server:
            targets = [slow(server, HOUR, name=f"t{number}") for number in range(8)]
            with running(tmp_path / "kizami.db", *targets, clock=clock) as shown:
                planned = wait_for(lambda: due_moments(tmp_path / "kizami.db", 8), "the plan")
                wait_for(lambda: shown, "the first of them")
        assert [(moment - tick).total_seconds() for moment in planned] == [0, 7.5, 15, 22.5, 30, 37.5, 45, 52.5]


def due_moments(path: Path, number: int) -> list[datetime]:
    with Reader.opened(path) as reader:
        found = [each.due_at for name in reader.metrics() for each in reader.pending(name, *EVER)]
        return sorted(found) if len(found) == number else []


def now_only(server: FaultServer, interval: int = 2) -> Target:
    """An API that can only say "now"."""
    catch_up = 24 * interval
    timing = {"interval_seconds": interval, "lag_seconds": interval, "catch_up_seconds": catch_up}
    return Target("calls", server.url, **timing, backfill=False)  # type: ignore[arg-type]


class TestAnApiThatCanOnlySayNow:
    def test_what_was_due_while_nobody_ran_stays_missing(self, tmp_path: Path) -> None:
        path, clock = tmp_path / "kizami.db", TurnableClock()
        with FaultServer(faults.answer()) as server:
            with running(path, now_only(server), clock=clock) as shown:
                last = wait_for(lambda: shown and shown[-1], "a row").record.slot
            clock.turn(timedelta(minutes=2))
            with running(path, now_only(server), clock=clock) as again:
                wait_for(lambda: len(again) >= 2, "rows after the stop")
                end = again[-1].record.slot
        assert not [slot for slot in slots_of(again) if slot < shift(last, 110)]
        assert not any(each.backfilled for each in (*shown, *again))
        assert missing_slots(path, "calls", last, end, 2) >= 50
        assert letters_of(path) == []

    def test_a_message_that_comes_late_is_dropped_and_said(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = tmp_path / "kizami.db"
        past = floor_to_slot(datetime.now(UTC), 2) - timedelta(hours=1)
        with FaultServer(faults.answer()) as server, running(path, now_only(server)) as shown:
            wait_for(lambda: shown, "a row")
            queue = BackfillQueue(path, SystemClock())
            queue.send_backfill([message_for_slot(past, now_only(server))])
            queue.close()
            wait_for(lambda: not is_pending(path, past), "the end of the message")
            wait_for(lambda: len(shown) >= 2, "another row")
        assert past not in asked(server)
        assert missing_slots(path, "calls", past, shift(past, 2), 2) == 1
        assert "slot.missed" in {getattr(record, "event", "") for record in caplog.records}

    def test_a_failure_is_tried_again_within_the_slots_own_interval(self, tmp_path: Path) -> None:
        clock = turned_to_before(20)
        options = Options(retry_seconds=0.05)
        with (
            FaultServer(faults.status(500), then=faults.answer()) as server,
            running(tmp_path / "kizami.db", now_only(server, 20), clock=clock, options=options) as shown,
        ):
            (stored, *_) = wait_for(lambda: shown, "its second attempt")
        assert (stored.receives, stored.backfilled) == (2, False)

    def test_a_slot_that_failed_for_good_is_missing_and_no_dead_letter(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = tmp_path / "kizami.db"
        with (
            FaultServer(faults.status(500)) as server,
            running(path, now_only(server), options=Options(retry_seconds=30)),
        ):
            wait_for(lambda: len(server.requests) >= 2, "two slots")
            first = min(asked(server))
            wait_for(lambda: not is_pending(path, first), "the end of the first")
        assert max(asked(server).values()) == 1  # a second attempt would have come after its time
        assert letters_of(path) == []
        assert missing_slots(path, "calls", first, shift(first, 2), 2) == 1
        told = [record for record in caplog.records if getattr(record, "event", "") == "slot.missed"]
        assert "status 500" in str(told[0].__dict__["reason"])

    def test_an_hours_slot_is_asked_for_by_who_starts_within_the_hour_and_no_older_one(
        self, tmp_path: Path
    ) -> None:
        path, clock = tmp_path / "kizami.db", turned_to_before(HOUR)
        with FaultServer(faults.answer()) as server:
            target = now_only(server, HOUR)
            with running(path, target, clock=clock) as shown:
                first = wait_for(lambda: shown and shown[0], "a row").record.slot
            clock.turn(timedelta(hours=3, minutes=20))
            with running(path, target, clock=clock) as again:
                second = wait_for(lambda: again and again[0], "the hour's row").record.slot
        assert second == shift(first, 3 * HOUR)
        assert set(asked(server)) == {first, second}

    def test_dead_letters_from_before_cannot_be_redriven(self, tmp_path: Path) -> None:
        path = tmp_path / "kizami.db"
        failing, options = FaultServer(faults.status(500)), Options(receive_limit=1)
        with failing as server, running(path, every_second(server), options=options):
            (letter, *_) = wait_for(lambda: letters_of(path), "a dead letter")
        letters = DeadLetters(path, SystemClock())
        letters.redrive([letter])
        letters.close()
        clock = TurnableClock()
        clock.turn(timedelta(minutes=1))
        with FaultServer(faults.answer()) as server, running(path, now_only(server), clock=clock) as shown:
            wait_for(lambda: is_dead(path, letter), "the letter, dead again")
            wait_for(lambda: shown, "a row")
        assert letter.slot not in asked(server)


def is_dead(path: Path, letter: DeadLetter) -> bool:
    """With its reason, and only the moment of its death another."""
    return (letter.slot, letter.reason) in {(each.slot, each.reason) for each in letters_of(path)}


def is_pending(path: Path, slot: datetime) -> bool:
    with Reader.opened(path) as reader:
        return bool(list(reader.pending("calls", slot, shift(slot, 1))))


def missing_slots(path: Path, name: str, start: datetime, end: datetime, interval: int) -> int:
    with Reader.opened(path) as reader:
        return count_slots(find_missing(reader, {name: Span(start, end, interval)}).get(name, []))
