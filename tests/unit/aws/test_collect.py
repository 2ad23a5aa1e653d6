"""A delivery of configured targets: what is asked, what the tick says then, and what goes back to the queues."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aws_here.collecting_here import (
    TABLE,
    Collecting,
    Crash,
    a_while,
    collecting,
    targets,
)
from aws_here.memory_aws import memory_aws
from fakes.fault_server import Exchange, raw, status
from kizami.aws.blocks import Blocks
from kizami.aws.client.json_client import AwsError, Fields
from kizami.aws.collect import CollectSettings, DeliveryCollector
from kizami.aws.deliveries import Delivery
from kizami.aws.plans import Plans
from kizami.aws.settings import QueueUrls
from kizami.aws.ticks import TickFacts, Ticks
from kizami.core.collector import Response
from kizami.core.messages import BACKFILL, PROBE, RETRY, write_bundle
from kizami.core.slots import format_instant
from kizami.core.ticks import Answered

NAMES = tuple(f"m{number}" for number in range(6))
ALL = set(NAMES)
LIVE_ONLY: dict[str, Any] = {"backfill": False, "path": "/now"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Collecting]:
    with collecting(targets(*NAMES), tmp_path) as made:
        yield made


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliveries that cut hanging hosts off at once."""
    monkeypatch.setattr("kizami.aws.collect.FIRST_WRITE_SECONDS", 0.1)
    monkeypatch.setattr("kizami.aws.collect.LIVE_SECONDS", 0.2)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], list[dict[str, Any]]]:
    """What was logged since the last call: the fields of each line."""
    caplog.set_level("INFO", "kizami")

    def take() -> list[dict[str, Any]]:
        lines = [vars(record) for record in caplog.records]
        caplog.clear()
        return lines

    return take


def hang(exchange: Exchange) -> None:
    exchange.hang()


def refuse(exchange: Exchange) -> None:
    exchange.keep = False


def fail_until_held(world: Collecting, name: str, number: int = 0) -> None:
    """Three failures in a row on the retry lane, of slots from that one on."""
    for at in range(number, number + 3):
        world.live(at)
        assert world.collect(world.message((name,), at, lane=RETRY, attempts=(1,)))
    assert world.states()[name].is_held
    world.sent("retry")


