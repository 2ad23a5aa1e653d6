"""What is said of an answer that has something else: key names and numbers, cut short, and nothing besides."""

from __future__ import annotations

from typing import Any

import pytest

from kizami.core.answers.nearest import json_words, nearest
from kizami.core.answers.numbers import FloatText
from kizami.core.answers.values import parse_pointer


@pytest.mark.parametrize(
    ("wanted", "document", "words"),
    [
        ("/data.count", {"data": {"count": 12}}, "; /data/count is 12"),
        ("/totalCount", {"total_count": "12"}, "; /total_count is 12"),
        ("count", {"data": {"count": FloatText("1.50")}}, "; /data/count is 1.5"),
        ("/data/0/count", {"data": {"count": 3}}, "; /data/count is 3"),
        ("/items/0/n", {"items": [], "total": 3}, "; /items is an array of 0"),
        ("/data/cuont", {"data": {"count": "many", "b": 1}}, "; /data has count, b"),
        ("count", {}, "; the answer is empty"),
        ("count", [1, 2], "; the answer is an array of 2"),
        ("count", {f"k{n}": "x" for n in range(9)}, "; the answer has k0, k1, k2, k3, k4, k5, …"),
        ("/a/b", {"a": None}, "; /a is null"),
    ],
)
def test_the_nearest_thing_is_named(wanted: str, document: Any, words: str) -> None:
    assert nearest(document, parse_pointer(wanted).steps) == words


def test_no_text_of_the_answer_is_repeated_but_key_names() -> None:
    assert "hunter2" not in nearest({"data": {"token": "hunter2", "n": ["hunter2"]}}, ("data", "count"))


def test_keys_stay_on_one_line_and_are_cut() -> None:
    words = nearest({"a\nb": 1, "x" * 5000: 2}, ("count",))
    assert words.startswith(r"; the answer has a\nb, xxx")
    assert len(words) < 150


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "null"), (True, "true"), (12, "12"), (FloatText("1e2"), "100"), ({}, "an object"), ([1], "an array")],
)
def test_a_value_is_told_in_the_words_of_json(value: Any, words: str) -> None:
    assert json_words(value) == words
