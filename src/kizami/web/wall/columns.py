"""Every target in a few columns: all of them for a page that opens, then only what has changed (pure).

Two thousand names with their states and counts are 40 kB, a tenth of that on the wire; a new count of each of them
every few seconds is 3 kB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kizami.backend.health import RANK, TargetStatus
from kizami.backend.snapshot import Snapshot
from kizami.core.access.failures import cause_in
from kizami.core.answers.numbers import Number

# If more of a column has changed than this part of it, all of it is told: a place costs as much as a count.
PART = 4


@dataclass(frozen=True, slots=True)
class Columns:
    """The targets in the order of their names; each column has a value for each."""

    names: Sequence[str]
    intervals: Sequence[int]
    conditions: Sequence[int]  # places in WORST_FIRST
    counts: Sequence[Number | None]
    days: Sequence[int | None]  # how much of the last day is stored, in hundredths of a percent
    errors: Sequence[str | None]
    since: Sequence[int | None]


def columns_of(snapshot: Snapshot) -> Columns:
    """All targets of a snapshot."""
    statuses = list(snapshot.targets.values())
    return Columns(
        [status.target.name for status in statuses],
        [status.target.interval_seconds for status in statuses],
        [RANK[status.condition] for status in statuses],
        [snapshot.counts.get(status.target.name) for status in statuses],
        [_day(status) for status in statuses],
        [status.cause or None for status in statuses],
        [_since(status) for status in statuses],
    )


def _day(status: TargetStatus) -> int | None:
    """Cut and not rounded: never whole unless it is."""
    return status.day.stored * 10_000 // status.day.expected if status.day.expected else None


def _since(status: TargetStatus) -> int | None:
    return None if status.since is None else int(status.since.timestamp())


CHANGING = ("conditions", "counts", "days", "errors", "since")


def changes_of(columns: Columns, told: Columns | None) -> dict[str, Any]:
    """What a page must be told that was told `told`: whole columns, or the values at some places of them."""
    if told is None or told.names != columns.names or told.intervals != columns.intervals:
        return {name: getattr(columns, name) for name in ("names", "intervals", *CHANGING)}
    found = ((name, _change(getattr(columns, name), getattr(told, name))) for name in CHANGING)
    return {name: change for name, change in found if change}


def in_language(changes: dict[str, Any], language: str) -> dict[str, Any]:
    """The changes with the causes in that language, as the rows of the wall have them in HTML."""
    match changes.get("errors"):
        case dict() as some:
            return {**changes, "errors": {place: _cause(error, language) for place, error in some.items()}}
        case list() as every:
            return {**changes, "errors": [_cause(error, language) for error in every]}
    return changes


@lru_cache(maxsize=4096)
def _cause(error: str | None, language: str) -> str | None:
    return error and cause_in(error, language)


def _change(column: Sequence[Any], told: Sequence[Any]) -> Any:
    if column == told:
        return None
    places = [place for place, value in enumerate(column) if value != told[place]]
    if len(places) * PART > len(column):
        return column
    return {str(place): column[place] for place in places}
