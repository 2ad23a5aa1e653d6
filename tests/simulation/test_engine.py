"""The engine in this process, with a clock that can be turned and targets that misbehave."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import fakes.fault_server as faults
from fakes.fault_server import FaultServer
from kizami.backend.values import PendingSlot, StoredSlot
from kizami.core.config import Config
from kizami.core.epoch import to_seconds
from kizami.core.errors import StoreError
from kizami.core.sender import message_for_slot
from kizami.core.slots import floor_to_slot, parse_instant
from kizami.core.targets.hosts import RequestLimit
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target
from kizami.local.engine import active_targets, catch_up, loop, waiting_lines, writer
from kizami.local.engine.collector import Collector
from kizami.local.engine.loop import Engine, StoredRecord
from kizami.local.engine.options import Options
from kizami.local.engine.writer import WriterTurn
from kizami.local.store import database, statements
from kizami.local.store.backfill_queue import BackfillQueue
from kizami.local.store.dead_letters import DeadLetters
from kizami.local.store.metrics import register_targets
from kizami.local.store.reader import Reader
from kizami.local.store.rows import FailedRow, SentRow, TakenMessage
from kizami.local.store.statements import BACKFILL, RETRY
from kizami.platform.clock import SystemClock
from programs.daemon import wait_for
from programs.engine_here import (
    TurnableClock,
    asked,
    blocks,
    complete,
    every_second,
    running,
    turn_to_before_a_tick,
)

HOUR = timedelta(hours=1)
EVER = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


def second_attempts(shown: list[StoredRecord]) -> list[StoredRecord]:
    return [each for each in shown if each.receives == 2]


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

    def test_what_is_being_handed_out_while_the_clock_jumps_is_backfill_too(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock, resumed = TurnableClock(), threading.Event()
        add_turn, resume = Engine._add_writer_turn, Engine._resume

        def add_turn_after_the_jump(engine: Engine, turn: WriterTurn) -> None:
            if len(turn.taken) > 20:  # the plan of a minute and more, all of it late at once
                assert resumed.wait(60)
            add_turn(engine, turn)

        def tell(*arguments: Any) -> None:
            resume(*arguments)
            resumed.set()

        monkeypatch.setattr(Engine, "_add_writer_turn", add_turn_after_the_jump)
        monkeypatch.setattr(Engine, "_resume", tell)
        with FaultServer(faults.answer()) as server:
            target = every_second(server, interval_seconds=2, lag_seconds=2)
            with running(tmp_path / "kizami.db", target, clock=clock) as shown:
                before = wait_for(lambda: shown and shown[0], "a row").record.slot
                clock.turn_for("writer", HOUR)
                wait_for(resumed.is_set, "the jump")
                wait_for(lambda: any(is_live_after(each, before + HOUR) for each in shown), "a live row")
        missed = [each for each in shown if before < each.record.slot < before + HOUR]
        assert missed
        assert all(each.backfilled for each in missed)

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
        past = floor_to_slot(clock.now(), 1) - 2 * HOUR
        options, server = Options(retry_seconds=1.0), FaultServer(fail_once(past))
        with server, running(path, every_second(server), options=options, clock=clock) as shown:
            send_past(path, past)
            wait_for(lambda: asked(server)[past], "the failure")
            clock.turn(-HOUR)
            again: StoredRecord = wait_for(lambda: second_attempts(shown), "its second attempt")[0]
        assert again.record.slot == past

    def test_what_a_clock_that_was_ahead_has_put_on_the_queue_waits_for_its_moment(self, tmp_path: Path) -> None:
        """An hour ahead it catches up with an hour that has not been, and the clock is set right meanwhile."""
        path, clock = tmp_path / "kizami.db", TurnableClock()
        options, server = Options(backfill_per_second=2), FaultServer(faults.answer())
        with server, running(path, every_second(server), clock=clock, options=options) as shown:
            wait_for(lambda: shown, "a row")
            clock.turn(HOUR)
            ahead = clock.now()
            wait_for(lambda: pending(path, ahead - HOUR * 3 / 4, ahead - HOUR / 2), "the hour ahead on the queue")
            wait_for(lambda: any(each.backfilled for each in shown), "a row of it")
            clock.turn(-HOUR)
            right, before = clock.now(), len(shown)
            wait_for(lambda: any(is_live_after(each, right) for each in shown[before:]), "a live row")
            future = pending(path, right + HOUR / 4, right + HOUR / 2)
        assert future  # they wait, and are not lost
        assert all(each.visible_at > each.slot for each in future if not each.in_flight)
        # `running` has seen that no request left before its slot's moment; here: no row came from before it.
        rows = [each.record for each in shown[before:]]
        assert all(row.collected_at > row.slot for row in rows)
        assert not [row for row in rows if row.collected_at <= right + HOUR / 2 < row.slot]

    def test_an_answer_to_what_was_asked_by_a_clock_that_was_ahead_is_not_kept(self, tmp_path: Path) -> None:
        path, clock, let_go = tmp_path / "kizami.db", TurnableClock(), threading.Event()

        def answer_when_let_go(exchange: faults.Exchange) -> None:
            let_go.wait(60)
            faults.answer()(exchange)

        clock.turn(HOUR)
        with (
            FaultServer(answer_when_let_go) as server,
            running(path, every_second(server), clock=clock) as shown,
        ):
            wait_for(lambda: server.requests, "a request of the hour ahead")
            clock.turn(-HOUR)
            right = clock.now()
            let_go.set()
            wait_for(lambda: shown, "a row")
        assert all(each.record.slot <= right + HOUR / 2 for each in shown)


def fail_once(slot: datetime) -> faults.Behaviour:
    """Answers, but refuses one slot the first time."""
    refused: list[str] = []

    def behave(exchange: faults.Exchange) -> None:
        asked_for = exchange.request.query["from"][0]
        if parse_instant(asked_for) == slot and not refused:
            refused.append(asked_for)
            faults.status(500)(exchange)
        else:
            faults.answer()(exchange)

    return behave


def send_past(path: Path, *slots: datetime, name: str = "calls") -> None:
    queue = BackfillQueue(path, SystemClock())
    queue.send_backfill(message_for_slot(slot, Target(name=name, interval_seconds=1)) for slot in slots)
    queue.close()


class News:
    """A configuration file that is saved now and then."""

    def __init__(self) -> None:
        self._saved: list[Config] = []

    def save(self, *targets: Target) -> None:
        self._saved.append(Config(targets))

    def read(self) -> Config | None:
        return self._saved.pop(0) if self._saved else None


class TestANewConfiguration:
    """What was planned for a target as it was makes room for what is planned now, and nothing falls between."""

    def test_slots_that_a_shorter_lag_has_made_due_are_caught_up_with(self, tmp_path: Path) -> None:
        path, news = tmp_path / "kizami.db", News()
        with FaultServer(faults.answer()) as server:
            before, after = every_second(server, lag_seconds=30), every_second(server)
            with running(path, before, new_config=news.read) as shown:
                first: StoredRecord = wait_for(lambda: shown and shown[0], "a row")
                end = floor_to_slot(datetime.now(UTC), 1)
                news.save(after)
                wait_for(lambda: complete(path, first.record.slot, end), "the slots between the lags")
        assert max(asked(server).values()) == 1

    def test_the_slots_of_another_interval_take_the_place_of_those_in_hand(self, tmp_path: Path) -> None:
        path, news = tmp_path / "kizami.db", News()
        with FaultServer(faults.answer()) as server:
            # In hand are the next five seconds, among them slots of the same beginning as the new ones.
            before = every_second(server, lag_seconds=0)
            after = every_second(server, interval_seconds=2, lag_seconds=2)
            with running(path, before, new_config=news.read) as shown:
                wait_for(lambda: shown, "a row")
                news.save(after)
                first = wait_for(lambda: expected_from(path, 2), "the new interval")
                wait_for(lambda: shown[-1].record.slot >= first + timedelta(seconds=2), "rows of it")
        assert complete(path, first, shown[-1].record.slot, 2)
        assert {seconds for slot, seconds in windows(server) if slot >= first} == {2}

    @pytest.mark.parametrize("restart", [True, False])
    def test_a_changed_interval_asks_for_nothing_before_its_moment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restart: bool
    ) -> None:
        path, news, caught_up, search = tmp_path / "kizami.db", News(), [], catch_up.CatchUp._catch_up

        def tell(this: catch_up.CatchUp, targets: Sequence[Target], until: datetime) -> int:
            sent = search(this, targets, until)
            caught_up.append((targets[0].interval_seconds, sent))
            return sent

        monkeypatch.setattr(catch_up.CatchUp, "_catch_up", tell)
        with FaultServer(faults.answer()) as server:
            before, after = every_second(server), every_second(server, interval_seconds=60, lag_seconds=60)
            with running(path, before, new_config=news.read) as shown:
                wait_for(lambda: shown, "a row")
                if not restart:
                    news.save(after)
                    wait_for(lambda: any(seconds == 60 for seconds, _ in caught_up), "the search for missed slots")
            if restart:
                with running(path, after):
                    wait_for(lambda: any(seconds == 60 for seconds, _ in caught_up), "the search")
        assert [sent for seconds, sent in caught_up if seconds == 60] == [0]
        assert all(seconds == 1 for _, seconds in windows(server))

    def test_dead_letters_of_a_paused_target_are_not_lost_when_they_are_redriven(self, tmp_path: Path) -> None:
        path, news = tmp_path / "kizami.db", News()
        slots = [datetime(2025, 12, 2, 10, 23, second, tzinfo=UTC) for second in range(36)]
        with FaultServer(faults.answer()) as server:
            other, calls = every_second(server, "other"), every_second(server)
            with running(path, other, calls, new_config=news.read) as shown:
                wait_for(lambda: {each.record.metric for each in shown} == {"calls", "other"}, "rows of both")
                news.save(other)
                wait_for(lambda: not pending(path), "the pause")
                bury_past(path, slots, "status 503")
                letters = DeadLetters(path, SystemClock())
                assert letters.redrive(letters.newest()) == 36
                so_far = len(shown)
                wait_for(lambda: len(shown) > so_far + 2, "some time to lose them in")
                assert [each.last_error for each in pending(path)] == ["status 503"] * 36
                news.save(other)  # whoever saves the file has them as dead letters again, with their reasons
                wait_for(lambda: len(letters.newest()) == 36, "dead letters")
                assert {letter.reason for letter in letters.newest()} == {"status 503"}
                letters.redrive(letters.newest())
                letters.close()
                news.save(other, calls)
                wait_for(lambda: complete(path, slots[0], slots[-1] + timedelta(seconds=1)), "their rows")

    def test_what_the_last_run_has_planned_otherwise_is_planned_anew(self, tmp_path: Path) -> None:
        path = tmp_path / "kizami.db"
        with FaultServer(faults.answer()) as server:
            with running(path, every_second(server)):
                wait_for(lambda: live_plans(path), "a plan")
            target = every_second(server, interval_seconds=2, lag_seconds=4)
            with running(path, target, options=Options(spread=False)):
                wait_for(lambda: live_plans(path) == {(2, 4000)}, "a plan of the new target alone")

    def test_one_that_takes_long_to_read_holds_up_no_poll_and_no_end(self, tmp_path: Path) -> None:
        reading, goes_on = threading.Event(), threading.Event()

        def read_slowly() -> Config | None:
            reading.set()
            goes_on.wait()
            return None

        with FaultServer(faults.answer()) as server:
            try:
                with running(tmp_path / "kizami.db", every_second(server), new_config=read_slowly) as shown:
                    assert reading.wait(60)
                    so_far = len(shown)
                    wait_for(lambda: len(shown) > so_far + 2, "rows meanwhile")
            finally:
                goes_on.set()

    def test_one_that_the_database_refuses_for_a_while_is_in_force_later(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", 20)
        path, news = tmp_path / "kizami.db", News()
        with FaultServer(faults.answer()) as server:
            one, other = every_second(server), every_second(server, "other")
            with running(path, one, new_config=news.read) as shown:
                wait_for(lambda: shown, "a row")
                connection = database.open_database(path)
                with database.transaction(connection):
                    news.save(one, other)
                    wait_for(lambda: "the new configuration has to wait" in caplog.text, "the refusal")
                connection.close()
                wait_for(lambda: "other" in {each.record.metric for each in shown}, "rows of the new one")


def pending(path: Path, start: datetime = EVER[0], end: datetime = EVER[1]) -> list[PendingSlot]:
    with Reader.opened(path) as reader:
        return list(reader.pending("calls", start, end))


def bury_past(path: Path, slots: list[datetime], reason: str) -> None:
    """Make past slots dead letters, without having them asked for."""
    connection = database.open_database(path)
    with database.transaction(connection):
        number = connection.execute("SELECT id FROM metrics WHERE name = 'calls'").get
        rows = [FailedRow(to_seconds(slot), number, 0, 5, reason) for slot in slots]
        planned = [SentRow(row.slot, number, 1, 1000 * row.slot + 1000) for row in rows]
        statements.send(connection, planned, BACKFILL, 0)
        statements.fail(connection, rows)
        statements.bury(connection, rows, 0)
    connection.close()


def expected_from(path: Path, interval: int) -> datetime | None:
    """From when on slots are expected, once they are of that interval."""
    with Reader.opened(path) as reader:
        metric = reader.metrics()["calls"]
    return metric.first_slot if metric.interval_seconds == interval else None


def windows(server: FaultServer) -> list[tuple[datetime, int]]:
    """What was asked for: the beginning and the length of each window."""
    asked_for = [(request.query["from"][0], request.query["to"][0]) for request in server.requests]
    bounds = [(parse_instant(start), parse_instant(end)) for start, end in asked_for]
    return [(start, int((end - start).total_seconds())) for start, end in bounds]


def live_plans(path: Path) -> set[tuple[int, int]]:
    """Of what interval the live messages on the queue are, and how long after the beginning of their slot due."""
    with Reader.opened(path) as reader:
        return set(reader.rows("SELECT seconds, due_ms - 1000 * slot FROM messages WHERE priority = 0"))


def test_a_database_that_is_moved_away_ends_the_run_and_has_every_row(tmp_path: Path) -> None:
    path, moved = tmp_path / "kizami.db", tmp_path / "moved.db"
    shown: list[StoredRecord] = []

    def show(rows: list[StoredRecord]) -> None:
        shown.extend(rows)
        if path.exists():
            path.rename(moved)
        if len(shown) > 9:
            engine.stop()

    engine = Engine(path, Options(), TurnableClock(), show)
    with FaultServer(faults.answer()) as server, pytest.raises(StoreError, match="was moved away or deleted"):
        engine.run(Config((every_second(server),)))
    with Reader.opened(moved) as reader:
        stored = {record.slot for record in reader.records("calls", *EVER)}
    assert {each.record.slot for each in shown} <= stored
    assert not path.exists()
    database.open_database(path, create=True).close()  # the old one has left no rows beside its name


class TestFairness:
    """A host that does not answer costs its own slots only."""

    def test_a_target_that_is_down_does_not_keep_others_from_catching_up(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path, now = tmp_path / "kizami.db", datetime.now(UTC)
        monkeypatch.setattr(catch_up, "_QUEUE_MARK", 10)
        with FaultServer(faults.status(503, Retry_After="3600")) as dead, FaultServer(faults.answer()) as server:
            targets = [every_second(dead, "a-dead-one"), every_second(server)]
            connection = database.open_database(path, create=True)
            with database.transaction(connection):
                register_targets(connection, targets, now - timedelta(seconds=60))
            connection.close()
            with running(path, *targets):
                start = floor_to_slot(now, 1) - timedelta(seconds=60)
                wait_for(lambda: complete(path, start, start + timedelta(seconds=55)), "the minute before")

    def test_retries_and_backfill_of_one_do_not_wait_behind_those_of_a_host_that_hangs(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "kizami.db"
        slots = [datetime(2025, 12, 2, 10, 23, second, tzinfo=UTC) for second in range(50)]
        with FaultServer(faults.hang_before_headers) as hanging, FaultServer(fail_once(slots[7])) as server:
            targets = [every_second(hanging, f"hangs-{n}", timeout_seconds=300.0) for n in range(5)]
            fill_with_retries(path, targets, 1200)
            with running(path, every_second(server), *targets, options=Options(retry_seconds=0.05)) as shown:
                wait_for(lambda: shown, "a live row")
                send_past(path, *slots)
                wait_for(lambda: complete(path, slots[0], slots[-1] + timedelta(seconds=1)), "the backfill")
        assert len(hanging.requests) < 500  # what it may have in flight, not all that waits

    def test_a_target_that_hangs_does_not_delay_its_neighbours_on_the_same_host(self, tmp_path: Path) -> None:
        path, failed = tmp_path / "kizami.db", set[str]()

        def hang_or_fail_once(exchange: faults.Exchange) -> None:
            target = exchange.request.target
            if target.startswith("/hangs"):
                exchange.hang()
            elif target in failed:
                faults.answer()(exchange)
            else:
                failed.add(target)
                faults.status(500)(exchange)

        with FaultServer(hang_or_fail_once) as server:
            stuck = [every_second(f"{server.url}/hangs/{n}", f"hangs-{n}") for n in range(2)]
            neighbours = [every_second(f"{server.url}/{n}", f"fails-once-{n}") for n in range(5)]
            fill_with_retries(path, stuck, 1200)
            with running(path, *stuck, *neighbours, options=Options(retry_seconds=0.5)) as shown:
                wait_for(lambda: len(second_attempts(shown)) >= 40, "the neighbours' second attempts")
        assert {each.record.metric for each in shown} == {target.name for target in neighbours}
        assert max(each.late_ms for each in second_attempts(shown)) < 5000  # by their timeouts it was a minute

    def test_what_one_host_may_have_waiting_is_bounded(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "kizami.db"
        monkeypatch.setattr(active_targets, "_WAITING_SECONDS", 10.0)
        monkeypatch.setattr(waiting_lines, "_OVERFLOW_MS", 100)
        with FaultServer(faults.hang_before_headers) as hanging, FaultServer(faults.answer()) as server:
            target = every_second(hanging, "hangs", timeout_seconds=1.0)
            fill_with_retries(path, [target], 500)
            with running(path, every_second(server), target, options=Options(receive_limit=2)) as shown:
                letters = DeadLetters(path, SystemClock())
                wait_for(lambda: len(letters.newest()) >= 440, "dead letters")
                dead = letters.newest()
                letters.close()
                wait_for(lambda: len(shown) > 2, "rows of the other")
        bounded = [letter for letter in dead if "slots waited for its host" in letter.reason]
        assert len(bounded) >= 430
        assert {letter.metric for letter in bounded} == {"hangs"}


def test_overload_makes_some_slots_late_and_heals_when_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as much is due as can be asked for: what is too late waits as backfill, the rest is in time."""
    path, ask, overload = tmp_path / "kizami.db", Collector.ask, threading.Event()
    monkeypatch.setattr(loop, "LATE_MS", 1000)
    monkeypatch.setattr(writer, "LATE_MS", 1000)
    monkeypatch.setattr(loop, "BEHIND_MS", 200)

    def ask_slowly(collector: Collector, taken: TakenMessage) -> None:
        if overload.is_set():
            time.sleep(0.05)
        ask(collector, taken)

    monkeypatch.setattr(Collector, "ask", ask_slowly)
    with FaultServer(faults.answer()) as server:
        targets = [every_second(server, f"t{n}") for n in range(40)]
        with running(path, *targets) as shown:
            wait_for(lambda: len(shown) > 40, "a round of everybody")
            overload.set()
            began = datetime.now(UTC)
            wait_for(lambda: late_ones(path), "slots that are too late")
            far = began + timedelta(seconds=12)  # who asked for all in turn would be six seconds behind by then
            wait_for(lambda: any(is_live_after(each, far) for each in shown), "live rows all the same")
            overload.clear()
            end = floor_to_slot(datetime.now(UTC), 1) - timedelta(seconds=3)
            wait_for(lambda: all(complete(path, began, end, name=target.name) for target in targets), "all of it")
    assert all(each.late_ms < 6000 for each in shown if not each.backfilled)
    assert any(each.backfilled for each in shown)
    assert max(each.receives for each in shown) == 1


