"""Which slots are missing: whole buckets of the store by their tallies, and only the rest slot by slot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kizami.coverage import Gap, Span, find_gaps
from kizami.local.database import TALLY_SECONDS
from kizami.local.moments import from_seconds, to_seconds
from kizami.local.reader import Reader

_PIECE_SECONDS = 144 * TALLY_SECONDS  # a day at once, so that weeks of a thousand metrics fit into memory

Run = tuple[int, int]  # [start, end) in seconds


def find_missing(reader: Reader, spans: Mapping[str, Span]) -> dict[str, list[Gap]]:
    """The runs of slots that are neither stored nor pending nor dead, for each metric that has any."""
    runs: dict[str, list[Run]] = {name: [] for name in spans}
    for first, end in _days(spans.values()):
        day = _Day(reader, first, end)
        for name, span in spans.items():
            runs[name] += day.missing(name, span)
    return {name: _joined(found, spans[name].interval_seconds) for name, found in runs.items() if found}


def count_missing(reader: Reader, spans: Mapping[str, Span]) -> dict[str, int]:
    """How many slots `find_missing` would find, for each metric; no slot is looked at to tell."""
    stored, unstored = reader.completeness(spans), reader.unstored_counts(spans)
    return {name: max(0, stored[name].missing - unstored.get(name, 0)) for name in spans}


class _Day:
    """What the tallies of one piece of time say, and the slots of the buckets that they leave open."""

    def __init__(self, reader: Reader, first: int, end: int) -> None:
        self._reader = reader
        self._first, self._end = first, end
        self._stored = reader.stored_by_bucket(first, end)
        self._unstored = reader.unstored_buckets(first, end)

    def missing(self, name: str, span: Span) -> Iterator[Run]:
        whole = TALLY_SECONDS // span.interval_seconds
        start, end = to_seconds(span.start), to_seconds(span.end)
        for bucket in range(max(self._first, _bucket_of(start)), min(self._end, end), TALLY_SECONDS):
            stored = self._stored.get((name, bucket), 0)
            if stored == whole:
                continue
            run = max(bucket, start), min(bucket + TALLY_SECONDS, end)
            if not stored and (name, bucket) not in self._unstored:
                yield run
            else:
                yield from self._looked_up(name, bucket, run, span.interval_seconds)

    def _looked_up(self, name: str, bucket: int, run: Run, interval_seconds: int) -> Iterator[Run]:
        part = Span(from_seconds(run[0]), from_seconds(run[1]), interval_seconds)
        read = self._reader.accounted_slots if (name, bucket) in self._unstored else self._reader.stored_slots
        for gap in find_gaps(part, read(name, part.start, part.end)):
            yield to_seconds(gap.start), to_seconds(gap.end)


def _joined(ascending: Iterable[Run], interval_seconds: int) -> list[Gap]:
    """Runs that touch are one gap."""
    runs: list[Run] = []
    for start, end in ascending:
        if runs and runs[-1][1] == start:
            start, _ = runs.pop()
        runs.append((start, end))
    return [Gap(from_seconds(start), from_seconds(end), (end - start) // interval_seconds) for start, end in runs]


def _days(spans: Iterable[Span]) -> Iterator[Run]:
    edges = [(to_seconds(span.start), to_seconds(span.end)) for span in spans if span.expected]
    if edges:
        end = max(end for _, end in edges)
        for first in range(_bucket_of(min(edges)[0]), end, _PIECE_SECONDS):
            yield first, first + _PIECE_SECONDS


def _bucket_of(second: int) -> int:
    return second - second % TALLY_SECONDS
