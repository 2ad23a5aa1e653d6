"""Where the values of an answer were found, in words."""

from __future__ import annotations

from typing import Any

import pytest

from kizami.core.answers.answer import Answer
from kizami.core.answers.findings import find_values
from kizami.core.answers.values import parse_expression, parse_pointer


def found(count: str, document: Any, absent: str | None = None, **headers: str) -> list[str]:
    part = parse_pointer(absent) if absent is not None else None
    answer = Answer(count=parse_expression(count), zero_if_missing=part)
    return [str(finding) for finding in find_values(answer, document, headers)]


@pytest.mark.parametrize(
    ("count", "document", "words"),
    [
        ("count", {"count": 3}, "count is 3"),
        ("/a~1b/0", {"a/b": ["12"]}, "/a~1b/0 is 12"),
        ("", 5, "the body is 5"),
        ("sum(/a/*/n)", {"a": [{"n": 1}, {"n": 2}]}, "sum(/a/*/n) is 3: /a/0/n is 1, /a/1/n is 2"),
        ("max(/a/*)", {"a": [1, 7]}, "max(/a/*) is 7: /a/0 is 1, /a/1 is 7"),
        ("length(/a)", {"a": [1, 7]}, "length(/a) is 2: /a is an array of 2"),
        ("length()", [1, 7], "length() is 2: the body is an array of 2"),
        ("sum(/a/*)", {"a": []}, "sum(/a/*) is 0: nothing is there"),
        (
            "sum(/a/*)",
            {"a": [1] * 1005},
            "sum(/a/*) is 1005: " + "".join(f"/a/{n} is 1, " for n in range(5)) + "… 1,000 more",
        ),
    ],
)
def test_each_place_is_named_with_what_stands_there(count: str, document: Any, words: str) -> None:
    assert found(count, document) == [words]


def test_a_header_is_named() -> None:
    assert found("header:X-Total", None, **{"x-total": " 5 "}) == ["header:X-Total is 5"]


def test_a_part_that_may_be_missing_is_told() -> None:
    assert found("/a/n", {}, "/a") == ["/a/n is 0: nothing is there"]


def test_what_cannot_be_read_is_left_to_the_failure() -> None:
    assert found("/a/n", {}) == []
