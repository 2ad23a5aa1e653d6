"""The watch over a backend: one look at it, and what follows (pure apart from the backend's answers).

The daemon's thread calls `watch` every 15 seconds, the reconciler on AWS in each of its runs, every few minutes;
`WatchRun` has all that differs. A look takes a few questions however many targets there are. What is decided is
a value: the caller saves it, and delivers the messages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial

from kizami.alerts.decision import AlertState, Decision, decide
from kizami.alerts.findings import AlertFinding, Findings, collect
from kizami.alerts.numbers import find_numbers
from kizami.alerts.rules.patterns import matches
from kizami.alerts.rules.settings import AlertSettings
from kizami.alerts.seen import REFILL_SECONDS, Holes, Look, low_coverage
from kizami.alerts.troubles import NO_LATENESS, WatchRun, find_backend_troubles, find_troubles, is_overdue
from kizami.backend.health import DAY, HOUR, LAST_MINUTE, TargetStatus, tally_slots
from kizami.backend.incidents import Kind, Member
from kizami.backend.port import Backend
from kizami.backend.snapshot import NO_FIGURES, find_doubtful, read_coverage, read_recent, target_statuses
from kizami.backend.targets import ONE_MACHINE, KnownTarget
from kizami.backend.values import QueueDepth, SlotCounts
from kizami.core.coverage import Completeness, Span
from kizami.core.errors import InvalidInput
from kizami.core.slots import shift

DEATHS_SECONDS = 300  # for so long at least it is news that a slot was given up

_PIECE = 500  # targets that are judged in one go, if there is a rest between pieces
_NO_QUEUE = QueueDepth(0, 0, 0, 0, None)


def watch(
    backend: Backend, state: AlertState, settings: AlertSettings, now: datetime, run: WatchRun | None = None
) -> Decision:
    """Look at a backend and decide what becomes of the incidents, and which messages to send.

    StoreError or QueueError if the backend cannot answer; then nothing is decided.
    """
    run = run or WatchRun()
    with backend.look() as one:  # its questions share what they read
        look = take_look(one, settings, now, run)
        return decide(state, look, settings, BackendSlotCounter(one, look, run.refill_seconds))


def take_look(backend: Backend, settings: AlertSettings, now: datetime, run: WatchRun | None = None) -> Look:
    """Return what is wrong with a backend. Nothing more is asked about targets that have all recent slots."""
    run = run or WatchRun()
    targets, troubles = backend.targets(recent=True), backend.troubles()
    deaths = backend.deaths(shift(now, -max(DEATHS_SECONDS, run.period_seconds)))
    doubtful = find_doubtful(backend, targets, {*deaths, *troubles}, now, run.window_seconds)
    findings, statuses = Findings(), dict[str, TargetStatus]()
    for piece in _pieces(doubtful, run):
        newest = _newest_slots(backend, piece, now, run)
        judged = target_statuses(backend, now, piece, NO_FIGURES, troubles, run.window_seconds, newest)
        findings = findings.joined(find_troubles(judged, deaths, now, run))
        statuses |= judged
    findings = findings.joined(_find_backend_troubles(backend, targets, statuses, now, run))
    findings = findings.joined(_find_by_conditions(backend, settings, targets, now, run))
    return Look(now, findings, {target.name: target for target in targets})


def _pieces(targets: Sequence[KnownTarget], run: WatchRun) -> Iterator[Sequence[KnownTarget]]:
    """Return all targets at once or, where there are rests, some at a time: when all are in doubt, polls go on."""
    if run.rest is None:
        yield targets
        return
    for start in range(0, len(targets), _PIECE):
        run.rest()
        yield targets[start : start + _PIECE]


def _newest_slots(
    backend: Backend, targets: Sequence[KnownTarget], now: datetime, run: WatchRun
) -> Mapping[str, datetime]:
    """Return the newest slots of targets; where too many are silent for that, the last ones before the window."""
    if not targets:
        return {}
    try:
        return backend.newest_slots([target.name for target in targets])
    except InvalidInput:
        return {each.name: shift(run.window(each, now).start, -each.interval_seconds) for each in targets}


def _find_backend_troubles(
    backend: Backend,
    targets: Sequence[KnownTarget],
    statuses: Mapping[str, TargetStatus],
    now: datetime,
    run: WatchRun,
) -> Findings:
    """Return what is wrong with the backend itself; targets without a status are well."""
    polled = [target for target in targets if target.is_on]
    seen = [statuses.get(target.name) for target in polled]
    is_storing = any(each is None or each.minute.stored or each.trouble is not None for each in seen)
    ask_queue = run.live_queue or partial(backend.queue_depth, now)
    queue = _NO_QUEUE if is_storing else ask_queue()
    is_failing = any(each.trouble is not None for each in statuses.values())
    # Polls that are tried again leave late, too; that is a trouble of their target.
    is_timed = run.times_polls and not is_failing
    lateness = backend.lateness(now - LAST_MINUTE, now) if is_timed else NO_LATENESS
    late_after_ms = max((each.pace.late_after_ms for each in targets), default=ONE_MACHINE.late_after_ms)
    is_asked = bool(queue.waiting) and queue.oldest_age_seconds is None
    overdue = is_asked and any(is_overdue(target, now, run) for target in polled)
    return find_backend_troubles(queue, lateness, late_after_ms, is_storing, run.machine, overdue)


def _find_by_conditions(
    backend: Backend, settings: AlertSettings, targets: Sequence[KnownTarget], now: datetime, run: WatchRun
) -> Findings:
    """Return which targets meet the conditions about coverage and numbers of rules that are about them."""
    findings, conditions = Findings(), settings.conditions()
    polled = [target for target in targets if target.is_on]
    covered = {
        target.name: target
        for condition, patterns in conditions
        if condition.kind is Kind.COVERAGE
        for target in polled
        if matches(patterns, target.name)
    }
    figures = read_recent(backend, [*covered.values()], now) if covered else NO_FIGURES
    for condition, patterns in conditions:
        wanted = [target for target in polled if matches(patterns, target.name)]
        if condition.kind is Kind.COVERAGE:
            of = figures.hour if condition.seconds == HOUR.total_seconds() else figures.day
            low: Iterable[AlertFinding] = (
                found for target in wanted for found in low_coverage(condition, target.name, of(target))
            )
            findings = findings.joined(collect(low))
        else:
            findings = findings.joined(find_numbers(backend, condition, wanted, now, run.window_seconds))
    return findings


class BackendSlotCounter:
    """`SlotCounter` over a backend, at the moment of a look.

    Where a question would be too large, all slots count as missing, so that no incident ends too early.
    """

    def __init__(self, backend: Backend, look: Look, refill_seconds: int = REFILL_SECONDS) -> None:
        self._backend = backend
        self._look = look
        self._refill_seconds = refill_seconds

    def holes(self, members: Collection[Member]) -> dict[str, Holes]:
        look = self._look
        spans = {}
        for member in members:
            target = look.targets.get(member.name)
            if target is not None and member.first_slot is not None:
                end = shift(member.well_since or look.now, -target.lag_seconds)
                spans[member.name] = target.due_within(member.first_slot, end, look.now)
        counts = self._count(spans) if spans else {}
        return {
            name: Holes(
                tally_slots(span, counts.get(name, SlotCounts())),
                look.targets[name].backfill and look.targets[name].is_on,
                refill_seconds=self._refill_seconds,
            )
            for name, span in spans.items()
        }

    def coverage(self, members: Collection[Member]) -> Completeness | None:
        targets = [self._look.targets[member.name] for member in members if member.name in self._look.targets]
        try:
            return read_coverage(self._backend, targets, DAY, self._look.now) if targets else None
        except InvalidInput:
            return None

    def _count(self, spans: Mapping[str, Span]) -> Mapping[str, SlotCounts]:
        try:
            return self._backend.slot_counts(spans)
        except InvalidInput:
            return {}
