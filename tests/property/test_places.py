"""Every place of an answer that kizami.toml may name has an effect: what is taken at load is never ignored."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from kizami.core.answers.answer import Answer
from kizami.core.collector import Response, read_values
from kizami.core.config import parse_config
from kizami.core.errors import ApiError, ConfigurationError
from kizami.core.sender import message_for_slot
from kizami.core.slots import parse_instant
from kizami.core.targets.target import Target

SLOT = parse_instant("2025-12-02T10:23:00Z")
NOTHING = object()

words = st.sampled_from(
    ["Link", "X-Total", "n", "error", "*", "0", "a b", "件数", "sum", "~0", "Set-Cookie", "ETag"]
)
pointers = st.lists(words, max_size=3).map(lambda steps: "".join(f"/{step}" for step in steps))
texts = st.one_of(
    words,
    pointers,
    st.builds(
        "{}{}".format,
        st.sampled_from(["header:", "Header:", "headers:", "header: ", " header:", "HEADER:"]),
        words,
    ),
    st.builds("{}({})".format, st.sampled_from(["sum", "length", "max", "min", "avg"]), words | pointers),
    st.builds("sum(header:{})".format, words),
    st.builds("header:{}".format, words),
)
PLACES = ["count", "values", "require", "refuse", "zero_if_missing"]


def test_these_are_all_settings_that_name_a_place() -> None:
    assert sorted(each.name for each in fields(Answer) if "Expression" in str(each.type)) == sorted(PLACES)


@dataclass(frozen=True)
class Said:
    """An answer that says this at the place that a text names, as its reader understands the text."""

    text: str
    status: int = 200

    def response(self, value: Any, **beside: str) -> Response:
        headers = {name.replace("_", "-"): each for name, each in beside.items()}
        if self.header is not None:
            headers |= {} if value is NOTHING else {self.header: str(value)}
            return Response(self.status, b"" if self.status == 204 else b"{}", None, headers)
        return Response(self.status, json.dumps(self._document(value)).encode(), None, headers)

    @property
    def header(self) -> str | None:
        return self.text.removeprefix("header:").lower() if self.text.startswith("header:") else None

    def _document(self, value: Any) -> Any:
        call = re.fullmatch(r"(\w+)\((.*)\)", self.text)
        if call and call[1] == "length" and value is not NOTHING:
            value = [None] * value
        inner = call[2] if call else self.text
        for step in reversed(inner.removeprefix("/").split("/") if inner else []):
            name = step.replace("~1", "/").replace("~0", "~")
            if value is NOTHING:
                value = {}  # all but the last step is there
            else:
                value = [value] if call and step == "*" else {name: value}
        return None if value is NOTHING else value


def loaded(**stated: Any) -> Target | None:
    """The target with these settings, as the file's loader makes it; None if it refuses them, in one line."""
    lines = [f"{name} = {_toml(value)}" for name, value in stated.items()]
    try:
        (target,) = parse_config('[[targets]]\nname = "t"\nurl = "http://h"\n' + "\n".join(lines)).targets
    except ConfigurationError as refused:
        require_one_line(refused)
        return None
    return target


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(name)} = {_toml(each)}" for name, each in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


def read(target: Target, response: Response) -> tuple[int, ...] | None:
    """What would be stored of the answer; None if it is refused."""
    try:
        return read_values(response, message_for_slot(SLOT, target), target)
    except ApiError as refused:
        require_one_line(refused)
        return None


def require_one_line(error: Exception) -> None:
    assert len(str(error).splitlines()) == 1


# **Feature: data-collection-scheduler, Property 33: A place that is taken at load has an effect on some answer**
@given(
    text=texts,
    place=st.sampled_from(PLACES),
    others=st.fixed_dictionaries(
        {}, optional={"method": st.just("HEAD"), "format": st.just("text"), "echo": st.just(False)}
    ),
    empty=st.booleans(),
)
@settings(max_examples=1000)
def test_property_33_no_place_is_ignored(text: str, place: str, others: dict[str, Any], empty: bool) -> None:
    said = Said(text, 204 if empty and text.startswith("header:") else 200)
    more = {**others, "status": [200, 204]}
    beside = {"x_number": "7"}
    if place == "count" and (target := loaded(count=text, **more)):
        assert (read(target, said.response(3)), read(target, said.response(4))) == ((3,), (4,))
    elif place == "values" and (target := loaded(values={"a": "header:X-Number", "b": text}, **more)):
        assert (read(target, said.response(3, **beside)), read(target, said.response(4, **beside))) == (
            (7, 3),
            (7, 4),
        )
    elif place == "require" and (target := loaded(count="header:X-Number", require={text: 5}, **more)):
        assert read(target, said.response(5, **beside)) == (7,)
        assert [read(target, said.response(each, **beside)) for each in (6, NOTHING)] == [None, None]
    elif place == "refuse" and (target := loaded(count="header:X-Number", refuse=[text], **more)):
        assert [read(target, said.response(each, **beside)) for each in (NOTHING, 0)] == [(7,), (7,)]
        assert [read(target, said.response(each, **beside)) for each in (1, "x")] == [None, None]
    elif place == "zero_if_missing" and (target := loaded(count=text, zero_if_missing=text, **more)):
        assert [read(target, said.response(each)) for each in (3, NOTHING)] == [(3,), (0,)]
        strict = loaded(count=text, **more)
        assert strict is not None
        assert read(strict, said.response(NOTHING)) is None
    else:
        event("refused at load")
        return
    event(f"taken in {place}, {'a header' if said.header else 'the body'}")