class TestALiveDelivery:
    def test_stores_all_answers_with_one_write(self, world: Collecting) -> None:
        calls = world.calls(lambda: world.collect(world.live()))
        assert calls == {"Query": 1, "PutItem": 1}
        tick = world.tick()
        assert world.values().keys() == ALL
        assert world.item().keys() == {"metricName", "slotTime", "a", "v"}, "nobody is outstanding, held or dead"
        assert tick.late_ms is not None
        assert 0 <= tick.late_ms < 1000
        assert all(each.attempts == 1 and not each.backfill for each in tick.answers.values())
        assert world.is_quiet()

    def test_leaves_one_line_in_the_log(self, world: Collecting, logged: Callable[[], list[Any]]) -> None:
        world.collect(world.live())
        (line,) = logged()
        assert (line["event"], line["bundle"], line["lane"]) == ("bundle.collected", world.bundle.name, "live")
        assert (line["slots"], line["stored"]) == (6, 6)

    def test_writes_later_answers_beside_the_first_ones(self, world: Collecting) -> None:
        world.api.ways["m2"] = a_while(1.3)
        calls = world.calls(lambda: world.collect(world.live()))
        assert calls == {"Query": 1, "PutItem": 1, "UpdateItem": 1}
        item = world.item()
        assert len(item["v"]["M"]) == 1
        assert "o" not in item
        assert world.values()["m2"] == (7,)
        assert world.sent("retry") == []

    def test_is_not_held_back_by_a_host_that_hangs(self, world: Collecting) -> None:
        seen: list[set[str]] = []

        def look(exchange: Exchange) -> None:
            exchange.stopping.wait(1.2)
            seen.append(set(world.values()))
            exchange.hang()

        world.api.ways["m3"] = look
        began = time.monotonic()
        assert world.collect(world.live())
        assert time.monotonic() - began < 3.5
        assert seen == [ALL - {"m3"}], "stored while one still hung"
        assert world.outstanding() == {"m3"}
        ((message, delay),) = world.sent("retry")
        assert (message.metrics, message.lane, message.attempts, delay) == (("m3",), RETRY, (), 0)
        assert world.states() == {}, "the live lane notes nothing"

    def test_sends_what_failed_back_as_one_message(self, world: Collecting) -> None:
        world.api.ways |= {"m1": 503, "m4": refuse, "m5": 404}
        assert world.collect(world.live())
        assert world.values().keys() == {"m0", "m2", "m3"}
        ((message, delay),) = world.sent("retry")
        assert set(message.metrics) == {"m1", "m4", "m5"}
        assert (message.lane, message.attempts) == (RETRY, (1, 1, 1))
        assert 5 <= delay <= 10
        assert world.sent("live") == []
        assert world.outstanding() == {"m1", "m4", "m5"}

    def test_that_comes_again_asks_only_for_what_is_not_stored(self, world: Collecting) -> None:
        world.api.ways["m1"] = 503
        world.collect(world.live())
        before = world.values()
        world.api.asked.clear()
        world.api.ways.clear()
        assert world.collect(world.live(), receives=2)
        assert [name for name, _ in world.api.asked] == ["m1"]
        assert world.values() == before | {"m1": (7,)}
        assert "o" not in world.item()
        world.api.asked.clear()
        calls = world.calls(lambda: world.collect(world.live(), receives=3))
        assert (world.api.asked, calls) == ([], {"BatchGetItem": 1})

    def test_finds_answers_that_another_delivery_stored_meanwhile(self, world: Collecting) -> None:
        place = world.bundle.places["m0"]
        facts = TickFacts({place: Answered((99,), 0, 1, 2)}, frozenset(range(6)) - {place})
        Ticks(TABLE).record(world.bundle, world.slot(), facts)
        assert world.collect(world.live())
        assert world.values()["m0"] == (99,), "the first answer stays"
        assert world.values().keys() == ALL

    def test_goes_by_nothing_if_the_states_cannot_be_read(
        self, world: Collecting, logged: Callable[[], list[Any]]
    ) -> None:
        world.api.ways["m1"] = 503
        fail_until_held(world, "m1")
        world.api.ways.clear()
        world.aws.fault = lambda operation: "before" if operation == "Query" else None
        world.api.asked.clear()
        message = world.live(3)
        assert world.collect(message)
        world.aws.fault = lambda operation: None
        assert len(world.api.asked) == 6
        assert world.values(3).keys() == ALL
        assert "blocks.unread" in {line["event"] for line in logged()}

    def test_is_delivered_again_if_the_table_takes_nothing(
        self, world: Collecting, logged: Callable[[], list[Any]]
    ) -> None:
        world.aws.fault = lambda operation: "before" if operation == "PutItem" else None
        assert not world.collect(world.live())
        assert "bundle.failed" in {line["event"] for line in logged()}

    def test_is_delivered_again_if_the_queue_takes_nothing(self, world: Collecting) -> None:
        world.api.ways["m1"] = 503
        world.aws.fault = lambda operation: "before" if operation == "SendMessageBatch" else None
        assert not world.collect(world.live())
        assert world.values().keys() == ALL - {"m1"}

    def test_writes_at_the_end_what_could_not_be_written_early(self, world: Collecting, quick: None) -> None:
        world.api.ways["m3"] = hang
        failures = iter(["before"] * 3)
        world.aws.fault = lambda operation: next(failures, None) if operation == "PutItem" else None
        assert world.collect(world.live())
        assert world.values().keys() == ALL - {"m3"}


def test_a_bundle_of_one_waits_for_its_answer(tmp_path: Path) -> None:
    with collecting(targets("alone"), tmp_path) as world:
        world.api.ways["alone"] = a_while(2.3)
        assert world.collect(world.live())
        assert world.values() == {"alone": (7,)}
        assert (world.states(), world.sent("retry")) == ({}, [])


