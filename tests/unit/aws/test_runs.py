"""Sender, Collector and reconciler of a planned deployment, by their handlers, from the minute to the seal."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from aws_here.collecting_here import TABLE, URLS, Collecting, collecting, targets
from aws_here.lambda_events import LambdaContext, log_lines, scheduled_event, sqs_event
from kizami.aws import collector, reconciler, sender
from kizami.aws.plans import Plans
from kizami.aws.sealed import SealedItems, SpanKey
from kizami.aws.ticks import Ticks
from kizami.core.bundles import Period
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.slots import format_instant, shift

HOUR = timedelta(hours=1)
START = datetime(2025, 12, 2, 10, 25, tzinfo=UTC)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Collecting]:
    text = targets("a", "b", interval="5m", lag="0s")
    environment = {
        "AI_METRICS_TABLE_NAME": TABLE,
        "KIZAMI_BUNDLES": "bundles",
        "LAMBDA_TASK_ROOT": str(tmp_path),
        "QUEUE_URL": URLS.live,
        "KIZAMI_RETRY_QUEUE_URL": URLS.retry,
        "KIZAMI_BACKFILL_QUEUE_URL": URLS.backfill,
        "KIZAMI_DEAD_LETTER_QUEUE_URL": str(URLS.dead_letters),
        "KIZAMI_STACK": "here",
    }
    with collecting(text, tmp_path) as world, patch.dict(os.environ, environment):
        world.advance((START - world.now()).total_seconds())
        yield world


def send(minute: datetime) -> dict[str, int]:
    return sender.handler(scheduled_event(format_instant(minute)), LambdaContext(10))


def deliver(world: Collecting, queue: str) -> int:
    """Let the Collector carry out all that is on a queue; return how many messages that were."""
    messages = [message.body for message in world.aws.queues.get(queue, ())]
    world.aws.queues.get(queue, messages).clear()
    for body in messages:
        assert collector.handler(sqs_event(body), LambdaContext()) == {"batchItemFailures": []}
    return len(messages)


def reconcile() -> dict[str, int]:
    return reconciler.handler({}, LambdaContext(120))


def stored(world: Collecting) -> dict[str, int]:
    """The values of the first slot."""
    (tick,) = Ticks(TABLE).at([(world.bundle, START)]).values()
    return {world.names[place]: answer.values[0] for place, answer in tick.answers.items()}


def pass_time(world: Collecting, start: datetime, minutes: int, *, is_down: bool = False) -> datetime:
    """Let minutes pass, with a trigger each minute and a run every five, unless AWS is down; return the end."""
    for number in range(minutes):
        minute = shift(start, 60 * number)
        world.advance(max(0.0, (minute - world.now()).total_seconds()))
        if is_down:
            continue
        send(minute)
        deliver(world, "live")
        if number % 5 == 0:
            reconcile()
            deliver(world, "backfill")
    return shift(start, 60 * minutes)


def test_a_minute_becomes_messages_of_bundles_and_ticks(world: Collecting) -> None:
    assert send(START) == {"sent": 1, "failed": 0}
    assert deliver(world, "live") == 1
    assert stored(world) == {name: world.api.given[name, format_instant(START)][0] for name in "ab"}
    assert Plans(TABLE).periods() == [Period(world.plan.name, START)]
    assert Plans(TABLE).plan(world.plan.name) == world.plan


def test_a_trigger_that_comes_twice_stores_nothing_twice(world: Collecting) -> None:
    send(START)
    send(START)
    assert deliver(world, "live") == 2
    assert stored(world) == {name: world.api.given[name, format_instant(START)][0] for name in "ab"}


def test_a_minute_that_is_long_over_is_left_to_the_reconciler(
    world: Collecting, capsys: pytest.CaptureFixture[str]
) -> None:
    world.advance(601)
    assert send(START) == {"sent": 0, "failed": 0}
    assert [line["event"] for line in log_lines(capsys)] == ["minute.skipped", "messages.sent"]


def test_a_minute_of_another_deployment_is_not_sent(world: Collecting, tmp_path: Path) -> None:
    send(shift(START, 300))
    with collecting(targets("a", "b", "c", interval="5m", lag="0s"), tmp_path / "next", world.aws) as other:
        assert Plans(TABLE).claim(other.plan, shift(START, 360))
        world.advance(300)
        assert send(shift(START, 300)) == {"sent": 0, "failed": 0}, "a former plan sends no minute any more"


def test_an_outage_is_made_up_for_and_closed_hours_are_sealed(
    world: Collecting, capsys: pytest.CaptureFixture[str]
) -> None:
    (bundle,) = world.plan.bundles
    at = pass_time(world, START, 37)
    at = pass_time(world, at, 200, is_down=True)
    at = pass_time(world, at, 240)
    coverage = [line for line in log_lines(capsys) if line.get("event") == "coverage.published"]
    assert coverage[8]["Coverage"] < 100, "the first run after the outage has seen it"
    assert (coverage[-1]["Coverage"], coverage[-1]["MissingSlots"], coverage[-1]["Stack"]) == (100.0, 0, "here")
    day = START.replace(hour=0, minute=0)
    assert list(Ticks(TABLE).read(bundle, START, day + 24 * HOUR)), "a span of these targets is a day"
    pass_time(world, at, 16 * 60)
    assert list(Ticks(TABLE).read(bundle, START, day + 24 * HOUR)) == []
    slots = [*range(to_seconds(START), to_seconds(day) + 86_400, 300)]
    for name in "ab":
        key = SpanKey(name, to_seconds(day), 300)
        columns = SealedItems(TABLE).spans_at([key])[key].unpack().columns
        assert [*columns.slot] == slots
        given = {slot: counts[0] for (asked, slot), counts in world.api.given.items() if asked == name}
        assert [*columns.count] == [given[format_instant(from_seconds(slot))] for slot in slots]
