"""Merging: the ticks of a bundle as columns of each metric, joined with what is sealed, and added up (pure).

    ticks ─▶ columns of each metric ─▶ merged with its sealed span ─▶ figures of each hour

A sealed value always wins: it was a first answer, and its tick may have been deleted and written again since.
Counts are whole units of so many decimals; where decimals differ, the fewer are aligned to the more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import NamedTuple

from kizami.core.answers.numbers import ten_to
from kizami.core.bundles import Bundle
from kizami.core.epoch import to_seconds
from kizami.core.packing import read_number, write_number
from kizami.core.sealed_spans import HOUR, SlotColumns, span_start
from kizami.core.ticks import STEP_MS, Answered, Tick

_VERSION_BYTES = 4


class MetricSlots(NamedTuple):
    """Slots of one metric by ascending slot; their counts are in units of `decimals`."""

    columns: SlotColumns
    decimals: int


class HourFigures(NamedTuple):
    """The slots of an hour that are stored, drawn together; values are in units of `decimals`."""

    start: int
    stored: int
    lowest: int
    highest: int
    total: int
    decimals: int


def columns_of(bundle: Bundle, ticks: Iterable[Tick]) -> dict[str, MetricSlots]:
    """Return the answers in ticks, oldest first, as columns of each metric that has any.

    How late a slot was asked for is that of its tick, in steps of 10 ms, as are the times of answers.
    """
    rows: list[list[tuple[int, int, Answered]]] = [[] for _ in bundle.members]
    for tick in ticks:
        slot, late_ms = to_seconds(tick.slot), tick.late_ms or 0
        late_ms -= late_ms % STEP_MS
        for place, answer in tick.answers.items():
            if len(answer.values) != bundle.widths[place]:
                raise ValueError(f"an answer of {bundle.members[place].name} with {len(answer.values)} values")
            rows[place].append((slot, late_ms, answer))
    found: dict[str, MetricSlots] = {}
    for member, answered in zip(bundle.members, rows, strict=True):
        if answered:
            found |= _columns_of_member(member.metrics, bundle.lag_seconds, answered)
    return found


def _columns_of_member(
    metrics: Sequence[str], lag_seconds: int, answered: Sequence[tuple[int, int, Answered]]
) -> dict[str, MetricSlots]:
    slots, late, answers = zip(*answered, strict=True)
    collected = [1000 * (slot + lag_seconds) + answer.after_ms for slot, _, answer in answered]
    receives, backfilled = [each.attempts for each in answers], [int(each.backfill) for each in answers]
    places = {each.decimals for each in answers}
    decimals, found = max(places), {}
    for number, metric in enumerate(metrics):
        counts = [each.values[number] for each in answers]
        if len(places) > 1:
            counts = [
                ten_to(decimals - each.decimals) * count for each, count in zip(answers, counts, strict=True)
            ]
        found[metric] = MetricSlots(SlotColumns(slots, counts, collected, late, receives, backfilled), decimals)
    return found


def merge(sealed: MetricSlots | None, found: MetricSlots) -> MetricSlots:
    """Return what is sealed with the slots found that are not sealed; the same object if there are none."""
    if sealed is None:
        return found
    known = set(sealed.columns.slot)
    if known.issuperset(found.columns.slot):
        return sealed
    decimals = max(sealed.decimals, found.decimals)
    rows = [row for row in _rows(found, decimals) if row[0] not in known]
    rows += _rows(sealed, decimals)
    return MetricSlots(SlotColumns(*zip(*sorted(rows), strict=True)), decimals)


def leave_out(slots: MetricSlots, first: int, end: int) -> MetricSlots:
    """Return the slots without those in [first, end)."""
    kept = [not first <= slot < end for slot in slots.columns.slot]
    return MetricSlots(SlotColumns(*(tuple(compress(column, kept)) for column in slots.columns)), slots.decimals)


def _rows(slots: MetricSlots, decimals: int) -> Iterable[tuple[int, ...]]:
    factor = ten_to(decimals - slots.decimals)
    counts = [factor * count for count in slots.columns[1]]
    return zip(slots.columns[0], counts, *slots.columns[2:], strict=True)


def figures_by_hour(slots: MetricSlots) -> list[HourFigures]:
    """Return the figures of each hour in which a slot is stored, oldest first."""
    found: dict[int, list[int]] = {}
    for slot, count in zip(slots.columns[0], slots.columns[1], strict=True):
        found.setdefault(span_start(slot, HOUR), []).append(count)
    return [
        HourFigures(hour, len(counts), min(counts), max(counts), sum(counts), slots.decimals)
        for hour, counts in found.items()
    ]


def write_figures(version: int, start: int, figures: Sequence[HourFigures]) -> bytes:
    """Return figures of hours from `start` on as bytes that sort by their version."""
    parts = [version_bytes(version)]
    for each in figures:
        hours = (each.start - start) // HOUR
        parts += map(write_number, (hours, each.stored, each.lowest, each.highest, each.total, each.decimals))
    return b"".join(parts)


def version_bytes(version: int) -> bytes:
    """Return how figures of this version begin; all figures of lower versions sort before it."""
    return version.to_bytes(_VERSION_BYTES, "big")


def read_figures(data: bytes, start: int) -> list[HourFigures]:
    """Read what `write_figures` wrote."""
    numbers, at = [], _VERSION_BYTES
    while at < len(data):
        number, at = read_number(data, at)
        numbers.append(number)
    width = len(HourFigures._fields)
    rows = (numbers[at : at + width] for at in range(0, len(numbers), width))
    return [HourFigures(start + hours * HOUR, *rest) for hours, *rest in rows]
