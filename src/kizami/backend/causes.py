"""What is lacking, told by cause and time: an outage of three hundred targets is one line (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from kizami.backend.values import DeadLetter
from kizami.core.coverage import Gap
from kizami.core.slots import shift

# Slots of one target that fail for one cause with no longer pause than this between them failed together.
PAUSE = timedelta(minutes=5)
# Targets whose slots begin and end to be lacking as near to one another as this, or a tenth of the time, do too.
NEAR = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class FoundGap:
    """A gap of one target."""

    metric: str
    interval_seconds: int
    gap: Gap


@dataclass(frozen=True, slots=True)
class Episode:
    """Slots that are lacking for one cause, from the first one's start to the last one's end."""

    cause: str | None  # the last error; None: nobody asked for them
    metrics: tuple[str, ...]
    slots: int
    start: datetime
    end: datetime

    @property
    def key(self) -> str:
        """What it is known by while it grows."""
        return f"{self.cause or ''} {self.start.isoformat()} {self.metrics[0]}"


def is_about(asked: str, metric: str) -> bool:
    """Whether a dead letter of `asked` is about the metric: it asks for it, alone or as one of several values."""
    return metric == asked or metric.startswith(f"{asked}/")


def episodes_of(gaps: Iterable[FoundGap], letters: Iterable[DeadLetter]) -> list[Episode]:
    """All of it in few lines, what ended last first."""
    lacking = [
        *(Episode(None, (found.metric,), found.gap.slots, found.gap.start, found.gap.end) for found in gaps),
        *(
            Episode(letter.reason, (letter.metric,), 1, letter.slot, shift(letter.slot, letter.interval_seconds))
            for letter in letters
        ),
    ]
    runs = sorted(_runs(lacking), key=lambda run: (run.cause or "", run.start))
    found = (joined for _, of_cause in groupby(runs, lambda run: run.cause) for joined in _join_near(of_cause))
    return sorted(found, key=lambda each: (each.end, each.start, each.metrics), reverse=True)


def _runs(lacking: Iterable[Episode]) -> Iterator[Episode]:
    """What a target lacks for one cause with short pauses, as one."""
    ordered = sorted(lacking, key=lambda each: (each.metrics, each.cause or "", each.start))
    run: Episode | None = None
    for each in ordered:
        is_same = run is not None and (run.metrics, run.cause) == (each.metrics, each.cause)
        if run is not None and is_same and each.start - run.end <= PAUSE:
            run = _joined([run, each])
            continue
        if run is not None:
            yield run
        run = each
    if run is not None:
        yield run


def _join_near(runs: Iterable[Episode]) -> Iterator[Episode]:
    """Runs of one cause, ascending; those of several targets at about the same time as one."""
    open_ones: list[list[Episode]] = []
    for run in runs:
        if over := [each for each in open_ones if _is_past(each[0], run)]:  # nor can a later run be near them
            yield from map(_joined, over)
            open_ones = [each for each in open_ones if not _is_past(each[0], run)]
        place = next((each for each in open_ones if _is_near(each[0], run)), None)
        if place is None:
            open_ones.append([run])
        else:
            place.append(run)
    yield from map(_joined, open_ones)


def _is_past(one: Episode, later: Episode) -> bool:
    return later.start - one.start > _nearness(one)


def _is_near(one: Episode, other: Episode) -> bool:
    near = _nearness(one)
    return abs(one.start - other.start) <= near and abs(one.end - other.end) <= near


def _nearness(one: Episode) -> timedelta:
    return max(NEAR, (one.end - one.start) / 10)


def _joined(parts: Sequence[Episode]) -> Episode:
    names = dict.fromkeys(sorted(name for part in parts for name in part.metrics))
    start, end = min(part.start for part in parts), max(part.end for part in parts)
    return Episode(parts[0].cause, tuple(names), sum(part.slots for part in parts), start, end)
