"""Records on their way from a backend to the reader: counted, with the gaps between them, in constant memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from kizami.backend.columns import RecordColumns
from kizami.core.coverage import Completeness, Gap, Span, find_gaps
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.slots import floor_to_slot, shift


class RecordsWithGaps:
    """The records of a metric's span, once."""

    def __init__(self, pieces: Iterable[RecordColumns], span: Span) -> None:
        self._pieces = pieces
        self._span = span
        self._stored = 0
        self.gaps: list[Gap] = []

    def entries(self) -> Iterator[RecordColumns | Gap]:
        """The records and, in between, the runs of due slots that have none."""
        start = self._span.start
        for piece in self._pieces:
            end = self._end_of(from_seconds(piece.slots[-1]), start)
            self._stored += len(piece)
            yield from _parted(piece, self._gaps_between(piece.slots, start, end))
            start = end
        yield from self._gaps_between((), start, self._span.end)

    def records(self) -> Iterator[RecordColumns]:
        """The records alone."""
        return (entry for entry in self.entries() if isinstance(entry, RecordColumns))

    @property
    def completeness(self) -> Completeness:
        """Of what has passed; a record that is there before it could be missed counts as expected."""
        return Completeness(self._stored, self._stored + sum(gap.slots for gap in self.gaps))

    def _end_of(self, slot: datetime, start: datetime) -> datetime:
        end = shift(floor_to_slot(slot, self._span.interval_seconds), self._span.interval_seconds)
        return min(max(start, end), self._span.end)

    def _gaps_between(self, slots: Sequence[int], start: datetime, end: datetime) -> list[Gap]:
        interval = self._span.interval_seconds
        due = range(to_seconds(start), to_seconds(end), interval)
        # Mostly nothing is missing, which is seen at once.
        if slots == due or tuple(slots) == tuple(due):
            return []
        gaps = list(find_gaps(Span(start, end, interval), map(from_seconds, slots)))
        self.gaps += gaps
        return gaps


def _parted(piece: RecordColumns, gaps: Iterable[Gap]) -> Iterator[RecordColumns | Gap]:
    """The piece, parted where its gaps are."""
    begin = 0
    for gap in gaps:
        end = bisect_left(piece.slots, to_seconds(gap.start))
        if begin < end:
            yield piece.part(begin, end)
        yield gap
        begin = end
    if begin < len(piece):
        yield piece.part(begin, len(piece)) if begin else piece
