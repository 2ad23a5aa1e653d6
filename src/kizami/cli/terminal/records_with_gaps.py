"""Records on their way from a home to the reader: counted, with the gaps between them, in constant memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice

from kizami.core.coverage import Completeness, Gap, Span, find_gaps
from kizami.core.messages import MetricRecord
from kizami.core.slots import floor_to_slot, shift

_PIECE = 1000


class RecordsWithGaps:
    """The records of a metric's span, once."""

    def __init__(self, records: Iterable[MetricRecord], span: Span) -> None:
        self._remaining = iter(records)
        self._span = span
        self._stored = 0
        self.gaps: list[Gap] = []

    def entries(self) -> Iterator[MetricRecord | Gap]:
        """The records and, in between, the runs of due slots that have none."""
        start = self._span.start
        while piece := list(islice(self._remaining, _PIECE)):
            end = self._end_of(piece[-1].slot, start)
            yield from self._with_gaps(piece, start, end)
            start = end
        yield from self._with_gaps([], start, self._span.end)

    def records(self) -> Iterator[MetricRecord]:
        """The records alone."""
        return (entry for entry in self.entries() if isinstance(entry, MetricRecord))

    @property
    def completeness(self) -> Completeness:
        """Of what has passed; a record that is there before it could be missed counts as expected."""
        return Completeness(self._stored, self._stored + sum(gap.slots for gap in self.gaps))

    def _end_of(self, slot: datetime, start: datetime) -> datetime:
        end = shift(floor_to_slot(slot, self._span.interval_seconds), self._span.interval_seconds)
        return min(max(start, end), self._span.end)

    def _with_gaps(
        self, piece: list[MetricRecord], start: datetime, end: datetime
    ) -> Iterable[MetricRecord | Gap]:
        part = Span(start, end, self._span.interval_seconds)
        gaps = list(find_gaps(part, (record.slot for record in piece)))
        self._stored += len(piece)
        self.gaps += gaps
        return sorted([*piece, *gaps], key=_start)


def _start(entry: MetricRecord | Gap) -> datetime:
    return entry.slot if isinstance(entry, MetricRecord) else entry.start
