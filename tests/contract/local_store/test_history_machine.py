"""Rows and sealed spans against a plain model: whatever is stored, sealed or late, every reader tells the same."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from kizami.backend.values import Bucket, StoredSlot, lateness_of
from kizami.core.coverage import Span, find_gaps
from kizami.core.epoch import from_ms, from_seconds, to_seconds
from kizami.core.slots import floor_to_slot
from kizami.core.targets.target import Target
from kizami.local.store import statements
from kizami.local.store.buckets import read_buckets, read_counts
from kizami.local.store.database import open_database, transaction
from kizami.local.store.history.sealing import seal_closed
from kizami.local.store.metrics import register_targets
from kizami.local.store.missing import count_pending, find_missing
from kizami.local.store.reader import Reader
from kizami.local.store.rows import SentRow, StoredRow
from kizami.local.store.statements import BACKFILL

T0 = datetime(2025, 12, 2, 21, 40, tzinfo=UTC)
# Spans of an hour, of a day and of a week; where the slots lie that are drawn, in intervals from T0.
INTERVALS = {"quick": 15, "slow": 60, "rare": 3600, "changed": 60}
SLOTS = 600

numbers = st.integers(0, SLOTS)
runs = st.builds(
    lambda first, length, stride: range(first, min(SLOTS, first + length * stride), stride),
    numbers,
    st.integers(1, 300),
    st.sampled_from([1, 1, 2, 7]),
)


class History(RuleBasedStateMachine):
    """A file, and what must be in it."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.path = self.directory / "kizami.db"
        self.connection = open_database(self.path, create=True)
        self.connection.execute("PRAGMA synchronous = OFF")
        self.reader = Reader(self.connection, self.path)
        self.stored: dict[str, dict[int, StoredRow]] = {name: {} for name in INTERVALS}
        self.pending: dict[str, set[int]] = {name: set() for name in INTERVALS}

    @initialize()
    def begin(self) -> None:
        self.register(INTERVALS)

    def register(self, intervals: dict[str, int]) -> None:
        targets = [Target(name=name, interval_seconds=each) for name, each in intervals.items()]
        with transaction(self.connection):
            self.known = register_targets(self.connection, targets, T0 - timedelta(days=1))

    def slot(self, name: str, number: int) -> int:
        return to_seconds(floor_to_slot(T0, INTERVALS[name])) + number * INTERVALS[name]

    def span(self, name: str, first: int, last: int) -> Span:
        start, end = (from_seconds(self.slot(name, number)) for number in sorted((first, last)))
        return Span(start, end, INTERVALS[name])

    @rule(run=runs, value=st.integers(-(2**53), 2**53), odd=st.booleans())
    def store(self, run: range, value: int, odd: bool) -> None:
        """Also a second time, when nothing may change."""
        for name in INTERVALS:
            self.store_of(name, run, value, odd=odd)

    def store_of(self, name: str, run: range, value: int, *, odd: bool) -> None:
        rows = [
            StoredRow(
                slot,
                self.known[name].id,
                value if odd else (value + 7 * slot) % 97,
                slot * 1000 + 61_000 + slot % 17 - (10**12 if odd else 0),
                slot % 13,
                1 + odd,
                odd,
            )
            for slot in (self.slot(name, number) for number in run)
        ]
        with transaction(self.connection):
            statements.store(self.connection, rows)
        for row in rows:
            self.stored[name].setdefault(row.slot, row)
            self.pending[name].discard(row.slot)

    @rule(hours=st.none() | st.integers(-1, 30))
    def seal(self, hours: int | None) -> None:
        for _ in seal_closed(self.connection, to_seconds(T0) + 3600 * (8000 if hours is None else hours), 0):
            pass
        if hours is None:
            assert self.connection.execute("SELECT count(*) FROM slots").get == 0
            assert self.connection.execute("SELECT count(*) FROM tallies").get == 0

    @rule()
    def have_a_finer_interval(self) -> None:
        """From then on its spans are shorter than those that were sealed."""
        self.register(INTERVALS | {"changed": 5})

    @rule(run=runs)
    def send(self, run: range) -> None:
        for name in INTERVALS:
            self.send_of(name, run)

    def send_of(self, name: str, run: range) -> None:
        slots = [self.slot(name, number) for number in run]
        rows = [SentRow(slot, self.known[name].id, INTERVALS[name], slot * 1000) for slot in slots]
        with transaction(self.connection):
            sent = statements.send(self.connection, rows, BACKFILL, 0)
        new = set(slots) - self.stored[name].keys() - self.pending[name]
        assert sent == len(new)
        self.pending[name] |= new

    @rule(first=numbers, last=numbers, seconds=st.sampled_from([60, 600, 3600, 7200, 86_400]))
    def read(self, first: int, last: int, seconds: int) -> None:
        for name in INTERVALS:
            self.check_slots(name, first, last)
            self.check_buckets(name, first, last, seconds)
        self.check_counts(first, last)
        self.check_missing(first, last)
        self.check_lateness(first, last)

    def check_slots(self, name: str, first: int, last: int) -> None:
        span = self.span(name, first, last)
        rows = self.rows(name, span)
        expected = [
            StoredSlot(from_seconds(r.slot), r.value, from_ms(r.collected_ms), r.late_ms, r.receives, r.backfilled)
            for r in rows
        ]
        assert list(self.reader.stored(name, span.start, span.end)) == expected
        plain = [tuple(row[:1] + row[2:]) for row in rows]
        columns = list(self.reader.columns(name, span.start, span.end, details=True))
        found_rows = [
            row
            for each in columns
            for row in zip(
                each.slots,
                each.units,
                each.collected_ms,
                each.late_ms,
                each.receives,
                each.backfilled,
                strict=True,
            )
        ]
        assert found_rows == plain
        wanted = [from_seconds(self.slot(name, number)) for number in {first, last, (first + last) // 2}]
        counts = {from_seconds(slot): row.value for slot, row in self.stored[name].items()}
        found = {slot: counts[slot] for slot in wanted if slot in counts}
        assert read_counts(self.connection, self.known[name], wanted) == found

    def check_buckets(self, name: str, first: int, last: int, seconds: int) -> None:
        span = self.span(name, first, last)
        low = to_seconds(span.start) // seconds * seconds
        high = -(-to_seconds(span.end) // seconds) * seconds
        counts: dict[int, list[int]] = {}
        for slot, row in sorted(self.stored[name].items()):
            if low <= slot < high:
                counts.setdefault(slot // seconds * seconds, []).append(row.value)
        assert read_buckets(self.connection, self.known[name], span.start, span.end, seconds) == [
            Bucket(from_seconds(start), len(each), min(each), max(each), sum(each))
            for start, each in counts.items()
        ]

    def check_counts(self, first: int, last: int) -> None:
        span = self.span("slow", first, last)
        expected = {name: len(self.rows(name, span)) for name in INTERVALS}
        found = self.reader.stored_counts(span.start, span.end)
        assert found == {name: count for name, count in expected.items() if count}
        assert {name: self.reader.stored_count(name, span.start, span.end) for name in INTERVALS} == expected
        newest = {name: from_seconds(max(rows)) for name, rows in self.stored.items() if rows}
        assert self.reader.newest_slots() == newest

    def check_missing(self, first: int, last: int) -> None:
        spans = {name: self.span(name, first, last) for name in INTERVALS}
        found = find_missing(self.reader, spans)
        for name, span in spans.items():
            accounted = sorted(from_seconds(slot) for slot in self.stored[name].keys() | self.pending[name])
            assert found.get(name, []) == list(find_gaps(span, accounted))
        pending = {
            name: sum(span.start <= from_seconds(each) < span.end for each in self.pending[name])
            for name, span in spans.items()
        }
        assert count_pending(self.reader, spans) == {name: count for name, count in pending.items() if count}

    def check_lateness(self, first: int, last: int) -> None:
        span = self.span("slow", first, last)
        late = Counter(row.late_ms for name in INTERVALS for row in self.rows(name, span) if not row.backfilled)
        assert self.reader.lateness(span.start, span.end) == lateness_of(sorted(late.items()))

    def rows(self, name: str, span: Span) -> list[StoredRow]:
        low, high = to_seconds(span.start), to_seconds(span.end)
        return [row for slot, row in sorted(self.stored[name].items()) if low <= slot < high]

    def teardown(self) -> None:
        assert self.connection.execute("PRAGMA integrity_check").get == "ok"
        self.connection.close()
        shutil.rmtree(self.directory)


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
