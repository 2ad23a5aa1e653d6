"""What logs are filtered by: an event on each line, a literal in the source with a row in the operators' table."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from house.documents import sections
from house.tree import Fault, place, sources, syntax, text_lines

OPERATIONS = "docs/operations.md"

# How a logger's method is called -> the level of its lines; that of `log` is not in its name.
_LEVELS = {
    "debug": "DEBUG",
    "info": "INFO",
    "warning": "WARNING",
    "error": "ERROR",
    "exception": "ERROR",
    "critical": "CRITICAL",
    "log": "",
}
_LOGGER = re.compile(r"_?log(ger)?|logging(\.getLogger\(.*\))?")
_EVENT = re.compile(r"[a-z_]+\.[a-z_]+")
_ROW = re.compile(r"^\| `([^`]+)` \| ([A-Z, ]+) \|", re.MULTILINE)
_FILTERED_EVENT = re.compile(r"""\bevent = ["']([^"']*)["']""")
_FILTERED_PROSE = re.compile(r"""(@|\$\.|\b)message (=|!=|like|in) *["'/\[]""")


@dataclass(frozen=True, slots=True)
class LogCall:
    """One call that writes a line, with the event that stands first in its `extra`, if one does."""

    path: str
    line: int
    event: str | None
    level: str


def log_calls(root: Path) -> Iterator[LogCall]:
    """Every call of a logger in the source."""
    for path in sources(root):
        tree = syntax(path)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                level = _LEVELS.get(node.func.attr)
                if level is not None and _LOGGER.fullmatch(ast.unparse(node.func.value)):
                    yield LogCall(place(root, path), node.lineno, _event_of(node, tree), level)


def _event_of(call: ast.Call, tree: ast.Module) -> str | None:
    extra = next((keyword.value for keyword in call.keywords if keyword.arg == "extra"), None)
    if isinstance(extra, ast.Name):
        extra = _last_value(tree, extra.id, call.lineno)
    match extra:
        case ast.Dict(keys=[ast.Constant(value="event"), *_], values=[ast.Constant(value=str(event)), *_]):
            return event
    return None


def _last_value(tree: ast.Module, name: str, line: int) -> ast.expr | None:
    """What the name was given last before the line."""
    given = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and node.lineno < line and ast.unparse(node.targets[0]) == name
    ]
    return max(given, key=lambda node: node.lineno).value if given else None


def nameless_lines(root: Path) -> list[Fault]:
    """Calls of a logger without an event, or with one that is not spelt like the others."""
    remedy = 'let `extra` begin with "event": "noun.verb", as a literal'
    return [
        Fault(call.path, call.line, f"a log line's event is {call.event}", remedy)
        for call in log_calls(root)
        if call.event is None or not _EVENT.fullmatch(call.event)
    ]


def levels_of_events(root: Path) -> dict[str, set[str]]:
    """Each event with the levels at which it is logged, as far as the calls name them."""
    found: dict[str, set[str]] = {}
    for call in log_calls(root):
        if call.event:
            found.setdefault(call.event, set()).update(filter(None, [call.level]))
    return found


def undocumented_events(text: str, levels: Mapping[str, set[str]]) -> list[Fault]:
    """Events without a row in the table, or with another level there, and rows without an event."""
    rows = _ROW.findall(sections(text).get("Events", ""))
    described = {event: set(cell.split(", ")) for event, cell in rows}
    remedy = "bring the table of `## Events` up to date: event, level, what it means, what to do"
    faults = [
        Fault(OPERATIONS, 1, f"event {event}: in the source or in the table, but not in both", remedy)
        for event in levels.keys() ^ described.keys()
    ]
    for event in levels.keys() & described.keys():
        if levels[event] and levels[event] != described[event]:
            problem = f"event {event} is logged as {', '.join(sorted(levels[event]))}"
            faults.append(Fault(OPERATIONS, 1, problem, remedy))
    return sorted(faults)


def blind_filters(root: Path, events: Mapping[str, object]) -> list[Fault]:
    """Filters of logs, in the deployment or in the documents, for words or for an event that no line has."""
    faults = []
    for path in sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "infra").rglob("*.py")]):
        for number, line in enumerate(text_lines(path), 1):
            if _FILTERED_PROSE.search(line):
                problem = "a filter of a log line's words, which may change"
                faults.append(Fault(place(root, path), number, problem, "filter by its event"))
            for event in set(_FILTERED_EVENT.findall(line)) - events.keys():
                problem = f"a filter for {event}, which no log line has"
                faults.append(
                    Fault(place(root, path), number, problem, f"choose one of `## Events` in {OPERATIONS}")
                )
    return faults
