"""How the collection is doing, as a person reads it: a table of metrics, the verdict, and who fails and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from math import ceil
from typing import NamedTuple

from kizami.backend.health import (
    LATENESS_RANGE,
    RANK,
    Level,
    Overview,
    TargetCondition,
    TargetStatus,
    Verdict,
    judge,
)
from kizami.backend.port import Backend
from kizami.backend.snapshot import BackendHealth, read_health
from kizami.backend.values import BackupState, DaemonState, QueueDepth
from kizami.cli.terminal.colours import Colour, coloured
from kizami.cli.terminal.printing import age_text, completeness_text, instant_text, is_down, percent_text, plural
from kizami.cli.terminal.tables import fits, hanging, table_lines
from kizami.core.coverage import Completeness
from kizami.web.view.phrasing import verdict_sentence
from kizami.web.view.words import words_in

SHOWN = 20
_NAMED = 3  # of the targets that fail alike
_COLOURS: dict[Level, Colour | None] = {
    Level.GOOD: "green",
    Level.NOTICE: "yellow",
    Level.BAD: "red",
    Level.IDLE: None,
}
_COLUMNS = (
    ("metric", False),
    ("state", False),
    ("newest slot", False),
    ("age", True),
    ("last hour", True),
    ("last day", True),
    ("missing", True),
)
# Without the age, which follows from the newest slot.
_NARROW = (*_COLUMNS[:3], ("hour", True), ("day", True), ("missing", True))


@dataclass(frozen=True, slots=True)
class Status:
    """What the verb shows: the backend's health, and the daemon that collects, if one does there."""

    health: BackendHealth
    daemon: DaemonState | None

    @property
    def targets(self) -> list[TargetStatus]:
        """All of them, those that need a look first."""
        return sorted(self.health.targets.values(), key=_urgency)


def read_status(backend: Backend, now: datetime) -> Status:
    """The state of the backend at `now`."""
    return Status(read_health(backend, now), backend.daemon())


def _urgency(status: TargetStatus) -> tuple[int, float, float, str]:
    return RANK[status.condition], status.hour.ratio, day_of(status).ratio, status.target.name


def day_of(status: TargetStatus) -> Completeness:
    """Of a target that is not polled nothing is expected."""
    return status.day if status.target.is_on else Completeness(0, 0)


def status_lines(status: Status, show_all: bool = False) -> list[str]:
    """The status as a person reads it: a table of metrics, then what they share."""
    every, missing = status.targets, status.health.missing_slots()
    shown = every if show_all else every[:SHOWN]
    now = status.health.overview.now
    columns: Sequence[tuple[str, bool]] = _COLUMNS
    rows = [_row(each, missing[each.target.name], now, completeness_text) for each in shown]
    if not fits(columns, rows):
        columns = _NARROW
        rows = [_row(each, missing[each.target.name], None, _percent) for each in shown]
    lines = table_lines(columns, rows, [_colour(each) for each in shown])
    if len(shown) < len(every):
        lines.append(f"… and {len(every) - len(shown):,} more, no less complete (--all lists them)")
    return [*lines, "", *_summary_lines(status), *_trouble_lines(status, missing, show_all)]


def _colour(each: TargetStatus) -> Colour | None:
    if not each.target.is_on:
        return "bright_black"
    return None if each.level is Level.GOOD else _COLOURS[each.level]


def _row(
    each: TargetStatus, missing: int, now: datetime | None, share: Callable[[Completeness], str]
) -> list[str]:
    target = each.target
    return [
        target.name,
        each.condition.value,
        instant_text(each.newest_slot),
        *([] if now is None else [age_text(now - each.newest_slot) if each.newest_slot else "-"]),
        share(each.hour) if each.hour.expected else "-",
        share(day_of(each)) if day_of(each).expected else "-",
        str(missing) if target.is_on else "-",
    ]


def _percent(completeness: Completeness) -> str:
    return percent_text(completeness.ratio)


def _coverage_text(completeness: Completeness) -> str:
    return completeness_text(completeness) if completeness.expected else "-"


def _summary_lines(status: Status) -> list[str]:
    overview = status.health.overview
    queue, late = overview.queue, overview.lateness
    minutes = f"last {LATENESS_RANGE.seconds // 60} minutes"
    lateness = (
        f"p50 {late.p50_ms} ms, p99 {late.p99_ms} ms, {plural(late.polls, 'poll')} in the {minutes}"
        if late.polls
        else f"no polls {'yet' if overview.first_tick else f'in the {minutes}'}"
    )
    verdict, daemon = judge(overview), status.daemon
    backups = daemon.backups if daemon else None
    return [
        *_line("verdict", _verdict_text(overview, verdict), _COLOURS[verdict.level]),
        *(_line("daemon", _daemon_text(daemon), None if daemon.is_running else "yellow") if daemon else []),
        *(_line("backups", _backups_text(backups, overview.now)) if backups else []),
        *_line("coverage", _overall_coverage_text(overview, daemon)),
        *_line("missing", f"{plural(overview.gap_slots, 'slot')} of the last day"),
        *_line("lateness", lateness),
        *_line("queue", _queue_text(queue)),
        *_line("dead", plural(queue.dead, "dead letter"), "red" if queue.dead else None),
    ]


