"""The question about slots, answered from the tables of one machine.

Stored slots come from the readers of rows and sealed spans, dead and pending ones from the tables of the queue.
All that an answer says is read in one snapshot, except the pieces of `Records`.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import cast

import apsw

from kizami.backend.columns import RecordColumns
from kizami.backend.slots import (
    EARLIEST,
    Answer,
    Asked,
    Buckets,
    Each,
    Edges,
    Newest,
    PollLateness,
    Records,
    Runs,
    Slot,
    SlotBucket,
    SlotRun,
    SlotView,
    State,
    require_answerable,
)
from kizami.backend.values import Lateness, lateness_of
from kizami.core.coverage import Span, next_slot
from kizami.core.epoch import from_ms, from_seconds, to_seconds
from kizami.core.errors import StoreError
from kizami.core.sealed_spans import span_seconds
from kizami.core.slots import floor_to_slot, shift
from kizami.local.store.buckets import read_figures, read_newest_counts
from kizami.local.store.database import snapshot, sqlite_errors
from kizami.local.store.history.sealed import sealed_keys
from kizami.local.store.history.stored_slots import stored_slots
from kizami.local.store.metrics import KnownMetric
from kizami.local.store.missing import find_missing
from kizami.local.store.reader import Reader
from kizami.local.store.rows import SlotKey
from kizami.local.store.statements import BACKFILL

_QUEUED = {
    State.DEAD: """
SELECT slot, metric_id, due_ms, died_ms, receives, priority, 0, reason FROM dead_letters
WHERE slot >= ? AND slot < ?
""",
    State.PENDING: """
