"""What is asked: URL, path, query and body of a target become one request a window."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kizami.core.answers.answer import Answer
from kizami.core.answers.values import parse_expression
from kizami.core.collector import Request, plan_request, request_url
from kizami.core.errors import InvalidInput
from kizami.core.messages import ScheduleMessage
from kizami.core.requests.request_template import MAX_BODY_BYTES, content_type
from kizami.core.slots import Window, shift
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target

START = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
WINDOW = Window(START, shift(START, 5))


def planned(**settings: Any) -> Request:
    return plan_request(ScheduleMessage(WINDOW, "calls"), Target(name="calls", **settings))


@pytest.mark.parametrize(
    ("url", "path", "query", "asked"),
    [
        ("http://h/v1/usage", "", {"start": ("{from:unix}",)}, "http://h/v1/usage?start=1764670980"),
        ("http://h/v1/", "", {"a": ("{to-1s:unix}",)}, "http://h/v1/?a=1764670984"),
        ("http://h", "", {"a": ("{to}",)}, "http://h/?a=2025-12-02T10%3A23%3A05Z"),
        ("http://h", "", {"a": ("{to:%Y/%m}",)}, "http://h/?a=2025/12"),
        ("http://h/?x=1", "/p?y={from:unix}", {"z": ("{to:unix}",)}, "http://h/p?x=1&y=1764670980&z=1764670985"),
        ("http://h/{from:%Y}/", "/{to:%d}?a=1", {}, "http://h/2025/02?a=1"),
        ("http://h/{from:%Y?%m}?a={to:%H}", "", {}, "http://h/2025%3F12?a=10"),
        ("HTTP://H/{from:%Y/%m}", "", {"a": ("1", "2")}, "http://H/2025/12?a=1&a=2"),
        (
            "http://h/q",
            "",
            {"query": ('sum(up{job="a b"}[5m])/2',), "t": ("{to:unix}",), "é[]": ("{{from}}",)},
            "http://h/q?query=sum%28up%7Bjob%3D%22a%20b%22%7D%5B5m%5D%29%2F2&t=1764670985&%C3%A9%5B%5D=%7Bfrom%7D",
        ),
    ],
)
def test_url_path_and_query_are_one_url(url: str, path: str, query: Any, asked: str) -> None:
    request = planned(url=url, path=path, query=query)
    assert request.url == asked
    assert (request.method, request.body, request.secret_query) == ("GET", None, ())
    assert request_url(Target(url=url, path=path, query=query), WINDOW) == asked


def test_a_secret_of_the_query_stays_a_reference_and_out_of_the_url() -> None:
    key = SecretReference("env", "KEY")
    request = planned(url="http://h/v1", path="", query={"key": (key,), "t": ("{from:unix}",)})
    assert (request.url, request.secret_query) == ("http://h/v1?t=1764670980", (("key", key),))


@pytest.mark.parametrize(
    ("body", "sent", "kind"),
    [
        ('{"a": {"b": "{from}"}}', '{"a": {"b": "2025-12-02T10:23:00Z"}}', "application/json"),
        ('{"a": {from:unix}}', '{"a": 1764670980}', "application/json"),
        ("[{to:unix_ms}]", "[1764670985000]", "application/json"),
        ("query=up&time={to:unix}", "query=up&time=1764670985", "application/x-www-form-urlencoded"),
        ("SELECT '{from}'", "SELECT '2025-12-02T10:23:00Z'", "text/plain; charset=utf-8"),
        ("{件数}{from:unix}", "{件数}1764670980", "text/plain; charset=utf-8"),
    ],
)
def test_a_body_is_filled_in_as_it_stands_and_says_what_it_is(body: str, sent: str, kind: str) -> None:
    request = planned(url="http://h/v1", path="", body=body, method="POST")
    assert (request.url, request.method, request.body) == ("http://h/v1", "POST", sent.encode())
    assert request.headers == {"Content-Type": kind}
    assert sent not in repr(request)


def test_what_the_headers_say_of_a_body_counts() -> None:
    headers = {"content-type": "application/vnd.flux"}
    assert planned(url="http://h", path="", body="{from}", method="POST", headers=headers).headers == headers


@pytest.mark.parametrize(
    ("method", "body"), [("GET", None), ("HEAD", None), ("QUERY", None), ("POST", b""), ("PUT", b"")]
)
def test_a_method_without_a_body_sends_none_or_an_empty_one(method: str, body: bytes | None) -> None:
    answer = Answer(count=parse_expression("header:X-Total"))
    request = planned(url="http://h", path="/{from}", method=method, answer=answer)
    assert (request.method, request.body, request.headers) == (method, body, {})


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"body": "x" * (MAX_BODY_BYTES + 1)}, f"body: must be at most {MAX_BODY_BYTES} bytes long"),
        ({"body": "{from}\ud800"}, "body: has half a character (a lone surrogate) in it"),
        ({"query": {"a": ("\ud800",)}}, "query.a: has half a character (a lone surrogate) in it"),
        ({"query": {"a": ("{to-1x}",)}}, "query.a: {to-1x} is no time of the window; write {to-1s}, or"),
        ({"query": {"a.b": ("{to-1x}",)}}, "query.'a.b': {to-1x} is no time of the window"),
    ],
)
def test_what_cannot_be_sent_is_refused_at_its_place(settings: Any, line: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        planned(**settings)
    assert str(refusal.value).startswith(line)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("12", "application/json"),
        ("[" * 100_000, "text/plain; charset=utf-8"),
        ("a=b&c", "text/plain; charset=utf-8"),
        ("a=b c", "text/plain; charset=utf-8"),
        ("a==b&c=", "application/x-www-form-urlencoded"),
    ],
)
def test_a_body_is_known_by_its_look(body: str, kind: str) -> None:
    assert content_type(body) == kind


def test_a_target_that_says_no_more_than_today_has_no_template() -> None:
    assert Target().template is None
    assert Target(path="/{from}{from}").template is None
    assert Target(path="/{from:unix}").template is not None
