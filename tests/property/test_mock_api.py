"""Properties 7 and 8 of the seeds: whatever way a window is written, the mock API reads it and answers alike."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlencode

from hypothesis import assume, given, settings

from kizami.core.slots import parse_iso8601
from kizami.mock_api.responder import respond
from samples.timestamps import Written, date_times

EARLY, LATE = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"


def response_count(start: str, end: str) -> tuple[int, dict[str, Any]]:
    """What the mock API says about a window, asked through a query as it travels."""
    query = urlencode({"from": start, "to": end})
    response = respond("GET", "/response_count", parse_qs(query, keep_blank_values=True))
    return response.status, json.loads(response.body)


# **Feature: data-collection-scheduler, Property 7: Mock API response structure and bounds**
@given(date_times(), date_times())
@settings(max_examples=200)
def test_any_window_gets_from_to_and_the_same_count_from_0_to_10(one: Written, other: Written) -> None:
    start, end = sorted((one, other), key=lambda written: written.instant)
    assume(start.instant < end.instant)
    status, answer = response_count(start.text, end.text)
    assert status == 200
    assert list(answer) == ["from", "to", "count"]
    assert (answer["from"], answer["to"]) == (start.text, end.text)
    assert type(answer["count"]) is int
    assert 0 <= answer["count"] <= 10
    assert answer["count"] == end.instant.minute % 11
    assert response_count(start.text, end.text) == (status, answer)


# **Feature: data-collection-scheduler, Property 8: Mock API ISO 8601 parsing**
@given(date_times())
@settings(max_examples=500)
def test_any_iso8601_date_time_is_read_as_the_instant_that_it_names(written: Written) -> None:
    instant = parse_iso8601(written.text)
    assert instant == written.instant
    assert parse_iso8601(instant.isoformat()) == instant
    same = response_count(EARLY, instant.isoformat())[1]
    assert response_count(EARLY, written.text) == (200, same | {"to": written.text})
    assert response_count(written.text, LATE)[0] == 200
