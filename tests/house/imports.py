"""The direction of imports: the core knows no runtime, runtimes do not know each other, Lambdas stay lean."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from house.tree import Fault, module_name, place, sources, syntax

_ALERTS = {"alerts", "alerts.rules"}
# What each part of the house may know besides itself. A part is the longest of these names that a module has.
MAY_KNOW = {
    # The `[aggregation]` and `[[alerts]]` tables of the file, and the types of its ports.
    "core": {"aggregation", "alerts.rules"},
    "platform": {"core"},
    "aggregation": {"core"},
    "backend": {"core", "aggregation"},  # whose locks and points it shows
    "alerts": {"core", "aggregation", "backend", "alerts.rules"},
    "alerts.rules": {"core", "backend"},
    "mock_api": {"core", "aggregation", "platform"},  # it serves the batch's users API and checks its signature
    "local": {
        "core",
        "aggregation",
        "platform",
        "backend",
        "mock_api",
        "aggregation.stores",
        "alerts",
        "alerts.rules",
    },
    "aws": {
        "core",
        "aggregation",
        "platform",
        "backend",
        "mock_api",
        "aggregation.stores",
        "alerts",
        "alerts.rules",
    },
    # The batch's adapters stand beside it and know the backend that each is for.
    "aggregation.stores": {"core", "aggregation", "backend", "local", "aws"},
    "aggregation.local_runner": {"core", "aggregation", "aggregation.stores", "local"},
    "aggregation.scheduled_runs": {"core", "aggregation", "aggregation.local_runner", "platform", "mock_api"},
    "cdk": {"core", "aggregation", "aws", "alerts.rules"},  # the functions that it deploys
    "recipes": set(),
    "web": {"core", "aggregation", "platform", "backend", "alerts"},
    "cli": {
        *("core", "aggregation", "aggregation.stores", "aggregation.local_runner", "aggregation.scheduled_runs"),
        *("platform", "backend", "mock_api", "recipes", "local", "aws", "web", *_ALERTS),
    },
}

# The parts of the standard library that compute and nothing else: no clock, file, socket, process, randomness.
PURE = {
    *("__future__", "abc", "base64", "bisect", "collections", "contextlib", "dataclasses", "datetime", "decimal"),
    *(
        "difflib",
        "enum",
        "fractions",
        "functools",
        "hashlib",
        "heapq",
        "hmac",
        "html",
        "itertools",
        "json",
        "math",
        "operator",
    ),
    *("re", "statistics", "string", "textwrap", "tomllib", "traceback", "types", "typing", "unicodedata"),
    *("urllib.parse", "zoneinfo"),
}
# A log line is written where it happens; how it looks is decided in one place, which also knows stderr.
PURE_HERE = {
    "kizami.core.logs": {"logging", "sys", "time"},
    "kizami.core.packing": {"struct", "zlib"},  # bytes from numbers, and back
    "kizami.aggregation": {"logging"},
}

IN_EVERY_LAMBDA = {"boto3", "botocore", "urllib3"}

_CLOCKS = {("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today"), ("date", "today")}
_DOORS = {"open", "print", "input", "eval", "exec", "__import__", "breakpoint"}


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module and the line that does it."""

    module: str
    line: int


def imports_of(tree: ast.Module, importer: str) -> Iterator[Import]:
    """Every import of a module, also those inside functions; `from kizami.x import y` may name a module y."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                package = importer.split(".")[: -node.level]
                module = ".".join([*package, *filter(None, [module])])
            yield Import(module, node.lineno)
            if module.split(".")[0] == "kizami":
                yield from (Import(f"{module}.{alias.name}", node.lineno) for alias in node.names)


def part_of(module: str) -> str:
    """`aws` for `kizami.aws.sender`, `aggregation.stores` for `kizami.aggregation.stores.sqlite`."""
    name = module.removeprefix("kizami.")
    parts = [part for part in MAY_KNOW if name == part or name.startswith(f"{part}.")]
    return max(parts, key=len, default="core")


def is_pure(module: str) -> bool:
    """Whether the rule of the core holds for a module."""
    return (
        part_of(module) in ("core", "aggregation", "backend", "alerts", "alerts.rules")
        or module == "kizami.mock_api.responder"
    )


def against_the_direction(root: Path) -> list[Fault]:
    """Imports of a part that the importer must not know."""
    faults = set()
    for path in sources(root):
        name = module_name(root, path)
        part = part_of(name)
        known_here = MAY_KNOW[part] | {part}
        for found in imports_of(syntax(path), name):
            known = part_of(found.module)
            if found.module.startswith("kizami.") and known not in known_here:
                remedy = "hand it over as a value or behind a port of kizami.core.ports"
                faults.add(Fault(place(root, path), found.line, f"{part} must not know {known}", remedy))
    return sorted(faults)


def impure(root: Path) -> list[Fault]:
    """Imports and calls through which a pure module would reach a clock, a file, the network or chance."""
    faults = []
    for path in sources(root):
        name = module_name(root, path)
        if not is_pure(name):
            continue
        allowed = PURE | PURE_HERE.get(name, set()) | PURE_HERE.get(name.rpartition(".")[0], set())
        for line, what in [*_impure_imports(path, name, allowed), *_impure_calls(syntax(path))]:
            remedy = "take the value as a parameter; aws/ and local/ do the rest"
            faults.append(Fault(place(root, path), line, f"a pure module uses {what}", remedy))
    return sorted(faults)


def _impure_imports(path: Path, name: str, allowed: set[str]) -> Iterator[tuple[int, str]]:
    for found in imports_of(syntax(path), name):
        within = {found.module, found.module.split(".")[0]} - {"urllib"}
        if found.module.split(".")[0] != "kizami" and not within & allowed:
            yield found.line, found.module


def _impure_calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in _DOORS:
            yield node.lineno, f"{node.func.id}()"
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            call = (node.func.value.id, node.func.attr)
            if call in _CLOCKS:
                yield node.lineno, ".".join(call) + "()"


def too_heavy_for_a_lambda(root: Path) -> list[Fault]:
    """Third-party imports in aws/, or in anything of ours that aws/ leads to, that no Lambda runtime has."""
    paths = {module_name(root, path): path for path in sources(root)}
    reached = [name for name in paths if part_of(name) == "aws"]
    faults = []
    for name in reached:  # grows while it is walked
        for found in imports_of(syntax(paths[name]), name):
            top = found.module.split(".")[0]
            if top == "kizami":
                reached.extend({found.module} & paths.keys() - set(reached))
            elif top not in sys.stdlib_module_names and top not in IN_EVERY_LAMBDA:
                problem = f"{found.module} is not in the Lambda runtime, and aws/ leads here"
                remedy = "use the standard library, botocore or urllib3, or pay for it in docs/decisions.md"
                faults.append(Fault(place(root, paths[name]), found.line, problem, remedy))
    return sorted(set(faults))
