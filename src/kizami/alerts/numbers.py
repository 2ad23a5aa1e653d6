"""Whether the counts of a target meet a condition about numbers, which cannot always be said (pure).

On the slot, `above` and `below` look at every slot since the look before (at the newest one of a longer interval),
so that none is overlooked in between. Nothing is said about times that lack records, but that they are above.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Protocol

from kizami.alerts.findings import Findings, collect
from kizami.alerts.rules.conditions import WEEK_SECONDS, AlertCondition, NumberTest
from kizami.alerts.seen import of_condition
from kizami.backend.targets import KnownTarget
from kizami.backend.values import Bucket
from kizami.core.answers.numbers import Number, Total, plain_text
from kizami.core.coverage import Span
from kizami.core.slots import shift


@dataclass(frozen=True, slots=True)
class Reading:
    """What is stored of a span, and of the same span a week before where that is asked for."""

    span: Span
    stored: Bucket | None
    week_before: Bucket | None = None

    @property
    def is_whole(self) -> bool:
        return self.stored is not None and 0 < self.span.expected == self.stored.stored


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether the condition holds, None if nobody can say; with the number that says so."""

    holds: bool | None
    detail: str = ""


UNKNOWN = Judgement(None)
LAST_MINUTE_SECONDS = 60


def span_of(condition: AlertCondition, target: KnownTarget, now: datetime, look_seconds: int) -> Span:
    """The settled slots that the condition is about; on the slot, all those of `look_seconds`."""
    seconds = condition.seconds
    if not seconds:
        seconds = 0 if condition.comparison is NumberTest.DIFFERS else look_seconds
    return target.recent(timedelta(seconds=max(seconds, target.interval_seconds)), now)


def week_before(span: Span) -> Span:
    """The same time last week."""
    return Span(shift(span.start, -WEEK_SECONDS), shift(span.end, -WEEK_SECONDS), span.interval_seconds)


def is_full(condition: AlertCondition, target: KnownTarget, span: Span) -> bool:
    """Whether the target has been polled for as long as the condition speaks of."""
    wanted = timedelta(seconds=max(condition.seconds, target.interval_seconds))
    return span.expected >= target.slots_in(wanted)


def judge_numbers(condition: AlertCondition, reading: Reading) -> Judgement:
    """Whether what is stored meets the condition."""
    found = reading.stored
    if found is None:
        return UNKNOWN
    if condition.comparison is NumberTest.ABOVE:
        return _above(condition, reading, found)
    if condition.comparison is NumberTest.BELOW:
        return _below(condition, reading, found)
    if not reading.is_whole:
        return UNKNOWN
    if condition.comparison is NumberTest.DIFFERS:
        return _differs(condition, reading, found)
    is_still = found.lowest == found.highest and (condition.comparison is NumberTest.NO_CHANGE or not found.total)
    return Judgement(is_still, plain_text(found.lowest))


def _above(condition: AlertCondition, reading: Reading, found: Bucket) -> Judgement:
    number = found.total if condition.is_sum else found.highest
    if condition.is_sum and not reading.is_whole and found.lowest < 0:
        return UNKNOWN
    if _exact(number) > condition.bound:
        return Judgement(True, plain_text(number))
    return Judgement(False, plain_text(number)) if reading.is_whole else UNKNOWN


def _below(condition: AlertCondition, reading: Reading, found: Bucket) -> Judgement:
    number = found.total if condition.is_sum else found.lowest
    if condition.is_sum and not reading.is_whole:
        return UNKNOWN
    if _exact(number) < condition.bound:
        return Judgement(True, plain_text(number))
    return Judgement(False, plain_text(number)) if reading.is_whole else UNKNOWN


def _differs(condition: AlertCondition, reading: Reading, found: Bucket) -> Judgement:
    """From nothing, anything differs by more than any percentage."""
    before = reading.week_before
    if before is None or before.stored != reading.span.expected:
        return UNKNOWN
    now, then = _exact(found.total), _exact(before.total)
    differs = abs(now - then) * 100 > condition.bound * abs(then)
    return Judgement(differs, f"{plain_text(found.total)} ↔ {plain_text(before.total)}")


def _exact(number: Number | Total) -> Decimal:
    return Decimal(str(number))


class CountTotals(Protocol):
    """Where counts are: a backend, or what a function on AWS has of its table."""

    def totals(self, spans: Mapping[str, Span]) -> Mapping[str, Bucket]:
        """The counts of each target's span drawn together; none of a target that has no records in it."""


def find_numbers(
    store: CountTotals,
    condition: AlertCondition,
    targets: Sequence[KnownTarget],
    now: datetime,
    look_seconds: int = LAST_MINUTE_SECONDS,
) -> Findings:
    """Which targets meet a condition about numbers, and of whom that cannot be said; a single slot is one of those
    of `look_seconds`."""
    spans = {target.name: span_of(condition, target, now, look_seconds) for target in targets}
    full = [target for target in targets if is_full(condition, target, spans[target.name])]
    found = store.totals({target.name: spans[target.name] for target in full})
    before: Mapping[str, Bucket] = {}
    if condition.comparison is NumberTest.DIFFERS:
        before = store.totals({target.name: week_before(spans[target.name]) for target in full})
    bad, unjudged = [], {(condition.text, target.name) for target in targets}
    for target in full:
        name = target.name
        judgement = judge_numbers(condition, Reading(spans[name], found.get(name), before.get(name)))
        if judgement.holds is not None:
            unjudged.discard((condition.text, name))
        if judgement.holds:
            bad.append(of_condition(condition, name, judgement.detail))
    return collect(bad, unjudged)
