"""All that the port's questions about counts and records answer about a range, to compare two backends by."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import astuple
from datetime import datetime, timedelta
from itertools import pairwise

from kizami.backend.columns import RecordColumns
from kizami.backend.old_questions import OldQuestions
from kizami.backend.slots import Answer, Asked, SlotView
from kizami.backend.targets import KnownTarget
from kizami.backend.values import DeadLetter, DeadLetterKey, SlotDetails
from kizami.core.coverage import Span, next_slot
from kizami.local.backend import LocalBackend

_HALF = timedelta(seconds=0.5)


class OverSlots(OldQuestions):
    """The old questions over a backend that answers the one question about slots."""

    def __init__(self, backend: LocalBackend) -> None:
        self._backend = backend

    def slots(self, asked: Asked, view: SlotView[Answer]) -> Answer:
        return self._backend.slots(asked, view)

    def names(self) -> Collection[str]:
        return self._backend.names()

    def targets(self, names: Collection[str] | None = None, *, recent: bool = False) -> list[KnownTarget]:
        return self._backend.targets(names, recent=recent)

    def dead_letters(
        self, metric: str | None = None, limit: int = -1, before: DeadLetterKey | None = None
    ) -> list[DeadLetter]:
        return self._backend.dead_letters(metric, limit, before)


def old_answers(
    backend: LocalBackend | OldQuestions, targets: Iterable[KnownTarget], start: datetime, end: datetime
) -> dict[str, object]:
    """The answers of every method about the slots of the targets between two moments, by its name."""
    targets = list(targets)
    names = [target.name for target in targets]
    spans = {each.name: _span_of(each, start, end) for each in targets}
    edges = sorted({start, start + (end - start) / 7, start + (end - start) / 2, end})
    slots = [span.start + part * (span.end - span.start) / 3 for span in spans.values() for part in range(4)]
    newest = backend.newest_slots()
    return {
        "completeness": backend.completeness(spans),
        "slot_counts": backend.slot_counts(spans),
        "missing": backend.missing(spans),
        "totals": backend.totals(spans),
        "newest_slots": newest,
        "newest_slots of some": [backend.newest_slots(names[:1]), backend.newest_slots(names)],
        "newest_counts": backend.newest_counts(newest | {names[0]: slots[0]}),
        "lateness": [backend.lateness(*each) for each in [(start, end), *pairwise(edges)]],
        "buckets": {name: [backend.buckets(name, start, end, each) for each in (60, 3600)] for name in names},
        "buckets_of": backend.buckets_of(names, start, end, 600),
        "figures": {name: backend.figures(name, edges) for name in names},
        "stored_between": {name: backend.stored_between(name, edges) for name in names},
        "counts_at": {name: backend.counts_at(name, [*slots, *slots[:2], start]) for name in names},
        "counts_at between seconds": {name: backend.counts_at(name, [slots[0] - _HALF]) for name in names},
        "records": {name: list(backend.records(name, start, end)) for name in names},
        "record_columns": {
            name: [
                _plain(piece)
                for each in (False, True)
                for piece in backend.record_columns(name, start, end, details=each)
            ]
            for name in names
        },
        "slot_details": {name: once_each(backend.slot_details(name, start, end)) for name in names},
    }


def once_each(details: SlotDetails) -> SlotDetails:
    """Leave out what is said of the request for a slot that is stored."""
    stored = {each.slot for each in details.stored}
    pending = [each for each in details.pending if each.slot not in stored]
    return SlotDetails(list(details.stored), pending, [each for each in details.dead if each.slot not in stored])


def _plain(piece: RecordColumns) -> tuple[object, ...]:
    """Write a piece's columns as lists, whose equality is that of what they hold."""
    return tuple(each if isinstance(each, str | int) else list(each) for each in astuple(piece))


def _span_of(target: KnownTarget, start: datetime, end: datetime) -> Span:
    interval = target.interval_seconds
    return Span(next_slot(start, interval), next_slot(max(start, end), interval), interval)
