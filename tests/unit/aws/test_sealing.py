"""Sealing of ticks: what is in the table after a run, in which order, and what a run costs."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from aws_here.memory_aws import MemoryAws, led_to, memory_aws
from kizami.aws.history.keeping import SPARE_SECONDS, KeptMetric
from kizami.aws.marks import Marks
from kizami.aws.rows import RowTicks
from kizami.aws.sealed import SealedItems, SpanItem, SpanKey, SummaryKey
from kizami.aws.sealing import BundleToSeal, Sealing, SealingReport
from kizami.aws.ticks import TickFacts, Ticks
from kizami.core.answers.numbers import to_total
from kizami.core.bundles import Bundle, BundleMember, row_bundle
from kizami.core.epoch import to_seconds
from kizami.core.recovery import LiveRange, Mark, TickRun, begin_mark
from kizami.core.summaries import MemberTally
from kizami.core.targets.target import Target
from kizami.core.ticks import Answered

TABLE = "Metrics"
START = datetime(2025, 12, 2, 10, tzinfo=UTC)
FIRST = to_seconds(START)
HOUR, DAY = 3600, 86_400
LATER = START + timedelta(hours=3, seconds=5)


@pytest.fixture
def aws() -> Iterator[MemoryAws]:
    found = memory_aws()
    with led_to(found):
        yield found


def bundle_of(*members: BundleMember, name: str = "0a1b2c3d.0", interval: int = 5) -> Bundle:
    return Bundle(name, interval, interval, True, 0, members)


PAIR = bundle_of(BundleMember("a", 0, ("a",)), BundleMember("b", 2, ("b/x", "b/y")))


def answer(*values: int, decimals: int = 0, steps: int = 7, attempts: int = 1, backfill: bool = False) -> Answered:
    return Answered(values, decimals, steps, attempts, backfill)


def full(number: int) -> TickFacts:
    return TickFacts({0: answer(number), 1: answer(150 + number, -number, decimals=2, steps=9)})


def fill(bundle: Bundle, numbers: range, facts: TickFacts | None = None) -> None:
    for number in numbers:
        slot = START + timedelta(seconds=bundle.interval_seconds * number)
        Ticks(TABLE).record(bundle, slot, facts or full(number), 43)


def begun(bundle: Bundle, seen_until: datetime, *runs: TickRun, start: datetime = START) -> Mark:
    mark = Marks(TABLE).begin(replace(begin_mark(bundle.name, start), seen_until=seen_until, runs=runs))
    assert mark is not None
    return mark


def work(bundle: Bundle, live: LiveRange | None = None) -> BundleToSeal:
    return BundleToSeal(bundle, Marks(TABLE).all().of(bundle.name), [live or LiveRange(START)])


def seal(
    *bundles: Bundle | BundleToSeal, now: datetime = LATER, kept: Mapping[str, KeptMetric] | None = None
) -> SealingReport:
    works = [each if isinstance(each, BundleToSeal) else work(each) for each in bundles]
    return Sealing(TABLE, Marks(TABLE), kept or {}).run(works, now)


def values(metric: str, interval: int = 5) -> dict[int, Decimal]:
    found: dict[int, Decimal] = {}
    for span in SealedItems(TABLE).spans(metric, interval, FIRST - DAY, FIRST + 7 * DAY):
        slots, counts = span.columns(("slot", "count"))
        found |= {
            slot - FIRST: Decimal(to_total(count, span.decimals))
            for slot, count in zip(slots, counts, strict=True)
        }
    return found


def partitions(aws: MemoryAws) -> dict[str, int]:
    order = aws.dynamodb.tables[TABLE].order
    return {name: len(sorts) for name, sorts in order.items() if sorts and name != "#marks"}


class TestAnHour:
    def test_values_move_and_ticks_go(self, aws: MemoryAws) -> None:
        fill(PAIR, range(720))
        begun(PAIR, LATER)
        report = seal(PAIR)
        assert (report.spans, report.deleted, report.stayed) == (1, 720, 0)
        hours = dict.fromkeys(("#hour a", "#hour b/x", "#hour b/y", "#day a", "#day b/x", "#day b/y"), 1)
        assert partitions(aws) == {**hours, "#sum 0a1b2c3d.0": 1}
        assert values("a") == {5 * number: number for number in range(720)}
        assert values("b/y") == {5 * number: Decimal(-number) / 100 for number in range(720)}
        assert work(PAIR).mark.sealed_until == START + timedelta(hours=1)

    def test_all_that_is_known_of_a_slot_is_sealed(self, aws: MemoryAws) -> None:
        fill(PAIR, range(1), TickFacts({0: answer(3, steps=12)}, outstanding=frozenset({1})))
        late = answer(7, 8, decimals=2, steps=33_000, attempts=4, backfill=True)
        Ticks(TABLE).add(PAIR, START, TickFacts({1: late}))
        begun(PAIR, LATER)
        seal(PAIR)
        spans = SealedItems(TABLE).spans_at([SpanKey(metric, FIRST, 5) for metric in ("a", "b/y")])
        rows = {key.metric: list(zip(*span.columns(), strict=True)) for key, span in spans.items()}
        due = 1000 * (FIRST + 5)
        assert rows["a"] == [(FIRST, 3, due + 120, 40, 1, 0)]
        assert rows["b/y"] == [(FIRST, 8, due + 330_000, 40, 4, 1)]

    def test_figures_of_the_hour_are_exact(self, aws: MemoryAws) -> None:
        most = 2**53 - 1
        bundle = bundle_of(BundleMember("big", 9, ("big",)))
        fill(bundle, range(720), TickFacts({0: answer(most, decimals=9)}))
        begun(bundle, LATER)
        seal(bundle)
        (hour,) = SealedItems(TABLE).days("big", 5, FIRST, FIRST + HOUR)
        assert hour == (FIRST, 720, most, most, 720 * most, 9)
        assert 720 * most > 2**62

    def test_the_summary_says_what_is_absent(self, aws: MemoryAws) -> None:
        fill(PAIR, range(700))
        fill(PAIR, range(700, 710), TickFacts({0: answer(1)}, dead=frozenset({1})))
        begun(PAIR, LATER)
        seal(PAIR)
        (summary,) = SealedItems(TABLE).summaries(PAIR.name, 5, FIRST, FIRST + HOUR)
        assert summary.count(0, FIRST, FIRST + HOUR) == MemberTally(stored=710, missing=10)
        assert summary.count(1, FIRST, FIRST + HOUR) == MemberTally(stored=700, missing=10, dead=10)
        assert summary.late_ms[FIRST] == 43

    def test_an_hour_without_ticks_has_a_summary(self, aws: MemoryAws) -> None:
        begun(PAIR, LATER)
        assert seal(PAIR).spans == 1
        assert partitions(aws) == {"#sum 0a1b2c3d.0": 1}

    def test_sealing_again_changes_nothing(self, aws: MemoryAws) -> None:
        fill(PAIR, range(720))
        mark = begun(PAIR, LATER)
        ticks = dict(aws.dynamodb.tables[TABLE].items)
        seal(PAIR)
        sealed = {key: item for key, item in aws.dynamodb.tables[TABLE].items.items() if key[0][:5] != "#mark"}
        for key, item in ticks.items():  # as if the run had crashed before it deleted them
            if key[0].startswith("#tick"):
                aws.dynamodb.tables[TABLE].put(item)
        Marks(TABLE).save(replace(mark, version=work(PAIR).mark.version))
        assert seal(PAIR).deleted == 720
        after = aws.dynamodb.tables[TABLE].items
        assert {key: after[key] for key in sealed if key[0] != "#sum 0a1b2c3d.0"} == {
            key: item for key, item in sealed.items() if key[0] != "#sum 0a1b2c3d.0"
        }
        assert after["#sum 0a1b2c3d.0", "2025-12-02T10:00:00Z"]["n"] == {"N": "2"}


class TestWhatStays:
    def test_a_tick_that_awaits_an_answer_stays_and_its_day_is_late(self, aws: MemoryAws) -> None:
        fill(PAIR, range(719))
        fill(PAIR, range(719, 720), TickFacts({0: answer(9)}, outstanding=frozenset({1})))
        begun(PAIR, LATER)
        report = seal(PAIR)
        assert (report.deleted, report.stayed) == (719, 1)
        assert partitions(aws)["#tick 0a1b2c3d.0"] == 1
        assert list(work(PAIR).mark.late_days.values()) == [LATER]
        assert len(values("a")) == 720
        late = Answered((5, 6), 2, 90_000, 2, backfill=True)
        Ticks(TABLE).add(PAIR, START + timedelta(seconds=5 * 719), TickFacts({1: late}))
        report = seal(PAIR, now=LATER + timedelta(minutes=16))
        assert (report.days, report.deleted) == (1, 1)
        assert values("b/x")[5 * 719] == Decimal("0.05")
        assert not work(PAIR).mark.late_days
        (hour,) = SealedItems(TABLE).days("b/x", 5, FIRST, FIRST + HOUR)
        assert (hour.stored, hour.lowest) == (720, 5)

    def test_ticks_that_recovery_still_reads_stay(self, aws: MemoryAws) -> None:
        fill(PAIR, range(720))
        run = TickRun(START + timedelta(seconds=50), START + timedelta(seconds=55), frozenset({1}))
        begun(PAIR, LATER + timedelta(days=1), run)
        assert seal(PAIR).spans == 0
        report = seal(PAIR, now=LATER + timedelta(days=1))
        assert report.stayed == 1
        assert partitions(aws)["#tick 0a1b2c3d.0"] == 1

    def test_a_tick_that_changes_while_it_is_sealed_stays(self, aws: MemoryAws) -> None:
        fill(PAIR, range(1), TickFacts({0: answer(1)}, dead=frozenset({1})))
        begun(PAIR, LATER)
        delete = Ticks.delete

        def late(self: Ticks, items: list[dict[str, object]]) -> list[bool]:
            self.add(PAIR, START, TickFacts({1: answer(5, 6, decimals=2, attempts=2)}))
            return delete(self, items)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Ticks, "delete", late)
            assert seal(PAIR).stayed == 1
        assert seal(PAIR, now=LATER + timedelta(minutes=16)).deleted == 1
        assert values("b/y") == {0: Decimal("0.06")}

    def test_a_tick_that_cannot_be_read_stops_its_bundle_alone(
        self, aws: MemoryAws, caplog: pytest.LogCaptureFixture
    ) -> None:
        other = replace(PAIR, name="0a1b2c3d.1")
        for bundle in (PAIR, other):
            fill(bundle, range(2))
            begun(bundle, LATER)
        table = aws.dynamodb.tables[TABLE]
        table.put({**table.items["#tick 0a1b2c3d.0", "2025-12-02T10:00:05Z"], "a": {"B": "CQ=="}})
        with caplog.at_level(logging.INFO):
            report = seal(PAIR, other)
        assert (report.spans, report.deleted) == (1, 2)
        assert partitions(aws)["#tick 0a1b2c3d.0"] == 2
        failed, done = caplog.records
        assert (failed.event, failed.bundle, done.event) == ("sealing.failed", PAIR.name, "sealing.done")  # type: ignore[attr-defined]


class TestLateValues:
    def test_a_late_value_is_merged_and_a_sealed_one_wins(self, aws: MemoryAws) -> None:
        fill(PAIR, range(10), TickFacts({0: answer(1)}, dead=frozenset({1})))
        begun(PAIR, LATER)
        seal(PAIR)
        marks, now = Marks(TABLE), LATER + timedelta(minutes=5)
        marks.note_late(PAIR.name, START, now)
        facts = TickFacts({0: answer(99), 1: answer(1234, 5, decimals=3, attempts=2, backfill=True)})
        Ticks(TABLE).record(PAIR, START, facts)
        assert seal(PAIR, now=now + timedelta(minutes=14)).days == 0
        assert seal(PAIR, now=now + timedelta(minutes=15)).deleted == 1
        assert values("a")[0] == 1
        assert values("b/x") == {0: Decimal("1.234")}
        (summary,) = SealedItems(TABLE).summaries(PAIR.name, 5, FIRST, FIRST + HOUR)
        assert summary.count(1, FIRST, FIRST + 50) == MemberTally(stored=1, dead=9)
        assert not work(PAIR).mark.late_days

    def test_a_backfill_from_before_the_first_live_slot_is_sealed(self, aws: MemoryAws) -> None:
        begun(PAIR, LATER)
        before = START - timedelta(days=30)
        Marks(TABLE).note_late(PAIR.name, before, LATER)
        Ticks(TABLE).record(PAIR, before, full(7))
        assert seal(PAIR, now=LATER + timedelta(minutes=15)).deleted == 1
        first = FIRST - 30 * DAY
        (span,) = SealedItems(TABLE).spans("a", 5, first, first + 5)
        assert list(span.columns(("slot", "count"))[1]) == [7]
        (summary,) = SealedItems(TABLE).summaries(PAIR.name, 5, first, first + 5)
        assert (summary.begin, summary.end) == (first, first + 5)

    def test_a_late_day_goes_on_until_none_of_its_ticks_is_left(self, aws: MemoryAws) -> None:
        begun(PAIR, LATER)
        seal(PAIR)
        Marks(TABLE).note_late(PAIR.name, START, LATER)
        Ticks(TABLE).ask_again(PAIR, START, {0}, LATER)
        report = seal(PAIR, now=LATER + timedelta(minutes=20))
        assert (report.days, report.deleted, report.stayed) == (1, 0, 1)
        assert work(PAIR).mark.late_days

    def test_two_plans_share_an_hour(self, aws: MemoryAws) -> None:
        half = START + timedelta(minutes=30)
        after = bundle_of(BundleMember("b", 0, ("b/x", "b/y")), BundleMember("c", 0, ("c",)), name="0f0f0f0f.0")
        fill(PAIR, range(360))
        for number in range(360, 720):
            facts = TickFacts({0: answer(number, 1), 1: answer(2)})
            Ticks(TABLE).record(after, START + timedelta(seconds=5 * number), facts, 50)
        begun(PAIR, half)
        begun(after, LATER, start=half)
        report = seal(work(PAIR, LiveRange(START, half)), work(after, LiveRange(half)))
        assert (report.spans, report.deleted) == (2, 720)
        assert values("b/x") == {
            5 * number: Decimal(150 + number) / 100 if number < 360 else number for number in range(720)
        }
        (hour,) = SealedItems(TABLE).days("b/x", 5, FIRST, FIRST + HOUR)
        assert (hour.stored, hour.decimals) == (720, 2)
        assert hour.total == sum(range(150, 510)) + 100 * sum(range(360, 720))
        counted = [
            next(SealedItems(TABLE).summaries(bundle.name, 5, FIRST, FIRST + HOUR)).count(0, FIRST, FIRST + HOUR)
            for bundle in (PAIR, after)
        ]
        assert counted == [MemberTally(stored=360), MemberTally(stored=360)]


class TestTwoRunsAtOnce:
    """Another run carries out something before a write of this one, which must not be undone."""

    AFTER = bundle_of(BundleMember("b", 2, ("b/x", "b/y")), BundleMember("a", 0, ("a",)), name="0f0f0f0f.0")

    def test_a_run_that_stood_still_before_it_wrote_spans(
        self, aws: MemoryAws, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill(PAIR, range(1), TickFacts({0: answer(1)}, dead=frozenset({1})))
        for bundle in (PAIR, self.AFTER):
            begun(bundle, LATER)
            seal(bundle)
            Marks(TABLE).note_late(bundle.name, START, LATER)
        late = START + timedelta(seconds=50)
        Ticks(TABLE).record(PAIR, late, TickFacts({0: answer(2)}))
        Ticks(TABLE).record(self.AFTER, late + timedelta(seconds=5), TickFacts({1: answer(3)}))
        now, write = LATER + timedelta(minutes=20), SealedItems.write_spans

        def overtaken(self: SealedItems, spans: list[SpanItem], expires_at: dict[str, int]) -> None:
            monkeypatch.setattr(SealedItems, "write_spans", write)
            assert seal(PAIR, now=now).deleted == 1
            write(self, spans, expires_at)

        monkeypatch.setattr(SealedItems, "write_spans", overtaken)
        assert seal(self.AFTER, now=now).deleted == 1
        assert values("a") == {0: 1, 50: 2, 55: 3}
        (hour,) = SealedItems(TABLE).days("a", 5, FIRST, FIRST + HOUR)
        assert (hour.stored, hour.total) == (3, 6)

    def test_a_run_that_stood_still_after_it_read_ticks(
        self, aws: MemoryAws, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill(PAIR, range(1), TickFacts({0: answer(1)}, held=frozenset({1})))
        begun(PAIR, LATER)
        before, read = work(PAIR), Ticks.items

        def overtaken(self: Ticks, bundle: Bundle, start: datetime, end: datetime) -> list[dict[str, object]]:
            found = list(read(self, bundle, start, end))
            monkeypatch.setattr(Ticks, "items", read)
            assert seal(before).deleted == 1
            Marks(TABLE).note_late(PAIR.name, START, LATER)
            Ticks(TABLE).record(PAIR, START, TickFacts(dead=frozenset({1})))
            assert seal(PAIR, now=LATER + timedelta(minutes=15)).deleted == 1
            return found

        monkeypatch.setattr(Ticks, "items", overtaken)
        assert seal(before).spans == 0
        (summary,) = SealedItems(TABLE).summaries(PAIR.name, 5, FIRST, FIRST + HOUR)
        assert summary.count(1, FIRST, FIRST + 5) == MemberTally(dead=1)


class TestLongIntervals:
    def test_a_day_is_sealed_as_one_span(self, aws: MemoryAws) -> None:
        bundle = bundle_of(BundleMember("slow", 0, ("slow",)), interval=300)
        fill(bundle, range(288), TickFacts({0: answer(2)}))
        midnight = START.replace(hour=0) + timedelta(days=1)
        begun(bundle, midnight + timedelta(days=1))
        report = seal(bundle, now=midnight + timedelta(hours=2, minutes=5))
        assert (report.spans, report.deleted) == (1, 168)
        assert seal(bundle, now=midnight + timedelta(hours=26, minutes=5)).deleted == 120
        assert len(values("slow", 300)) == 288
        hours = list(SealedItems(TABLE).days("slow", 300, FIRST, FIRST + DAY))
        assert [hour.start for hour in hours] == list(range(FIRST, FIRST + DAY, HOUR))
        assert {hour.total for hour in hours} == {24}


class TestKeeping:
    KEPT = KeptMetric("a", 5, 7 * DAY, 30 * DAY)

    def expiry(self, aws: MemoryAws, partition: str) -> int | None:
        table = aws.dynamodb.tables[TABLE]
        (sort,) = table.order[partition]
        found = table.items[partition, sort].get("expiresAt")
        return int(found["N"]) if found else None

    def test_what_is_not_kept_for_ever_expires(self, aws: MemoryAws) -> None:
        fill(PAIR, range(3))
        begun(PAIR, LATER)
        seal(PAIR, kept={"a": self.KEPT})
        assert self.expiry(aws, "#hour a") == FIRST + HOUR + 7 * DAY + SPARE_SECONDS
        assert self.expiry(aws, "#day a") == FIRST - 10 * HOUR + DAY + 30 * DAY
        assert self.expiry(aws, "#hour b/x") is self.expiry(aws, "#day b/x") is None
        assert self.expiry(aws, "#sum 0a1b2c3d.0") is None

    def test_a_summary_expires_if_all_of_its_members_do(self, aws: MemoryAws) -> None:
        fill(PAIR, range(3))
        begun(PAIR, LATER)
        seal(PAIR, kept={"a": self.KEPT, "b/x": replace(self.KEPT, keep_seconds=DAY), "b/y": self.KEPT})
        assert self.expiry(aws, "#sum 0a1b2c3d.0") == FIRST + HOUR + 7 * DAY + SPARE_SECONDS

    def test_what_is_sealed_long_after_its_time_stays_for_three_days(self, aws: MemoryAws) -> None:
        fill(PAIR, range(3))
        begun(PAIR, START + timedelta(hours=1))
        now = START + timedelta(days=400)
        live = LiveRange(START, START + timedelta(hours=1))
        assert seal(work(PAIR, live), now=now, kept={"a": self.KEPT}).deleted == 3
        assert self.expiry(aws, "#hour a") == self.expiry(aws, "#day a") == to_seconds(now) + SPARE_SECONDS

    def test_final_figures_are_not_replaced(self, aws: MemoryAws) -> None:
        fill(PAIR, range(3))
        begun(PAIR, START + timedelta(hours=1))
        live = LiveRange(START, START + timedelta(hours=1))
        seal(work(PAIR, live), kept={"a": self.KEPT})
        table, now = aws.dynamodb.tables[TABLE], START + timedelta(days=12)
        table.delete(("#hour a", "2025-12-02T10:00:00Z/5"))  # as DynamoDB does
        Marks(TABLE).note_late(PAIR.name, START, now)
        Ticks(TABLE).record(PAIR, START + timedelta(seconds=50), TickFacts({0: answer(9)}))
        seal(work(PAIR, live), now=now + timedelta(minutes=15), kept={"a": self.KEPT})
        assert values("a") == {50: 9}
        assert [hour.stored for hour in SealedItems(TABLE).days("a", 5, FIRST, FIRST + HOUR)] == [3]


class TestRows:
    ROWS = row_bundle(Target(name="ai_response_count"))

    def put(self, numbers: range) -> None:
        for number in numbers:
            slot = START + timedelta(seconds=5 * number)
            RowTicks(TABLE).record(self.ROWS, slot, TickFacts({0: answer(number, steps=60)}))

    def summary(self) -> MemberTally:
        (found,) = SealedItems(TABLE).summaries(self.ROWS.name, 5, FIRST, FIRST + HOUR)
        return found.count(0, FIRST, FIRST + HOUR)

    def test_rows_stay_and_are_added_up(self, aws: MemoryAws) -> None:
        self.put(range(700))
        begun(self.ROWS, LATER)
        assert seal(self.ROWS).spans == 1
        assert partitions(aws) == {
            "ai_response_count": 700,
            "#sum rows.ai_response_count": 1,
            "#day ai_response_count": 1,
        }
        assert self.summary() == MemberTally(stored=700, missing=20)
        (hour,) = SealedItems(TABLE).days("ai_response_count", 5, FIRST, FIRST + HOUR)
        assert (hour.stored, hour.total) == (700, sum(range(700)))

    def test_rows_of_a_former_interval_count_in_figures_alone(self, aws: MemoryAws) -> None:
        self.put(range(10))
        RowTicks(TABLE).record(self.ROWS, START + timedelta(seconds=3), TickFacts({0: answer(5)}))
        begun(self.ROWS, LATER)
        seal(self.ROWS)
        assert self.summary() == MemberTally(stored=10, missing=710)
        (hour,) = SealedItems(TABLE).days("ai_response_count", 5, FIRST, FIRST + HOUR)
        assert hour.stored == 11

    def test_rows_of_a_late_day_are_added_up_again_for_a_day(self, aws: MemoryAws) -> None:
        self.put(range(700))
        begun(self.ROWS, LATER)
        seal(self.ROWS)
        Marks(TABLE).note_late(self.ROWS.name, START, LATER)
        for minutes, rows in ((20, 705), (40, 705), (700, 720)):
            self.put(range(700, rows))
            seal(self.ROWS, now=LATER + timedelta(minutes=minutes))
            assert self.summary().stored == rows
            (hour,) = SealedItems(TABLE).days("ai_response_count", 5, FIRST, FIRST + HOUR)
            assert hour.stored == rows
            assert work(self.ROWS).mark.late_days
        written = aws.dynamodb.units.written
        seal(self.ROWS, now=LATER + timedelta(hours=24))
        assert not work(self.ROWS).mark.late_days
        assert aws.dynamodb.units.written == written + 1  # of the mark alone


class TestARun:
    def test_bundles_are_sealed_oldest_first(self, aws: MemoryAws, monkeypatch: pytest.MonkeyPatch) -> None:
        bundles = [replace(PAIR, name=f"0a1b2c3d.{number}") for number in range(3)]
        for number, bundle in enumerate(bundles):
            begun(bundle, LATER + timedelta(hours=9), start=START + timedelta(hours=number))
        written: list[tuple[str, int]] = []
        write = SealedItems.write_summary

        def note(self: SealedItems, key: SummaryKey, *args: object) -> bool:
            written.append((key.bundle[-1], (key.start - FIRST) // HOUR))
            return write(self, key, *args)  # type: ignore[arg-type]

        monkeypatch.setattr(SealedItems, "write_summary", note)
        works = [work(each, LiveRange(START + timedelta(hours=number))) for number, each in enumerate(bundles)]
        assert seal(*works, now=LATER + timedelta(hours=3)).spans == 9
        assert [hour for _, hour in written] == [0, 1, 1, 2, 2, 2, 3, 3, 3]

    def test_a_run_ends_when_little_time_is_left(self, aws: MemoryAws) -> None:
        begun(PAIR, LATER + timedelta(days=1))
        summaries = aws.dynamodb.tables[TABLE].order.setdefault("#sum 0a1b2c3d.0", [])
        sealing = Sealing(TABLE, Marks(TABLE), {}, lambda: 74.9 - 20 * len(summaries))
        report = sealing.run([work(PAIR)], LATER + timedelta(days=1))
        assert report.spans == 3
        assert work(PAIR).mark.sealed_until == START + timedelta(hours=3)

    def test_another_run_that_was_quicker_is_not_undone(self, aws: MemoryAws) -> None:
        fill(PAIR, range(720))
        begun(PAIR, LATER)
        before = work(PAIR)
        seal(PAIR)
        report = seal(before)
        assert report.spans == 0
        assert work(PAIR).mark.sealed_until == START + timedelta(hours=1)


class TestCosts:
    HUNDRED = bundle_of(*(BundleMember(f"target-{number}", 0, (f"target-{number}",)) for number in range(100)))

    def test_noisy_counts_take_three_bytes_a_slot(self, aws: MemoryAws) -> None:
        chance, bundle = random.Random(3), bundle_of(BundleMember("a", 0, ("a",)))
        for number in range(720):
            late_ms = chance.randrange(450)
            steps = (late_ms + int(chance.lognormvariate(4.3, 0.4))) // 10
            facts = TickFacts({0: answer(chance.randrange(10_000), steps=steps)})
            Ticks(TABLE).put(bundle, START + timedelta(seconds=5 * number), facts, late_ms)
        begun(bundle, LATER)
        seal(bundle)
        (span,) = SealedItems(TABLE).spans("a", 5, FIRST, FIRST + HOUR)
        assert len(span.data) <= 3 * 720

    def test_an_hour_of_a_hundred_members_takes_few_requests_and_units(self, aws: MemoryAws) -> None:
        for number in range(720):
            facts = TickFacts({place: answer(place * number % 97) for place in range(100)})
            Ticks(TABLE).put(self.HUNDRED, START + timedelta(seconds=5 * number), facts, number % 40)
        begun(self.HUNDRED, LATER)
        for hours in range(2):
            before = sum(aws.calls.values()), aws.dynamodb.units.written
            assert seal(self.HUNDRED, now=LATER + timedelta(hours=hours)).spans == 1
            if not hours:
                calls, units = sum(aws.calls.values()) - before[0], aws.dynamodb.units.written - before[1]
        # 29 calls delete, 4 write spans, 8 the figures of the day's first hour; the others are one call each.
        assert calls <= 48
        assert units <= 720 + 2 * 100 + 100 + 3
