"""What a page over AWS asks of the ledger instead of the records: coverage, gaps, newest slots of many targets."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aws_here.bundled import create_ledger_table, note_ticks
from aws_here.deployed import Deployment, GivenPlaces
from aws_here.local_aws import lead_to
from fakes.ports import ManualClock
from kizami.aws.backend import AwsBackend
from kizami.aws.store.tick_ledger import TickLedger
from kizami.core.coverage import Span
from kizami.core.messages import MetricRecord
from kizami.core.slots import slots_between
from kizami.core.targets.bundles import make_bundles
from kizami.core.targets.target import Target

NOW = datetime(2025, 12, 2, 10, 23, 7, tzinfo=UTC)
START = NOW.replace(minute=0, second=0) - timedelta(hours=2)
END = NOW.replace(minute=0, second=0)
GRACE_SECONDS = 60
TARGETS = [Target(name, lag_seconds=5) for name in ("a", "b", "c")]
SPANS = {name: Span(START, END, 5) for name in "abc"}


class Told:
    """A deployment whose ledger tells of slots that the table does not have: who asks the table sees nothing."""

    def __init__(self, endpoint: str) -> None:
        self.deployment = Deployment(endpoint)
        (self.bundle,) = make_bundles(TARGETS)
        self.ledger_table = table = create_ledger_table(endpoint)
        self.ledger = TickLedger(table)
        given = self.deployment.places
        places = GivenPlaces(given.table, given.queue, given.backfill_queue, given.dead_letter_queue, table)
        self.clock = ManualClock(NOW)
        self.backend = AwsBackend(places, TARGETS, self.clock, GRACE_SECONDS)

    def note(self, start: datetime, end: datetime, stored: Iterable[str] = "abc") -> None:
        slots = slots_between(start, end, 5)
        note_ticks(self.deployment.endpoint, self.ledger_table, self.bundle, slots, stored, NOW)


@pytest.fixture
def told(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Told:
    lead_to(moto_endpoint, monkeypatch)
    return Told(moto_endpoint)


def stored(told: Told) -> dict[str, int]:
    return {name: part.stored for name, part in told.backend.completeness(SPANS).items()}


def test_coverage_is_that_of_the_ledger_and_whole_hours_are_counted_once(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    told.note(START, NOW)
    assert stored(told) == {"a": 1440, "b": 1440, "c": 1440}
    assert told.backend.missing(SPANS) == {}

    def never(*_: object) -> int:
        raise AssertionError("a whole hour was counted again")

    monkeypatch.setattr(TickLedger, "pick_short", never)
    told.clock.advance(600)
    assert stored(told) == {"a": 1440, "b": 1440, "c": 1440}


def test_a_missed_minute_and_a_failing_target_are_gaps_of_whom_they_concern(told: Told) -> None:
    missed, failing = START + timedelta(minutes=10), START + timedelta(minutes=70)
    told.note(START, missed)
    told.note(missed + timedelta(minutes=1), failing)
    told.note(failing, failing + timedelta(minutes=2), "ac")
    told.note(failing + timedelta(minutes=2), NOW)
    assert stored(told) == {"a": 1428, "b": 1404, "c": 1428}
    gaps = {name: [(gap.start, gap.slots) for gap in found] for name, found in told.backend.missing(SPANS).items()}
    assert gaps == {"a": [(missed, 12)], "b": [(missed, 12), (failing, 24)], "c": [(missed, 12)]}
    # What was asked for again and came is seen within a minute, though its hour had been looked at.
    told.note(missed, missed + timedelta(minutes=1))
    told.clock.advance(61)
    assert stored(told) == {"a": 1440, "b": 1416, "c": 1440}


def test_of_hours_with_short_ticks_only_those_are_sent(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = START + timedelta(minutes=70)
    told.note(START, failing)
    told.note(failing, failing + timedelta(minutes=2), "ac")
    told.note(failing + timedelta(minutes=2), NOW)
    picked: list[tuple[int, int]] = []
    pick_short = TickLedger.pick_short

    def counting(*place: Any) -> tuple[int, dict[int, int]]:
        ticks, short = pick_short(*place)
        picked.append((ticks, len(short)))
        return ticks, short

    monkeypatch.setattr(TickLedger, "pick_short", counting)
    assert stored(told) == {"a": 1440, "b": 1416, "c": 1440}
    assert picked == [(1440, 24)]


def test_the_newest_slot_of_a_silent_target_is_found_in_the_hours_that_are_known(told: Told) -> None:
    """Hundreds that are silent are not hundreds of questions."""
    told.note(START, END - timedelta(minutes=30))
    told.note(END - timedelta(minutes=30), NOW, "ab")
    stored(told)
    newest = told.backend.newest_slots()
    assert newest["c"] == END - timedelta(minutes=30, seconds=5)
    assert newest["a"] == newest["b"] == NOW.replace(second=5)


def test_the_newest_slot_is_that_of_the_last_ticks_or_else_of_the_last_record(told: Told) -> None:
    told.note(START, END)
    told.note(END, END + timedelta(minutes=5), "ab")
    told.deployment.store([MetricRecord("c", START, 1, START)])
    newest = told.backend.newest_slots()
    last = END + timedelta(minutes=5, seconds=-5)
    assert (newest["a"], newest["b"]) == (last, last)
    assert newest["c"] == START


def test_before_the_first_tick_the_table_is_asked_and_from_it_on_the_ledger(told: Told) -> None:
    """A file with other targets, or a deployment that is younger than what is asked for."""
    told.note(START + timedelta(hours=1), NOW)
    told.deployment.store(
        MetricRecord("a", slot, 1, slot) for slot in slots_between(START, START + timedelta(minutes=5), 5)
    )
    assert stored(told) == {"a": 780, "b": 720, "c": 720}
    young = {"b": Span(START + timedelta(hours=1), END, 5)}
    assert told.backend.completeness(young)["b"].stored == 720