def late_ones(path: Path) -> bool:
    with Reader.opened(path) as reader:
        return bool(reader.rows(f"SELECT 1 FROM messages WHERE priority = {BACKFILL} LIMIT 1"))


def fill_with_retries(path: Path, targets: list[Target], count: int) -> None:
    """Give each target so many slots that wait to be tried again."""
    first = to_seconds(datetime(2025, 12, 2, 10, tzinfo=UTC))
    connection = database.open_database(path, create=True)
    with database.transaction(connection):
        known = register_targets(connection, targets, datetime.now(UTC))
        rows = [
            SentRow(slot, known[target.name].id, 1, 1000 * slot + 1000)
            for target in targets
            for slot in range(first, first + count)
        ]
        statements.send(connection, rows, RETRY, 0)
    connection.close()


def test_only_requests_count_however_often_a_message_is_handed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message is in hand for longer than it is hidden, so it is handed out again and again."""
    path = tmp_path / "kizami.db"
    monkeypatch.setattr(writer, "LOOK_AHEAD_MS", 50)

    def fail_slowly(exchange: faults.Exchange) -> None:
        exchange.stopping.wait(1.5)
        faults.status(500)(exchange)

    options = Options(visibility_seconds=0.01, receive_limit=2, retry_seconds=0.05)
    with FaultServer(fail_slowly) as server, running(path, every_second(server), options=options):
        letters = DeadLetters(path, SystemClock())
        wait_for(lambda: len(letters.newest()) >= 3, "dead letters")
        dead = letters.newest()
        letters.close()
    for letter in dead:
        assert (letter.receives, asked(server)[letter.slot]) == (2, 2)


LASTING = {"lies", "bomb", "gzip", "html"}  # waiting does not help
REASONS = {
    "refuses": "connect",
    "hangs": "no complete answer within 1.5 s",
    "drips": "no complete answer within 1.5 s",
    "lies": "the answer is about 2001-01-01T00:00:00Z",
    "bomb": "larger than 1048576 bytes",
    "gzip": "larger than 1048576 bytes",
    "html": "not JSON",
    "broken": "status 500, expected 200",
}


def test_targets_of_any_shape_are_polled_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At one host, by GET and by POST: no request has anything of another's."""
    path = tmp_path / "kizami.db"
    monkeypatch.setenv("KIZAMI_TEST_KEY", "canary & co")
    query = {
        "from": ("{from}",),
        "to": ("{to}",),
        "before": ("{from-1m:%H:%M:%S}",),
        "key": (SecretReference("env", "KIZAMI_TEST_KEY"),),
    }
    with FaultServer(faults.answer()) as server:
        posted = every_second(server, "posted", path="", query=query, body='{"at": {from:unix}}', method="POST")
        with running(path, posted, every_second(server, "plain")) as shown:
            wait_for(lambda: {each.record.metric for each in shown} == {"posted", "plain"}, "rows of both")
            count = len(shown)
            wait_for(lambda: len(shown) > count + 3, "more of them")
    for seen in server.requests:
        begin = parse_instant(seen.query["from"][0])
        if seen.method == "GET":
            assert (set(seen.query), seen.body) == ({"from", "to"}, b"")
        else:
            assert (seen.method, json.loads(seen.body)) == ("POST", {"at": int(begin.timestamp())})
            assert seen.query["before"] == [f"{begin - timedelta(minutes=1):%H:%M:%S}"]
            assert seen.query["key"] == ["canary & co"]
            assert seen.headers["content-type"] == "application/json"
    assert b"canary" not in path.read_bytes()


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

    def test_their_slots_die_or_are_kept_with_the_reason_and_the_others_stay_on_time(
        self, tmp_path: Path, misbehaving: dict[str, str]
    ) -> None:
        path = tmp_path / "kizami.db"
        options = Options(receive_limit=2, retry_seconds=0.05)
        with FaultServer(faults.answer()) as server:
            bad = [
                every_second(url, name, timeout_seconds=1.5 if name in ("hangs", "drips") else 60.0)
                for name, url in misbehaving.items()
            ]
            # Whoever waited for this one would not come to the others before the test is over. Asked every second,
            # it would take all places of its host, on a slow machine before the other one has failed twice.
            stuck = {"interval_seconds": 5, "lag_seconds": 5, "timeout_seconds": 300.0}
            bad.append(every_second(misbehaving["hangs"], "stuck", **stuck))
            with running(path, every_second(server), *bad, options=options) as shown:
                letters = DeadLetters(path, SystemClock())
                wait_for(
                    lambda: {each.metric for each in letters.newest()} == REASONS.keys() - LASTING, "the dead"
                )
                wait_for(lambda: len(shown) >= 3, "rows of the good one")
                dead = letters.newest()
                letters.close()
                blocked = wait_for(
                    lambda: found if (found := blocks(path)).keys() == LASTING else None, "the blocked"
                )
        for name, trouble in blocked.items():
            assert REASONS[name] in trouble.reason
        for letter in dead:
            assert REASONS[letter.metric] in letter.reason
            assert letter.receives == 2
        assert {each.record.metric for each in shown} == {"calls"}
        assert all(each.receives == 1 for each in shown)
        assert max(asked(server).values()) == 1

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
            target = every_second(server, interval_seconds=10, lag_seconds=0)
            clock = TurnableClock()
            turn_to_before_a_tick(clock)
            with running(path, target, options=Options(retry_seconds=0.01), clock=clock) as shown:
                (stored,) = wait_for(lambda: second_attempts(shown), "the second attempt")
        assert stored.late_ms >= 3000

    def test_a_rate_limit_is_waited_for_and_a_bad_key_is_told_soon(self, tmp_path: Path) -> None:
        path = tmp_path / "kizami.db"
        limited = faults.status(403, X_RateLimit_Remaining="0", X_RateLimit_Reset="3")
        refused = faults.status(403, X_RateLimit_Remaining="57", X_RateLimit_Reset="3")
        with (
            FaultServer(limited, limited, limited, then=faults.answer()) as busy,
            FaultServer(refused) as closed,
        ):
            targets = [every_second(busy), every_second(closed, "refused")]
            with running(path, *targets, options=Options(retry_seconds=0.01)) as shown:
                wait_for(lambda: len(second_attempts(shown)) >= 3, "the second attempts")
                blocked = wait_for(lambda: blocks(path), "the bad key")
        assert min(each.late_ms for each in second_attempts(shown)) >= 2000  # it is told in whole seconds
        assert blocked.keys() == {"refused"}
        assert len(closed.requests) == 2


