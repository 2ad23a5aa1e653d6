"""A table is written so that TOML reads the same again."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from kizami.cli.trial.toml_text import table_lines, toml_value

TEXT = some.text(some.characters(exclude_categories=["Cs"]))
VALUES = some.recursive(
    TEXT | some.booleans() | some.integers(-(2**60), 2**60) | some.floats(allow_nan=False),
    lambda inner: some.lists(inner) | some.dictionaries(TEXT, inner),
    max_leaves=8,
)


@given(VALUES)
def test_what_is_written_is_read_again(value: Any) -> None:
    assert tomllib.loads(f"x = {toml_value(value)}") == {"x": value}


def test_a_table_has_a_line_for_each_setting() -> None:
    assert table_lines({"name": "a", "query": {"a b": ["x", 1]}, "body": '{"a": true}'}) == [
        "[[targets]]",
        'name = "a"',
        'query = { "a b" = ["x", 1] }',
        "body = '{\"a\": true}'",
    ]
