"""What is shown of an answer: cut, on one line where it is no JSON, and without secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kizami.core.answers.excerpts import excerpt, hidden, pretty_lines
from kizami.core.redaction import KNOWN

SECRET = "excerpt-s3cret-0815"


def pretty(document: Any) -> str:
    return "\n".join(pretty_lines(document))


def test_json_is_indented() -> None:
    assert pretty({"a": [1, {"b": None}], "名": "値"}) == json.dumps(
        {"a": [1, {"b": None}], "名": "値"}, indent=2, ensure_ascii=False
    )


def test_long_arrays_objects_and_texts_are_cut() -> None:
    assert pretty_lines(list(range(5000))) == ["[", "  0,", "  1,", "  2,", "  … 4,997 more", "]"]
    assert pretty_lines({f"k{n}": n for n in range(40)})[-3:] == ['  "k29": 29,', "  … 10 more", "}"]
    assert len(pretty("x" * 5000)) == 122
    assert '"…"' in pretty(json.loads("[" * 50 + "]" * 50))
    assert pretty_lines({f"k{n}": {f"m{m}": 1 for m in range(20)} for n in range(9)})[-1] == "… 140 more lines"


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (b"", ""),
        (b" not\n here ", "not here"),
        (b"<!doctype html><style>a{}</style><title>Log in</title><p>a &amp; b<script>x<", "Log in a &amp; b"),
        (b"<html><!-- no --><h1>502</h1>", "502"),
        (b"a < b and c > d", "a < b and c > d"),
        (b"\xff\x1b[2J", "� [2J".replace(" ", "\\x1b")),
    ],
)
def test_the_beginning_of_a_text_is_shown_on_one_line(body: bytes, line: str) -> None:
    assert excerpt(body) == line


def test_a_text_is_cut_at_200_characters() -> None:
    assert len(excerpt(b"x" * 100_000)) == 200


def test_secrets_are_dots() -> None:
    KNOWN.add(SECRET)
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in SECRET)
    for text in (f"a {SECRET} b", f'"{escaped}"'):
        assert SECRET not in hidden(text)
        assert "••••" in hidden(text)
    assert SECRET[:8] not in pretty({SECRET: ["x" * 100 + SECRET]})
    assert SECRET[:8] not in excerpt(b"x" * 190 + SECRET.encode())


@given(
    some.recursive(some.none() | some.text() | some.floats() | some.integers(), lambda inner: some.lists(inner))
)
def test_every_document_becomes_printable_lines(document: Any) -> None:
    assert all(line.isprintable() for line in pretty_lines(document))


@given(some.binary())
def test_every_body_becomes_one_printable_line(body: bytes) -> None:
    assert excerpt(body).isprintable()
    assert len(excerpt(body)) <= 200
