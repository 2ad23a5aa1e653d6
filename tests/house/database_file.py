"""Who may open files in the daemon's process: closing the database's drops the locks that SQLite has on it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from house.imports import imports_of, part_of
from house.tree import Fault, module_name, place, sources, syntax

# The parts that know the database's path and run beside a connection to it.
_BESIDE_SQLITE = {"local", "backend", "web", "aggregation.stores"}
# What these open is never the database: a new file that is none yet, a lock file, a secret, a certificate.
_OPEN_OTHERS = {
    f"kizami.local.{name}"
    for name in (
        *("store.database", "daemon_lock", "http.secrets", "http.tls_files", "store.write_ahead_log"),
        "copies.backup_report",
        "copies.placing",
    )
}
_OPENERS = {"open", "read_bytes", "read_text", "write_bytes", "write_text", "touch", "copy", "copyfile", "copy2"}
_OWN_FILES = "resources"  # of the package, by importlib

_THE_DOOR = "kizami.local.store.database"
_TO_SQLITE = {"Connection", "VFSFile"}


def opened_beside_sqlite(root: Path) -> list[Fault]:
    """Calls that may open the database's file other than through the one SQLite of the process."""
    faults = []
    for path in sources(root):
        name, tree = module_name(root, path), syntax(path)
        found = [*_other_sqlites(tree, name), *_connections(tree, name), *_opened_files(tree, name)]
        faults += [Fault(place(root, path), *each) for each in found]
    return sorted(faults)


def _other_sqlites(tree: ast.Module, name: str) -> Iterator[tuple[int, str, str]]:
    for found in imports_of(tree, name):
        if found.module.split(".")[0] == "sqlite3":
            yield found.line, "a second SQLite in the process", "use kizami.local.store.database.open_database"


def _connections(tree: ast.Module, name: str) -> Iterator[tuple[int, str, str]]:
    for node, called in _calls(tree):
        if called in _TO_SQLITE and _of(node) == "apsw" and name != _THE_DOOR:
            yield node.lineno, f"apsw.{called} beside {_THE_DOOR}", "use kizami.local.store.database.open_database"


def _opened_files(tree: ast.Module, name: str) -> Iterator[tuple[int, str, str]]:
    if part_of(name) not in _BESIDE_SQLITE or name in _OPEN_OTHERS:
        return
    for node, called in _calls(tree):
        if called in _OPENERS and _OWN_FILES not in ast.unparse(node.func):
            remedy = (
                "ask SQLite for it; if it is never the database, name the module in tests/house/database_file.py"
            )
            yield node.lineno, f"{called}() in the process that has the database open", remedy


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                yield node, node.func.attr
            elif isinstance(node.func, ast.Name):
                yield node, node.func.id


def _of(call: ast.Call) -> str:
    """`apsw` for `apsw.Connection()`."""
    function = call.func
    return ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""
