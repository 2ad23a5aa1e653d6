"""One look at a backend: what the verdict, the tiles and the lists are made of, taken once for all open pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from kizami.backend.causes import Episode, FoundGap, episodes_of, is_about
from kizami.backend.health import (
    DAY,
    HOUR,
    LAST_MINUTE,
    LATENESS_RANGE,
    Overview,
    SlotTally,
    Stop,
    TargetBehind,
    TargetCondition,
    TargetStatus,
    add_tallies,
    find_culprits,
    seconds_behind,
    tally_slots,
)
from kizami.backend.incidents import TROUBLE
from kizami.backend.port import Backend
from kizami.backend.targets import ONE_MACHINE, KnownTarget, Polling, UnknownTarget
from kizami.backend.values import CompanyState, DeadLetter, Lateness, QueueDepth, TargetTrouble
from kizami.core.answers.numbers import Number
from kizami.core.coverage import Completeness, Span, add_up, count_slots, with_arrivals
from kizami.core.slots import Window, shift

LISTED = 50  # rows of a list on the page; its JSON has them all
LETTERS_READ = 5000  # the newest: they are told by their causes
_NOTHING = Completeness(0, 0)


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
class BackendHealth:
    """The health of a backend as `kizami status` and the page show it: numbers, targets, the day's gaps."""

    overview: Overview
    targets: Mapping[str, TargetStatus]
    gaps: Sequence[FoundGap]  # newest first

    def target(self, name: str) -> TargetStatus:
        """The target of that name, else UnknownTarget."""
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
class Snapshot(BackendHealth):
    """All that the page shows; dead letters newest first and at most LETTERS_READ."""

    dead_letters: Sequence[DeadLetter]
    companies: Sequence[CompanyState]
    counts: Mapping[str, Number]  # that of each target's newest slot
    episodes: Sequence[Episode]  # the gaps and the dead letters by cause and time


@dataclass(frozen=True, slots=True)
class RecentFigures:
    """How much of each target's last hour and day is stored, and what has arrived before its grace is over."""

    hours: Mapping[str, Completeness]
    days: Mapping[str, Completeness]
    arrived: Mapping[str, int]

    def hour(self, target: KnownTarget) -> Completeness:
        return self._with_arrivals(self.hours, target, HOUR)

    def day(self, target: KnownTarget) -> Completeness:
        return self._with_arrivals(self.days, target, DAY)

    def _with_arrivals(
        self, counted: Mapping[str, Completeness], target: KnownTarget, back: timedelta
    ) -> Completeness:
        if target.name not in counted:
            return _NOTHING
        return with_arrivals(counted[target.name], self.arrived.get(target.name, 0), target.slots_in(back))


def take_snapshot(backend: Backend, now: datetime) -> Snapshot:
    """Ask a backend for all of it, in one look."""
    with backend.look() as one:
        return _read_snapshot(one, now)


def _read_snapshot(backend: Backend, now: datetime) -> Snapshot:
    depth, letters = backend.queue_depth(now), backend.dead_letters(None, LETTERS_READ)
    statuses, stop = judged_statuses(backend, now, backend.targets(recent=True), letters)
    gaps = find_gaps_of_day(backend, lacking_targets(statuses), now)
    overview = make_overview(statuses, gaps, backend.lateness(now - LATENESS_RANGE, now), depth, now, stop)
    companies = backend.companies(now)
    counts, episodes = backend.newest_counts(newest_of(statuses)), episodes_of(gaps, letters)
    return Snapshot(overview, statuses, gaps, letters, companies, counts, episodes)


def read_health(backend: Backend, now: datetime) -> BackendHealth:
    """How the backend does at `now`."""
    with backend.look() as one:
        return _read_health(one, now)


def _read_health(backend: Backend, now: datetime) -> BackendHealth:
    depth = backend.queue_depth(now)
    letters = backend.dead_letters(None, LETTERS_READ) if depth.dead else []
    statuses, stop = judged_statuses(backend, now, backend.targets(recent=True), letters)
    gaps = find_gaps_of_day(backend, lacking_targets(statuses), now)
    lateness = backend.lateness(now - LATENESS_RANGE, now)
    return BackendHealth(make_overview(statuses, gaps, lateness, depth, now, stop), statuses, gaps)


def newest_of(statuses: Mapping[str, TargetStatus]) -> dict[str, datetime]:
    """The newest slot of each target that has one."""
    return {name: status.newest_slot for name, status in statuses.items() if status.newest_slot is not None}


def lacking_targets(statuses: Mapping[str, TargetStatus]) -> list[KnownTarget]:
    """Those that lack slots of their last day: no other can have a gap in it."""
    return [status.target for status in statuses.values() if status.day.missing]


def recent_spans(targets: Iterable[KnownTarget], back: timedelta, now: datetime) -> dict[str, Span]:
    """The recent slots of each target by name."""
    return spans_of(targets, lambda target: target.recent(back, now))


