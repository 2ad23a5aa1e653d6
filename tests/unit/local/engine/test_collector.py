"""The Collector of one machine: what becomes of a message, without network, disk or time."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from fakes.ports import ManualClock
from kizami.core.collector import Response
from kizami.core.epoch import to_ms
from kizami.core.errors import ApiUnreachable
from kizami.core.targets.target import Target
from kizami.local.engine.active_targets import ActiveTarget
from kizami.local.engine.collector import Collector, Poll
from kizami.local.engine.host_limits import LIVE_WAIT_MS, OLD_WAIT_MS
from kizami.local.engine.machine import Machine
from kizami.local.engine.options import Options
from kizami.local.http.fetcher import Finished
from kizami.local.http.requester import Requester
from kizami.local.http.target_access import TargetAccess
from kizami.local.store.rows import SlotKey, TakenMessage
from kizami.local.store.statements import BACKFILL, LIVE, RETRY

NUMBER = 7


class WallClock(ManualClock):
    def milliseconds(self) -> float:
        return to_ms(self.now())


class HalfChance(Machine):
    """A machine on which chance is always the same."""

    def chance(self) -> float:
        return 0.5


class Sent:
    """A requester that only notes what is sent."""

    max_connections = 1000

    def __init__(self) -> None:
        self.polls: list[Poll] = []

    def start(self, url: str, access: TargetAccess, tag: Poll, body: bytes | None) -> None:
        self.polls.append(tag)

    def wait(self, seconds: float) -> list[Finished]:
        return []


class Bench:
    """A Collector at work on one target, whose newest slot is due now."""

    def __init__(self, options: Options | None = None, **settings: Any) -> None:
        self.clock, self.sent = WallClock(), Sent()
        given: dict[str, Any] = {"interval_seconds": 5, "lag_seconds": 5, "url": "http://api.example"} | settings
        self.target = Target(name="calls", **given)
        self.collector = Collector(cast(Requester, self.sent), options or Options(), self.clock, HalfChance())
        active = ActiveTarget(self.target, NUMBER, 0, "api.example", cast(TargetAccess, None), (NUMBER,))
        self.collector.use_targets({NUMBER: active})
        self.slot = self.now_ms // 1000 - 5

    @property
    def now_ms(self) -> int:
        return int(self.clock.milliseconds())

    def message(self, slot: int | None = None, priority: int = LIVE, attempts: int = 0) -> TakenMessage:
        slot = self.slot if slot is None else slot
        return TakenMessage(slot, NUMBER, self.target.interval_seconds, priority, (slot + 5) * 1000, attempts)

    def ask(self, *, probe: bool = False, **of_message: Any) -> Poll:
        self.collector.ask(self.message(**of_message), probe=probe)
        return self.sent.polls[-1]

    def answer(self, poll: Poll, outcome: Any) -> None:
        self.collector.settle(Finished(poll, outcome))

    def good(self, poll: Poll, count: int = 7) -> Response:
        start, end = poll.message.window.start, poll.message.window.end
        words = f'{{"from": "{start.isoformat()}", "to": "{end.isoformat()}", "count": {count}}}'
        return Response(200, words.encode())


class TestAnAnswer:
    def test_is_stored_with_the_lateness_of_its_request_and_not_of_the_answer(self) -> None:
        bench = Bench()
        bench.clock.advance(0.3)
        poll = bench.ask()
        bench.clock.advance(4)
        bench.answer(poll, bench.good(poll))
        (row,) = bench.collector.batch.stored
        assert (row.late_ms, row.collected_ms, row.receives, row.backfilled) == (300, bench.now_ms, 1, False)

    def test_a_request_that_leaves_a_moment_early_by_its_clock_is_not_late(self) -> None:
        bench = Bench()
        poll = bench.ask()
        poll.asked_ms -= 100
        bench.answer(poll, bench.good(poll))
        assert bench.collector.batch.stored[0].late_ms == 0

    @pytest.mark.parametrize(("priority", "backfilled"), [(LIVE, False), (RETRY, False), (BACKFILL, True)])
    def test_says_whether_it_was_backfill(self, priority: int, backfilled: bool) -> None:
        bench = Bench()
        poll = bench.ask(priority=priority, attempts=2)
        bench.answer(poll, bench.good(poll))
        (row,) = bench.collector.batch.stored
        assert (row.backfilled, row.receives) == (backfilled, 3)

    def test_that_comes_before_its_slot_s_moment_is_not_kept(self) -> None:
        """The clock was ahead, and was set right meanwhile."""
        bench = Bench()
        poll = bench.ask()
        bench.clock.advance(-60)
        bench.answer(poll, bench.good(poll))
        (row,) = bench.collector.batch.unasked
        assert (row.visible_ms, bench.collector.batch.stored) == ((bench.slot + 5) * 1000, [])


class TestAFailure:
    def test_is_tried_again_after_a_wait_in_which_chance_has_a_part(self) -> None:
        bench = Bench(Options(retry_seconds=8.0))
        bench.answer(bench.ask(), Response(500, b""))
        bench.answer(bench.ask(slot=bench.slot - 5, priority=RETRY, attempts=1), Response(500, b""))
        first, second = bench.collector.batch.failed
        assert (first.attempts, first.visible_ms) == (1, bench.now_ms + 6000)
        assert (second.attempts, second.visible_ms) == (2, bench.now_ms + 24_000)

    def test_is_told_in_so_many_characters_and_no_more(self) -> None:
        bench = Bench(Options(receive_limit=2))
        bench.answer(bench.ask(), ApiUnreachable("x" * 299))
        bench.answer(bench.ask(), ApiUnreachable("x" * 301))
        bench.answer(bench.ask(attempts=1), ApiUnreachable("x" * 5000))
        short, cut = bench.collector.batch.failed
        (dead,) = bench.collector.batch.buried
        assert (len(short.error), len(cut.error), len(dead.error)) == (299, 300, 300)
        assert cut.error.endswith("…")

    def test_kills_its_slot_at_the_last_attempt_and_not_before(self) -> None:
        bench = Bench(Options(receive_limit=3))
        bench.answer(bench.ask(attempts=1), Response(500, b""))
        assert (len(bench.collector.batch.failed), bench.collector.batch.buried) == (1, [])
        bench.answer(bench.ask(attempts=2), Response(500, b""))
        assert [row.attempts for row in bench.collector.batch.buried] == [3]

    def test_of_what_can_only_be_asked_for_live_leaves_the_slot_missing(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        bench = Bench(backfill=False)
        bench.answer(bench.ask(), Response(500, b""))
        assert bench.collector.batch.failed  # there is time for another attempt
        bench.clock.advance(4)
        bench.answer(bench.ask(), Response(500, b""))
        assert bench.collector.batch.removed == [SlotKey(bench.slot, NUMBER)]
        assert "slot.missed" in {vars(record).get("event") for record in caplog.records}

    def test_that_lasts_blocks_the_target_and_keeps_the_slot(self) -> None:
        bench = Bench()
        for _ in range(2):
            bench.answer(bench.ask(), Response(401, b""))
        assert bench.collector.blocked.holds(NUMBER)
        assert bench.collector.host_of(NUMBER) is None
        assert bench.collector.batch.buried == []
        bench.collector.ask(bench.message(slot=bench.slot - 5))
        bench.collector.ask(bench.message(slot=bench.slot - 10, priority=RETRY))
        assert len(bench.sent.polls) == 2
        assert SlotKey(bench.slot - 5, NUMBER) in bench.collector.batch.removed
        assert [row.slot for row in bench.collector.batch.unasked] == [bench.slot - 10]

    def test_that_blocks_the_target_keeps_what_stands_in_line(self) -> None:
        bench = Bench(Options(max_per_host=1))
        bench.ask()
        for n in (1, 2):
            bench.collector.ask(bench.message(slot=bench.slot - 5 * n))
        for n in range(2):
            bench.answer(bench.sent.polls[n], Response(401, b""))
        assert len(bench.sent.polls) == 2
        assert bench.collector.batch.removed == [SlotKey(bench.slot - 10, NUMBER)]

    def test_of_a_probe_uses_up_no_more_of_the_slot_s_attempts_than_two(self) -> None:
        bench = Bench()
        for _ in range(2):
            bench.answer(bench.ask(), Response(401, b""))
        for attempts in range(2, 6):
            bench.answer(bench.ask(priority=RETRY, attempts=attempts, probe=True), Response(401, b""))
        assert bench.collector.batch.buried == []
        assert max(row.attempts for row in bench.collector.batch.failed) == 2


class TestAMessageThatIsNotSent:
    def test_for_a_target_that_is_gone_or_has_another_interval_is_removed(self) -> None:
        bench = Bench()
        bench.collector.ask(bench.message()._replace(metric_id=99))
        bench.collector.ask(bench.message()._replace(seconds=10))
        assert bench.sent.polls == []
        assert bench.collector.batch.removed == [SlotKey(bench.slot, 99), SlotKey(bench.slot, NUMBER)]

    def test_before_its_moment_waits_for_it(self) -> None:
        bench = Bench()
        bench.collector.ask(bench.message(slot=bench.slot + 5, priority=BACKFILL))
        assert bench.sent.polls == []
        (row,) = bench.collector.batch.unasked
        assert row.visible_ms == (bench.slot + 10) * 1000

    def test_after_its_time_stays_missing_where_the_api_can_only_say_now(self) -> None:
        bench = Bench(backfill=False)
        bench.clock.advance(5)
        bench.collector.ask(bench.message())
        assert bench.sent.polls == []
        assert bench.collector.batch.removed == [SlotKey(bench.slot, NUMBER)]

    def test_off_the_target_s_slots_is_a_dead_letter(self) -> None:
        bench = Bench()
        bench.collector.ask(bench.message(slot=bench.slot - 3))
        assert [row.slot for row in bench.collector.batch.buried] == [bench.slot - 3]


class TestALineThatStandsStill:
    def test_a_live_message_that_finds_one_is_tried_later_without_an_attempt(self) -> None:
        bench = Bench(Options(max_per_host=1))
        bench.ask()
        bench.collector.ask(bench.message(slot=bench.slot - 5))
        bench.clock.advance(LIVE_WAIT_MS / 1000 + 1)
        bench.collector.ask(bench.message(slot=bench.slot - 10))
        (row,) = bench.collector.batch.failed
        assert (row.slot, row.attempts, row.visible_ms) == (bench.slot - 10, 0, bench.now_ms + 5000)

    def test_an_old_one_goes_back_to_the_queue(self) -> None:
        bench = Bench(Options(max_per_host=1))
        bench.ask()
        bench.collector.ask(bench.message(slot=bench.slot - 5, priority=RETRY))
        bench.clock.advance(OLD_WAIT_MS / 1000 + 1)
        bench.collector.upkeep(bench.now_ms)
        (row,) = bench.collector.batch.unasked
        assert (row.slot, row.visible_ms) == (bench.slot - 5, bench.now_ms + 5000)

    def test_nothing_old_is_taken_while_live_messages_wait(self) -> None:
        bench = Bench()
        assert bench.collector.old_room("api.example") > 0
        bench.collector.is_behind = True
        assert bench.collector.old_room("api.example") == 0


def test_at_the_end_what_waits_goes_back_and_what_is_in_flight_counts_as_asked_for() -> None:
    bench = Bench(Options(max_per_host=1))
    bench.ask()
    bench.collector.ask(bench.message(slot=bench.slot - 5))
    bench.collector.finish(0.0)
    assert [row.slot for row in bench.collector.batch.unasked] == [bench.slot - 5]
    assert [row.slot for row in bench.collector.batch.unanswered] == [bench.slot]


def test_a_target_that_answers_again_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    bench = Bench()
    bench.answer(bench.ask(), Response(500, b""))
    poll = bench.ask()
    assert bench.collector.failures.failing == 1
    bench.answer(poll, bench.good(poll))
    assert bench.collector.failures.failing == 0