def test_a_host_gets_no_more_requests_than_its_limit_live_ones_first_and_a_restart_changes_nothing(
    tmp_path: Path,
) -> None:
    path, moments = tmp_path / "kizami.db", list[float]()

    def note(exchange: faults.Exchange) -> None:
        moments.append(time.monotonic())
        faults.answer()(exchange)

    past = [datetime(2025, 12, 2, 10, 23, second, tzinfo=UTC) for second in range(30)]
    with FaultServer(note) as server:
        limit = RequestLimit(urlsplit(server.url).netloc, 12, 4, Fraction(4))
        with running(path, every_second(server), limits=(limit,)) as first:
            wait_for(lambda: first, "a live row")
            send_past(path, *past)
            wait_for(lambda: len(first) >= 20, "some of the backfill")
        with running(path, every_second(server), limits=(limit,)) as second:
            wait_for(lambda: complete(path, past[0], past[-1] + timedelta(seconds=1)), "all of it")
    # One request is a little longer on its way than another.
    assert min(late - early for early, late in zip(moments, moments[12:], strict=False)) > 3.5
    live = [[each.late_ms for each in shown if not each.backfilled] for shown in (first, second)]
    assert len(live[0]) > 4
    assert max(live[0]) < 1000
    assert max(live[1]) < 4000  # all that was asked for before may be in its way


