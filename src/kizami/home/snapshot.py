"""One look at a home: what the verdict, the tiles and the lists are made of, taken once for all open pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from kizami.core.coverage import Completeness, Gap, Span, add_up, count_slots, with_arrivals
from kizami.core.slots import Window, shift
from kizami.home.health import (
    DAY,
    HOUR,
    LAST_MINUTE,
    LATENESS_RANGE,
    Overview,
    SlotTally,
    TargetBehind,
    add_tallies,
    seconds_behind,
    tally_slots,
)
from kizami.home.port import Home
from kizami.home.targets import ONE_MACHINE, KnownTarget, Polling, UnknownTarget
from kizami.home.values import CompanyState, DeadLetter

LISTED = 50  # rows of a list on the page; its JSON has them all
_NOTHING = Completeness(0, 0)


class TargetCondition(Enum):
    """How a target does."""

    COLLECTING = "collecting"
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

    @property
    def condition(self) -> TargetCondition:
        if not self.target.is_on:
            return TargetCondition(self.target.polling.value)
        if not self.minute.expected:
            return TargetCondition.WAITING
        if self.minute.stored == self.minute.expected:
            return TargetCondition.COLLECTING
        return TargetCondition.STRUGGLING if self.minute.stored else TargetCondition.SILENT


def find_targets(
    statuses: Mapping[str, TargetStatus], search: str, condition: TargetCondition | None, after: str
) -> list[TargetStatus]:
    """Those that do as wished and have `search` in their names, from the one behind `after` on."""
    wanted = search.lower()
    return [
        status
        for name, status in statuses.items()
        if name > after and wanted in name.lower() and condition in (None, status.condition)
    ]


@dataclass(frozen=True, slots=True)
class FoundGap:
    """A gap of one target."""

    metric: str
    interval_seconds: int
    gap: Gap


@dataclass(frozen=True, slots=True)
class HomeHealth:
    """How a home does, as `kizami status` and the page tell it: all numbers, each target, and the day's gaps."""

    overview: Overview
    targets: Mapping[str, TargetStatus]
    gaps: Sequence[FoundGap]  # newest first

    def target(self, name: str | None) -> TargetStatus | None:
        """The target of that name; without a name the first one, if there is any. UnknownTarget if not."""
        if name is None:
            return next(iter(self.targets.values()), None)
        if name not in self.targets:
            raise UnknownTarget(name)
        return self.targets[name]

    def missing_slots(self) -> Counter[str]:
        """How many slots of the last day each target lacks."""
        missing: Counter[str] = Counter()
        for found in self.gaps:
            missing[found.metric] += found.gap.slots
        return missing


@dataclass(frozen=True, slots=True)
class Snapshot(HomeHealth):
    """All that the page shows; dead letters newest first and at most LISTED."""

    dead_letters: Sequence[DeadLetter]
    companies: Sequence[CompanyState]


def take_snapshot(home: Home, now: datetime) -> Snapshot:
    """Ask a home for all of it."""
    health = read_health(home, now)
    letters, companies = home.dead_letters(None, LISTED), home.companies(now)
    return Snapshot(health.overview, health.targets, health.gaps, letters, companies)


def read_health(home: Home, now: datetime) -> HomeHealth:
    """How the home does at `now`."""
    statuses = target_statuses(home, now)
    gaps = find_gaps_in(home, [status.target for status in statuses.values()], Window(now - DAY, now), now)
    return HomeHealth(_overview(home, statuses, gaps, now), statuses, gaps)


def recent_spans(targets: Iterable[KnownTarget], back: timedelta, now: datetime) -> dict[str, Span]:
    """The recent slots of each target by name."""
    return {target.name: target.recent(back, now) for target in targets}


