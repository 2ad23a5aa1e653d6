"""The engine in this process, with a clock that can be turned and targets that misbehave."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import fault_server as faults
from daemon import wait_for
from fault_server import FaultServer
from kizami.coverage import Span, find_gaps
from kizami.local.clock import SystemClock
from kizami.local.dead_letters import DeadLetters
from kizami.local.engine import Engine, StoredRecord
from kizami.local.options import Options
from kizami.local.reader import Reader, StoredSlot
from kizami.slots import floor_to_slot, parse_instant
from kizami.targets import Config, Target

HOUR = timedelta(hours=1)
EVER = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


class TurnableClock:
    """The machine's clock, and what somebody has turned it by."""

    def __init__(self) -> None:
        self._turned = timedelta(0)

    def turn(self, by: timedelta) -> None:
        self._turned += by

    def now(self) -> datetime:
        return datetime.now(UTC) + self._turned

    def milliseconds(self) -> float:
        return SystemClock().milliseconds() + self._turned.total_seconds() * 1000


@contextmanager
def running(
    path: Path, *targets: Target, options: Options | None = None, clock: TurnableClock | None = None
) -> Iterator[list[StoredRecord]]:
    """An engine at work on these targets; gives the records that it says are stored."""
    shown: list[StoredRecord] = []
    engine = Engine(path, options or Options(), clock or TurnableClock(), shown.extend)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            engine.run(Config(targets))
        except BaseException as error:  # noqa: BLE001  it is raised again below
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield shown
    finally:
        engine.stop()
        thread.join()
    assert not failures, failures


def every_second(server: FaultServer | str, name: str = "calls", **settings: object) -> Target:
    url = server if isinstance(server, str) else server.url
    given = {"interval_seconds": 1, "lag_seconds": 1, "timeout_seconds": 2.0} | settings
    return Target(name=name, url=url, **given)  # type: ignore[arg-type]


def asked(server: FaultServer) -> Counter[datetime]:
    return Counter(parse_instant(request.query["from"][0]) for request in server.requests)


def complete(path: Path, start: datetime, end: datetime, interval: int = 1) -> bool:
    with Reader.opened(path) as reader:
        return not list(find_gaps(Span(start, end, interval), reader.stored_slots("calls", start, end)))


def is_live_after(stored: StoredRecord, moment: datetime) -> bool:
    return stored.record.slot >= moment and not stored.backfilled


class TestClock:
    def test_an_hour_forward_is_a_gap_that_is_filled_while_live_slots_go_on(self, tmp_path: Path) -> None:
        path, clock = tmp_path / "kizami.db", TurnableClock()
        with FaultServer(faults.answer()) as server:
            target = every_second(server, interval_seconds=2, lag_seconds=2)
            with running(path, target, clock=clock) as shown:
                first: StoredRecord = wait_for(lambda: shown and shown[0], "a row")
                clock.turn(HOUR)
                after = floor_to_slot(clock.now(), 2)
                wait_for(lambda: any(is_live_after(each, after) for each in shown), "a live row after the jump")
                wait_for(lambda: complete(path, first.record.slot, after, 2), "the hour between")
        assert max(asked(server).values()) == 1
        assert sum(each.backfilled for each in shown) >= 1799
        assert all(each.receives == 1 for each in shown)

    def test_an_hour_back_asks_for_nothing_and_stores_nothing_a_second_time(self, tmp_path: Path) -> None:
        path, clock = tmp_path / "kizami.db", TurnableClock()
        with FaultServer(faults.answer()) as server, running(path, every_second(server), clock=clock) as shown:
            wait_for(lambda: len(shown) >= 2, "rows before the jump")
            clock.turn(-HOUR)
            early = floor_to_slot(clock.now(), 1)
            # The hour is lived again from here: its slots were never collected, so they are new and are asked for.
            wait_for(lambda: sum(each.record.slot < early + HOUR / 2 for each in shown) >= 3, "rows of the hour")
            clock.turn(HOUR)
            late = floor_to_slot(clock.now(), 1)
            wait_for(lambda: any(each.record.slot > late for each in shown), "rows of the hour's end")
        slots = [each.record.slot for each in shown]
        assert len(slots) == len(set(slots))
        assert max(asked(server).values()) == 1

    def test_messages_that_wait_keep_their_wait_when_the_clock_is_turned_back(self, tmp_path: Path) -> None:
        path, clock = tmp_path / "kizami.db", TurnableClock()
        options = Options(retry_seconds=1.0)
        with FaultServer(faults.status(500), then=faults.answer()) as server:
            target = every_second(server, interval_seconds=60, lag_seconds=0)
            clock.turn(timedelta(seconds=59.0 - clock.now().second))
            with running(path, target, options=options, clock=clock) as shown:
                wait_for(lambda: server.requests, "the failure")
                clock.turn(-HOUR)
                wait_for(lambda: shown, "its second attempt", seconds=20)
        assert shown[0].receives == 2