class TestTheRetryLane:
    def test_adds_an_answer_and_notes_nothing_of_a_target_that_is_well(self, world: Collecting) -> None:
        world.api.ways["m1"] = 503
        world.collect(world.live())
        ((message, _),) = world.sent("retry")
        world.api.ways.clear()
        calls = world.calls(lambda: world.collect(message))
        assert calls == {"BatchGetItem": 1, "Query": 1, "UpdateItem": 1}
        tick = world.tick()
        assert tick.answers[world.bundle.places["m1"]].attempts == 2
        assert not tick.outstanding
        assert world.states() == {}

    def test_asks_nothing_and_writes_nothing_for_a_message_that_comes_twice(self, world: Collecting) -> None:
        world.collect(world.live())
        world.api.asked.clear()
        calls = world.calls(lambda: world.collect(world.message(("m1", "m2"), lane=RETRY, attempts=(1, 1))))
        assert (world.api.asked, calls) == ([], {"BatchGetItem": 1})

    def test_gives_a_request_all_time_but_what_the_write_needs(
        self, world: Collecting, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        given: list[float] = []

        def fetch(http: object, request: object, seconds: float, target: object) -> Response:
            given.append(seconds)
            return Response(503, b"")

        monkeypatch.setattr("kizami.aws.asking.fetch", fetch)
        for seconds in (305.0, 6.0):
            world.collect(world.message(("m1",), lane=RETRY), seconds=seconds)
        assert given == [301.0, 4.0]

    def test_counts_the_attempts_of_each_member(self, world: Collecting) -> None:
        world.api.ways |= {"m1": 503, "m2": 503, "m3": 429}
        assert world.collect(world.message(("m1", "m2", "m3"), lane=RETRY, attempts=(1, 2, 3)))
        ((message, delay),) = world.sent("retry")
        assert dict(zip(message.metrics, message.attempts, strict=True)) == {"m1": 2, "m2": 3, "m3": 4}
        assert 90 <= delay <= 180, "the longest of them"

    def test_gives_a_slow_target_its_full_timeout(self, world: Collecting) -> None:
        world.collect(world.live())
        world.api.ways["m1"] = a_while(2.2)
        world.live(1)
        assert world.collect(world.message(("m1", "m2"), 1, lane=RETRY))
        assert world.values(1).keys() == {"m1", "m2"}
        assert world.states()["m1"].slow
        assert world.states().keys() == {"m1"}

    def test_stores_quick_answers_while_a_slow_one_is_awaited(self, world: Collecting, quick: None) -> None:
        world.api.ways |= {"m1": 503, "m2": 503}
        world.collect(world.live())
        ((message, _),) = world.sent("retry")
        seen: list[set[str]] = []

        def look(exchange: Exchange) -> None:
            exchange.stopping.wait(0.7)
            seen.append(set(world.values()))
            a_while(0)(exchange)

        world.api.ways = {"m2": look}
        assert world.collect(message)
        assert seen == [ALL - {"m2"}]
        assert world.values().keys() == ALL

    def test_begins_a_tick_that_is_not_there_and_says_that_it_knows_of_some_members_only(
        self, world: Collecting
    ) -> None:
        world.api.ways["m2"] = 503
        assert world.collect(world.message(("m1", "m2"), lane=RETRY, attempts=(1, 1)))
        assert world.values().keys() == {"m1"}
        assert world.outstanding() == {"m2"}
        assert world.tick().is_partial

    def test_gives_up_after_the_limit_with_a_dead_letter_and_says_so_in_the_tick(
        self, world: Collecting, logged: Callable[[], list[Any]]
    ) -> None:
        world.api.ways |= {"m1": 429, "m2": 429}
        world.collect(world.live())
        world.sent("retry")
        assert world.collect(world.message(("m1", "m2"), lane=RETRY, attempts=(4, 3)))
        (letter,) = world.letters()
        body = json.loads(letter["body"])
        assert (body["metrics"], body["from"], body["bundle"]) == (
            ["m1"],
            format_instant(world.slot()),
            world.bundle.name,
        )
        assert (letter["attempts"], letter["reason"]) == ("5", "status 429, expected 200: a rate limit")
        assert world.dead() == {"m1"}
        assert world.outstanding() == {"m2"}
        ((message, _),) = world.sent("retry")
        assert message.metrics == ("m2",)
        assert "slot.dead" in {line["event"] for line in logged()}

    def test_gives_up_without_a_letter_where_there_is_no_queue_for_it(self, world: Collecting) -> None:
        world.api.ways["m1"] = 429
        world.collect(world.live())
        urls = QueueUrls(world.settings.urls.live, world.settings.urls.retry, world.settings.urls.backfill)
        world.settings = CollectSettings(TABLE, world.settings.targets, urls, 5)
        assert world.collect(world.message(("m1",), lane=RETRY, attempts=(4,)))
        assert world.dead() == {"m1"}

    def test_notes_a_slot_as_dead_only_after_its_letter(self, world: Collecting) -> None:
        world.api.ways["m1"] = 429
        world.collect(world.live())
        world.aws.fault = lambda operation: "before" if operation == "SendMessageBatch" else None
        assert not world.collect(world.message(("m1",), lane=RETRY, attempts=(4,)))
        tick = world.tick()
        assert not tick.dead

    def test_stores_an_answer_to_a_slot_that_was_given_up(self, world: Collecting) -> None:
        world.api.ways["m1"] = 429
        world.collect(world.live())
        world.collect(world.message(("m1",), lane=RETRY, attempts=(4,)))
        world.api.ways.clear()
        world.sent("retry")
        assert world.collect(world.message(("m1",), lane=RETRY))
        assert world.values().keys() == ALL, "a value counts more than a state"

    def test_waits_for_as_long_as_an_api_asks(self, world: Collecting) -> None:
        world.api.ways |= {"m1": 503, "m2": status(429, Retry_After="600"), "m3": status(429, Retry_After="3000")}
        assert world.collect(world.live())
        sent = {message.metrics: (message, delay) for message, delay in world.sent("retry")}
        assert sent.keys() == {("m1",), ("m2",), ("m3",)}
        assert (sent["m2",][1], sent["m2",][0].not_before) == (600, 0)
        message, delay = sent["m3",]
        assert delay == 900
        ends = math.ceil(world.now().timestamp()) + 3000
        assert ends - 3 <= message.not_before <= ends
        # Meanwhile it waits on, and is not asked for.
        world.api.asked.clear()
        world.advance(900)
        assert world.collect(message)
        assert world.api.asked == []
        assert world.sent("retry") == [(message, 900)]
        world.advance(2200)
        world.api.ways.clear()
        assert world.collect(message)
        assert "m3" in world.values()


class TestSlowTargets:
    def test_are_asked_on_the_retry_lane_all_together(self, world: Collecting, quick: None) -> None:
        world.api.ways |= {"m1": hang, "m4": hang}
        assert world.collect(world.live())
        ((message, _),) = world.sent("retry")
        world.api.ways |= {"m1": a_while(2.2), "m4": a_while(2.2)}
        assert world.collect(message)
        assert {name for name, state in world.states().items() if state.slow} == {"m1", "m4"}
        world.api.asked.clear()
        assert world.collect(world.live(1))
        assert {name for name, _ in world.api.asked} == ALL - {"m1", "m4"}
        ((message, delay),) = world.sent("retry")
        assert (set(message.metrics), message.attempts, delay) == ({"m1", "m4"}, (), 0)
        assert world.outstanding(1) == {"m1", "m4"}

    def test_are_asked_live_again_after_two_quick_answers(self, world: Collecting) -> None:
        world.api.ways["m1"] = a_while(2.1)
        world.collect(world.message(("m1",), lane=RETRY))
        world.api.ways.clear()
        for number in (1, 2):
            world.collect(world.live(number))
            ((message, _),) = world.sent("retry")
            assert message.metrics == ("m1",)
            world.collect(message)
        assert world.collect(world.live(3))
        assert world.sent("retry") == []
        assert world.values(3).keys() == ALL

    def test_begin_so_if_their_timeout_says_that_they_may_take_long(self, tmp_path: Path) -> None:
        with collecting(targets("a", "b", timeout="30s"), tmp_path) as world:
            for number in range(2):
                world.collect(world.live(number))
                ((message, _),) = world.sent("retry")
                world.collect(message)
                assert world.values(number).keys() == {"a", "b"}
            world.collect(world.live(2))
            assert world.values(2).keys() == {"a", "b"}
            assert world.is_quiet()


class TestHeldTargets:
    def test_are_held_after_three_failures_in_a_row_and_their_slots_are_kept(
        self, world: Collecting, logged: Callable[[], list[Any]]
    ) -> None:
        world.api.ways["m1"] = 503
        for number in range(3):
            world.collect(world.live(number))
            ((message, _),) = world.sent("retry")
            assert world.collect(message)
            assert len(world.sent("retry")) == (number < 2), "the third slot is kept, and not tried again"
        state = world.states()["m1"]
        assert (state.is_held, state.kept_from) == (True, world.slot(2))
        assert world.held(2) == {"m1"}
        assert world.outstanding(2) == set()
        events = [line["event"] for line in logged()]
        assert events.count("target.blocked") == 1
        world.api.asked.clear()
        calls = world.calls(lambda: world.collect(world.live(3)))
        assert {name for name, _ in world.api.asked} == ALL - {"m1"}
        assert calls == {"Query": 1, "PutItem": 1}, "nothing more is written for it"
        assert world.held(3) == {"m1"}
        assert world.outstanding(3) == set()
        assert not world.tick(3).is_partial
        assert world.is_quiet()

    def test_are_held_after_two_lasting_failures_and_no_slot_becomes_a_dead_letter(
        self, world: Collecting
    ) -> None:
        world.api.ways["m1"] = 404
        waiting = []
        for number in range(2):
            world.collect(world.live(number))
            waiting += world.sent("retry")
        for message, _ in waiting:
            world.collect(message)
        assert world.states()["m1"].is_held
        ((message, _),) = world.sent("retry")
        assert message.window.start == world.slot(0), "tried again before it was held"
        world.collect(message)
        assert world.is_quiet()
        for number in range(2):
            assert world.held(number) == {"m1"}
        assert world.states()["m1"].kept_from == world.slot(0)

    def test_are_asked_by_a_probe_and_answer_again(
        self, world: Collecting, logged: Callable[[], list[Any]]
    ) -> None:
        world.api.ways["m1"] = 503
        fail_until_held(world, "m1")
        world.advance(15)
        message = world.live(6)
        world.api.asked.clear()
        assert world.collect(message)
        assert "m1" not in {name for name, _ in world.api.asked}
        ((probe, delay),) = world.sent("retry")
        assert (probe.metrics, probe.lane, probe.window, delay) == (("m1",), PROBE, message.window, 0)
        assert world.outstanding(6) == {"m1"}
        assert world.held(6) == set()
        world.api.ways.clear()
        logged()
        assert world.collect(probe)
        assert world.values(6).keys() == ALL
        state = world.states()["m1"]
        assert not state.is_held
        assert state.recovery is not None
        assert state.recovery[0] == world.slot(2)
        assert "target.unblocked" in {line["event"] for line in logged()}
        # The next live message asks it again.
        world.api.asked.clear()
        world.collect(world.live(7))
        assert world.values(7).keys() == ALL

    def test_share_the_message_of_their_probes(self, world: Collecting) -> None:
        world.api.ways |= {"m1": 503, "m4": 503}
        for number in range(3):
            world.live(number)
            world.collect(world.message(("m1", "m4"), number, lane=RETRY, attempts=(1, 1)))
        world.sent("retry")
        world.advance(15)
        world.collect(world.live(6))
        ((probe, _),) = world.sent("retry")
        assert set(probe.metrics) == {"m1", "m4"}
        assert world.collect(probe)
        assert world.sent("retry") == []
        assert world.held(6) == {"m1", "m4"}

    def test_are_probed_by_one_of_two_deliveries_that_race(self, world: Collecting) -> None:
        world.api.ways["m1"] = 503
        fail_until_held(world, "m1")
        world.advance(15)
        message = world.live(6)
        world.live(7)
        seen = world.states()
        collectors = [DeliveryCollector(world.settings, lambda: 30) for _ in range(2)]
        for number, collector in enumerate(collectors):
            collector._gate._blocks.of = lambda names: seen  # type: ignore[method-assign]  # both read before either writes
            body = write_bundle(world.message(world.names, 6 + number))
            assert collector.settle(delivery_of(body))
        (probe,) = world.sent("retry")
        assert probe[0].window == message.window
        assert world.held(7) == {"m1"}

    def test_are_mostly_not_waited_for_any_longer_after_many_probes(
        self, world: Collecting, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("kizami.core.holding.LIVE_SECONDS", 0.3)
        world.api.ways["m1"] = 503
        fail_until_held(world, "m1")
        world.advance(3600 - world.now().timestamp() % 900 + 310)
        state = world.states()["m1"]
        assert state.trouble is not None
        Blocks(TABLE).save("m1", replace(state, trouble=replace(state.trouble, probes=9)))
        world.api.ways["m1"] = hang
        began = time.monotonic()
        assert world.collect(world.message(("m1",), newest(world), lane=PROBE))
        assert time.monotonic() - began < 3
        after = world.states()["m1"]
        assert after.is_held
        assert after.fingerprint == state.fingerprint

    def test_are_said_to_answer_again_once(self, world: Collecting, logged: Callable[[], list[Any]]) -> None:
        world.api.ways["m1"] = 503
        fail_until_held(world, "m1")
        world.api.ways.clear()
        seen = world.states()
        for number in (0, 1):
            collector = DeliveryCollector(world.settings, lambda: 30)
            collector._gate._blocks.of = lambda names: seen  # type: ignore[method-assign]  # as it was for both
            body = write_bundle(world.message(("m1",), number, lane=PROBE))
            assert collector.settle(delivery_of(body))
        assert [line["event"] for line in logged()].count("target.unblocked") == 1

    def test_are_not_probed_if_the_probe_cannot_be_reserved(self, world: Collecting, quick: None) -> None:
        world.api.ways["m1"] = 503
        fail_until_held(world, "m1")
        world.advance(15)
        message = world.live(6)
        failures = iter(["before"] * 3)
        world.aws.fault = lambda operation: next(failures, None) if operation == "PutItem" else None
        assert world.collect(message)
        assert world.is_quiet()
        assert world.held(6) == {"m1"}

    def test_stay_held_with_a_failed_probe_whose_slot_is_kept(self, world: Collecting) -> None:
        world.api.ways["m1"] = 503
        fail_until_held(world, "m1")
        world.advance(15)
        world.collect(world.live(6))
        ((probe, _),) = world.sent("retry")
        before = world.states()
        assert world.collect(probe)
        assert world.states() == before, "reserving it has noted all"
        assert world.held(6) == {"m1"}
        assert world.is_quiet()

    def test_keep_slots_that_were_on_their_way(self, world: Collecting) -> None:
        world.api.ways["m1"] = 503
        fail_until_held(world, "m1", 1)
        kept = world.states()["m1"].kept_from
        assert kept == world.slot(3)
        world.api.asked.clear()
        assert world.collect(world.message(("m1",), 0, lane=RETRY, attempts=(2,)))
        assert world.api.asked == []
        assert world.states()["m1"].kept_from == world.slot(0)
        assert world.held(0) == {"m1"}

    def test_are_asked_on_the_retry_lane_if_it_cannot_be_noted_that_a_slot_is_kept(
        self, world: Collecting, logged: Callable[[], list[Any]]
    ) -> None:
        world.api.ways["m1"] = 503
        fail_until_held(world, "m1", 1)
        world.aws.fault = lambda operation: "before" if operation == "PutItem" else None
        world.api.asked.clear()
        assert world.collect(world.message(("m1",), 0, lane=RETRY, attempts=(2,)))
        world.aws.fault = lambda operation: None
        assert [name for name, _ in world.api.asked] == ["m1"]
        ((message, _),) = world.sent("retry")
        assert message.attempts == (3,)
        assert "blocks.unwritten" in {line["event"] for line in logged()}

    def test_do_not_keep_slots_of_long_ago_that_a_backfill_asks_for(self, world: Collecting) -> None:
        world.api.ways["m1"] = 503
        fail_until_held(world, "m1")
        kept = world.states()["m1"].kept_from
        old = world.message(("m1",), -1000, 12, lane=BACKFILL)
        world.api.asked.clear()
        assert world.collect(old)
        assert (world.api.asked, world.states()["m1"].kept_from) == ([], kept)
        assert world.held(-1000) == {"m1"}

    def test_are_probed_at_once_when_they_were_changed(self, world: Collecting, tmp_path: Path) -> None:
        world.api.ways["m1"] = 401
        fail_until_held(world, "m1")
        state = world.states()["m1"]
        assert state.trouble is not None
        for _ in range(3):
            world.advance(300)
            world.collect(world.live(newest(world)))
            for message, _ in world.sent("retry"):
                world.collect(message)
        text = targets(*NAMES, max_body="2MiB")
        with collecting(text, tmp_path / "next", world.aws) as after:
            after.advance(world.offset + 20)
            number = newest(after)
            after.collect(after.live(number))
            ((probe, _),) = after.sent("retry")
            assert probe.lane == PROBE


def newest(world: Collecting) -> int:
    """The number of the newest slot that is due."""
    late = (world.now() - world.bundle.due(world.slot())).total_seconds()
    return int(late // world.bundle.interval_seconds)


def delivery_of(body: str) -> Delivery:
    return Delivery("message-0", body, "1", "receipt-0")


class TestTargetsThatOnlyTellOfNow:
    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[Collecting]:
        with collecting(targets("a", "b", **LIVE_ONLY), tmp_path) as made:
            yield made

    def test_are_not_tried_again_when_it_is_too_late(
        self, world: Collecting, logged: Callable[[], list[Any]]
    ) -> None:
        world.api.ways["a"] = 503
        assert world.collect(world.live())
        assert world.is_quiet()
        (line,) = (line for line in logged() if line["event"] == "slot.missed")
        assert (line["metric"], line["reason"]) == ("a", "status 503, expected 200")
        assert world.values().keys() == {"b"}

    def test_are_not_asked_for_a_slot_that_is_over(
        self, world: Collecting, logged: Callable[[], list[Any]]
    ) -> None:
        world.collect(world.live())
        world.api.asked.clear()
        world.advance(30)
        assert world.collect(world.message(("a", "b"), 1))
        assert world.api.asked == []
        assert "slot.missed" in {line["event"] for line in logged()}
        assert world.is_quiet()

    def test_are_held_by_their_live_failures(self, world: Collecting) -> None:
        world.api.ways["a"] = 503
        for number in range(4):
            world.collect(world.live(number))
        assert world.states()["a"].is_held
        assert world.held(3) == {"a"}

    def test_are_tried_again_in_their_own_time(self, world: Collecting, quick: None) -> None:
        world.api.ways["a"] = hang
        world.collect(world.live())
        ((message, _),) = world.sent("retry")
        world.api.ways.clear()
        assert world.collect(message)
        assert world.values().keys() == {"a", "b"}


class TestABackfill:
    def test_asks_for_all_slots_of_its_message_that_lack_an_answer(self, world: Collecting) -> None:
        for number in (2, 5):
            world.collect(world.live(number))
        world.advance(3600)
        world.api.asked.clear()
        message = world.message(("m1", "m2"), 0, 12, lane=BACKFILL)
        calls = world.calls(lambda: world.collect(message))
        assert calls["BatchGetItem" if "BatchGetItem" in calls else "Query"] == 11, "one for ticks, ten for states"
        asked = {(name, slot) for name, slot in world.api.asked}
        slots = [format_instant(world.slot(number)) for number in range(12) if number not in (2, 5)]
        assert asked == {(name, slot) for name in ("m1", "m2") for slot in slots}
        assert len(world.api.asked) == 20
        for number in range(12):
            assert {"m1", "m2"} <= world.values(number).keys()
        tick = world.tick(0)
        assert all(each.backfill for each in tick.answers.values())
        assert tick.is_partial

    def test_sends_what_fails_back_to_its_own_queue(self, world: Collecting) -> None:
        world.advance(600)
        world.api.ways["m2"] = 503
        assert world.collect(world.message(("m1", "m2"), 0, 3, lane=BACKFILL))
        sent = world.sent("backfill")
        assert [(message.metrics, message.attempts, message.lane) for message, _ in sent] == [
            (("m2",), (1,), BACKFILL)
        ] * 3
        assert world.sent("retry") == []

    def test_sends_back_the_slots_that_it_has_no_time_for(self, world: Collecting) -> None:
        world.advance(600)
        message = world.message(("m1",), 0, 12, lane=BACKFILL)
        assert world.collect(message, seconds=12)
        assert len(world.api.asked) == 1
        ((rest, delay),) = world.sent("backfill")
        assert (rest.window.start, rest.window.end, delay) == (world.slot(1), message.window.end, 1)

    def test_takes_twelve_slots_at_once_at_most(self, world: Collecting) -> None:
        world.advance(600)
        assert world.collect(world.message(("m1",), 0, 20, lane=BACKFILL))
        assert len(world.api.asked) == 12
        ((rest, _),) = world.sent("backfill")
        assert rest.window.start == world.slot(12)

    def test_notes_the_day_of_a_slot_of_long_ago_before_it_is_written(self, world: Collecting) -> None:
        world.collect(world.live())
        assert world.late_days() == set()
        world.advance(7000)
        assert world.collect(world.message(("m1",), 2, 2, lane=BACKFILL))
        assert world.late_days() == {"2025-12-02"}
        world.aws.fault = lambda operation: "before" if operation == "PutItem" else None
        assert not world.collect(world.message(("m1",), -20_000, lane=BACKFILL))
        world.aws.fault = lambda operation: None
        assert len(world.late_days()) == 2

    def test_notes_no_day_where_the_tick_is_still_there(self, world: Collecting) -> None:
        world.api.ways["m1"] = 503
        world.collect(world.live())
        world.advance(7000)
        world.api.ways.clear()
        assert world.collect(world.message(("m1",), lane=BACKFILL))
        assert world.late_days() == set()
        assert world.values().keys() == ALL


class TestOtherDeployments:
    def test_a_message_of_a_former_plan_is_stored_in_its_own_bundle(self, tmp_path: Path) -> None:
        aws = memory_aws()
        with collecting(targets("a", "b", "gone"), tmp_path / "1", aws) as before:
            Plans(TABLE).register(before.plan)
            message, former = before.live(), before.bundle
        with collecting(targets("a", "b", "new", interval="10s"), tmp_path / "2", aws) as world:
            world.advance(1)
            assert world.collect(message)
            tick = next(Ticks(TABLE).read(former, message.window.start, message.window.end))
            assert {former.members[place].name for place in tick.answers} == {"a", "b"}
            assert {former.members[place].name for place in tick.outstanding} == {"gone"}
            assert all((name, format_instant(message.window.start)) in world.api.asked for name in ("a", "b"))
            # A deployment that is under way may bring the target yet; later it is dropped.
            ((again, _),) = world.sent("retry")
            assert again.metrics == ("gone",)
            waiting = [again]
            while waiting:
                world.collect(waiting.pop())
                waiting += [message for message, _ in world.sent("retry")]
            tick = next(Ticks(TABLE).read(former, message.window.start, message.window.end))
            assert {former.members[place].name for place in tick.dead} == {"gone"}
            assert world.letters() == []

    def test_a_bundle_that_was_never_registered_is_a_dead_letter(self, world: Collecting) -> None:
        body = write_bundle(world.live()).replace(world.bundle.name, "0123abcd.7")
        assert world.collect(body)
        (letter,) = world.letters()
        assert (letter["body"], letter["reason"]) == (body, "bundle: 0123abcd.7 was registered by no deployment")

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda body: '{"from": "yesterday"}', "to: is missing"),
            (lambda body: body.replace('"m1"', '"other"'), "metrics: other is not in bundle"),
            (lambda body: body.replace("10:23:05Z", "10:23:04Z"), "to: "),
            (lambda body: '{"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z"}', "bundle: is missing"),
        ],
    )
    def test_a_message_that_cannot_be_read_is_a_dead_letter_as_it_is(
        self, world: Collecting, change: Callable[[str], str], reason: str
    ) -> None:
        body = change(write_bundle(world.live()))
        assert world.collect(body)
        (letter,) = world.letters()
        assert letter["body"] == body
        assert letter["reason"].startswith(reason)
        assert world.api.asked == []