class Gauge:
    """How many requests are in hand at once, and the most there were; with `total` of several servers."""

    def __init__(self, total: Gauge | None = None) -> None:
        self._total = total
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0

    def add(self, number: int) -> None:
        with self._lock:
            self._now += number
            self.most = max(self.most, self._now)
        if self._total:
            self._total.add(number)

    def answer_slowly(self, exchange: faults.Exchange) -> None:
        self.add(1)
        exchange.stopping.wait(0.1)
        self.add(-1)  # before the answer, after which the next request may come
        faults.answer()(exchange)


def test_no_more_requests_are_in_flight_than_allowed_in_all_and_to_one_host(tmp_path: Path) -> None:
    total = Gauge()
    one, other = Gauge(total), Gauge(total)
    limits = Options(max_in_flight=5, max_per_host=3, spread=False)
    with FaultServer(one.answer_slowly) as first, FaultServer(other.answer_slowly) as second:
        servers = [first, second] * 6
        targets = [
            every_second(server, f"t{number}", interval_seconds=2, lag_seconds=2, timeout_seconds=30.0)
            for number, server in enumerate(servers)
        ]
        with running(tmp_path / "kizami.db", *targets, options=limits) as shown:
            wait_for(lambda: len(shown) >= 24, "two rounds of everybody")
    assert one.most <= 3
    assert other.most <= 3
    assert total.most <= 5  # without the limits all twelve are
    assert all(each.receives == 1 for each in shown)