REASONS = {
    "refuses": "connect",
    "hangs": "no whole answer within 0.3 s",
    "drips": "no whole answer within 0.3 s",
    "lies": "the answer is about 2001-01-01T00:00:00Z",
    "bomb": "larger than 65536 bytes",
    "gzip": "not UTF-8",
    "html": "not JSON",
    "broken": "status 500, expected 200",
}


class TestTargetsThatMisbehave:
    @pytest.fixture
    def misbehaving(self) -> Iterator[dict[str, str]]:
        """The URL of a server for each kind."""
        behaviours = {
            "hangs": faults.hang_before_headers,
            "drips": faults.drip_body,
            "lies": faults.another_window,
            "bomb": faults.endless_chunks,
            "gzip": faults.gzip_bomb,
            "html": faults.html,
            "broken": faults.status(500),
        }
        servers = {name: FaultServer(behaviour).__enter__() for name, behaviour in behaviours.items()}
        yield {name: server.url for name, server in servers.items()} | {"refuses": faults.refused_url()}
        for server in servers.values():
            server.__exit__(None, None, None)

    def test_their_slots_die_with_the_reason_and_the_others_stay_on_time(
        self, tmp_path: Path, misbehaving: dict[str, str]
    ) -> None:
        path = tmp_path / "kizami.db"
        options = Options(receive_limit=2, retry_seconds=0.05)
        with FaultServer(faults.answer()) as server:
            bad = [
                every_second(url, name, timeout_seconds=0.3 if name in ("hangs", "drips") else 5.0)
                for name, url in misbehaving.items()
            ]
            with running(path, every_second(server), *bad, options=options) as shown:
                letters = DeadLetters(path, SystemClock())
                wait_for(lambda: {each.metric for each in letters.newest()} == set(REASONS), "dead letters")
                wait_for(lambda: len(shown) >= 3, "rows of the good one")
                dead = letters.newest()
                letters.close()
        for letter in dead:
            assert REASONS[letter.metric] in letter.reason
            assert letter.receives == 2
        assert {each.record.metric for each in shown} == {"calls"}
        assert all(each.receives == 1 for each in shown)
        assert max(asked(server).values()) == 1
        assert sorted(each.late_ms for each in shown)[len(shown) // 2] < 500  # milliseconds; a few, in fact

    def test_a_redriven_dead_letter_is_asked_for_again(self, tmp_path: Path) -> None:
        path = tmp_path / "kizami.db"
        server = FaultServer(faults.status(500), then=faults.answer())
        with server, running(path, every_second(server), options=Options(receive_limit=1)) as shown:
            letters = DeadLetters(path, SystemClock())
            (letter,) = wait_for(letters.newest, "a dead letter")
            assert letters.redrive([letter]) == 1
            wait_for(lambda: letter.slot in {each.record.slot for each in shown}, "its row")
            assert letters.newest() == []
            letters.close()

    def test_retry_after_is_waited_for(self, tmp_path: Path) -> None:
        path = tmp_path / "kizami.db"
        with FaultServer(faults.status(503, Retry_After="3"), then=faults.answer()) as server:
            target = every_second(server, interval_seconds=60, lag_seconds=0)
            clock = TurnableClock()
            clock.turn(timedelta(seconds=59.0 - clock.now().second))
            with running(path, target, options=Options(retry_seconds=0.01), clock=clock) as shown:
                wait_for(lambda: shown, "the second attempt")
        (stored,) = shown
        assert stored.receives == 2
        assert stored.late_ms >= 3000


class TestSpread:
    def test_targets_are_asked_in_turn_over_the_interval_and_each_at_its_own_moment(self, tmp_path: Path) -> None:
        with FaultServer(faults.answer()) as server:
            targets = [every_second(server, f"t{n}", interval_seconds=2, lag_seconds=2) for n in range(8)]
            with running(tmp_path / "kizami.db", *targets) as shown:
                wait_for(lambda: len(shown) >= 24, "three rounds")
        with Reader.opened(tmp_path / "kizami.db") as reader:
            moments = [min(map(planned_ms, reader.stored(each.name, *EVER))) - 2000 for each in targets]
        # Eight targets over two seconds: one every 250 ms, cut to 20 ms; the answer takes a few milliseconds more.
        assert sorted((moment + 20) // 250 * 250 for moment in moments) == list(range(0, 2000, 250))

    def test_without_spread_they_are_all_asked_at_the_tick(self, tmp_path: Path) -> None:
        with FaultServer(faults.answer()) as server:
            targets = [every_second(server, f"t{n}") for n in range(8)]
            with running(tmp_path / "kizami.db", *targets, options=Options(spread=False)) as shown:
                wait_for(lambda: len(shown) >= 16, "two rounds")
        with Reader.opened(tmp_path / "kizami.db") as reader:
            moments = [planned_ms(row) for row in reader.stored("t5", *EVER)]
        assert moments
        assert all(1000 <= moment < 1500 for moment in moments)


def planned_ms(row: StoredSlot) -> int:
    """When it was planned to be asked for, from the slot on, with the time that the answer took."""
    return round((row.collected_at - row.slot).total_seconds() * 1000) - row.late_ms
