"""Answers, messages and records, for any value that they can carry."""

from __future__ import annotations

import json
from datetime import datetime
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.polled_api import write_answer
from kizami.core.messages import (
    LANES,
    ApiAnswer,
    BundleMessage,
    MetricRecord,
    read_answer,
    read_bundle,
    read_message,
    read_record,
    write_bundle,
    write_message,
    write_record,
)
from kizami.core.sender import plan_minute
from kizami.core.slots import Window, format_instant
from kizami.core.targets.target import Target
from samples.strategies import counts, inner_instants, instants, metrics, slots, targets, windows

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=5,
)


# **Feature: data-collection-scheduler, Property 4: API answer parsing round trip**
@given(
    window=windows(),
    count=counts,
    others=st.dictionaries(st.text(max_size=8), _JSON, max_size=3),
    order=st.randoms(use_true_random=False),
    indent=st.sampled_from([None, 0, 2]),
)
@settings(max_examples=200)
def test_property_4_answer_round_trip(
    window: Window, count: int, others: dict[str, Any], order: Random, indent: int | None
) -> None:
    fields = {"from": format_instant(window.start), "to": format_instant(window.end), "count": count}
    everything = list((others | fields).items())
    order.shuffle(everything)
    answer = read_answer(json.dumps(dict(everything), indent=indent).encode())
    assert answer == ApiAnswer(window, count)
    assert json.loads(write_answer(answer)) == fields
    assert read_answer(write_answer(answer)) == answer


# **Feature: data-collection-scheduler, Property 10: Every planned message reads back**
@given(triggered_at=inner_instants, target=targets())
@settings(max_examples=200)
def test_property_10_message_round_trip(triggered_at: datetime, target: Target) -> None:
    for entry in plan_minute(triggered_at, target):
        body = write_message(entry.message)
        assert read_message(body) == entry.message
        assert write_message(read_message(body)) == body


# **Feature: data-collection-scheduler, Property 15: Every record reads back from its item in the table**
@given(metric=metrics, slot=slots(), count=counts, collected_at=instants)
@settings(max_examples=200)
def test_property_15_record_round_trip(metric: str, slot: datetime, count: int, collected_at: datetime) -> None:
    record = MetricRecord(metric, slot, count, collected_at)
    item = write_record(record)
    assert read_record(item) == record
    assert write_record(read_record(item)) == item


# **Feature: data-collection-scheduler, Property 64: A message of a bundle reads back**
@given(
    window=windows(),
    names=st.lists(metrics, min_size=1, max_size=5, unique=True),
    lane=st.sampled_from(LANES),
    attempts=st.none() | st.integers(1, 5),
    not_before=st.integers(0, 2**33),
)
@settings(max_examples=200)
def test_a_message_of_a_bundle_reads_back(
    window: Window, names: list[str], lane: str, attempts: int | None, not_before: int
) -> None:
    counted = () if attempts is None else tuple(attempts + place for place in range(len(names)))
    message = BundleMessage(window, tuple(names), "3f9c2a41.17", lane, counted, not_before)
    assert read_bundle(write_bundle(message)) == message
