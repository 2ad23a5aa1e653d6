"""The order of the rooms: packages small enough to look through, a map at the door of each, no name twice."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from house.tree import Fault, place, syntax

MAX_MODULES = 50
# One module a verb: the list of verbs is the order in there.
EXEMPT = frozenset({"src/kizami/cli/verbs"})
ARCHITECTURE = "docs/architecture.md"
HANDLERS = (
    "kizami.aws.sender.handler",
    "kizami.aws.collector.handler",
    "kizami.aws.mock_api.handler",
    "kizami.aws.reconciler.handler",
    "kizami.aws.aggregation.handler",
    "kizami.aws.aggregation_dispatcher.handler",
)

# A line of a tree drawn in a document: `    local/    the backend on one machine`.
_FOLDER = re.compile(r"^ {4}( *)([\w./]+)/(?: .*)?$", re.MULTILINE)


def packages(root: Path) -> list[Path]:
    """The folders with an `__init__`: the package, the CDK app, the benchmarks, the tests' own helpers."""
    tops = [root / "src", root / "infra", root / "bench", root / "tests"]
    return sorted(path.parent for top in tops for path in top.rglob("__init__.py"))


def modules_in(package: Path) -> list[str]:
    """The modules of a package; what pytest finds by itself is none."""
    names = {path.stem for path in package.glob("*.py")} - {"__init__", "conftest"}
    return sorted(name for name in names if not name.startswith("test_"))


def rooms_in(package: Path) -> list[str]:
    """The packages right below a package."""
    return sorted(path.parent.name for path in package.glob("*/__init__.py"))


def crowded(root: Path) -> list[Fault]:
    """Packages with more modules than a reader keeps in mind."""
    remedy = "give those that belong together a package of their own"
    return [
        Fault(f"{place(root, package)}/__init__.py", 1, f"{count} modules, over {MAX_MODULES}", remedy)
        for package in packages(root)
        if (count := len(modules_in(package))) > MAX_MODULES and place(root, package) not in EXEMPT
    ]


def unmapped(root: Path) -> list[Fault]:
    """Modules and packages that the map in the `__init__` of their package does not name."""
    faults = []
    for package in packages(root):
        path = package / "__init__.py"
        words = set(re.findall(r"\w+", ast.get_docstring(syntax(path)) or ""))
        for name in [*modules_in(package), *rooms_in(package)]:
            if name not in words:
                remedy = "say in its docstring what comes to it and what it hands on"
                faults.append(Fault(place(root, path), 1, f"the map does not name {name}", remedy))
    return faults


def misdrawn(root: Path) -> list[Fault]:
    """Packages that the tree in docs/architecture.md leaves out, and folders in it that are not there."""
    drawn = set(_drawn_folders((root / ARCHITECTURE).read_text("utf-8")))
    there = {place(root, package) for package in packages(root)}
    left_out = [
        Fault(ARCHITECTURE, 1, f"the tree of rooms leaves out {folder}", "give it a line there")
        for folder in sorted(there - drawn)
    ]
    gone = sorted(folder for folder in drawn if not (root / folder).is_dir())
    return left_out + [
        Fault(ARCHITECTURE, 1, f"there is no {folder} (any more)", "take its line out") for folder in gone
    ]


def _drawn_folders(text: str) -> Iterator[str]:
    """The folders of the tree, whose indentation says what is within what."""
    above: list[tuple[int, str]] = []
    for match in _FOLDER.finditer(text):
        depth = len(match[1])
        above = [(at, name) for at, name in above if at < depth]
        above.append((depth, match[2]))
        yield "/".join(name for _, name in above)


def repeated_classes(root: Path) -> list[Fault]:
    """Classes of one name in two places."""
    places = defaultdict(list)
    for top in ("src", "infra"):
        for path in sorted((root / top).rglob("*.py")):
            for node in ast.walk(syntax(path)):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append((place(root, path), node.lineno))
    return [
        Fault(*where, f"the class {name} is in {places[name][0][0]}, too", "say what is different in one's name")
        for name in sorted(places)
        for where in places[name][1:]
    ]


def lost_handlers(root: Path) -> list[Fault]:
    """Handlers whose names others rely on, and that are not there."""
    return [
        Fault(name, 1, f"{module} has no function {function}", "leave it under this name: deployed stacks call it")
        for module, _, function in (handler.rpartition(".") for handler in HANDLERS)
        for name in [f"src/{module.replace('.', '/')}.py"]
        if function not in _functions(root / name)
    ]


def _functions(path: Path) -> set[str]:
    body = syntax(path).body if path.is_file() else []
    return {node.name for node in body if isinstance(node, ast.FunctionDef)}