def test_values_are_exact_with_decimals_and_below_zero_and_several_at_once(tmp_path: Path) -> None:
    text = (
        targets("rate", count="rate", decimals=3, min=-1000)
        + targets("trade", decimals=2, min=-1000)
        + '[targets.values]\nprice = "p"\nchange = "c"\n'
    )
    with collecting(text, tmp_path) as world:
        world.api.ways["rate"] = raw(b'{"rate": -0.005}')
        world.api.ways["trade"] = raw(b'{"p": 123456.78, "c": -0.1}')
        assert world.collect(world.live())
        assert world.values() == {"rate": (-5,), "trade": (12345678, -10)}
        world.api.ways["rate"] = raw(b'{"rate": "999999999999.999"}')
        world.api.ways["trade"] = 503
        world.collect(world.live(1))
        assert world.values(1) == {"rate": (10**15 - 1,)}
        ((message, _),) = world.sent("retry")
        world.api.ways["trade"] = raw(b'{"p": 0, "c": 0.01}')
        world.collect(message)
        tick = world.tick(1)
        later = tick.answers[world.bundle.places["trade"]]
        assert (later.values, later.decimals, later.attempts) == ((0, 1), 2, 2)


FAULTS = ("crash before", "crash after", "error before", "error after")


class Faults:
    """Lets one of the AWS calls of deliveries fail, or the process end with it."""

    def __init__(self, world: Collecting, fault: str, at: int) -> None:
        self.calls = 0
        self._fault, self._at = fault, at
        self._answer = world.aws.answer
        world.aws.answer = self.answer  # type: ignore[method-assign]
        self.is_armed = False

    def answer(self, operation: str, request: Fields) -> Fields:
        if not self.is_armed:
            return self._answer(operation, request)
        number, self.calls = self.calls, self.calls + 1
        kind, _, moment = self._fault.partition(" ")
        if kind == "error" and self._at <= number < self._at + 3:  # the client tries three times
            if moment == "after":
                self._answer(operation, request)
            raise AwsError(operation, "InternalServerError", "", transient=True)
        if kind == "crash" and number == self._at and moment == "before":
            raise Crash
        answer = self._answer(operation, request)
        if kind == "crash" and number == self._at:
            raise Crash
        return answer


