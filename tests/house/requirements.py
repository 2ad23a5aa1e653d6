"""The table from each criterion and error row of the seeds to its tests, against the tests there are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from house.tree import Fault, place, syntax

DOCUMENT = "docs/requirements.md"
CRITERIA = {1: 5, 2: 3, 3: 4, 4: 3, 5: 4, 6: 6, 7: 4}  # requirement -> how many acceptance criteria it has
ERROR_ROWS = {"S": ("sender", 2), "C": ("collector", 5), "M": ("mock_api", 2)}  # table -> whose, how many rows

_ROW = re.compile(r"^\| ([1-9]\.[1-9]|[SCM][1-9]) \|[^|]+\|([^|]+)\|$")
_TEST = re.compile(r"`(tests/[\w/]+\.py(?:::\w+)+)`")
_SAYS = re.compile(r"_requirement_([1-9])_([1-9])_")


def expected() -> set[str]:
    """Every identifier that the table must have."""
    criteria = {f"{number}.{part}" for number, count in CRITERIA.items() for part in range(1, count + 1)}
    return criteria | {f"{table}{row}" for table, (_, count) in ERROR_ROWS.items() for row in range(1, count + 1)}


def tests_of(root: Path) -> Iterator[tuple[str, str]]:
    """Every test as the table names it, `tests/x.py::test_y` or with its class between, and its bare name."""
    for path in sorted((root / "tests").rglob("test_*.py")):
        for node in syntax(path).body:
            scope, inner = (f"::{node.name}", node.body) if isinstance(node, ast.ClassDef) else ("", [node])
            for test in inner:
                if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef) and test.name.startswith("test_"):
                    yield f"{place(root, path)}{scope}::{test.name}", test.name


def requirement_faults(root: Path) -> list[Fault]:
    """Criteria without a row or a test that says so, tests that are not there, tests that no row names."""
    tests = dict(tests_of(root))
    faults, listed = [], {}
    for number, line in enumerate((root / DOCUMENT).read_text("utf-8").splitlines(), 1):
        if match := _ROW.match(line):
            named = _TEST.findall(match[2])
            listed[match[1]] = set(named)
            faults += [Fault(DOCUMENT, number, *fault) for fault in _row_faults(match[1], named, tests)]
    for missing in sorted(expected() - listed.keys()):
        faults.append(Fault(DOCUMENT, 1, f"{missing} has no row", "add it with its tests"))
    for unknown in sorted(listed.keys() - expected()):
        faults.append(Fault(DOCUMENT, 1, f"the seeds have no {unknown}", "remove its row"))
    return faults + _unlisted(tests, listed)


def _row_faults(identifier: str, named: list[str], tests: dict[str, str]) -> Iterator[tuple[str, str]]:
    for test in named:
        if test not in tests:
            yield f"{identifier}: there is no {test}", "correct the name"
    word = f"_requirement_{identifier.replace('.', '_')}_"
    if identifier[0] in ERROR_ROWS:
        word = f"_{ERROR_ROWS[identifier[0]][0]}_error_"
    if not any(word in test for test in named):
        yield f"{identifier} names no test that says so", f"name one with {word} in it"


def _unlisted(tests: dict[str, str], listed: dict[str, set[str]]) -> list[Fault]:
    faults = []
    for test, name in tests.items():
        for number, part in _SAYS.findall(name):
            if test not in listed.get(f"{number}.{part}", set()):
                problem = f"{name} is not in the row of {number}.{part}"
                faults.append(Fault(test.partition("::")[0], 1, problem, f"add it to {DOCUMENT}"))
    return faults
