"""Records on their way to the reader: gaps found in passing, completeness, constant memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.backend import columns as columns_module
from kizami.backend.columns import RecordColumns, columns_of
from kizami.cli.terminal.records_with_gaps import RecordsWithGaps
from kizami.core.coverage import Gap, Span, find_gaps
from kizami.core.epoch import from_ms, from_seconds
from kizami.core.messages import MetricRecord
from samples.database import T0, at


def record(number: int) -> MetricRecord:
    return MetricRecord("calls", at(number), number % 11, at(number + 1))


def listing(numbers: Iterable[int], span: Span) -> RecordsWithGaps:
    return RecordsWithGaps(columns_of(record(number) for number in numbers), span)


def entries_of(told: RecordsWithGaps) -> list[MetricRecord | Gap]:
    return [
        each for entry in told.entries() for each in ([entry] if isinstance(entry, Gap) else records_of(entry))
    ]


def records_of(piece: RecordColumns) -> list[MetricRecord]:
    rows = zip(piece.slots, piece.units, piece.collected_ms, strict=True)
    return [MetricRecord(piece.metric, from_seconds(slot), units, from_ms(ms)) for slot, units, ms in rows]


def test_one_missing_slot_of_720_is_shown_where_it_is_missing() -> None:
    told = listing((n for n in range(720) if n != 99), Span(T0, at(720), 5))
    entries = entries_of(told)
    assert entries[98:101] == [record(98), Gap(at(99), at(100), 1), record(100)]
    assert str(told.completeness) == "719/720"


def test_nothing_stored_is_one_gap() -> None:
    told = listing([], Span(T0, at(720), 5))
    assert entries_of(told) == [Gap(T0, at(720), 720)]
    assert str(told.completeness) == "0/720"


def test_a_record_that_is_early_counts_as_expected_and_one_that_may_come_is_not_missed() -> None:
    told = listing(range(10), Span(at(2), at(8), 5))
    assert sum(map(len, told.records())) == 10
    assert str(told.completeness) == "10/10"
    assert told.gaps == []


@given(st.sets(st.integers(0, 60)), st.integers(0, 60), st.integers(0, 60), st.integers(1, 7))
def test_gaps_are_those_of_coverage_wherever_the_pieces_are_cut(
    numbers: set[int], first: int, last: int, piece: int
) -> None:
    span = Span(at(first), at(max(first, last)), 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns_module, "_PIECE", piece)
        told = listing(sorted(numbers), span)
        entries = entries_of(told)
    assert told.gaps == list(find_gaps(span, map(at, sorted(numbers))))
    assert [entry for entry in entries if isinstance(entry, MetricRecord)] == [record(n) for n in sorted(numbers)]
    starts = [entry.start if isinstance(entry, Gap) else entry.slot for entry in entries]
    assert starts == sorted(starts)


def test_records_are_not_held_back() -> None:
    drawn = 0

    def endless() -> Iterator[MetricRecord]:
        nonlocal drawn
        for number in range(10**9):
            drawn += 1
            yield record(number)

    told = RecordsWithGaps(columns_of(endless()), Span(T0, at(10**6), 5))
    assert records_of(next(told.records()))[0] == record(0)
    assert drawn < 5000