SLOT = 6  # whose live message is carried out, when the probe of a held target is due


def run_once(world: Collecting, fault: str = "", at: int = -1) -> int:
    """Carry out a live message and all that follows, with a fault at one of the calls; return their number."""
    world.settings = CollectSettings(TABLE, world.settings.targets, world.settings.urls, max_attempts=3)
    world.api.ways |= {"e": 503}
    fail_until_held(world, "e")
    world.advance(15)
    faults = Faults(world, fault, at)
    world.api.ways = {"b": 503, "c": hang, "d": 429}
    messages = [(world.live(SLOT), 1)]
    seen: dict[str, tuple[int, ...]] = {}
    while messages:
        message, receives = messages.pop(0)
        faults.is_armed, is_settled = True, False
        with suppress(Crash):
            is_settled = world.collect(message, receives)
        faults.is_armed = False
        if not is_settled:
            messages.append((message, receives + 1))
        messages += [(each, 1) for name in ("live", "retry") for each, _ in world.sent(name)]
        assert world.values(SLOT).items() >= seen.items(), "a value that is stored never changes"
        seen = world.values(SLOT)
        if is_settled and message.lane != PROBE:  # b does not answer at all, and then it does
            world.api.ways = {"d": 429} if message.lane == RETRY else {"d": 429, "b": refuse}
    return faults.calls


