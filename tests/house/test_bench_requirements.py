"""Each benchmark runs in a fresh clone: its own requirements install all that it imports."""

from __future__ import annotations

import ast
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from house.tree import ROOT

OURS = {"bench", "kizami", "programs", "aws_here", "infra"}
# Files of the requirements that each benchmark's target in the Makefile installs.
INSTALLED = {"page": ("dev", "bench"), "lambda": ("dev",)}
# kizami imports this one only for the format that a benchmark asks it for.
FORMATS = {"parquet": "pyarrow"}


def benchmarks() -> list[Path]:
    """Return the programs that `make` runs; the peers run in environments of their own."""
    return [path for path in sorted((ROOT / "bench").rglob("*.py")) if "peers" not in path.parts]


def pinned(*sets: str) -> set[str]:
    texts = [(ROOT / "requirements" / f"{name}.txt").read_text() for name in ("runtime", *sets)]
    return {name.lower() for text in texts for name in re.findall(r"^([\w.-]+)(?:\[[^]]*\])?==", text, re.M)}


def imported(path: Path) -> set[str]:
    """Return the packages outside the standard library that a module imports or asks kizami to import."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Constant) and node.value in FORMATS:
            found.add(FORMATS[node.value])
    return found - OURS - set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", benchmarks(), ids=lambda path: str(path.relative_to(ROOT / "bench")))
def test_requirements_of_a_benchmark_have_all_that_it_imports(path: Path) -> None:
    target = "page" if path.parent.name == "page" else "lambda" if "lambda" in path.name else "own"
    names = pinned(*INSTALLED.get(target, ("bench",)))
    distributions = packages_distributions()
    missing = {
        package
        for package in imported(path)
        if not names & {name.lower() for name in distributions.get(package, [package])}
    }
    assert not missing, f"add {', '.join(sorted(missing))} to requirements/bench.in and run make lock"
