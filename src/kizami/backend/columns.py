"""Records in columns, a stretch of one metric at a time: for whoever reads millions of them (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import sub
from typing import Any

from kizami.core.answers.numbers import aligned, exact_of, exact_text
from kizami.core.epoch import InstantTexts, to_ms, to_seconds
from kizami.core.messages import MetricRecord
from kizami.core.sealed_spans import MomentsAfter, in_ms

_PIECE = 1000

# What a line begins with, what stands between its slot and its count, after that, and at its end.
LineParts = tuple[str, str, str, str]
Stretch = tuple[bytes, Sequence[bytes]]  # of the texts of instants, as `InstantTexts.parted` gives them


def whole_seconds(moments: Sequence[int]) -> Sequence[int]:
    """Moments in milliseconds, cut to the second."""
    return moments.seconds() if isinstance(moments, MomentsAfter) else [moment // 1000 for moment in moments]


def after_slots(moments: Sequence[int], slots: Sequence[int]) -> Sequence[int]:
    """How many milliseconds after its slot each moment is: small numbers, which are quick to hand on."""
    if isinstance(moments, MomentsAfter) and moments.slots is slots:
        return moments.after
    return [*map(sub, moments, in_ms(slots))]


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Ascending records of one metric; the last three columns are there only if they were asked for.

    A count is whole `units` of so many `decimals`. None: the backend does not know how a record came about.
    """

    metric: str
    decimals: int
    slots: Sequence[int]  # seconds since 1970
    units: Sequence[int]
    collected_ms: Sequence[int]
    late_ms: Sequence[int | None] = ()
    receives: Sequence[int | None] = ()
    backfilled: Sequence[int | None] = ()

    def __len__(self) -> int:
        return len(self.slots)

    def count_texts(self) -> Sequence[int | str]:
        """The counts as they are written in plain digits; a whole number is left as it is."""
        if not self.decimals:
            return self.units
        return [exact_text((units, self.decimals)) for units in self.units]

    def part(self, begin: int, end: int) -> RecordColumns:
        """Those from one place to another."""
        known = self.slots[begin:end], self.units[begin:end], self.collected_ms[begin:end]
        details = self.late_ms[begin:end], self.receives[begin:end], self.backfilled[begin:end]
        return RecordColumns(self.metric, self.decimals, *known, *details)

    def lines(self, parts: LineParts, texts: InstantTexts, width: int = 0) -> bytes:
        """A line for each record, with its slot, its count of at least that width, and when it was collected.

        There is one format for all whose times begin alike: that takes Python a third of the time of one for each.
        """
        counts: Sequence[Any] = self.units
        if self.decimals:
            counts = [str(text).encode() for text in self.count_texts()]
        count = f"%{width or ''}{'b' if self.decimals else 'd'}".encode()
        start, before, after, end = (part.replace("%", "%%").encode() for part in parts)
        found, at = [], 0
        for slots, collected in _alike(texts.parted(self.slots), texts.parted(whole_seconds(self.collected_ms))):
            line = b"".join((start, slots[0], b"%b", before, count, after, collected[0], b"%b", end))
            size = len(slots[1])
            cells: list[Any] = [None] * (3 * size)
            cells[0::3], cells[1::3], cells[2::3] = slots[1], counts[at : at + size], collected[1]
            found.append(line * size % tuple(cells))
            at += size
        return b"".join(found)

    def json_objects(self, end: str, texts: InstantTexts) -> bytes:
        """Each as a JSON object with the names of the `AiResponseMetrics` table, and what is to follow it."""
        name = json.dumps(self.metric, ensure_ascii=False)
        start = f'{{"metricName": {name}, "slotTime": "'
        return self.lines((start, '", "count": ', ', "collectedAt": "', f'"}}{end}'), texts)


def _alike(first: Iterable[Stretch], second: Iterable[Stretch]) -> Iterator[tuple[Stretch, Stretch]]:
    """The stretches of two columns of equal length, cut where those of either end."""
    others = iter(second)
    end: bytes
    rest: Sequence[bytes] = ()
    for head, texts in first:
        while texts:
            if not rest:
                end, rest = next(others)
            size = min(len(texts), len(rest))
            yield (head, texts[:size]), (end, rest[:size])
            texts, rest = texts[size:], rest[size:]


def columns_of(records: Iterable[MetricRecord]) -> Iterator[RecordColumns]:
    """Records, those of a metric together, a piece at a time."""
    for metric, of_metric in groupby(records, lambda record: record.metric):
        while piece := list(islice(of_metric, _PIECE)):
            units, decimals = aligned([exact_of(record.count) for record in piece])
            slots = [to_seconds(record.slot) for record in piece]
            collected = [to_ms(record.collected_at) for record in piece]
            yield RecordColumns(metric, decimals, slots, units, collected)
