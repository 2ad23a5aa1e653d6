"""Slot time, for any instant of any zone."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from hypothesis import example, given, settings

from kizami.core.slots import floor_to_slot, parse_instant, to_utc
from samples.strategies import instants, intervals
from samples.timestamps import slot_time


# **Feature: data-collection-scheduler, Property 5: Slot time is cut down to the 5-second boundary**
@given(instant=instants)
@settings(max_examples=200)
def test_property_5_cut_down_to_the_boundary(instant: datetime) -> None:
    slot = floor_to_slot(instant)
    assert slot.second % 5 == 0
    assert slot.microsecond == 0
    assert timedelta(0) <= to_utc(instant) - slot < timedelta(seconds=5)


# **Feature: data-collection-scheduler, Property 6: Slot time ISO 8601 format**
@given(instant=instants)
@settings(max_examples=200)
@example(instant=datetime.fromisoformat("0001-01-01T00:00:00Z"))
@example(instant=datetime.fromisoformat("9999-12-31T23:59:59.999999Z"))
def test_property_6_iso_8601_format(instant: datetime) -> None:
    text = slot_time(instant)
    assert re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", text)
    assert parse_instant(text) == datetime.fromisoformat(text) == floor_to_slot(instant)


# **Feature: data-collection-scheduler, Property 14: A slot is its own slot, and slots keep the order of instants**
@given(first=instants, second=instants, interval=intervals)
@settings(max_examples=200)
def test_property_14_order(first: datetime, second: datetime, interval: int) -> None:
    earlier, later = sorted((to_utc(first), to_utc(second)))
    assert floor_to_slot(earlier, interval) <= floor_to_slot(later, interval)
    assert slot_time(earlier, interval) <= slot_time(later, interval)
    assert floor_to_slot(floor_to_slot(first, interval), interval) == floor_to_slot(first, interval)
