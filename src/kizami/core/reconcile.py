"""Reconciling: which slots are missing beyond doubt, and which of them are asked for again in this run (pure).

A run happens every `period`. A slot is looked at once its grace is over, when no message about it can be on
its way any more. From then on it is asked for again in one run of every few, so that a slot is never on the
backfill queue twice and a lost cause costs little, until it is older than the look-back:

    due ─── grace ───┬── run ─── run ─── run ─── run ─── run ── … ── look-back
                     └ asked for           asked for again
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import chain, islice
from math import ceil

from kizami.core.backfill import plan_backfill
from kizami.core.blocking import Trouble
from kizami.core.coverage import Completeness, Gap, Span, add_up, count_slots, due_span, find_gaps, next_slot
from kizami.core.messages import MetricRecord, ScheduleMessage
from kizami.core.slots import shift
from kizami.core.targets.target import Target, Timed

READ_AT_ONCE = 120  # slots: ten minutes of five-second ones

Count = Callable[[datetime, datetime], int]
Read = Callable[[datetime, datetime], Iterable[datetime]]


@dataclass(frozen=True, slots=True)
class ReconcilePolicy:
    """How far back a run looks, what it leaves to the live queue, how often it is and how much it sends."""

    look_back_seconds: int = 3 * 3600
    grace_seconds: int = 960
    period_seconds: int = 300
    limit: int = 1000


@dataclass(frozen=True, slots=True)
class TargetFinding:
    """What a run found about one target; `answers` tells whether it gave any answer in the last two periods, or
    intervals if those are longer."""

    target: Target
    completeness: Completeness
    gaps: tuple[Gap, ...] = ()
    answers: bool = True
    trouble: Trouble | None = None  # why it is blocked, if it is
    kept: Span | None = None  # among what was kept while it was blocked these are to be looked through
    kept_gaps: tuple[Gap, ...] = ()

    @property
    def missing(self) -> int:
        return self.completeness.expected - self.completeness.stored


def span_to_check(target: Timed, now: datetime, policy: ReconcilePolicy) -> Span:
    """The slots that were due within the look-back, at least the newest one, and whose grace is over."""
    reach = max(policy.look_back_seconds, policy.grace_seconds + target.interval_seconds) + target.lag_seconds
    return due_span(target, shift(now, -reach), now, policy.grace_seconds)


def since_first(span: Span, first_slot: datetime | None) -> Span:
    """The part of `span` from the target's first record on: before it, nobody collected.

    A target that has no record at all has every slot missing, so that a deployment which never
    worked does not look complete.
    """
    if first_slot is None or first_slot <= span.start:
        return span
    start = next_slot(first_slot, span.interval_seconds)  # it may be of a former interval
    return Span(min(start, span.end), span.end, span.interval_seconds)


def find_gaps_by_counting(span: Span, count: Count, read: Read) -> Iterator[Gap]:
    """The gaps of `span`, with few records read: halves that count as complete or empty need no reading.

    A store counts without sending anything, so hours with one hole cost some counts and one short read.
    Records of a former interval, off the slots, can hide a hole until they are older than the look-back.
    """
    stored = count(span.start, span.end)
    if stored == span.expected:
        return
    if stored == 0:
        yield Gap(span.start, span.end, span.expected)
    elif span.expected <= READ_AT_ONCE:
        yield from find_gaps(span, read(span.start, span.end))
    else:
        for half in halves(span):
            yield from find_gaps_by_counting(half, count, read)


def halves(span: Span) -> tuple[Span, Span]:
    """The span in two, cut between slots."""
    middle = shift(span.start, span.expected // 2 * span.interval_seconds)
    return Span(span.start, middle, span.interval_seconds), Span(middle, span.end, span.interval_seconds)


def report(
    target: Target,
    span: Span,
    gaps: Iterable[Gap],
    newest: MetricRecord | None,
    now: datetime,
    policy: ReconcilePolicy,
) -> TargetFinding:
    """The finding about `span`; `newest` is the record of the target's newest slot, which tells if it answers."""
    gaps = tuple(gaps)
    stored = span.expected - count_slots(gaps)
    lately = shift(now, -2 * max(policy.period_seconds, target.interval_seconds))
    answers = newest is not None and newest.collected_at >= lately
    return TargetFinding(target, Completeness(stored, span.expected), gaps, answers)


def plan_run(
    findings: Iterable[TargetFinding], now: datetime, policy: ReconcilePolicy, waiting: int = 0
) -> list[ScheduleMessage]:
    """What this run asks for again, oldest slot first over all targets; `waiting` ones count towards the limit."""
    plans = [_plan_target(finding, now, policy) for finding in findings]
    oldest_first = merge(*plans, key=lambda message: message.window.start)
    return list(islice(oldest_first, max(0, policy.limit - waiting)))


def kept_until(finding: TargetFinding, sent: Collection[ScheduleMessage]) -> datetime:
    """How far what was kept is asked for, now that these are sent; the slots before are never looked for again."""
    assert finding.kept is not None
    left = (each.window.start for each in plan_backfill(finding.target, finding.kept_gaps) if each not in sent)
    return next(left, finding.kept.end)


def _plan_target(finding: TargetFinding, now: datetime, policy: ReconcilePolicy) -> Iterator[ScheduleMessage]:
    target = finding.target
    if not target.backfill:
        return iter(())
    if finding.trouble is not None:
        is_due = finding.trouble.is_due(shift(now, policy.period_seconds))
        return plan_backfill(target, map(_newest_slot, finding.gaps[-1:]) if is_due else ())
    if finding.kept is not None:
        return chain(
            _plan_gaps(finding, now, policy, finding.kept.start), plan_backfill(target, finding.kept_gaps)
        )
    return _plan_gaps(finding, now, policy)


def _plan_gaps(
    finding: TargetFinding, now: datetime, policy: ReconcilePolicy, until: datetime | None = None
) -> Iterator[ScheduleMessage]:
    target = finding.target
    # A target that is down would only turn every slot into one more dead letter: it is probed with one.
    gaps = finding.gaps if finding.answers else tuple(map(_newest_slot, finding.gaps[-1:]))
    return (
        message
        for message in plan_backfill(target, gaps)
        if is_turn(shift(message.window.start, target.lag_seconds), now, policy)
        and (until is None or message.window.start < until)
    )


def _newest_slot(gap: Gap) -> Gap:
    """A gap of one slot. The newest: a first record far back would make all the time since then expected."""
    interval = (gap.end - gap.start) / gap.slots
    return Gap(gap.end - interval, gap.end, 1)


def is_turn(due: datetime, now: datetime, policy: ReconcilePolicy, phase: int = 0) -> bool:
    """Whether the slot that was due then is asked for again in this run.

    What the last time put on the backfill queue has been stored or has died after at most a grace, so
    the slot's turn comes again when that many runs have passed. Others' turns are spread by their `phase`.
    """
    runs_before = int((now - due).total_seconds() - policy.grace_seconds) // policy.period_seconds
    return (runs_before + phase) % max(1, ceil(policy.grace_seconds / policy.period_seconds)) == 0


def overall(findings: Iterable[TargetFinding]) -> Completeness:
    """The completeness of all targets together."""
    return add_up(finding.completeness for finding in findings)
