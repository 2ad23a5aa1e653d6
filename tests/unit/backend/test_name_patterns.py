"""Patterns of names: they mean what they look like, and none takes for ever."""

from __future__ import annotations

import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.backend.name_patterns import compile_names


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=10))
def test_a_pattern_means_what_it_means_to_a_shell(pattern: str, name: str) -> None:
    assert (compile_names(pattern, single=True).fullmatch(name) is not None) == fnmatchcase(name, pattern)


@pytest.mark.parametrize("name", ["a?b", "a.b"])
def test_only_a_star_is_special_unless_it_is_said_otherwise(name: str) -> None:
    assert (compile_names("a?*").fullmatch(name) is not None) == (name == "a?b")


@pytest.mark.parametrize("pattern", ["*a" * 60 + "c", "*" * 5000 + "c", "*a?" * 40 + "c*"])
def test_no_pattern_takes_for_ever(pattern: str) -> None:
    began = time.process_time()
    assert compile_names(pattern, single=True).fullmatch("a" * 128 + "b") is None
    assert time.process_time() - began < 5  # the bad ones would take longer than the universe is old
