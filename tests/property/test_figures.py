"""Stretches tile every range in every zone, and their sums are those of the records."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

from hypothesis import given, settings
from hypothesis import strategies as st

from kizami.backend.figures.edges import Every, edges_between, moved_back, parse_every, start_of
from kizami.backend.figures.gathering import gather
from kizami.backend.values import Bucket
from kizami.core.answers.numbers import to_number, to_total
from kizami.core.epoch import from_seconds

GRAINS = ("1m", "5m", "15m", "16m", "1h", "2h", "6h", "90m", "1d", "1w", "1mo")
SECOND = timedelta(seconds=1)


@cache
def zone_names() -> list[str]:
    return sorted(available_timezones())


zones = st.deferred(lambda: st.sampled_from(zone_names())).map(ZoneInfo)
# Within a century in which the clocks of many zones were set in every way that they ever were.
instants = st.integers(-30 * 365 * 86_400, 70 * 365 * 86_400).map(from_seconds)


Asked = tuple[Every, ZoneInfo, datetime, datetime]


@st.composite
def ranges(draw: st.DrawFn) -> Asked:
    every, zone, start = parse_every(draw(st.sampled_from(GRAINS))), draw(zones), draw(instants)
    more = draw(st.integers(0, 30)) * every.length + draw(st.integers(1, 3600)) * SECOND
    return every, zone, start, start + more


# **Feature: data-collection-scheduler, Property 41: Stretches of time tile every range, in every zone**
@given(ranges())
@settings(max_examples=200, deadline=None)
def test_stretches_tile_the_range(asked: Asked) -> None:
    every, zone, start, end = asked
    edges = edges_between(every, zone, start, end)
    assert (edges[0], edges[-1]) == (start, end)
    assert all(earlier < later for earlier, later in pairwise(edges))
    for earlier, later in pairwise(edges[1:]):
        assert start_of(every, zone, earlier) == start_of(every, zone, later - SECOND) == earlier


# **Feature: data-collection-scheduler, Property 42: A stretch is as long as it says, but for clocks that are set**
@given(ranges())
@settings(max_examples=200, deadline=None)
def test_stretches_are_as_long_as_they_say(asked: Asked) -> None:
    every, zone, start, end = asked
    whole = [later - earlier for earlier, later in pairwise(edges_between(every, zone, start, end)[1:-1])]
    if every.length <= timedelta(hours=1):
        assert all(length <= every.length for length in whole)
    elif not every.is_month:
        assert all(abs(length - every.length) <= timedelta(days=1) for length in whole)


# **Feature: data-collection-scheduler, Property 43: Moved back by days, stretches still tile**
@given(ranges(), st.integers(1, 60))
@settings(max_examples=200, deadline=None)
def test_stretches_moved_back_still_tile(asked: Asked, days: int) -> None:
    every, zone, start, end = asked
    edges = edges_between(every, zone, start, end)
    before = moved_back(edges, days * 86_400, zone)
    assert len(before) == len(edges)
    assert before == sorted(before)
    if zone.key == "UTC":
        assert before == [edge - timedelta(days=days) for edge in edges]


# **Feature: data-collection-scheduler, Property 44: The figures of stretches add up to the records, exactly**
@given(ranges(), st.lists(st.tuples(st.integers(0, 10**6), st.integers(-(10**15), 10**15))), st.integers(0, 9))
@settings(max_examples=200, deadline=None)
def test_figures_add_up_to_the_records(asked: Asked, counted: list[tuple[int, int]], decimals: int) -> None:
    every, zone, start, end = asked
    edges = edges_between(every, zone, start, end)
    seconds = (end - start) // SECOND
    records = [(start + second % seconds * SECOND, units) for second, units in counted]
    found = gather(edges, [_bucket(slot, units, decimals) for slot, units in records])
    assert sum(bucket.total for bucket in found) == to_total(sum(units for _, units in records), decimals)
    for (earlier, later), bucket in zip(pairwise(edges), found, strict=True):
        own = [units for slot, units in records if earlier <= slot < later]
        assert (bucket.start, bucket.stored) == (earlier, len(own))
        assert bucket.total == to_total(sum(own), decimals)
        if own:
            assert (bucket.lowest, bucket.highest) == tuple(to_number(f(own), decimals) for f in (min, max))


def _bucket(slot: datetime, units: int, decimals: int) -> Bucket:
    number = to_number(units, decimals)
    return Bucket(slot, 1, number, number, to_total(units, decimals))