def _verdict_text(overview: Overview, verdict: Verdict) -> str:
    """The headline of the page, then its sentence."""
    worst, sentence = verdict.culprits, verdict_sentence(overview, verdict, words_in("en"))
    if worst is None:
        return sentence
    since = f" since {instant_text(worst.since)}" if worst.since else ""
    more = f" and {worst.more:,} more" if worst.more else ""
    who = f"{worst.metric}{more}: " if worst.metric else ""
    return f"{who}{worst.condition.value}{since}. {sentence}"


def _line(name: str, words: str, colour: Colour | None = None) -> list[str]:
    """What is said under that name, in as many lines as the terminal needs."""
    return [coloured(line, colour) for line in hanging(name, words, 10)]


def _trouble_lines(status: Status, missing: Mapping[str, int], show_all: bool) -> list[str]:
    """What is wrong with targets and since when, the worst first; targets that fail alike share a line.

    A stop is in the verdict; a target that was blocked when it came is still listed, with its cause.
    """
    alike: dict[_Fault, list[TargetStatus]] = {}
    for each in status.targets:
        if fault := _fault_of(each):
            alike.setdefault(fault, []).append(each)
    now = status.health.overview.now
    shown = [
        _trouble_text(fault, each, sum(missing[one.target.name] for one in each), now)
        for fault, each in islice(alike.items(), None if show_all else SHOWN)
    ]
    lines = [line for level, text in shown for line in _line("failing", text, _COLOURS[level])]
    if len(shown) < len(alike):
        lines += _line("failing", f"and {len(alike) - len(shown):,} more (--all lists them)", "red")
    return lines


class _Fault(NamedTuple):
    condition: TargetCondition
    since: datetime | None
    cause: str


def _fault_of(each: TargetStatus) -> _Fault | None:
    match each.condition:
        case TargetCondition.SILENT | TargetCondition.LATE | TargetCondition.BLOCKED:
            return _Fault(each.condition, each.since, each.cause)
        case TargetCondition.INCOMPLETE if each.cause:
            return _Fault(each.condition, each.since, each.cause)
        case TargetCondition.STOPPED if each.trouble and each.trouble.is_blocked:
            return _Fault(TargetCondition.BLOCKED, each.trouble.blocked_since, each.trouble.error)
    return None


def _trouble_text(fault: _Fault, alike: Sequence[TargetStatus], missing: int, now: datetime) -> tuple[Level, str]:
    first, names = alike[0], [each.target.name for each in alike]
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    facts = [fault.condition.value + (f" since {instant_text(fault.since)}" if fault.since else "")]
    if fault.condition is TargetCondition.BLOCKED:
        if first.trouble and first.trouble.next_probe and first.condition is TargetCondition.BLOCKED:
            ahead = first.trouble.next_probe - now
            facts.append(f"probed again in {age_text(ahead)}" if ahead > timedelta() else "being probed")
        facts.append(f"{plural(missing, 'slot')} wait")
    cause = f": {fault.cause}" if fault.cause else ""
    return first.level, f"{', '.join(names[:_NAMED])}{more}: {', '.join(facts)}{cause}"


def _overall_coverage_text(overview: Overview, daemon: DaemonState | None) -> str:
    if overview.first_tick is None or is_down(daemon):
        return f"{_coverage_text(overview.hour)} of the last hour, {_coverage_text(overview.day)} of the last day"
    ahead = overview.first_tick - overview.now
    if ahead > timedelta():
        return f"starting: the first slot is due in {age_text(ceil(ahead.total_seconds()))}"
    return "starting: the first slot is on its way"


def _daemon_text(daemon: DaemonState) -> str:
    state = f"running (pid {daemon.pid})" if daemon.is_running else "not running; `kizami up` starts it"
    return "; ".join(filter(None, (state, daemon.trouble, daemon.difference)))


def _backups_text(backups: BackupState, now: datetime) -> str:
    newest = backups.newest
    made = f"the newest of {instant_text(newest)}, {age_text(now - newest)} ago" if newest else "none yet"
    failed = f"; failed at {instant_text(backups.failed_at)}" if backups.failed_at else ""
    return f"{made}, one every {age_text(backups.every_seconds)} in {backups.directory}{failed}"


def _queue_text(queue: QueueDepth) -> str:
    counts = f"{queue.waiting:,} waiting, {queue.planned:,} planned, {queue.in_flight:,} in flight"
    oldest = queue.oldest_age_seconds
    return counts if oldest is None else f"{counts}, the oldest for {oldest:.1f} s"
