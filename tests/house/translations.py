"""The Japanese documents against the English ones: the same sections, code and tables, so that none drifts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from house.tree import Fault, place, text_lines

JAPANESE = "docs/ja"

_HEADING = re.compile(r"(#{1,6}) +(.*)")
_COMMENT = re.compile(r"(^|\s)# .*")


@dataclass
class Section:
    """A heading and what of the text below it is the same in every language."""

    level: int
    title: str
    line: int
    code: list[str] = field(default_factory=list)
    rows: int = 0
    links: set[str] = field(default_factory=set)


def pairs(root: Path) -> Iterator[tuple[Path, Path]]:
    """Each English document with its Japanese one."""
    if (root / "README.ja.md").exists():
        yield root / "README.md", root / "README.ja.md"
    for path in sorted((root / JAPANESE).glob("*.md")):
        yield root / "docs" / path.name, path


def drifted(root: Path) -> list[Fault]:
    """Sections that one language has and the other has not, or that show other code or tables."""
    return [fault for english, japanese in pairs(root) for fault in _differences(root, english, japanese)]


def _differences(root: Path, english: Path, japanese: Path) -> Iterator[Fault]:
    where = place(root, japanese)
    if not english.exists():
        yield Fault(where, 1, "there is no such document in English", "give both one name")
        return
    for ours, theirs in zip_longest(_sections(english), _sections(japanese)):
        if ours is None or theirs is None or ours.level != theirs.level:
            line, title = (theirs.line, theirs.title) if theirs else (1, ours.title)
            yield Fault(where, line, f"the sections part at “{title}”", f"follow {place(root, english)}")
            return
        elsewhere = any(link.startswith(f"../{english.name}#") for link in theirs.links)
        for what, differs in (
            ("code", ours.code != theirs.code),
            ("rows of tables", ours.rows != theirs.rows and not elsewhere),
        ):
            if differs:
                problem = f"“{theirs.title}” has other {what} than “{ours.title}”"
                yield Fault(where, theirs.line, problem, f"follow {place(root, english)}")


def _sections(path: Path) -> list[Section]:
    found = [Section(0, "", 1)]
    fenced = False
    for number, line in enumerate(text_lines(path), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            found[-1].code += _code(line)
        elif heading := _HEADING.match(line):
            found.append(Section(len(heading[1]), heading[2], number))
        else:
            found[-1].rows += line.startswith("|")
            found[-1].links.update(re.findall(r"\]\(([^)\s]+)\)", line))
    return found


def _code(line: str) -> list[str]:
    """What a machine reads of a line: no comment, and nothing of a drawing, which has words of its own."""
    bare = _COMMENT.sub("", line).strip()
    return [bare] if bare and bare.isascii() else []