@pytest.mark.parametrize("fault", ["crash before", "crash after", "error before", "error after"])
def test_nothing_is_lost_or_changed_wherever_it_fails(fault: str, tmp_path: Path, quick: None) -> None:
    text = targets("a", "b", "c", "d", "e")
    with collecting(text, tmp_path) as world:
        calls = run_once(world)
        assert_settled(world)
        assert world.values(SLOT).keys() == {"a", "b", "c", "e"}
        assert world.states()["b"].slow
        assert not world.states()["e"].is_held
    assert calls > 15
    for at in range(calls):
        with collecting(text, tmp_path) as world:
            run_once(world, fault, at)
            assert_settled(world)


def assert_settled(world: Collecting) -> None:
    """Each member has a value that the API gave, is given up with a letter, or is held with its slot kept."""
    values, slot = world.values(SLOT), format_instant(world.slot(SLOT))
    for name, (value,) in values.items():
        assert value in world.api.given[name, slot]
    assert world.dead(SLOT) - values.keys() == {"d"}
    assert {json.loads(letter["body"])["metrics"][0] for letter in world.letters()} == {"d"}
    held = {"a", "b", "c", "e"} - values.keys()
    assert held <= {"e"}
    assert held <= world.held(SLOT)
    for name in held:
        kept_from = world.states()[name].kept_from
        assert kept_from is not None
        assert kept_from <= world.slot(SLOT)
    assert world.outstanding(SLOT) <= values.keys()


