"""The state of everything at a glance: the numbers, and the verdict that they come to (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from kizami.backend.targets import ONE_MACHINE, KnownTarget
from kizami.backend.values import Lateness, QueueDepth, SlotCounts, TargetTrouble
from kizami.core.coverage import Completeness, Span

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
    """The state of a target. The order is that of the verdicts, the worst first: every list and every headline
    uses it."""

    STOPPED = "stopped"  # nothing is collected, of any target
    SILENT = "silent"  # none of its newest slots is stored, and no block explains that
    BLOCKED = "blocked"  # waiting does not help: only probes are sent
    LATE = "late"  # some of its newest slots are not stored
    INCOMPLETE = "incomplete"  # the newest slots are stored, older ones of the day are not, or were given up
    WAITING = "waiting"
    PAUSED = "paused"
    DISABLED = "disabled"
    REMOVED = "removed"
    COLLECTING = "collecting"


WORST_FIRST = tuple(TargetCondition)
RANK = {condition: rank for rank, condition in enumerate(WORST_FIRST)}
_LEVELS = {
    TargetCondition.STOPPED: Level.BAD,
    TargetCondition.SILENT: Level.BAD,
    TargetCondition.BLOCKED: Level.BAD,
    TargetCondition.LATE: Level.NOTICE,
    TargetCondition.INCOMPLETE: Level.NOTICE,
    TargetCondition.COLLECTING: Level.GOOD,
}
# The conditions that somebody should look at; a target is in one of the others because it is well or not polled.
WRONG = tuple(condition for condition in WORST_FIRST if _LEVELS.get(condition) in (Level.BAD, Level.NOTICE))


@dataclass(frozen=True, slots=True)
class Stop:
    """Nothing is collected: since the end of the newest slot of all, where there is one."""

    since: datetime | None
    is_daemon_down: bool  # else: the daemon runs elsewhere, and no slot of the last minute was asked for


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """A target and its state; `since` and `cause` belong to the state, and are what every page and verb shows."""

    target: KnownTarget
    newest_slot: datetime | None
    minute: SlotTally
    hour: Completeness  # of nothing where it is not polled
    day: Completeness
    seconds_behind: int
    trouble: TargetTrouble | None = None  # why it fails, if it does
    stop: Stop | None = None
    given_up: str | None = None  # why the newest of its dead letters died, if there are any
    incident_since: datetime | None = None  # when the incident began in which it is still failing
    condition: TargetCondition = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "condition", self._judge())

    def _judge(self) -> TargetCondition:
        if not self.target.is_on:
            return TargetCondition(self.target.polling.value)
        if self.stop is not None:
            return TargetCondition.STOPPED
        if self.trouble is not None and self.trouble.is_blocked:
            return TargetCondition.BLOCKED
        if not self.minute.expected:
            return TargetCondition.WAITING
        if self.minute.stored < self.minute.expected:
            return TargetCondition.LATE if self.minute.stored else TargetCondition.SILENT
        is_whole = self.day.stored >= self.day.expected and self.given_up is None
        return TargetCondition.COLLECTING if is_whole else TargetCondition.INCOMPLETE

    @property
    def level(self) -> Level:
        """The colour of the state."""
        return level_of(self.condition)

    @property
    def collected_until(self) -> datetime:
        """The end of its newest stored slot, or the start of its first one."""
        if self.newest_slot is None:
            return self.target.first_slot
        return self.newest_slot + timedelta(seconds=self.target.interval_seconds)

    @property
    def since(self) -> datetime | None:
        """When the state began; None where that is not known, or nothing is wrong."""
        match self.condition:
            case TargetCondition.STOPPED:
                return self.stop.since if self.stop else None
            case TargetCondition.SILENT:
                return self.collected_until
            case TargetCondition.BLOCKED:
                return self.trouble.blocked_since if self.trouble else None
            case TargetCondition.LATE | TargetCondition.INCOMPLETE:
                return self.incident_since
            case TargetCondition.PAUSED:
                return self.target.paused_since
            case TargetCondition.DISABLED | TargetCondition.REMOVED if self.newest_slot is not None:
                return self.collected_until
        return None

    @property
    def cause(self) -> str:
        """Why it is in this state, as far as an error tells."""
        if self.condition not in WRONG or self.condition is TargetCondition.STOPPED:
            return ""
        if self.trouble is not None:
            return self.trouble.error
        return (self.given_up or "") if self.condition is TargetCondition.INCOMPLETE else ""


def level_of(condition: TargetCondition) -> Level:
    """The colour of a state."""
    return _LEVELS.get(condition, Level.IDLE)


@dataclass(frozen=True, slots=True)
class Culprits:
    """The targets in the worst state: the first of them, how many more there are, since when, and why.

    Of a stop it is no target's fault: `metric` is empty.
    """

    condition: TargetCondition
    metric: str = ""
    more: int = 0
    since: datetime | None = None
    cause: str = ""


def find_culprits(statuses: Iterable[TargetStatus], stop: Stop | None = None) -> Culprits | None:
    """The worst state there is, and who is in it; None if nothing is wrong."""
    if stop is not None:
        return Culprits(TargetCondition.STOPPED, since=stop.since)
    wrong = [status for status in statuses if status.condition in WRONG]
    if not wrong:
        return None
    worst = min(wrong, key=_urgency)
    more = sum(status.condition is worst.condition for status in wrong) - 1
    return Culprits(worst.condition, worst.target.name, more, worst.since, worst.cause)


def _urgency(status: TargetStatus) -> tuple[int, bool, datetime, str]:
    since = status.since
    return RANK[status.condition], since is None, since or status.target.first_slot, status.target.name


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
    stop: Stop | None = None
    culprits: Culprits | None = None


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
    """How things stand: the worst state of any target, and what the last minute shows."""

    level: Level
    finding: MinuteFinding
    culprits: Culprits | None = None


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
    """The verdict: that of the worst target, for what happens now outranks what happened during the day."""
    finding, culprits = _finding(overview), overview.culprits
    if culprits is not None:
        return Verdict(level_of(culprits.condition), finding, culprits)
    if finding in (MinuteFinding.NO_TARGETS, MinuteFinding.STARTING, MinuteFinding.NOTHING_DUE):
        return Verdict(Level.IDLE, finding)
    # Dead letters may be of targets that are not polled any more.
    is_whole = finding is MinuteFinding.ALL_STORED and overview.day.stored >= overview.day.expected
    is_calm = is_whole and not overview.gaps and not overview.queue.dead
    return Verdict(Level.GOOD if is_calm else Level.NOTICE, finding)


def _finding(overview: Overview) -> MinuteFinding:
    minute = overview.last_minute
    if overview.stop is not None:
        return MinuteFinding.STOPPED
    if not overview.targets:
        return MinuteFinding.NO_TARGETS
    if overview.first_tick is not None:
        return MinuteFinding.STARTING
    if not minute.expected:
        return MinuteFinding.NOTHING_DUE
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
