"""What stands in the files: nothing undone, no machine or registry by name, nothing too long to be read."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

from house.imports import part_of
from house.tree import Fault, module_name, place, sources, syntax, text_lines

MAX_MODULE_LINES = 500
MAX_FUNCTION_LINES = 60
PINNED_ALONE = {"ministack", "datasette"}  # each an environment of its own, without the project

# Put together so that this file does not find itself.
_UNDONE = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")
_MACHINE_PATH = re.compile(
    r"(?<![\w.$}/-])/(" + "|".join(["home", "Users", "root", "work", "mnt"]) + r")/\w|[A-Z]:\\Users\\"
)
_REGISTRY = re.compile(
    r"(" + "|".join(["pypi", "pythonhosted", "npmjs", "artifactory", "jfrog", "verdaccio"]) + r")[\w-]*\.\w+"
    r"|--(extra-)?index-url|--find-link[s]|\"resolved\":",
    re.IGNORECASE,
)
_RULES = (
    (_UNDONE, "work left undone", "do it, or open an issue and leave the file clean"),
    (_MACHINE_PATH, "a path of one machine", "make it relative, or take it from a setting"),
    (_REGISTRY, "a package registry by name", "name the package only; pip knows where to look"),
)

_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)(\[[\w,-]+\])?==[^\s;]+( ;[^\\]+)?( --hash=sha256:[0-9a-f]{64})+$")
_NAME = re.compile(r"^[A-Za-z0-9][\w.-]*")


def unwanted_words(root: Path, files: Iterable[Path]) -> list[Fault]:
    """Lines with something that must not be in the repository."""
    return [
        Fault(place(root, path), number, f"{what}: {match[0]}", remedy)
        for path in files
        for number, line in enumerate(text_lines(path), 1)
        for pattern, what, remedy in _RULES
        if (match := pattern.search(line))
    ]


def unreadable_modules(root: Path) -> list[Fault]:
    """Modules that say nothing of themselves or are too long, and functions that are."""
    faults = []
    for path in sources(root):
        lines, tree = text_lines(path), syntax(path)
        if lines and not ast.get_docstring(tree):
            remedy = "open with one sentence: its place in the way of the data"
            faults.append(Fault(place(root, path), 1, "no docstring", remedy))
        if len(lines) > MAX_MODULE_LINES:
            problem = f"{len(lines)} lines, over {MAX_MODULE_LINES}"
            faults.append(Fault(place(root, path), 1, problem, "part it by what it is about"))
        faults += [Fault(place(root, path), *fault) for fault in _long_functions(tree)]
    return faults


def _long_functions(tree: ast.Module) -> list[tuple[int, str, str]]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [
        (
            node.lineno,
            f"{node.name} has {length} lines, over {MAX_FUNCTION_LINES}",
            "part it into steps with names",
        )
        for node in functions
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]


def thawed_values(root: Path) -> list[Fault]:
    """Dataclasses of the core that can be changed after they were made; a runtime may keep its state in one."""
    return [
        Fault(place(root, path), node.lineno, f"{node.name} is not frozen", "make it a dataclass(frozen=True)")
        for path in sources(root)
        if part_of(module_name(root, path)) == "core"
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.ClassDef)
        for mark in map(ast.unparse, node.decorator_list)
        if mark.startswith(("dataclass", "dataclasses.dataclass")) and "frozen=True" not in mark
    ]


def loose_requirements(root: Path) -> list[Fault]:
    """Requirements without version or hash, and dependencies that the pins leave out."""
    wanted = _dependencies(root)
    faults = []
    for path in sorted((root / "requirements").glob("*.txt")):
        pinned = set()
        for number, line in _logical_lines(path):
            match = _PIN.match(line)
            if match is None:
                remedy = "write the file again with `make lock`"
                faults.append(Fault(place(root, path), number, f"not a pin with hashes: {line[:60]}", remedy))
            else:
                pinned.add(_normal(match[1]))
        of_the_project = set() if path.stem in PINNED_ALONE else wanted["runtime"]
        for name in sorted((of_the_project | wanted.get(path.stem, set())) - pinned):
            faults.append(Fault(place(root, path), 1, f"{name} is asked for but not pinned", "run `make lock`"))
    return faults


def _dependencies(root: Path) -> dict[str, set[str]]:
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = {"runtime": {_normal(_NAME.findall(line)[0]) for line in project["dependencies"]}}
    for path in (root / "requirements").glob("*.in"):
        names = {_normal(match[0]) for line in text_lines(path) if (match := _NAME.match(line))}
        wanted[path.stem] = wanted.get(path.stem, set()) | names
    return wanted


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _logical_lines(path: Path) -> list[tuple[int, str]]:
    """Requirements with their continuations joined, without comments, and the line where each begins."""
    logical: list[tuple[int, str]] = []
    continued = False
    for number, line in enumerate(text_lines(path), 1):
        written = line.split("#")[0].strip()
        words = written.removesuffix("\\").strip()
        if continued:
            start, so_far = logical.pop()
            logical.append((start, f"{so_far} {words}".strip()))
        elif words:
            logical.append((number, words))
        continued = written.endswith("\\")
    return logical
