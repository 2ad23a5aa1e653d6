"""The annotations of the property tests against the list in docs/properties.md."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from house.tree import Fault, place, syntax, text_lines

DOCUMENT = "docs/properties.md"
OF_THE_SEEDS = range(1, 10)
MIN_EXAMPLES = 100

_ANNOTATION = re.compile(r"# \*\*Feature: data-collection-scheduler, Property (\d+): (.+)\*\*")
_ROW = re.compile(r"^\| (\d+) \| ([^|]+?) \|.*\| \[?`?([\w/]+\.py)`?\]?[^|]*\|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Property:
    """One annotated test: its number and text, and where it stands."""

    number: int
    text: str
    path: str
    line: int


def listed(root: Path) -> dict[int, tuple[str, str]]:
    """Number -> text and test file, as the document has them."""
    document = (root / DOCUMENT).read_text("utf-8")
    return {
        int(number): (text, f"tests/property/{Path(file).name}") for number, text, file in _ROW.findall(document)
    }


def annotated(root: Path) -> tuple[list[Property], list[Fault]]:
    """The property tests with their annotations, and those that lack one or have too few examples."""
    found, faults = [], []
    for path in sorted((root / "tests" / "property").glob("test_*.py")):
        lines = text_lines(path)
        for test, given in _tests_with_given(syntax(path)):
            where = place(root, path), given.lineno
            match = _ANNOTATION.fullmatch(lines[given.lineno - 2].strip())
            if match is None:
                remedy = "put `# **Feature: data-collection-scheduler, Property N: text**` right above @given"
                faults.append(Fault(*where, f"{test.name} has no annotation directly above @given", remedy))
            else:
                found.append(Property(int(match[1]), match[2], *where))
            if _max_examples(test) < MIN_EXAMPLES:
                remedy = f"add @settings(max_examples={MIN_EXAMPLES}) or more"
                faults.append(Fault(*where, f"{test.name} does not ask for {MIN_EXAMPLES} examples", remedy))
    return found, faults


def _tests_with_given(tree: ast.Module) -> list[tuple[ast.FunctionDef, ast.expr]]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [(test, mark) for test in functions for mark in test.decorator_list if _is_call_of(mark, "given")]


def _is_call_of(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == name


def _max_examples(test: ast.FunctionDef) -> int:
    for mark in test.decorator_list:
        if isinstance(mark, ast.Call) and _is_call_of(mark, "settings"):
            for keyword in mark.keywords:
                if keyword.arg == "max_examples":
                    return int(ast.literal_eval(keyword.value))
    return 0


def property_faults(root: Path) -> list[Fault]:
    """Whatever keeps annotations and document from saying the same, each property once."""
    found, faults = annotated(root)
    rows = listed(root)
    times = Counter(entry.number for entry in found)
    for entry in found:
        if rows.get(entry.number) != (entry.text, entry.path):
            problem = f"Property {entry.number} is not listed with this text and file"
            faults.append(Fault(entry.path, entry.line, problem, f"make it the same as its row in {DOCUMENT}"))
        if times[entry.number] > 1:
            faults.append(
                Fault(entry.path, entry.line, f"Property {entry.number} is there twice", "give one another number")
            )
    for number in sorted({*OF_THE_SEEDS, *rows} - times.keys()):
        faults.append(
            Fault(DOCUMENT, 1, f"Property {number} has no test in tests/property", "write and annotate it")
        )
    for number in sorted(set(OF_THE_SEEDS) - rows.keys()):
        faults.append(Fault(DOCUMENT, 1, f"Property {number} of the seeds is not listed", "add its row"))
    return sorted(faults)
