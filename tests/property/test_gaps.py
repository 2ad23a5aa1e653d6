"""Gaps and stored slots, for any of them that are missing."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from kizami.core.backfill import plan_backfill
from kizami.core.coverage import Gap, Span, due_span, find_gaps
from kizami.core.slots import shift, slots_between
from kizami.core.targets.target import Target
from samples.strategies import inner_instants, targets


@st.composite
def holes(draw: st.DrawFn) -> tuple[Target, Span, list[datetime]]:
    """A target, a span of up to 60 slots that are due, and what the store holds: any of them, and slots around."""
    target = draw(targets())
    since = draw(inner_instants)
    now = shift(since, target.lag_seconds + draw(st.integers(0, 60 * target.interval_seconds)))
    span = due_span(target, since, now)
    around = (shift(slot, off) for slot in span.slots() for off in (-target.interval_seconds, -1, 0, 1, 120))
    near = list(around) if draw(st.booleans()) else list(span.slots())
    stored = draw(st.lists(st.sampled_from(near), max_size=80)) if near else []
    return target, span, sorted(stored)


# **Feature: data-collection-scheduler, Property 12: Gaps and stored slots part the expected slots between them**
@given(drawn=holes())
@settings(max_examples=200)
def test_property_12_gaps_complement_what_is_stored(drawn: tuple[Target, Span, list[datetime]]) -> None:
    target, span, stored = drawn
    gaps = list(find_gaps(span, stored))
    missing = [slot for gap in gaps for slot in slots_between(gap.start, gap.end, span.interval_seconds)]
    assert missing == [slot for slot in span.slots() if slot not in set(stored)]
    assert [gap.slots for gap in gaps] == [
        len(list(slots_between(g.start, g.end, span.interval_seconds))) for g in gaps
    ]
    assert span.expected == len(missing) + len(set(span.slots()) & set(stored))
    assert longest_runs(gaps)
    backfilled = [message.window.start for message in plan_backfill(target, reversed(gaps))]
    assert backfilled == missing
    assert list(find_gaps(span, sorted([*stored, *backfilled]))) == []


def longest_runs(gaps: list[Gap]) -> bool:
    """Whether between two gaps there is at least one stored slot, so that no run is told as two."""
    return all(gap.end < following.start for gap, following in pairwise(gaps))
