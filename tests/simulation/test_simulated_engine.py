"""The engine in simulated time, a promise at a time: what crashes, stops, stalls and full disks leave behind."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from kizami.core.epoch import to_seconds
from kizami.core.errors import QueueError
from kizami.core.sender import message_for_slot
from kizami.core.slots import floor_to_slot
from kizami.core.targets.target import Target
from kizami.local.engine import catch_up, loop, writer
from kizami.local.engine.options import Options
from kizami.local.store.backfill_queue import BackfillQueue
from kizami.local.store.metrics import register_targets
from kizami.local.store.statements import BACKFILL, RETRY
from simulation.simulated_engine import HOST, SimulatedEngine, polled
from simulation.world.apis import Mood
from simulation.world.simulation import START
from simulation.world.timeline import SECOND


def told(caplog: pytest.LogCaptureFixture, event: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if getattr(record, "event", "") == event]


def known_for(engine: SimulatedEngine, seconds: int) -> None:
    """Its targets were known to the database before."""
    with engine.connection() as connection, connection:
        register_targets(connection, engine.targets, engine.clock.now() - timedelta(seconds=seconds))


def send_past(engine: SimulatedEngine, seconds: int) -> int:
    """Somebody asks for a slot that was so long ago."""
    slot = floor_to_slot(engine.clock.now() - timedelta(seconds=seconds), 1)
    queue = BackfillQueue(engine.path, engine.clock)
    queue.send_backfill([message_for_slot(slot, polled())])
    queue.close()
    return to_seconds(slot)


def stored_slots(engine: SimulatedEngine) -> set[int]:
    return {slot for (slot,) in engine.rows("SELECT slot FROM slots")}


class TestADayWithoutTrouble:
    def test_every_slot_is_asked_for_once_at_its_moment_and_stored(self) -> None:
        with SimulatedEngine(polled(), polled("slow", 5)).run(30) as engine:
            asked = engine.times_asked()
            assert set(asked.values()) == {1}
            assert all(poll.asked_ms - poll.taken.due_ms < 50 for _, poll in engine.asked)
            assert all(poll.live for _, poll in engine.asked)
            assert len(engine.shown) >= 29 + 5
            assert all(each.receives == 1 and each.late_ms < 50 for each in engine.shown)

    def test_a_stop_settles_or_gives_back_all_that_was_handed_out_and_shows_what_it_stores(self) -> None:
        """Of three that answer one after the other, the last is stored by the writer's last turn."""
        with SimulatedEngine(polled(), polled("second"), polled("third", 2)).run(10.1) as engine:
            engine.stop()
            assert engine.rows("SELECT * FROM messages WHERE held") == []
            assert engine.rows("SELECT count(*) FROM slots") == [(len(engine.shown),)]
            assert len(engine.shown) == len(engine.asked)

    def test_what_is_in_flight_at_a_stop_comes_in_or_counts_as_asked_for(self) -> None:
        with SimulatedEngine(polled()) as engine:
            engine.apis.set_mood(HOST, Mood.HANGS, 0)
            engine.run(3.5).stop()
            waiting = engine.rows("SELECT receives, held FROM messages WHERE receives > 0")
            assert waiting == [(1, 0)] * len(engine.asked)

    def test_a_stop_waits_less_than_a_second_for_a_host_that_hangs(self) -> None:
        with SimulatedEngine(polled()) as engine:
            engine.apis.set_mood(HOST, Mood.HANGS, 0)
            engine.run(3.5)
            assert engine.engine is not None
            engine.engine.stop()
            engine.run(2)
            assert not engine.engine._writer.alive


class TestACrash:
    def test_what_was_handed_out_and_never_asked_for_is_asked_for_at_its_moment_and_counts_once(self) -> None:
        """Five seconds ahead are in hand when it dies."""
        with SimulatedEngine(polled(seconds=2)).run(7) as engine:
            assert engine.rows("SELECT count(*) FROM messages WHERE held")[0][0] >= 2
            engine.crash()
            engine.run(10)
            assert max(engine.times_asked().values()) == 1
            assert all(each.receives == 1 for each in engine.shown)
            assert all(poll.taken.attempts == 0 for _, poll in engine.asked)
            assert [poll for _, poll in engine.asked if poll.asked_ms < poll.taken.due_ms] == []
            slots = stored_slots(engine)
            assert set(range(min(slots), max(slots) + 2, 2)) == slots

    def test_live_messages_that_are_late_by_then_are_backfill(self) -> None:
        with SimulatedEngine(polled()).run(7) as engine:
            engine.crash()
            engine.timeline.now += 60_000_000
            began = engine.now_ms
            engine.run(5)
            late = [poll for _, poll in engine.asked if poll.taken.due_ms < began - 5000 <= poll.asked_ms]
            assert late
            assert {poll.taken.priority for poll in late if poll.asked_ms >= began} == {BACKFILL}

    def test_what_was_missed_meanwhile_is_caught_up_with(self) -> None:
        with SimulatedEngine(polled()).run(5) as engine:
            engine.crash()
            engine.timeline.now += 120_000_000
            engine.run(20)
            slots = stored_slots(engine)
            assert set(range(min(slots), max(slots) + 1)) == slots


