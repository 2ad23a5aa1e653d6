"""Readers against text and bytes of any kind: a value or the reader's own named error, in one line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kizami.core.answers.values import parse_expression, parse_pointer
from kizami.core.collector import retry_after_seconds
from kizami.core.config import parse_config
from kizami.core.errors import ApiPayloadError, ConfigurationError, InvalidInput, KizamiError
from kizami.core.messages import read_answer, read_message
from kizami.core.requests.urls import require_base_url, require_path
from kizami.core.slots import parse_duration, parse_instant, parse_iso8601
from kizami.core.targets.target import require_metric
from samples.strategies import mutations

_TIMES = (
    "2025-12-02T10:23:05Z",
    "2025-12-02T19:23:05.123+09:00",
    "20251202T102305Z",
    "2025-W49-2T10Z",
    "2025-336T24:00:00Z",
)
_MESSAGE = ('{"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z", "metric": "応答数"}',)
_ANSWER = ('{"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z", "count": 65}',)
_CONFIG = (
    """[[targets]]
name = "cpu"
url = "https://api.example.com:8443/v1?region=eu"
path = "/count?start={from}&end={to}"
interval = "10s"
lag = 60
timeout = 2.5
count = "/data/0/count"
echo = false
headers = { Authorization = "env:API_TOKEN", Accept = "application/json" }
enabled = true
catch_up = "7d"
status = [200, 204]
require = { "/has_more" = false, page = 1.5 }
format = "json"
min = 1
max = 1e3
zero_if_missing = "/data"
decimals = 2
query = { since = "{from-1s:unix}", tag = ["a", 5], key = "env:KEY" }
body = '{"to": "{to:%Y%m%d}"}'
method = "PUT"
""",
)

READERS: dict[str, tuple[Callable[[str], object], type[KizamiError], tuple[str, ...]]] = {
    "read_message": (read_message, InvalidInput, _MESSAGE),
    "read_answer": (read_answer, ApiPayloadError, _ANSWER),
    "parse_config": (parse_config, ConfigurationError, _CONFIG),
    "parse_instant": (parse_instant, InvalidInput, _TIMES),
    "parse_iso8601": (parse_iso8601, InvalidInput, _TIMES),
    "parse_duration": (parse_duration, InvalidInput, ("90s", "2h", "7d")),
    "parse_pointer": (parse_pointer, InvalidInput, ("count", "/data/0/a~1b~0c")),
    "parse_expression": (
        parse_expression,
        InvalidInput,
        ("sum(/data/*/a~1b~0c)", "length()", "header:X-Total-Count", "max(件数)"),
    ),
    "require_metric": (require_metric, InvalidInput, ("ai_response_count", "応答数/東京")),
    "require_base_url": (
        require_base_url,
        InvalidInput,
        ("http://[::1]:3000/a%20b?x=1", "https://api.example.com:8443"),
    ),
    "require_path": (require_path, InvalidInput, ("/response_count?from={from}&to={to}",)),
    "retry_after_seconds": (retry_after_seconds, InvalidInput, ("120", "Wed, 21 Oct 2026 07:28:00 GMT")),
}


def read_or_refuse(read: Callable[..., object], error: type[KizamiError], text: str | bytes) -> None:
    line = ""
    try:
        read(text)
    except error as refusal:
        line = str(refusal)
    assert len(line.splitlines()) <= 1
    assert len(line) < 500


@pytest.mark.parametrize("reader", READERS)
# **Feature: data-collection-scheduler, Property 13: No text makes a reader raise anything but its named error**
@given(data=st.data())
@settings(max_examples=150)
def test_property_13_hostile_text(reader: str, data: st.DataObject) -> None:
    read, error, valid = READERS[reader]
    read_or_refuse(read, error, data.draw(mutations(valid) | st.text()))


# **Feature: data-collection-scheduler, Property 16: No bytes make the answer's reader raise anything else**
@given(body=st.binary() | mutations(_ANSWER).map(lambda text: text.encode("utf-8", "surrogatepass")))
@settings(max_examples=300)
def test_property_16_hostile_bytes(body: bytes) -> None:
    read_or_refuse(read_answer, ApiPayloadError, body)


@pytest.mark.parametrize("reader", READERS)
def test_the_text_that_is_mutated_is_valid(reader: str) -> None:
    """Else the mutations would all be refused at the first character."""
    read, _, valid = READERS[reader]
    refused = 0
    for text in valid:
        try:
            read(text)
        except KizamiError:
            refused += 1
    assert refused < len(valid)