SELECT slot, metric_id, due_ms, visible_ms, receives, priority, held, last_error FROM messages
WHERE slot >= ? AND slot < ?
""",
}
# ?1 is a JSON array of [slot, metric_id].
_AMONG_ROWS = """
SELECT s.slot, s.metric_id FROM json_each(?1) CROSS JOIN slots AS s
ON s.slot = value ->> 0 AND s.metric_id = value ->> 1
"""
_UNSTORED = frozenset(_QUEUED)
_BEGIN = itemgetter(0)


class SlotAnswers:
    """Answers the question about slots over one connection. StoreError."""

    def __init__(self, connection: apsw.Connection, path: Path, reader: Reader) -> None:
        self._connection = connection
        self._path = path
        self._reader = reader

    def slots(self, asked: Asked, view: SlotView[Answer]) -> Answer:
        """Answer one question about slots."""
        require_answerable(asked, view)
        answer: object
        if isinstance(view, Records):
            answer = self._records(dict(asked), view.details)
        else:
            with sqlite_errors(StoreError, self._path), snapshot(self._connection):
                answer = self._answer_at_once(asked, view)
        return cast(Answer, answer)

    def _answer_at_once(self, asked: Asked, view: SlotView[object]) -> object:
        if isinstance(view, Buckets):
            return self._buckets(asked, view)
        if isinstance(view, Runs):
            return self._runs(asked, view.of)
        if isinstance(view, Each):
            return self._each(asked, view.of)
        if isinstance(view, PollLateness):
            return self._lateness(asked)
        assert isinstance(view, Newest)
        return self._newest(asked)

    def _buckets(self, asked: Asked, view: Buckets) -> dict[str, list[SlotBucket]]:
        known, found = self._reader.metrics(), dict[str, list[SlotBucket]]()
        for name, edges in asked.items():
            buckets = [SlotBucket(start) for start in edges[:-1]]
            if name in known:
                figures = read_figures(self._connection, known[name], edges)
                buckets = [
                    SlotBucket(each.start, each.stored, 0, 0, each.lowest, each.highest, each.total)
                    if view.values
                    else SlotBucket(each.start, each.stored)
                    for each in figures
                ]
            found[name] = buckets
        for name, slots in self._unstored(asked, _UNSTORED if view.states else frozenset()).items():
            counts = Counter((bisect_right(asked[name], each.slot) - 1, each.state) for each in slots)
            for place, bucket in enumerate(found[name]):
                pending, dead = counts[place, State.PENDING], counts[place, State.DEAD]
                found[name][place] = bucket._replace(pending=pending, dead=dead)
        return found

    def _runs(self, asked: Asked, of: frozenset[State]) -> dict[str, list[SlotRun]]:
        known = self._reader.metrics()
        runs: dict[str, list[SlotRun]] = {name: [] for name in asked if name in known}
        for name, slots in self._each(asked, of).items():
            runs[name] += _runs_of(slots, known[name].interval_seconds)
        if State.MISSING in of:
            spans = {name: _span_of(known[name], asked[name]) for name in runs}
            for name, gaps in find_missing(self._reader, spans).items():
                runs[name] += [SlotRun(gap.start, gap.end, gap.slots, State.MISSING) for gap in gaps]
        return {
            name: [part for run in sorted(each, key=_BEGIN) for part in _cut(run, asked[name])]
            for name, each in runs.items()
            if each
        }

    def _each(self, asked: Asked, of: frozenset[State]) -> dict[str, list[Slot]]:
        unstored, found = self._unstored(asked, of), dict[str, list[Slot]]()
        for name, edges in asked.items():
            stored = self._stored(name, edges) if State.STORED in of else []
            if slots := stored + unstored.get(name, []):
                found[name] = sorted(slots, key=_BEGIN)
        return found

    def _stored(self, name: str, edges: Edges) -> list[Slot]:
        return [
            Slot(
                each.slot,
                State.STORED,
                each.count,
                each.collected_at,
                each.late_ms,
                each.receives,
                each.backfilled,
            )
            for each in self._reader.stored(name, edges[0], edges[-1])
        ]

    def _unstored(self, asked: Asked, of: frozenset[State]) -> dict[str, list[Slot]]:
        """Return the dead and pending slots of the metrics; those of a request for several values for each."""
        bounds = {name: (to_seconds(edges[0]), to_seconds(edges[-1])) for name, edges in asked.items()}
        edges = [edge for each in bounds.values() for edge in each] or [0]
        metrics: dict[int, list[KnownMetric]] = {}
        for metric in self._reader.metrics().values():
            if metric.name in bounds:
                metrics.setdefault(metric.asked_id, []).append(metric)
        queued = [
            (metric, _queued_slot(slot, state, *row))
            for state, sql in _QUEUED.items()
            if state in of
            for slot, asked_id, *row in self._reader.rows(sql, (min(edges), max(edges)))
            for metric in metrics.get(asked_id, ())
            if bounds[metric.name][0] <= slot < bounds[metric.name][1]
        ]
        stored = self._stored_among([SlotKey(to_seconds(each.slot), metric.id) for metric, each in queued])
        found: dict[str, list[Slot]] = {}
        for metric, each in queued:
            if (to_seconds(each.slot), metric.id) not in stored:
                found.setdefault(metric.name, []).append(each)
        return found

    def _stored_among(self, keys: Sequence[SlotKey]) -> set[SlotKey]:
        """Return those of the slots that are stored, or so old that they are kept no more."""
        rows = self._reader.rows(_AMONG_ROWS, (json.dumps(keys),)) if keys else []
        return sealed_keys(self._connection, keys) | {SlotKey(*row) for row in rows}

    def _records(self, asked: Asked, details: bool) -> Iterator[RecordColumns]:
        for name, edges in asked.items():
            yield from self._reader.columns(name, edges[0], edges[-1], details=details)

    def _newest(self, asked: Asked) -> dict[str, Slot]:
        newest = self._reader.newest_slots(asked)
        known = self._reader.metrics()
        for name, slot in [*newest.items()]:
            if slot >= asked[name][-1]:
                del newest[name]
                if (earlier := self._newest_before(known[name], asked[name])) is not None:
                    newest[name] = earlier
        wanted = {name: slot for name, slot in newest.items() if slot >= asked[name][0]}
        counts = read_newest_counts(self._connection, wanted)
        return {name: Slot(wanted[name], State.STORED, counts[name]) for name in asked if name in counts}

    def _newest_before(self, metric: KnownMetric, edges: Edges) -> datetime | None:
        """Look back from the end of a range that is not the last one: a span, then twice as far each time."""
        first, end, length = to_seconds(edges[0]), to_seconds(edges[-1]), span_seconds(metric.step_seconds)
        while first < end:
            start = max(first, end - length)
            pieces = list(stored_slots(self._connection, metric, start, end, ("slot",)))
            if pieces:
                return from_seconds(pieces[-1][0][-1])
            end, length = start, 2 * length
        return None

    def _lateness(self, asked: Asked) -> list[Lateness]:
        edges, known = next(iter(asked.values()), ()), self._reader.metrics()
        metrics = [known[name] for name in asked if name in known]
        return [self._lateness_between(metrics, start, end) for start, end in pairwise(edges)]

    def _lateness_between(self, metrics: Sequence[KnownMetric], start: datetime, end: datetime) -> Lateness:
        found: Counter[int] = Counter()
        for metric in metrics:
            found.update(self._late_ms(metric, start, end))
            if metric.lag_seconds >= (end - start).total_seconds():
                found.update(self._late_ms(metric, *(shift(each, -metric.lag_seconds) for each in (start, end))))
        return lateness_of(sorted(found.items()))

    def _late_ms(self, metric: KnownMetric, start: datetime, end: datetime) -> Iterator[int]:
        for piece in self._reader.columns(metric.name, start, end, details=True):
            for late_ms, is_backfilled in zip(piece.late_ms, piece.backfilled, strict=True):
                if not is_backfilled and late_ms is not None:
                    yield late_ms


def _queued_slot(
    slot: int, state: State, due_ms: int, at_ms: int, attempts: int, priority: int, held: int, error: str | None
) -> Slot:
    return Slot(
        from_seconds(slot),
        state,
        at=from_ms(at_ms),
        attempts=attempts,
        backfill=priority == BACKFILL,
        in_flight=bool(held),
        error=error,
        due_at=from_ms(due_ms),
    )


def _runs_of(slots: Iterable[Slot], interval_seconds: int) -> list[SlotRun]:
    """Return the runs of ascending slots on the grid of an interval; those of a former one are passed over."""
    runs: list[SlotRun] = []
    for each in slots:
        if floor_to_slot(each.slot, interval_seconds) != each.slot:
            continue
        start, number = each.slot, 1
        if runs and runs[-1].end == start and runs[-1].state is each.state:
            start, _, number, _ = runs.pop()
            number += 1
        runs.append(SlotRun(start, shift(each.slot, interval_seconds), number, each.state))
    return runs


def _cut(run: SlotRun, edges: Edges) -> Iterator[SlotRun]:
    """Cut a run where its slots on either side of an edge meet."""
    step, start = (run.end - run.start) // run.slots, run.start
    for edge in edges[bisect_right(edges, run.start) : bisect_left(edges, run.end)]:
        at = run.start - (run.start - edge) // step * step
        if start < at < run.end:
            yield SlotRun(start, at, (at - start) // step, run.state)
            start = at
    yield SlotRun(start, run.end, (run.end - start) // step, run.state)


def _span_of(metric: KnownMetric, edges: Edges) -> Span:
    """Return the slots between the first and the last edge that are not given up."""
    kept = EARLIEST if metric.expired_until is None else from_seconds(metric.expired_until)
    start, end = (next_slot(max(edge, kept), metric.interval_seconds) for edge in (edges[0], edges[-1]))
    return Span(start, end, metric.interval_seconds)
