"""The view is in the URL: whatever can be looked at can be shared, and whatever cannot is refused by name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.backend.chart import RANGES
from kizami.backend.health import TargetCondition
from kizami.core.errors import InvalidInput
from kizami.web.view.address import MAX_MINUTES, MAX_TOGETHER, View, read_number, read_range, read_view
from kizami.web.view.panel_links import ShownRanges, between, panel_links
from samples.strategies import metrics

NOW = datetime(2025, 12, 2, 10, 0, 0, tzinfo=UTC)
EARLIEST = datetime(1971, 1, 1, tzinfo=UTC)
instants = st.integers(0, 2 * 10**11).map(lambda seconds: EARLIEST + timedelta(seconds=seconds))
lengths = st.integers(1, 31 * 86_400).map(lambda seconds: timedelta(seconds=seconds))
zooms = st.tuples(instants, lengths).map(lambda pair: (pair[0], pair[0] + pair[1]))


@st.composite
def views(draw: st.DrawFn) -> View:
    start, end = draw(st.one_of(st.just((None, None)), zooms))
    return View(
        metric=draw(st.one_of(st.none(), metrics)),
        others=tuple(draw(st.lists(metrics, max_size=MAX_TOGETHER - 1, unique=True))),
        range=draw(st.sampled_from(list(RANGES))),
        start=start,
        end=end,
        until=draw(st.one_of(st.none(), instants)),
        minutes=draw(st.integers(1, MAX_MINUTES)),
        search=draw(st.text(max_size=128)),
        condition=draw(st.sampled_from([None, *TargetCondition])),
        after=draw(st.text(max_size=128)),
    )


def query_of(url: str) -> dict[str, str]:
    """What the server reads of an address: the metric of a target's page is in its path."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True, errors="strict"))
    return query | ({"metric": unquote(parts.path.removeprefix("/targets/"))} if parts.path != "/" else {})


@given(views())
def test_a_shared_address_shows_the_same(view: View) -> None:
    assert read_view(query_of(view.url())) == view


def test_what_is_as_usual_is_not_in_the_address() -> None:
    assert View().url() == "/"
    assert View(metric="注文/数", minutes=15).url() == "/targets/%E6%B3%A8%E6%96%87/%E6%95%B0"
    assert View(metric="a", range="1h").url(range="24h", metric=None) == "/?range=24h"


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ({"metric": "no spaces"}, "metric"),
        ({"metric": "<script>"}, "metric"),
        ({"range": "2y"}, "range"),
        ({"from": "2025-12-02T10:00:00Z"}, "to"),
        ({"to": "2025-12-02T10:00:00Z"}, "from"),
        ({"from": "2025-12-02T10:00:00Z", "to": "2025-12-02T10:00:00Z"}, "from"),
        ({"from": "2025-01-01T00:00:00Z", "to": "2025-12-02T10:00:00Z"}, "from"),
        ({"from": "2025-12-02T10:00:00", "to": "2025-12-02T11:00:00Z"}, "from"),
        ({"until": "0001-01-01T00:00:00Z"}, "until"),
        ({"until": "9999-12-31T23:59:59Z"}, "until"),
        ({"until": "yesterday"}, "until"),
        ({"condition": "tired"}, "condition"),
        ({"with": "a,<b>"}, "with"),
        ({"with": "a,b,c,d,e,f"}, "with"),
        ({"minutes": "0"}, "minutes"),
        ({"minutes": "61"}, "minutes"),
        ({"minutes": "１５"}, "minutes"),
        ({"minutes": "9" * 5000}, "minutes"),
    ],
)
def test_what_cannot_be_shown_is_refused_by_name(query: dict[str, str], parameter: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_view(query)
    assert caught.value.field == parameter


@given(
    st.dictionaries(st.sampled_from(["metric", "range", "from", "to", "until", "minutes", "search"]), st.text())
)
def test_no_query_is_anything_but_a_view_or_a_refusal(query: dict[str, str]) -> None:
    try:
        view = read_view(query)
    except InvalidInput:
        return
    assert read_view(query_of(view.url())) == view


def test_a_range_of_the_api_is_bounded() -> None:
    assert read_range({}, NOW, "24h").start == NOW - timedelta(days=1)
    assert read_range({"last": "90s"}, NOW).start == NOW - timedelta(seconds=90)
    window = read_range({"from": "2025-12-02T18:00:00+09:00"}, NOW)
    assert (window.start, window.end) == (NOW - timedelta(hours=1), NOW)
    for query in (
        {"last": "32d"},
        {"last": "99999w"},
        {"last": "0s"},
        {"from": "2025-10-01T00:00:00Z"},
        {"to": "now"},
    ):
        with pytest.raises(InvalidInput):
            read_range(query, NOW)


def test_numbers_are_whole_and_within_bounds() -> None:
    assert read_number({}, "limit", 100, 5000) == 100
    assert read_number({"limit": "5000"}, "limit", 100, 5000) == 5000
    for text in ("", "-1", "1.5", "0x10", " 5", "5001"):
        with pytest.raises(InvalidInput):
            read_number({"limit": text}, "limit", 100, 5000)


def test_each_panel_has_its_links_and_its_command() -> None:
    links = panel_links(View(range="1h"), "注文/数", "acme", ShownRanges("1h", {"last": "15m"}), {})
    assert links["chart"].json == "/api/v1/chart?metric=%E6%B3%A8%E6%96%87%2F%E6%95%B0&last=1h"
    assert links["chart"].csv == "/api/v1/records?metric=%E6%B3%A8%E6%96%87%2F%E6%95%B0&last=1h&format=csv"
    assert links["chart"].command == "kizami query '注文/数' --last 1h"
    assert links["gaps"].command == "kizami gaps '注文/数' --last 24h"
    every = panel_links(View(), None, None, ShownRanges("1h", {}), {})
    assert (every["gaps"].command, every["gaps"].csv) == ("kizami gaps --last 24h", "/api/v1/gaps?format=csv")
    assert links["status"].json == "/api/v1/status"
    rows = ShownRanges("15m", between(NOW - timedelta(minutes=14), NOW + timedelta(minutes=1)))
    held = panel_links(View(until=NOW), "calls", None, rows, {"--database": "my data.db", "--config": "k.toml"})
    assert held["slots"].command == (
        "kizami query calls --from 2025-12-02T09:46:00Z --to 2025-12-02T10:01:00Z --database 'my data.db' "
        "--config k.toml"
    )
    zoomed = panel_links(View(start=NOW - timedelta(hours=2), end=NOW), "calls", None, rows, {})
    assert zoomed["chart"].command == "kizami query calls --from 2025-12-02T08:00:00Z --to 2025-12-02T10:00:00Z"
    found = panel_links(View(search="a", condition=TargetCondition.SILENT), "calls", None, rows, {})
    assert found["targets"].csv == "/api/v1/targets?search=a&condition=silent&format=csv"
    assert links["companies"].command == "kizami aggregate points --company-id acme"
    assert held["companies"].command == "kizami aggregate points --company-id ID --database 'my data.db'"
