"""docs/requirements.md names, for every criterion and error row of the seeds, tests that there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from house.requirements import expected, requirement_faults
from house.tree import ROOT

NEW = "def test_requirement_5_4_new(): ...\ndef test_requirement_5_4_x"


def test_every_criterion_has_its_row_and_every_row_its_tests() -> None:
    lines = [str(fault) for fault in requirement_faults(ROOT)]
    assert not lines, "\n" + "\n".join(lines)


@pytest.fixture
def house(tmp_path: Path) -> Callable[..., Path]:
    """A house in which every criterion has its test, but for what is replaced in the document or the tests."""

    def build(document: tuple[str, str] = ("", ""), tests: tuple[str, str] = ("", "")) -> Path:
        whose = {"S": "sender", "C": "collector", "M": "mock_api"}
        names = {
            key: f"test_{whose[key[0]]}_error_{key[1]}"
            if key[0] in whose
            else f"test_requirement_{key[0]}_{key[2]}_x"
            for key in sorted(expected())
        }
        rows = "".join(f"| {key} | words | `tests/unit/test_x.py::{name}` |\n" for key, name in names.items())
        functions = "".join(f"def {name}(): ...\n" for name in names.values())
        for path, text, (old, new) in (
            ("docs/requirements.md", rows, document),
            ("tests/unit/test_x.py", functions, tests),
        ):
            (tmp_path / path).parent.mkdir(parents=True)
            (tmp_path / path).write_text(text.replace(old, new) if old else text, "utf-8")
        return tmp_path

    return build


def test_a_house_in_order_has_no_fault(house: Callable[..., Path]) -> None:
    assert requirement_faults(house()) == []


@pytest.mark.parametrize(
    ("document", "tests", "problem"),
    [
        (("| 1.2 |", "| 1.2x |"), ("", ""), "1.2 has no row"),
        (("| S2 |", ""), ("", ""), "S2 has no row"),
        (("| 1.5 |", "| 1.6 |"), ("", ""), "the seeds have no 1.6"),
        (("", ""), ("def test_requirement_4_1_x", "def test_other"), "4.1: there is no tests/unit/test_x.py"),
        (("", ""), ("def test_collector_error_3", "def f"), "C3: there is no tests/unit/test_x.py"),
        (("test_requirement_7_1_x", "test_requirement_7_2_x"), ("", ""), "7.1 names no test that says so"),
        (("`tests/unit/test_x.py::test_sender_error_1`", "none"), ("", ""), "S1 names no test that says so"),
        (("`tests/unit/test_x.py::test_requirement_5_1_x`", "not yet"), ("", ""), "5.1 names no test"),
        (("", ""), ("def test_requirement_5_4_x", NEW), "test_requirement_5_4_new is not in the row of 5.4"),
    ],
)
def test_a_table_that_went_stale_is_found(
    house: Callable[..., Path], document: tuple[str, str], tests: tuple[str, str], problem: str
) -> None:
    assert any(problem in fault.problem for fault in requirement_faults(house(document, tests)))