def target_statuses(home: Home, now: datetime) -> dict[str, TargetStatus]:
    """Every target by name."""
    targets = home.targets()
    minutes = recent_spans(targets, LAST_MINUTE, now)
    counts = home.slot_counts(minutes)
    hours = home.completeness(recent_spans(_on(targets), HOUR, now))
    days = home.completeness(recent_spans(targets, DAY, now))
    newest, arrived = home.newest_slots(), _arrivals(home, targets, days, DAY, now)

    def status_of(target: KnownTarget) -> TargetStatus:
        name = target.name
        more = min(arrived[name], target.slots_in(LAST_MINUTE) - minutes[name].expected)
        return TargetStatus(
            target,
            newest.get(name),
            tally_slots(minutes[name], counts[name], more),
            with_arrivals(hours[name], arrived[name], target.slots_in(HOUR)) if name in hours else _NOTHING,
            with_arrivals(days[name], arrived[name], target.slots_in(DAY)),
            seconds_behind(target, newest.get(name), now),
        )

    return {target.name: status_of(target) for target in targets}


def read_coverage(home: Home, targets: Sequence[KnownTarget], back: timedelta, now: datetime) -> Completeness:
    """How much of the last `back` is stored of all these targets together."""
    counted = home.completeness(recent_spans(targets, back, now))
    arrived = _arrivals(home, targets, counted, back, now)
    return add_up(
        with_arrivals(counted[target.name], arrived[target.name], target.slots_in(back)) for target in targets
    )


def _arrivals(
    home: Home,
    targets: Sequence[KnownTarget],
    counted: Mapping[str, Completeness],
    back: timedelta,
    now: datetime,
) -> Counter[str]:
    """How many slots of each target are stored already that might still be on their way; only the targets that are
    too young to fill the last `back` are asked for."""
    young = [target for target in targets if counted[target.name].expected < target.slots_in(back)]
    spans = {target.name: span for target in young if (span := target.settling(now)).expected}
    found = home.completeness(spans) if spans else {}
    return Counter({name: part.stored for name, part in found.items()})


def find_gaps_in(home: Home, targets: Sequence[KnownTarget], window: Window, now: datetime) -> list[FoundGap]:
    """The gaps of a window, newest first; of a target that is not polled nothing is expected."""
    targets = _on(targets)
    intervals = {target.name: target.interval_seconds for target in targets}
    found = home.missing({target.name: target.within(window.start, window.end, now) for target in targets})
    gaps = [FoundGap(name, intervals[name], gap) for name, each in found.items() for gap in each]
    return sorted(gaps, key=lambda entry: (entry.gap.start, entry.metric), reverse=True)


def _on(targets: Sequence[KnownTarget]) -> list[KnownTarget]:
    return [target for target in targets if target.is_on]


def _overview(
    home: Home, statuses: Mapping[str, TargetStatus], gaps: Sequence[FoundGap], now: datetime
) -> Overview:
    targets = [status.target for status in statuses.values()]
    polled = [status for status in statuses.values() if status.target.is_on]
    paused = [target for target in targets if target.polling is Polling.PAUSED]
    newest = [status.newest_slot for status in statuses.values() if status.newest_slot is not None]
    is_starting = polled and not any(status.day.expected for status in polled)
    return Overview(
        now=now,
        targets=len(targets),
        polled=len(polled),
        paused=len(paused),
        last_minute=add_tallies([status.minute for status in polled]),
        newest_slot=max(newest, default=None),
        furthest_behind=_furthest_behind(polled),
        targets_behind=sum(status.seconds_behind > 0 for status in polled),
        hour=add_up(status.hour for status in polled),
        day=add_up(status.day for status in polled),
        lateness=home.lateness(now - LATENESS_RANGE, now),
        queue=home.queue_depth(now),
        gaps=len(gaps),
        gap_slots=count_slots(entry.gap for entry in gaps),
        late_after_ms=max((target.pace.late_after_ms for target in targets), default=ONE_MACHINE.late_after_ms),
        first_tick=min(_first_tick(status.target) for status in polled) if is_starting else None,
    )


def _furthest_behind(polled: Sequence[TargetStatus]) -> TargetBehind | None:
    """None as long as no target has a slot or should have one."""
    found = [status for status in polled if status.newest_slot is not None or status.seconds_behind]
    if not found:
        return None
    last = min(found, key=lambda status: (-status.seconds_behind, status.newest_slot or status.target.first_slot))
    return TargetBehind(last.target.name, last.newest_slot, last.seconds_behind)


def _first_tick(target: KnownTarget) -> datetime:
    return shift(target.first_slot, target.lag_seconds)
