"""Times in the texts of a request: any nesting, any Unicode, and back again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kizami.core.collector import request_body, request_url
from kizami.core.epoch import EPOCH
from kizami.core.errors import InvalidInput
from kizami.core.requests.misspelt_times import meant
from kizami.core.requests.secret_names import is_secret_name
from kizami.core.requests.templates import Template, WindowTime, read_text, read_url
from kizami.core.slots import Window, parse_instant, parse_iso8601, shift
from kizami.core.targets.target import Target
from samples.strategies import windows

_CHARACTERS = st.characters(exclude_categories=["Cs"])
_FORMS = ["", "unix", "unix_ms", "unix_ns", "iso_ms", "%Y%m%d00", "%H:%M/%S 時"]
_PIECES = [
    *("{", "}", "{{", "}}", "from", "to", ":", "unix", "-1s", '"', " ", "\n", "%Y", "topic", "_"),
    *("{from}", "{to-1s:unix}", "{from+60s:%Y%m}", "{{from}}", "{{to x}}", "{from:unixms}", "{from", "{to "),
]
# What stands where in a text that was read, as it was written.
_LITERAL_TIME = re.compile(r"\{((?:from|to)(?:(?!\w)|(?=_?(?:unix|iso|ms|ns|[0-9])\w*\}))[^{}]*)\}")

times = st.builds(
    WindowTime, st.sampled_from(["from", "to"]), st.integers(-86_400, 86_400), st.sampled_from(_FORMS)
)


def written(template: Template) -> str:
    return "".join(
        str(part) if isinstance(part, WindowTime) else _LITERAL_TIME.sub(r"{{\1}}", part)
        for part in template.parts
    )


# **Feature: data-collection-scheduler, Property 27: Texts with times are refused or read back as written**
@given(st.lists(st.sampled_from(_PIECES) | st.text(_CHARACTERS, max_size=5), max_size=12).map("".join))
@settings(max_examples=400)
def test_property_27_texts_read_back(text: str) -> None:
    for read in (read_text, read_url):
        try:
            assert written(read(text, "body")) == text
        except InvalidInput as refusal:
            line = str(refusal)
            assert line.startswith("body: ")
            assert len(line.splitlines()) == 1


# **Feature: data-collection-scheduler, Property 28: Times are found among any literals, and only they change**
@given(parts=st.lists(times | st.text(_CHARACTERS.filter(lambda c: c not in "{}"), min_size=1)), window=windows())
@settings(max_examples=200)
def test_property_28_literals_stay(parts: list[str | WindowTime], window: Window) -> None:
    template = read_text("".join(map(str, parts)), "body")
    filled = "".join(part if isinstance(part, str) else Template((part,)).fill(window) for part in parts)
    assert template.fill(window) == filled
    assert [part for part in template.parts if isinstance(part, WindowTime)] == [
        part for part in parts if isinstance(part, WindowTime)
    ]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(_CHARACTERS) | times,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(_CHARACTERS), inner, max_size=3),
    max_leaves=12,
)


def replaced(value: Any, replace: Callable[[WindowTime], str]) -> Any:
    if isinstance(value, WindowTime):
        return replace(value)
    if isinstance(value, list):
        return [replaced(item, replace) for item in value]
    if isinstance(value, dict):
        return {name: replaced(item, replace) for name, item in value.items()}
    return value


# **Feature: data-collection-scheduler, Property 29: A JSON body stays JSON when its times are filled in**
@given(value=_JSON, window=windows(), ascii_only=st.booleans())
@settings(max_examples=200)
def test_property_29_json_bodies(value: Any, window: Window, ascii_only: bool) -> None:
    text = json.dumps(replaced({"x": value, "at": WindowTime("from")}, str), ensure_ascii=ascii_only)
    assume(len(_LITERAL_TIME.findall(text)) == text.count('"{from') + text.count('"{to'))
    target = Target(url="http://h", path="", body=text, method="POST")
    sent = request_body(target, window)
    assert sent is not None
    filled = replaced({"x": value, "at": WindowTime("from")}, lambda time: Template((time,)).fill(window))
    assert json.loads(sent) == filled
    assert target.sent_headers["Content-Type"] == "application/json"


def _of_pattern(pattern: str) -> Callable[[str], datetime]:
    return lambda text: datetime.strptime(text, pattern).replace(tzinfo=UTC)


INVERTIBLE: dict[str, Callable[[str], datetime]] = {
    "": parse_instant,
    "iso_ms": parse_iso8601,
    "unix": lambda text: EPOCH + timedelta(seconds=int(text)),
    "unix_ms": lambda text: EPOCH + timedelta(milliseconds=int(text)),
    "unix_ns": lambda text: EPOCH + timedelta(microseconds=int(text) // 1000),
    "%s": lambda text: EPOCH + timedelta(seconds=int(text)),
    **{
        pattern: _of_pattern(pattern)
        for pattern in (
            *("%Y-%m-%dT%H:%M:%S", "%Y%j%H%M%S.%f", "%A, %d %B %Y %I:%M:%S %p", "%a %d-%b-%Y %H.%M.%S %%"),
            "%G-W%V-%u %H:%M:%S",
        )
    },
}


# **Feature: data-collection-scheduler, Property 30: What a form writes names the instant that was meant**
@given(
    window=windows(),
    end=st.sampled_from(["from", "to"]),
    seconds=st.integers(-86_400, 86_400),
    form=st.sampled_from(sorted(INVERTIBLE)),
)
@settings(max_examples=300)
def test_property_30_forms_invert(window: Window, end: str, seconds: int, form: str) -> None:
    (time,) = read_text(str(WindowTime(end, seconds, form)), "body").parts
    assert isinstance(time, WindowTime)
    meant_instant = shift(window.start if end == "from" else window.end, seconds)
    assert INVERTIBLE[form](Template((time,)).fill(window)) == meant_instant
    path = Target(url="http://h", path=f"/{time}")
    assert parse_qsl("x=" + request_url(path, window).removeprefix("http://h/").replace("+", "%2B")) == [
        ("x", Template((time,)).fill(window))
    ]


_NAMES = st.text(_CHARACTERS, min_size=1).filter(lambda name: name.isprintable() and not is_secret_name(name))
_VALUES = st.lists(st.text(_CHARACTERS), min_size=1, max_size=3).map(tuple)


# **Feature: data-collection-scheduler, Property 31: Any parameter reaches the API as it stands in the file**
@given(query=st.dictionaries(_NAMES, _VALUES, max_size=4), window=windows())
@settings(max_examples=200)
def test_property_31_parameters(query: dict[str, tuple[str, ...]], window: Window) -> None:
    given_values = [(name, value) for name, values in query.items() for value in values]
    assume(not any("{from" in value or "{to" in value for _, value in given_values))
    url = request_url(Target(url="http://h/p?a=b", path="", query={**query, "{from}": ("{from}",)}), window)
    assert url.isascii()
    first, *rest, last = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    assert (first, rest) == (("a", "b"), [pair for pair in given_values if pair[0] != "{from}"])
    assert (last[0], parse_instant(last[1])) == ("{from}", window.start)


# **Feature: data-collection-scheduler, Property 32: What a misspelt time was meant to be is a time**
@given(
    st.text(_CHARACTERS, max_size=12)
    | st.lists(
        st.sampled_from(
            ["from", "to", "Form", "start", "unix", "ms", "%Q", "%Y", ":", "-", "+", "1", "x", "s", " "]
        )
    ).map("".join)
)
@settings(max_examples=300)
def test_property_32_remedies(content: str) -> None:
    right = meant(content)
    if right is not None:
        assert [type(part) for part in read_url(right, "path").parts] == [WindowTime]