def spans_of(targets: Iterable[KnownTarget], span_of: Callable[[KnownTarget], Span]) -> dict[str, Span]:
    """A span of each target by name; it follows from the target's timing, which many have in common."""
    found: dict[object, Span] = {}
    spans = {}
    for target in targets:
        span = found.get(target.timing)
        if span is None:
            span = found[target.timing] = span_of(target)
        spans[target.name] = span
    return spans


def read_recent(backend: Backend, targets: Sequence[KnownTarget], now: datetime) -> RecentFigures:
    """The figures of the last hour and day."""
    days = backend.completeness(recent_spans(targets, DAY, now))  # first: what it reads tells of the hour, too
    hours = backend.completeness(recent_spans(_on(targets), HOUR, now))
    return RecentFigures(hours, days, _arrivals(backend, targets, days, DAY, now))


def target_statuses(
    backend: Backend,
    now: datetime,
    targets: Sequence[KnownTarget] | None = None,
    recent: RecentFigures | None = None,
    troubles: Mapping[str, TargetTrouble] | None = None,
    seconds: int = 60,
    newest: Mapping[str, datetime] | None = None,
) -> dict[str, TargetStatus]:
    """Return every target by name, judged by the slots of the last `seconds`.

    What the caller has read of them already is not read again.
    """
    targets = backend.targets() if targets is None else targets
    if not targets:
        return {}
    recent = recent or read_recent(backend, targets, now)
    if newest is None:
        newest = backend.newest_slots([target.name for target in targets])
    found = backend.troubles() if troubles is None else troubles
    minutes = spans_of(targets, lambda target: target.current(now, seconds))
    settled = spans_of(targets, lambda target: target.settled(now))
    counts = backend.slot_counts(minutes)

    def status_of(target: KnownTarget) -> TargetStatus:
        name = target.name
        room = max(1, target.slots_in(timedelta(seconds=seconds))) - minutes[name].expected
        minute = tally_slots(minutes[name], counts[name], min(recent.arrived.get(name, 0), room))
        return TargetStatus(
            target,
            newest.get(name),
            minute,
            recent.hour(target),
            recent.day(target),
            seconds_behind(settled[name], newest.get(name)),
            _current(found.get(name), minute) if target.is_on else None,
        )

    return {target.name: status_of(target) for target in targets}


def judged_statuses(
    backend: Backend,
    now: datetime,
    targets: Sequence[KnownTarget],
    letters: Sequence[DeadLetter],
    recent: RecentFigures | None = None,
    failing_since: Callable[[], Mapping[str, datetime]] | None = None,
) -> tuple[dict[str, TargetStatus], Stop | None]:
    """Every target with its state as it is shown everywhere, and whether nothing is collected at all.

    Beyond `target_statuses` it knows the dead letters (`letters`, newest first), and since when a late target has
    been failing.
    """
    statuses = target_statuses(backend, now, targets, recent)
    reasons = _reasons(letters, statuses)
    if reasons:
        statuses |= {name: replace(statuses[name], given_up=reason) for name, reason in reasons.items()}
    if stop := find_stop(backend, statuses.values()):
        return {name: replace(status, stop=stop) for name, status in statuses.items()}, stop
    vague = [name for name, status in statuses.items() if _is_vague(status)]
    ask = failing_since or partial(read_failing_since, backend)
    since = ask() if vague else {}
    found = {name: replace(statuses[name], incident_since=since[name]) for name in vague if name in since}
    return statuses | found, None


def _is_vague(status: TargetStatus) -> bool:
    """True if its records do not tell when its state began, and an incident may."""
    is_dying = status.condition is TargetCondition.INCOMPLETE and status.given_up is not None
    return status.condition is TargetCondition.LATE or is_dying


def find_stop(backend: Backend, statuses: Collection[TargetStatus]) -> Stop | None:
    """The stop, if nothing is collected: the daemon is down, or the backend has none and nothing was asked for."""
    polled, daemon = [status for status in statuses if status.target.is_on], backend.daemon()
    minute = add_tallies([status.minute for status in polled])
    if daemon is None and not 0 < minute.missing == minute.expected:
        return None
    if daemon is not None and daemon.is_running:
        return None
    ends = [status.collected_until for status in polled if status.newest_slot is not None]
    return Stop(max(ends, default=None), daemon is not None)


def _reasons(letters: Sequence[DeadLetter], statuses: Mapping[str, TargetStatus]) -> dict[str, str]:
    """Why the newest dead letter of each target died."""
    reasons: dict[str, str] = {}
    for letter in letters:
        reasons.setdefault(letter.metric, letter.reason)
    for asked in reasons.keys() - statuses.keys():  # one request for several values: none of them has its name
        reasons |= {name: reasons[asked] for name in statuses if is_about(asked, name)}
    return {name: reason for name, reason in reasons.items() if name in statuses}


def read_failing_since(backend: Backend) -> dict[str, datetime]:
    """When each target began to fail that still does, by the open incidents."""
    members = (
        member
        for incident in backend.incident_log.incidents(open_only=True)
        if incident.group == TROUBLE
        for member in incident.members.values()
        if member.clear_since is None
    )
    return {member.name: member.shown_since for member in members}