ONE_SLOT = """
import sys
from kizami.aws.blocks import Blocks
from kizami.aws.client.json_client import JsonClient
from kizami.aws.blocks import Blocks
from kizami.aws.client.json_client import AwsError, Fields
from kizami.aws.collect import CollectSettings, DeliveryCollector
from kizami.aws.deliveries import Delivery
from kizami.aws.files import PackagedTargets
from kizami.aws.settings import QueueUrls

folder, body = sys.argv[1:]
urls = QueueUrls(*("https://sqs.test/1/" + name for name in ("live", "retry", "backfill", "dead")))
settings = CollectSettings("Metrics", PackagedTargets(folder), urls, 5)
calls = []
def attempt(client, operation, parameters, seconds):
    calls.append(operation)
    return {"Responses": {}, "Items": []}
JsonClient._attempt = attempt
assert DeliveryCollector(settings, lambda: 30).settle(Delivery("m", body, "1", "r"))
assert "UpdateItem" in calls, calls
print([name for name in ("asyncio", "concurrent.futures", "ssl", "random") if name in sys.modules])
"""


def test_a_message_of_one_slot_imports_no_event_loop(tmp_path: Path) -> None:
    with collecting(targets("a", "b"), tmp_path) as world:
        body = write_bundle(world.message(("a",), lane=RETRY, attempts=(1,)))
        command = [sys.executable, "-c", ONE_SLOT, str(tmp_path / "bundles"), body]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "asyncio" not in done.stdout