class TestAProcessThatStandsStill:
    def test_it_is_noticed_and_what_is_late_is_backfill(self, caplog: pytest.LogCaptureFixture) -> None:
        with SimulatedEngine(polled()).run(10) as engine:
            engine.stand_still(30)
            engine.run(10)
            (line,) = told(caplog, "clock.jumped")
            assert vars(line)["clock_jumped_seconds"] == 0
            assert vars(line)["held_up_seconds"] == pytest.approx(30, abs=1)
            late = [each for each in engine.shown if each.late_ms > 5000]
            assert late
            assert all(each.backfilled for each in late)
            slots = stored_slots(engine)
            assert set(range(min(slots), max(slots) + 1)) == slots

    def test_a_short_one_is_not_told_of(self, caplog: pytest.LogCaptureFixture) -> None:
        with SimulatedEngine(polled()).run(10) as engine:
            engine.stand_still(3)
            engine.run(10)
        assert told(caplog, "clock.jumped") == []

    def test_a_clock_that_is_set_is_noticed(self, caplog: pytest.LogCaptureFixture) -> None:
        with SimulatedEngine(polled()).run(10.5) as engine:
            engine.clock.turn(-2)
            engine.run(5)
            (line,) = told(caplog, "clock.jumped")
            assert vars(line)["clock_jumped_seconds"] == pytest.approx(-2, abs=0.1)
            assert max(engine.times_asked().values()) == 1

    def test_an_hour_back_the_hour_is_lived_again_and_waits_stay_as_long_as_they_were(self) -> None:
        with SimulatedEngine(polled(), options=Options(spread=False, retry_seconds=8.0)).run(1.5) as engine:
            engine.apis.set_mood(HOST, Mood.ERRORS, 0)
            past = send_past(engine, 7200)
            engine.run(2)
            engine.apis.set_mood(HOST, Mood.WELL, engine.timeline.now)
            engine.clock.turn(-3600)
            engine.run(20)
            assert [poll.taken.attempts for asked, poll in engine.asked if asked.slot == past] == [0, 1]
            lived = [asked.slot for asked, poll in engine.asked if poll.live and poll.taken.slot < START // SECOND]
            assert len(lived) >= 18


class TestAWriterInTrouble:
    def test_a_writer_that_is_dead_ends_the_run(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        with SimulatedEngine(polled()).run(5) as engine:

            def break_down(self: writer.Writer) -> None:
                raise RuntimeError("a fault")

            monkeypatch.setattr(writer.Writer, "_turn", break_down)
            engine.run(10)
            assert "writing has stopped" in str(engine.failure)
            assert told(caplog, "writer.stopped")

    def test_a_full_disk_is_told_of_once_and_polling_goes_on(self, caplog: pytest.LogCaptureFixture) -> None:
        with SimulatedEngine(polled()).run(5) as engine:
            engine.disk.is_full = True
            asked, shown = len(engine.asked), len(engine.shown)
            engine.run(20)
            assert len(engine.asked) - asked >= 19
            assert len(engine.shown) - shown <= 2
            engine.disk.is_full = False
            engine.run(5)
            assert len(engine.shown) >= 28
            assert max(engine.times_asked().values()) == 1
            assert len(told(caplog, "database.unwritable")) == len(told(caplog, "database.writable")) == 1

    def test_when_memory_is_full_polling_stops_until_the_disk_takes_something(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(writer, "HELD_LIMIT", 100)
        with SimulatedEngine(polled()).run(5) as engine:
            engine.disk.is_full = True
            engine.run(120)  # a minute's plans and their results are more than that
            asked = len(engine.asked)
            engine.run(120)
            assert len(engine.asked) <= asked + 1
            engine.disk.is_full = False
            engine.run(30)
            slots = stored_slots(engine)
            assert set(range(min(slots), max(slots) + 1)) == slots
            assert max(engine.times_asked().values()) == 1

    def test_planning_waits_while_too_much_is_unwritten(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(loop, "_PLAN_LIMIT", 50)
        with SimulatedEngine(*(polled(f"t{n}", 5) for n in range(8))).run(5) as engine:
            engine.disk.is_full = True
            engine.run(300)
            assert engine.engine is not None
            planned = sum(len(batch.sent) for batch in engine.engine._writer._unwritten)
            assert planned < 50 + 8 * 12  # less than a minute's plan beyond the limit


class TestCatchingUp:
    def test_no_more_is_on_the_queue_than_its_mark_however_much_was_missed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(catch_up, "_QUEUE_MARK", 48)
        with SimulatedEngine(polled(), polled("other", host="other.example")) as engine:
            known_for(engine, 3600)
            engine.apis.set_mood(HOST, Mood.HANGS, 0)
            most = 0
            for _ in range(40):
                engine.run(1)
                ((waiting,),) = engine.rows(
                    "SELECT count(*) FROM messages JOIN metrics ON id = metric_id WHERE priority = ? AND name = ?",
                    BACKFILL,
                    "calls",
                )
                most = max(most, waiting)
            assert 12 <= most <= 48
            # The one that answers has its hour meanwhile, and waits for nobody.
            rows = engine.rows("SELECT count(*) FROM slots JOIN metrics ON id = metric_id WHERE name = 'other'")
            assert rows[0][0] >= 1000

    def test_trouble_only_postpones_it(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        refusals, search = [QueueError("locked"), QueueError("locked")], catch_up.CatchUp._send_missed

        def refuse_at_first(self: catch_up.CatchUp, *arguments: object) -> int:
            if refusals:
                raise refusals.pop()
            return search(self, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(catch_up.CatchUp, "_send_missed", refuse_at_first)
        with SimulatedEngine(polled()) as engine:
            known_for(engine, 100)
            engine.run(4)
            before = len(stored_slots(engine))
            engine.run(20)
            assert len(told(caplog, "catch_up.postponed")) == 2
            assert before < 10 < 100 <= len(stored_slots(engine))

    def test_a_search_starts_over_with_what_is_due_by_now(self, monkeypatch: pytest.MonkeyPatch) -> None:
        began: list[datetime] = []
        search = catch_up.CatchUp._catch_up

        def note(self: catch_up.CatchUp, targets: Sequence[Target], until: datetime) -> int:
            began.append(until)
            return search(self, targets, until)

        monkeypatch.setattr(catch_up.CatchUp, "_catch_up", note)
        with SimulatedEngine(polled()).run(10) as engine:
            engine.clock.turn(60)
            engine.run(10)
        assert len(began) == 2
        assert began[1] - began[0] > timedelta(seconds=60)

    def test_old_messages_are_asked_for_at_a_bounded_rate(self) -> None:
        with SimulatedEngine(polled(), options=Options(spread=False, backfill_per_second=10)) as engine:
            known_for(engine, 600)
            engine.run(20.5)
            old = [poll for _, poll in engine.asked if not poll.live]
            assert 150 <= len(old) <= 215


class TestANewConfiguration:
    def test_retries_of_a_target_that_is_removed_go_with_it(self) -> None:
        with SimulatedEngine(polled(), polled("gone")) as engine:
            engine.apis.set_mood(HOST, Mood.ERRORS, 0)
            engine.run(5)
            of_gone = "SELECT count(*) FROM messages JOIN metrics ON id = metric_id WHERE name = 'gone'"
            assert engine.rows(f"{of_gone} AND priority = {RETRY}")[0][0] > 0
            engine.reload(polled())
            engine.run(5)
            assert engine.rows(of_gone) == [(0,)]
            assert engine.rows("SELECT count(*) FROM messages WHERE priority = ?", RETRY)[0][0] > 0

    def test_one_that_is_added_is_polled_from_its_next_tick_on(self) -> None:
        with SimulatedEngine(polled()).run(5) as engine:
            engine.reload(polled(), polled("new", 5))
            engine.run(12)
            assert {asked.name for asked, _ in engine.asked} == {"calls", "new"}
            assert max(engine.times_asked().values()) == 1

    def test_another_interval_is_asked_for_from_then_on_only(self) -> None:
        with SimulatedEngine(polled()).run(5) as engine:
            engine.reload(polled(seconds=5))
            engine.run(1.5)
            after = len(engine.asked)
            engine.run(20)
            assert {asked.seconds for asked, _ in engine.asked[after:]} == {5}

    def test_one_that_cannot_be_written_waits_until_it_can(self, caplog: pytest.LogCaptureFixture) -> None:
        with SimulatedEngine(polled()).run(5) as engine:
            engine.disk.is_full = True
            engine.run(2)
            engine.reload(polled(), polled("new"))
            engine.run(5)
            assert told(caplog, "config.postponed")
            engine.disk.is_full = False
            engine.run(5)
            assert {asked.name for asked, _ in engine.asked} == {"calls", "new"}


class TestHostsInTrouble:
    def test_a_retry_comes_back_at_a_time_that_chance_has_a_part_in(self) -> None:
        with SimulatedEngine(polled(seconds=10), options=Options(spread=False, retry_seconds=8.0)) as engine:
            engine.apis.set_mood(HOST, Mood.ERRORS, 0)
            engine.run(40)
            waits = [
                later.asked_ms - earlier.asked_ms
                for _, earlier in engine.asked
                for _, later in engine.asked
                if (later.taken.key, later.taken.attempts) == (earlier.taken.key, 1)
                and earlier.taken.attempts == 0
            ]
            assert len(waits) >= 3
            assert all(3500 <= wait <= 9500 for wait in waits)
            assert max(waits) - min(waits) > 500

    def test_a_slot_dies_after_its_attempts_with_the_reason(self) -> None:
        options = Options(spread=False, retry_seconds=0.1, receive_limit=3)
        with SimulatedEngine(polled(seconds=5), options=options) as engine:
            engine.apis.set_mood(HOST, Mood.ERRORS, 0)
            engine.run(20)
            dead = engine.rows("SELECT receives, reason FROM dead_letters")
            assert dead
            assert all(receives == 3 and "expected 200" in reason for receives, reason in dead)
            assert max(engine.times_asked().values()) == 3

    def test_one_that_refuses_the_key_is_blocked_probed_and_asked_for_all_that_was_kept(self) -> None:
        with SimulatedEngine(polled(seconds=5)) as engine:
            engine.apis.set_mood(HOST, Mood.REFUSES, 0)
            engine.run(30)
            assert engine.rows("SELECT count(*) FROM blocks WHERE next_ms IS NOT NULL") == [(1,)]
            asked = len(engine.asked)
            engine.run(25)
            assert len(engine.asked) == asked
            engine.apis.set_mood(HOST, Mood.WELL, engine.timeline.now)
            engine.run(120)
            slots = stored_slots(engine)
            assert set(range(min(slots), max(slots) + 5, 5)) == slots
            assert engine.rows("SELECT * FROM dead_letters") == []
            assert engine.rows("SELECT * FROM blocks") == []

    def test_a_blocked_one_is_not_asked_at_once_after_a_restart(self) -> None:
        with SimulatedEngine(polled(seconds=5)) as engine:
            engine.apis.set_mood(HOST, Mood.REFUSES, 0)
            engine.run(20).stop()
            asked = len(engine.asked)
            engine.crash()
            engine.run(10)
            assert len(engine.asked) == asked
            engine.run(90)
            assert asked < len(engine.asked) <= asked + 3


def test_what_is_handed_out_twice_is_asked_for_once() -> None:
    """It is hidden for less time than the answer takes."""
    with SimulatedEngine(polled(), options=Options(spread=False, visibility_seconds=0.5)) as engine:
        engine.apis.set_mood(HOST, Mood.HANGS, 0)
        engine.run(9)
        assert max(engine.times_asked().values()) == 1


def test_another_process_s_backfill_is_noticed_within_a_second() -> None:
    with SimulatedEngine(polled()).run(5) as engine:
        past = send_past(engine, 3600)
        engine.run(1.2)
        assert [poll.taken.priority for asked, poll in engine.asked if asked.slot == past] == [BACKFILL]


def test_a_drain_works_off_the_queue_and_plans_nothing() -> None:
    with SimulatedEngine(polled()) as engine:
        known_for(engine, 600)
        past = [send_past(engine, seconds) for seconds in (60, 90)]
        engine.start(live=False).run(120)
        assert sorted(asked.slot for asked, _ in engine.asked) == sorted(past)


def test_what_is_late_goes_back_and_those_in_time_stay_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop takes up in one turn what was due six seconds ago, and what is due now."""
    monkeypatch.setattr(loop, "STALL_MS", 60_000)
    with SimulatedEngine(polled()).run(10) as engine:
        engine.stand_still(6.5)
        engine.run(5)
        assert all(poll.asked_ms - poll.taken.due_ms <= 5000 for _, poll in engine.asked if poll.live)
        assert [poll for _, poll in engine.asked if poll.taken.priority == BACKFILL]
        assert max(engine.times_asked().values()) == 1