def find_doubtful(
    backend: Backend,
    targets: Sequence[KnownTarget],
    suspects: Container[str],
    now: datetime,
    seconds: int = 60,
) -> list[KnownTarget]:
    """Return the polled targets that are suspects or lack a slot of the last `seconds`."""
    polled = _on(targets)
    minutes = backend.completeness(spans_of(polled, lambda target: target.current(now, seconds)))
    return [
        target
        for target in polled
        if target.name in suspects or not 0 < minutes[target.name].expected == minutes[target.name].stored
    ]


NO_FIGURES = RecentFigures({}, {}, {})  # for who looks at the last minute only: hour and day cost more


def _current(trouble: TargetTrouble | None, minute: SlotTally) -> TargetTrouble | None:
    """What is left to be tried again of a target that answers by now is no trouble of it."""
    is_over = trouble is not None and not trouble.is_blocked and 0 < minute.expected == minute.stored
    return None if is_over else trouble


def read_coverage(
    backend: Backend, targets: Sequence[KnownTarget], back: timedelta, now: datetime
) -> Completeness:
    """How much of the last `back` is stored of all these targets together."""
    counted = backend.completeness(recent_spans(targets, back, now))
    arrived = _arrivals(backend, targets, counted, back, now)
    return add_up(
        with_arrivals(counted[target.name], arrived[target.name], target.slots_in(back)) for target in targets
    )


def _arrivals(
    backend: Backend,
    targets: Sequence[KnownTarget],
    counted: Mapping[str, Completeness],
    back: timedelta,
    now: datetime,
) -> Counter[str]:
    """How many slots of each target are stored already that might still be on their way; only the targets that are
    too young to fill the last `back` are asked for."""
    young = [target for target in targets if counted[target.name].expected < target.slots_in(back)]
    settling = spans_of(young, lambda target: target.settling(now))
    spans = {name: span for name, span in settling.items() if span.expected}
    found = backend.completeness(spans) if spans else {}
    return Counter({name: part.stored for name, part in found.items()})


def find_gaps_in(
    backend: Backend, targets: Sequence[KnownTarget], window: Window, now: datetime
) -> list[FoundGap]:
    """The gaps of a window, newest first; of a target that is not polled nothing is expected."""
    return _find_gaps(backend, spans_of(_on(targets), lambda target: target.within(window.start, window.end, now)))


def find_gaps_of_day(backend: Backend, targets: Sequence[KnownTarget], now: datetime) -> list[FoundGap]:
    """The gaps of the last day, newest first: with a lag above a day, of the newest day that is due."""

    def day_of(target: KnownTarget) -> Span:
        span = target.within(now - DAY, now, now)
        return span if span.expected else target.recent(DAY, now)

    return _find_gaps(backend, spans_of(_on(targets), day_of))


def _find_gaps(backend: Backend, spans: Mapping[str, Span]) -> list[FoundGap]:
    found = backend.missing(spans) if spans else {}
    gaps = [FoundGap(name, spans[name].interval_seconds, gap) for name, each in found.items() for gap in each]
    return sorted(gaps, key=lambda entry: (entry.gap.start, entry.metric), reverse=True)


def _on(targets: Sequence[KnownTarget]) -> list[KnownTarget]:
    return [target for target in targets if target.is_on]


def make_overview(
    statuses: Mapping[str, TargetStatus],
    gaps: Sequence[FoundGap],
    lateness: Lateness,
    depth: QueueDepth,
    now: datetime,
    stop: Stop | None = None,
) -> Overview:
    """All of it in numbers."""
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
        blocked=sum(status.condition is TargetCondition.BLOCKED for status in polled),
        last_minute=add_tallies([status.minute for status in polled]),
        newest_slot=max(newest, default=None),
        furthest_behind=_furthest_behind(polled),
        targets_behind=sum(status.seconds_behind > 0 for status in polled),
        hour=add_up(status.hour for status in polled),
        day=add_up(status.day for status in polled),
        lateness=lateness,
        queue=depth,
        gaps=len(gaps),
        gap_slots=count_slots(entry.gap for entry in gaps),
        late_after_ms=max((target.pace.late_after_ms for target in targets), default=ONE_MACHINE.late_after_ms),
        is_slow=any(status.target.interval_seconds > LAST_MINUTE.total_seconds() for status in polled),
        first_tick=min(_first_tick(status.target) for status in polled) if is_starting else None,
        stop=stop,
        culprits=find_culprits(statuses.values(), stop),
    )


def _furthest_behind(polled: Sequence[TargetStatus]) -> TargetBehind | None:
    """None as long as no target has a slot or should have one."""
    found = [status for status in polled if status.newest_slot is not None or status.seconds_behind]
    if not found:
        return None
    last = min(found, key=lambda status: (-status.seconds_behind, status.newest_slot or status.target.first_slot))
    interval = last.target.interval_seconds
    return TargetBehind(last.target.name, last.newest_slot, last.seconds_behind, interval)


def _first_tick(target: KnownTarget) -> datetime:
    return shift(target.first_slot, target.lag_seconds)