class TestSpread:
    def test_targets_are_planned_in_turn_over_the_interval_and_none_is_asked_before_its_moment(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "kizami.db"
        with FaultServer(faults.answer()) as server:
            targets = [every_second(server, f"t{n}", interval_seconds=2, lag_seconds=2) for n in range(8)]
            with running(path, *targets) as shown:
                wait_for(lambda: len(shown) >= 16, "two rounds")
        planned = planned_ms(path)
        assert all(len(moments) == 1 for moments in planned.values())  # each at its own, in every interval
        # Eight targets over two seconds: one every 250 ms, or as much before as it takes to leave with others.
        even = [math.ceil(min(moments) / 250) * 250 for moments in planned.values()]
        assert sorted(even) == list(range(0, 2000, 250))
        with Reader.opened(path) as reader:
            for name, moments in planned.items():
                # What was caught up with, after the machine stood still for a while, has no moment.
                live = [row for row in reader.stored(name, *EVER) if not row.backfilled]
                assert live
                assert all(asked_ms(row) >= min(moments) for row in live)

    def test_without_spread_they_are_all_planned_at_the_tick(self, tmp_path: Path) -> None:
        path = tmp_path / "kizami.db"
        with FaultServer(faults.answer()) as server:
            targets = [every_second(server, f"t{n}", interval_seconds=2, lag_seconds=2) for n in range(8)]
            with running(path, *targets, options=Options(spread=False)) as shown:
                wait_for(lambda: len(shown) >= 8, "a round")
        assert planned_ms(path) == {target.name: {0} for target in targets}


def planned_ms(path: Path) -> dict[str, set[int]]:
    """How long after the tick each metric's messages, which are on the queue for a while yet, are due."""
    sql = "SELECT name, (due_ms - 1000 * slot) % 2000 FROM messages JOIN metrics ON id = metric_id"
    found: dict[str, set[int]] = {}
    with Reader.opened(path) as reader:
        for name, moment in reader.rows(f"{sql} WHERE priority = 0", ()):
            found.setdefault(name, set()).add(moment)
    return found


def asked_ms(row: StoredSlot) -> int:
    """How long after its tick a slot had been asked for, and answered."""
    return round((row.collected_at - row.slot).total_seconds() * 1000) - 2000
