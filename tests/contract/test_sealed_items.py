"""Sealed spans, summaries and figures of days: Amazon's DynamoDB Local and the simulator's keep them alike."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aws_here.local_aws import create_metrics_table, lead_to
from aws_here.memory_aws import led_to, memory_aws
from kizami.aws.dynamodb import dynamodb_client
from kizami.aws.marks import Marks
from kizami.aws.sealed import FiguresOfSpan, SealedItems, SpanItem, SpanKey, SummaryKey
from kizami.aws.sealing import BundleToSeal, Sealing
from kizami.aws.ticks import TickFacts, Ticks
from kizami.core.bundles import Bundle, BundleMember
from kizami.core.epoch import to_seconds
from kizami.core.errors import StoreError
from kizami.core.merging import HourFigures
from kizami.core.recovery import LiveRange, begin_mark
from kizami.core.sealed_spans import SlotColumns, pack_slots
from kizami.core.summaries import Absence, AbsentRun, BundleSummary
from kizami.core.ticks import Answered

START = datetime(2025, 12, 2, 10, tzinfo=UTC)
FIRST = to_seconds(START)
HOUR, DAY = 3600, 86_400
KEY = SpanKey("a", FIRST, 5)


@pytest.fixture(params=["memory", "dynamodb-local"])
def table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty metric table."""
    if request.param == "memory":
        with led_to(memory_aws()):
            yield "Metrics"
        return
    endpoint = request.getfixturevalue("dynamodb_local_endpoint")
    lead_to(endpoint, monkeypatch)
    yield create_metrics_table(endpoint)


def span(key: SpanKey = KEY, version: int = 1, count: int = 7, decimals: int = 0) -> SpanItem:
    columns = SlotColumns([key.start], [count], [1000 * key.start], [0], [1], [0])
    return SpanItem(key, version, decimals, pack_slots(columns))


