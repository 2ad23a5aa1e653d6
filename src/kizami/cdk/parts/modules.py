"""Which files of ours a module needs to run: all that it imports, and what that imports, down to the last."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path


def needed_files(root: Path, modules: Sequence[str]) -> list[Path]:
    """The files below `root` that `modules` import, also inside a function, and the data that they name.

    What is of another package is somebody else's. An import for the type checker alone is no import.
    """
    ours = {module.partition(".")[0] for module in modules}
    found: set[Path] = set()
    waiting = [path for module in modules for path in _files_of(root, module)]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        if path.suffix == ".py":
            imported, named = _read(path.read_bytes(), path.relative_to(root).parent.parts)
            waiting += [other for other in path.parent.iterdir() if other.name in named and other.is_file()]
            of_ours = [module for module in imported if module.partition(".")[0] in ours]
            waiting += [part for module in of_ours for part in _files_of(root, module)]
    return sorted(found)


@cache  # an app packs the same source for each of its stacks
def _read(source: bytes, package: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """What a module imports that stands in this package, and every text in it: files beside it, among others."""
    tree = ast.parse(source)
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return frozenset(_imported(tree, package)), frozenset(text for text in texts if isinstance(text, str))


def _files_of(root: Path, module: str) -> list[Path]:
    """The module's own file and those of the packages around it; none if it is not ours."""
    parts = module.split(".")
    places = [root.joinpath(*parts[:length]) for length in range(1, len(parts) + 1)]
    candidates = [place / "__init__.py" for place in places] + [places[-1].with_suffix(".py")]
    return [path for path in candidates if path.is_file()]


def _imported(tree: ast.Module, package: tuple[str, ...]) -> Iterator[str]:
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join([*above, *filter(None, [node.module])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)  # which may be a module as well


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Everything in the tree but what only a type checker reads."""
    if isinstance(node, ast.If) and f".{ast.unparse(node.test)}".endswith(".TYPE_CHECKING"):
        for other in node.orelse:
            yield from _statements(other)
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _statements(child)
