"""Texts with times in them: what is a time, what is literal, and what is refused with the right spelling."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kizami.core.errors import InvalidInput
from kizami.core.requests.templates import MAX_SHIFT_SECONDS, WindowTime, read_text, read_url
from kizami.core.slots import Window, shift

START = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
WINDOW = Window(START, shift(START, 5))


def refusal_of(read: object, text: str) -> str:
    with pytest.raises(InvalidInput) as refusal:
        read(text, "place")  # type: ignore[operator]
    line = str(refusal.value)
    assert line.startswith("place: ")
    assert len(line.splitlines()) == 1
    return line.removeprefix("place: ")


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("{from}", WindowTime("from")),
        ("{to}", WindowTime("to")),
        ("{to-1s}", WindowTime("to", -1)),
        ("{from+90m}", WindowTime("from", 5400)),
        ("{from-2h:unix}", WindowTime("from", -7200, "unix")),
        ("{to+3d:iso_ms}", WindowTime("to", 259_200, "iso_ms")),
        ("{from:%Y-%m-%d %H:%M:%S}", WindowTime("from", 0, "%Y-%m-%d %H:%M:%S")),
        ("{from:%Y%m%d00}", WindowTime("from", 0, "%Y%m%d00")),
        ("{from-0s}", WindowTime("from")),
        ("{from-3660d}", WindowTime("from", -MAX_SHIFT_SECONDS)),
    ],
)
def test_a_time_is_an_end_a_shift_and_a_form(text: str, time: WindowTime) -> None:
    for read in (read_text, read_url):
        assert read(f"a{text}b", "place").parts == ("a", time, "b")
        assert read(str(time), "place").parts == (time,)


def test_times_are_filled_in_and_in_a_url_percent_encoded() -> None:
    text = "/{from}/{to-1s:unix}?d={from-1d:%Y/%m/%d %H&%M}{to:unix_ms}"
    assert read_text(text, "body").fill(WINDOW) == (
        "/2025-12-02T10:23:00Z/1764670984?d=2025/12/01 10&231764670985000"
    )
    assert read_url(text, "path").fill(WINDOW) == (
        "/2025-12-02T10%3A23%3A00Z/1764670984?d=2025/12/01%2010%26231764670985000"
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"query": {"range": {"at": {"gte": 1}}}}',
        'sum(rate(http_requests_total{topic="a", token="b"}[5m]))',
        "query { viewer {totalCount} }",
        "{ from to value }",
        '{"from": 1, "to": 2}',
        '{job="a"} | line_format "{{.from}} {{.to}}"',
        "{toString} {fromAddress} {fro} {t} {} }{ {{}} {form}",
        "{名前} {\u200bfrom} \x00",
        "",
    ],
)
def test_other_braces_of_a_text_are_literal(text: str) -> None:
    template = read_text(text, "body")
    assert template.fill(WINDOW) == text
    assert not template.has_time


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("{{from}}", "{from}"),
        ("{{to-1x}}", "{to-1x}"),
        ("{{from to value}}", "{from to value}"),
        ("{{{from}}}", "{{from}}"),
        ('{"a": {from:unix}}', '{"a": 1764670980}'),
        ('{"a":{"b":{to:unix}}}', '{"a":{"b":1764670985}}'),
        ("{{from}", "{2025-12-02T10:23:00Z"),
    ],
)
def test_doubled_braces_are_a_literal_time(text: str, sent: str) -> None:
    assert read_text(text, "body").fill(WINDOW) == sent


MISSPELT = [
    ("{from:unixms}", "{from:unix_ms}"),
    ("{from:ms}", "{from:unix_ms}"),
    ("{to:epoch}", "{to:unix}"),
    ("{to:iso}", "{to}"),
    ("{from:}", "{from}"),
    ("{to-1x}", "{to-1s}"),
    ("{to-1}", "{to-1s}"),
    ("{to - 5 min}", "{to-5m}"),
    ("{from+2hours:unix}", "{from+2h:unix}"),
    ("{from unix}", "{from:unix}"),
    ("{from.unix}", "{from:unix}"),
    ("{from_unix}", "{from:unix}"),
    ("{tounix_ns}", "{to:unix_ns}"),
]


@pytest.mark.parametrize(
    "form",
    ["Asia/Tokyo", "%Y-%m-%d Asia/Tokyo", "%Y:America/New_York", "JST", "+09:00", "-0330", "local", "Etc/GMT+9"],
)
def test_a_time_zone_is_refused_with_the_way_to_write_a_time_of_it(form: str) -> None:
    words = (
        f"{{from:{form}}} names a time zone; times are UTC: move them by the offset, as "
        "{from+9h:%Y-%m-%dT%H:%M:%S+09:00}; forms are unix, unix_ms, unix_ns, iso_ms, "
        "or a pattern such as %Y-%m-%d"
    )
    assert (refusal_of(read_text, f"{{from:{form}}}"), refusal_of(read_url, f"/{{from:{form}}}")) == (words, words)


@pytest.mark.parametrize("form", ["%Y/%m/%d", "%d/%b/%Y:%H", "%Y-%m-%dT%H:%M:%S+09:00", "%A/%B"])
def test_a_pattern_with_slashes_or_an_offset_is_taken(form: str) -> None:
    assert read_url(f"/{{from:{form}}}", "path").has_time


@pytest.mark.parametrize(("text", "right"), MISSPELT)
def test_what_begins_like_a_time_and_is_none_is_refused_with_the_right_way(text: str, right: str) -> None:
    assert refusal_of(read_text, f"a {text} b") == (
        f"{text} is no time of the window; write {right}, or {{{{from}}}} for a literal {{from}}"
    )
    assert refusal_of(read_url, f"/a{text}b") == (
        f"{text} is no time of the window; write {right}, or %7B and %7D for other braces"
    )


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("{form}", "{from}"),
        ("{FROM}", "{from}"),
        ("{ from }", "{from}"),
        ("{start}", "{from}"),
        ("{End:unix}", "{to:unix}"),
        ("{until-1s}", "{to-1s}"),
        ("{frmo}", "{from}"),
    ],
)
def test_in_a_url_no_other_brace_can_be_meant(text: str, right: str) -> None:
    assert f"{text} is no time of the window; write {right}, or %7B" in refusal_of(read_url, f"/{text}")
    assert read_text(text, "body").parts == (text,)


@pytest.mark.parametrize("text", ['{from="hunter2"}', "{from: {hunter2", "{to", "{from(hunter2)}"])
def test_what_may_be_a_secret_is_not_repeated(text: str) -> None:
    assert "hunter2" not in refusal_of(read_text, text)
    assert "hunter2" not in refusal_of(read_url, text)


def test_an_unknown_part_of_a_pattern_is_named_with_those_there_are() -> None:
    line = refusal_of(read_text, "{from:%Y %Q}")
    assert line.startswith("{from:%Y %Q} has %Q, which is no part of a time; use %Y %y %m %d ")
    assert refusal_of(read_url, "{from:%}").startswith("{from:%} has %, which is no part of a time; use ")


def test_a_shift_has_an_end() -> None:
    assert refusal_of(read_text, "{from-3661d}") == "{from-3661d} is moved by more than 3660d"