class TestSpans:
    def test_the_first_writer_inserts_and_later_ones_go_on_from_what_they_read(self, table: str) -> None:
        items = SealedItems(table)
        items.write_spans([span(count=1)], {})
        items.write_spans([span(count=2)], {"a": 99})
        assert items.spans_at([KEY]) == {KEY: span(count=1)}
        items.write_spans([span(version=2, count=3, decimals=4)], {"a": 99})
        items.write_spans([span(version=2, count=4), span(KEY._replace(metric="b"))], {})
        items.write_spans([span(version=4, count=5)], {})
        assert items.spans_at([KEY, KEY._replace(metric="b"), KEY._replace(metric="c")]) == {
            KEY: span(version=2, count=3, decimals=4),
            KEY._replace(metric="b"): span(KEY._replace(metric="b")),
        }
        assert items.spans_at([KEY])[KEY].unpack().columns.slot == [FIRST]

    def test_a_range_has_every_span_with_a_part_in_it(self, table: str) -> None:
        items = SealedItems(table)
        hours = [KEY._replace(start=FIRST + HOUR * number) for number in range(4)]
        day = SpanKey("a", FIRST - FIRST % DAY, 300)
        items.write_spans([span(key) for key in [*hours, day]], {})

        def found(interval: int, first: int, end: int) -> list[int]:
            return [(each.key.start - FIRST) // HOUR for each in items.spans("a", interval, first, end)]

        assert found(5, FIRST + HOUR - 1, FIRST + 2 * HOUR + 1) == [0, 1, 2]
        assert found(5, FIRST + HOUR, FIRST + 2 * HOUR) == [1]
        assert found(5, FIRST + HOUR, FIRST + HOUR) == []
        assert found(300, FIRST + 7 * HOUR, FIRST + 8 * HOUR) == [-10]
        assert found(300, FIRST + 14 * HOUR, FIRST + 15 * HOUR) == []

    def test_many_at_once(self, table: str) -> None:
        items = SealedItems(table)
        spans = [span(KEY._replace(metric=f"m{number}"), count=number) for number in range(130)]
        items.write_spans(spans, {})
        assert items.spans_at([each.key for each in spans]) == {each.key: each for each in spans}

    def test_what_cannot_be_read_is_a_store_error(self, table: str) -> None:
        items = SealedItems(table)
        items.write_spans([replace(span(), data=b"\x09"), span(KEY._replace(metric="b"))], {})
        with pytest.raises(StoreError, match="2025-12-02T10:00:00Z/5 of a cannot be read"):
            items.spans_at([KEY])[KEY].columns()
        item = {"metricName": {"S": "#sum x.0"}, "slotTime": {"S": "2025-12-02T10:00:00Z"}, "n": {"N": "1"}}
        dynamodb_client().call("PutItem", {"TableName": table, "Item": item})
        with pytest.raises(StoreError, match="#sum x"):
            list(items.summaries("x.0", 5, FIRST, FIRST + 1))


class TestSummaries:
    SUMMARY = BundleSummary(5, FIRST, FIRST + HOUR, {3: [AbsentRun(FIRST, FIRST + 5, Absence.DEAD)]}, {FIRST: 12})

    def test_only_the_version_that_was_read_is_replaced(self, table: str) -> None:
        items, key = SealedItems(table), SummaryKey("x.0", FIRST)
        other = replace(self.SUMMARY, absent={})
        assert items.write_summary(key, self.SUMMARY, None)
        assert not items.write_summary(key, other, None)
        assert not items.write_summary(key, other, 2)
        assert items.summaries_at([key]) == {key: (1, self.SUMMARY)}
        assert items.write_summary(key, other, 1, expires_at=FIRST)
        assert items.summaries_at([key, key._replace(bundle="y.0")]) == {key: (2, other)}

    def test_a_range_has_those_of_its_spans(self, table: str) -> None:
        items = SealedItems(table)
        for hour in range(3):
            start = FIRST + hour * HOUR
            items.write_summary(SummaryKey("x.0", start), BundleSummary(5, start, start), None)
        found = items.summaries("x.0", 5, FIRST + HOUR + 5, FIRST + HOUR + 10)
        assert [each.begin for each in found] == [FIRST + HOUR]


class TestFigures:
    def hour(self, number: int, total: int) -> HourFigures:
        return HourFigures(FIRST + number * HOUR, 720, -5, 2**70, total, 9)

    def write(self, table: str, version: int, *hours: HourFigures, key: SpanKey = KEY) -> None:
        figures = FiguresOfSpan(key._replace(start=hours[0].start), version, hours)
        SealedItems(table).write_figures([figures], {KEY._replace(start=FIRST - 10 * HOUR): 99})

    def read(self, table: str, first: int = 0, end: int = 24) -> list[HourFigures]:
        return list(SealedItems(table).days("a", 5, FIRST + first * HOUR, FIRST + end * HOUR, consistent=True))

    def test_higher_versions_replace_lower_ones(self, table: str) -> None:
        self.write(table, 2, self.hour(0, 1))
        self.write(table, 1, self.hour(0, 2))
        self.write(table, 2, self.hour(0, 3))
        self.write(table, 2**31, self.hour(1, 4))
        assert self.read(table) == [self.hour(0, 1), self.hour(1, 4)]
        self.write(table, 3, self.hour(0, 5))
        self.write(table, 256, self.hour(1, 6))
        assert self.read(table) == [self.hour(0, 5), self.hour(1, 4)]
        assert self.read(table, 1, 2) == [self.hour(1, 4)]

    def test_final_figures_are_written_where_there_are_none(self, table: str) -> None:
        self.write(table, 1, self.hour(0, 1))
        self.write(table, 0, self.hour(0, 2))
        self.write(table, 0, self.hour(1, 3))
        self.write(table, 0, self.hour(1, 4))
        assert self.read(table) == [self.hour(0, 1), self.hour(1, 3)]

    def test_a_span_of_days_has_its_hours_in_each_of_them(self, table: str) -> None:
        hours = [self.hour(number, number) for number in range(30)]
        self.write(table, 1, *hours)
        self.write(table, 2, *hours[:20])  # as if two hours of the next day were not there any more
        days = [KEY._replace(start=FIRST + 14 * HOUR + day * DAY) for day in (-1, 0, 1)]
        found = SealedItems(table).days_at(days, consistent=True)
        assert found == {days[0]: hours[:14], days[1]: hours[14:20]}
        assert self.read(table, 12, 16) == hours[12:16]

    def test_other_intervals_have_their_own(self, table: str) -> None:
        self.write(table, 1, self.hour(0, 1))
        self.write(table, 1, self.hour(0, 2), key=KEY._replace(interval_seconds=10))
        assert self.read(table) == [self.hour(0, 1)]


@pytest.mark.parametrize("seed", range(2))
def test_sealing_leaves_the_same_items(
    seed: int, dynamodb_local_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead_to(dynamodb_local_endpoint, monkeypatch)
    found = _seal_some(random.Random(seed), create_metrics_table(dynamodb_local_endpoint))
    with led_to(memory_aws()):
        assert _seal_some(random.Random(seed), "Metrics") == found
    assert any(key[0].startswith("#hour") for key in found)


def _seal_some(chance: random.Random, table: str) -> dict[tuple[str, str], Any]:
    """Write ticks, seal, write late, seal again; return all items in the end."""
    half = START + timedelta(minutes=30)
    plans = [
        (
            Bundle("one.0", 5, 5, True, 0, (BundleMember("a", 0, ("a",)), BundleMember("b", 2, ("b/x", "b/y")))),
            START,
        ),
        (
            Bundle("two.0", 5, 5, True, 0, (BundleMember("b", 0, ("b/x", "b/y")), BundleMember("a", 0, ("a",)))),
            half,
        ),
    ]
    live = {"one.0": LiveRange(START, half), "two.0": LiveRange(half, half + timedelta(minutes=30))}
    ticks, marks = Ticks(table), Marks(table)

    def write(bundle: Bundle, start: datetime, kinds: str) -> None:
        facts: dict[str, Any] = {"answers": {}, "outstanding": set(), "dead": set(), "held": set()}
        for place, member in enumerate(bundle.members):
            kind = chance.choice([name for name in facts if name[0] in kinds])
            if kind == "answers":
                values = tuple(chance.randrange(-99, 10**12) for _ in member.metrics)
                facts[kind][place] = Answered(values, member.decimals, chance.randrange(90))
            else:
                facts[kind].add(place)
        states = (frozenset(facts[name]) for name in ("outstanding", "dead", "held"))
        slot = start + timedelta(seconds=5 * chance.randrange(300))
        ticks.record(bundle, slot, TickFacts(facts["answers"], *states), chance.randrange(400))

    for bundle, start in plans:
        mark = begin_mark(bundle.name, start)
        marks.begin(replace(mark, seen_until=START + timedelta(hours=3)))
        for _ in range(40):
            write(bundle, start, "aaaodh")
    now = START + timedelta(hours=3, minutes=5)
    for kinds in ("adh", "ad", "a"):
        works = [BundleToSeal(bundle, marks.all().of(bundle.name), [live[bundle.name]]) for bundle, _ in plans]
        Sealing(table, Marks(table), {}).run(works, now)
        for bundle, start in plans:
            Marks(table).note_late(bundle.name, start, now)
            for _ in range(20):
                write(bundle, start, kinds)
        now += timedelta(minutes=20)
    page = dynamodb_client().call("Scan", {"TableName": table, "ConsistentRead": True})
    assert "LastEvaluatedKey" not in page
    items = {(item["metricName"]["S"], item["slotTime"]["S"]): item for item in page["Items"]}
    for item in items.values():
        for value in item.values():
            if "NS" in value:
                value["NS"].sort()
    return items
