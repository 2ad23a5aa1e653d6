"""The state of everything at a glance: the numbers, and the verdict that they come to (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from kizami.core.coverage import Completeness, Span
from kizami.home.targets import ONE_MACHINE, KnownTarget
from kizami.home.values import Lateness, QueueDepth, SlotCounts, TargetTrouble

LAST_MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
LATENESS_RANGE = timedelta(minutes=10)


class Level(Enum):
    """How urgent it is: nothing to do, worth a look, act, or nothing known yet."""

    GOOD = "good"
    NOTICE = "notice"
    BAD = "bad"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class SlotTally:
    """Where the slots of a range are; `expected` is their sum."""

    stored: int = 0
    pending: int = 0
    dead: int = 0
    missing: int = 0

    @property
    def expected(self) -> int:
        return self.stored + self.pending + self.dead + self.missing


class TargetCondition(Enum):
    """How a target does."""

    COLLECTING = "collecting"
    BLOCKED = "blocked"
    STRUGGLING = "struggling"
    SILENT = "silent"
    WAITING = "waiting"
    PAUSED = "paused"
    DISABLED = "disabled"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """A target and how it does."""

    target: KnownTarget
    newest_slot: datetime | None
    minute: SlotTally
    hour: Completeness  # of nothing where it is not polled
    day: Completeness
    seconds_behind: int
    trouble: TargetTrouble | None = None  # why it fails, if it does
    condition: TargetCondition = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "condition", self._judge())

    def _judge(self) -> TargetCondition:
        if not self.target.is_on:
            return TargetCondition(self.target.polling.value)
        if self.trouble is not None and self.trouble.is_blocked:
            return TargetCondition.BLOCKED
        if not self.minute.expected:
            return TargetCondition.WAITING
        if self.minute.stored == self.minute.expected:
            return TargetCondition.COLLECTING
        return TargetCondition.STRUGGLING if self.minute.stored else TargetCondition.SILENT


@dataclass(frozen=True, slots=True)
class TargetBehind:
    """The polled target that lacks most of what it should have by now; where none lacks anything, the one whose
    newest slot is the oldest."""

    metric: str
    newest_slot: datetime | None
    seconds: int
    interval_seconds: int = 0


@dataclass(frozen=True, slots=True)
class Overview:
    """All numbers of the verdict and the tiles, over all targets."""

    now: datetime
    targets: int
    polled: int
    paused: int
    last_minute: SlotTally
    newest_slot: datetime | None
    furthest_behind: TargetBehind | None
    targets_behind: int
    hour: Completeness
    day: Completeness
    lateness: Lateness
    queue: QueueDepth
    gaps: int
    gap_slots: int
    late_after_ms: int = ONE_MACHINE.late_after_ms
    is_slow: bool = False  # a target has an interval above a minute: the last minute has its newest slot, too
    blocked: int = 0  # of the polled ones
    first_tick: datetime | None = None  # of all targets, as long as nothing can be counted of any


class MinuteFinding(Enum):
    """What the verdict's first phrase says about the last minute."""

    NO_TARGETS = "no_targets"
    STARTING = "starting"
    NOTHING_DUE = "nothing_due"
    ALL_STORED = "all_stored"
    SOME_STORED = "some_stored"
    NONE_STORED = "none_stored"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How things stand."""

    level: Level
    finding: MinuteFinding


def seconds_behind(settled: Span, newest_slot: datetime | None) -> int:
    """For how long a target has had nothing newer than its newest slot, though that should be stored by now."""
    reached = settled.start if newest_slot is None else newest_slot + timedelta(seconds=settled.interval_seconds)
    return max(0, int((settled.end - reached).total_seconds()))


def tally_slots(span: Span, counts: SlotCounts, more: int = 0) -> SlotTally:
    """Where the slots of `span` are, with so `more` that are stored; what is accounted for nowhere is missing."""
    missing = span.expected - counts.stored - counts.pending - counts.dead
    return SlotTally(counts.stored + more, counts.pending, counts.dead, max(0, missing))


def add_tallies(tallies: Sequence[SlotTally]) -> SlotTally:
    """The tallies of several targets as one."""
    return SlotTally(
        sum(tally.stored for tally in tallies),
        sum(tally.pending for tally in tallies),
        sum(tally.dead for tally in tallies),
        sum(tally.missing for tally in tallies),
    )


def judge(overview: Overview) -> Verdict:
    """The verdict: what happens now outranks what happened during the day."""
    finding = _finding(overview)
    if finding in (MinuteFinding.NO_TARGETS, MinuteFinding.STARTING, MinuteFinding.NOTHING_DUE):
        return Verdict(Level.IDLE, finding)
    minute = overview.last_minute
    if finding is MinuteFinding.STOPPED or minute.dead or minute.missing:
        return Verdict(Level.BAD, finding)
    is_whole = finding is MinuteFinding.ALL_STORED and overview.day.stored >= overview.day.expected
    calm = is_whole and not overview.gaps and not overview.queue.dead
    return Verdict(Level.GOOD if calm else Level.NOTICE, finding)


def _finding(overview: Overview) -> MinuteFinding:
    minute = overview.last_minute
    if not overview.targets:
        return MinuteFinding.NO_TARGETS
    if overview.first_tick is not None:
        return MinuteFinding.STARTING
    if not minute.expected:
        return MinuteFinding.NOTHING_DUE
    if minute.missing == minute.expected:
        return MinuteFinding.STOPPED
    if minute.stored == minute.expected:
        return MinuteFinding.ALL_STORED
    return MinuteFinding.SOME_STORED if minute.stored else MinuteFinding.NONE_STORED


class TileKind(Enum):
    """The tiles, in their order."""

    AGE = "age"
    HOUR = "hour"
    DAY = "day"
    LATENESS = "lateness"
    QUEUE = "queue"
    DEAD = "dead"
    GAPS = "gaps"


def tile_levels(overview: Overview) -> dict[TileKind, Level]:
    """Which of the tiles call for a look."""
    late = overview.lateness
    return {
        TileKind.AGE: _age_level(overview),
        TileKind.HOUR: _coverage_level(overview.hour),
        TileKind.DAY: _coverage_level(overview.day),
        TileKind.LATENESS: Level.IDLE if not late.polls else _good(late.p99_ms <= overview.late_after_ms),
        TileKind.QUEUE: _good((overview.queue.oldest_age_seconds or 0) <= 60),
        TileKind.DEAD: Level.BAD if overview.queue.dead else Level.GOOD,
        TileKind.GAPS: _good(not overview.gaps),
    }


def _age_level(overview: Overview) -> Level:
    last = overview.furthest_behind
    if last is None:
        return Level.IDLE
    if not last.seconds:
        return Level.GOOD
    # One slot of a long interval is as little as those of a minute.
    return Level.NOTICE if last.seconds <= max(LAST_MINUTE.total_seconds(), last.interval_seconds) else Level.BAD


def _coverage_level(completeness: Completeness) -> Level:
    if not completeness.expected:
        return Level.IDLE
    if completeness.stored >= completeness.expected:
        return Level.GOOD
    return Level.NOTICE if completeness.ratio >= 0.99 else Level.BAD


def _good(fine: bool) -> Level:
    return Level.GOOD if fine else Level.NOTICE
