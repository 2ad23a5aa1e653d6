"""One look at a backend: what is wrong, read in a few questions however many targets there are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime

from kizami.alerts.findings import AlertFinding, Findings, collect
from kizami.alerts.numbers import find_numbers
from kizami.alerts.rules.conditions import AlertCondition
from kizami.alerts.rules.patterns import matches
from kizami.alerts.rules.settings import AlertSettings
from kizami.alerts.seen import Holes, Look, low_coverage
from kizami.alerts.troubles import (
    NO_LATENESS,
    NO_MACHINE_TROUBLE,
    MachineTrouble,
    find_backend_troubles,
    find_troubles,
)
from kizami.backend.health import DAY, LAST_MINUTE, TargetStatus, tally_slots
from kizami.backend.incidents import Kind, Member
from kizami.backend.port import Backend
from kizami.backend.snapshot import NO_FIGURES, find_doubtful, read_coverage, read_recent, target_statuses
from kizami.backend.targets import ONE_MACHINE, KnownTarget
from kizami.core.coverage import Completeness
from kizami.core.slots import shift

_PIECE = 500  # targets that are judged in one go by who rests in between
DEATHS_SECONDS = 300  # a slot that died so long ago is news no more


def take_look(
    backend: Backend,
    settings: AlertSettings,
    now: datetime,
    running_since: datetime | None = None,
    machine: MachineTrouble = NO_MACHINE_TROUBLE,
    rest: Callable[[], object] | None = None,
) -> Look:
    """Ask a backend how it does; with `running_since`, nobody collected before that.

    With `rest`, which is called now and then, it is never long until others have their turn, even where all
    targets are in doubt: when everything starts, or nobody answers.
    """
    targets, troubles = backend.targets(recent=True), backend.troubles()
    deaths = backend.deaths(shift(now, -DEATHS_SECONDS))
    if any(condition.kind is Kind.COVERAGE for condition, _ in settings.conditions()):
        doubtful, figures = targets, read_recent(backend, targets, now)
    else:
        doubtful, figures = find_doubtful(backend, targets, {*deaths, *troubles}, now), NO_FIGURES
    findings, statuses = Findings(), dict[str, TargetStatus]()
    for piece in _pieces(doubtful, rest):
        judged = target_statuses(backend, now, piece, figures, troubles)
        findings = findings.joined(find_troubles(judged, deaths, now, running_since))
        statuses |= judged
    # What is retried comes late, too: then it is its target's trouble.
    is_failing = any(each.trouble is not None for each in statuses.values())
    lateness = NO_LATENESS if is_failing else backend.lateness(now - LAST_MINUTE, now)
    late_after_ms = max((each.pace.late_after_ms for each in targets), default=ONE_MACHINE.late_after_ms)
    is_storing = _is_storing(targets, statuses)
    of_backend = find_backend_troubles(backend.queue_depth(now), lateness, late_after_ms, is_storing, machine)
    findings = findings.joined(of_backend).joined(_find_by_rules(backend, settings, targets, statuses, now))
    return Look(now, findings, {target.name: target for target in targets})


def _pieces(targets: Sequence[KnownTarget], rest: Callable[[], object] | None) -> Iterator[Sequence[KnownTarget]]:
    """All in one go or, with `rest`, some at a time."""
    if rest is None:
        yield targets
        return
    for start in range(0, len(targets), _PIECE):
        rest()
        yield targets[start : start + _PIECE]


def _is_storing(targets: Sequence[KnownTarget], statuses: Mapping[str, TargetStatus]) -> bool:
    """Whether the queue moves: records come, or requests at least fail. Whose status nobody asked for is well."""
    seen = (statuses.get(target.name) for target in targets if target.is_on)
    return any(each is None or each.minute.stored or each.trouble is not None for each in seen)


def _find_by_rules(
    backend: Backend,
    settings: AlertSettings,
    targets: Sequence[KnownTarget],
    statuses: Mapping[str, TargetStatus],
    now: datetime,
) -> Findings:
    findings = Findings()
    for condition, patterns in settings.conditions():
        wanted = [target for target in targets if target.is_on and matches(patterns, target.name)]
        if condition.kind is Kind.COVERAGE:
            covered = [statuses[target.name] for target in wanted]
            findings = findings.joined(collect(_find_low_coverage(condition, covered)))
        else:
            findings = findings.joined(find_numbers(backend, condition, wanted, now))
    return findings


def _find_low_coverage(condition: AlertCondition, statuses: Sequence[TargetStatus]) -> Iterator[AlertFinding]:
    for status in statuses:
        covered = status.hour if condition.seconds == 3600 else status.day
        yield from low_coverage(condition, status.target.name, covered)


class BackendSlotCounter:
    """`SlotCounter` over a backend, at the moment of a look."""

    def __init__(self, backend: Backend, look: Look) -> None:
        self._backend = backend
        self._look = look

    def holes(self, members: Collection[Member]) -> dict[str, Holes]:
        look = self._look
        spans = {}
        for member in members:
            target = look.targets.get(member.name)
            if target is not None and member.first_slot is not None:
                end = shift(member.well_since or look.now, -target.lag_seconds)
                spans[member.name] = target.due_within(member.first_slot, end, look.now)
        counts = self._backend.slot_counts(spans) if spans else {}
        return {
            name: Holes(tally_slots(span, counts[name]), look.targets[name].backfill and look.targets[name].is_on)
            for name, span in spans.items()
        }

    def coverage(self, members: Collection[Member]) -> Completeness | None:
        targets = [self._look.targets[member.name] for member in members if member.name in self._look.targets]
        return read_coverage(self._backend, targets, DAY, self._look.now) if targets else None
