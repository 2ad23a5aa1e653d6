"""What every rule needs: the files of a tree, their syntax, and a fault that names place and remedy."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """Where a rule is broken, how, and what to do about it."""

    path: str
    line: int
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.problem}; {self.remedy}"


@cache
def syntax(path: Path) -> ast.Module:
    """The module's syntax tree."""
    return ast.parse(path.read_text("utf-8"), str(path))


def sources(root: Path) -> list[Path]:
    """The package's own modules."""
    return sorted((root / "src").rglob("*.py"))


def module_name(root: Path, path: Path) -> str:
    """`kizami.aws.sender` for `src/kizami/aws/sender.py`."""
    parts = path.relative_to(root / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def place(root: Path, path: Path) -> str:
    """The path as a fault names it."""
    return path.relative_to(root).as_posix()


def tracked_files(root: Path) -> Iterator[Path]:
    """The files that are, or with the next commit would be, part of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
    ).stdout.decode()
    for name in sorted(filter(None, listed.split("\0"))):
        if (root / name).is_file():
            yield root / name


def text_lines(path: Path) -> list[str]:
    """The lines of a text file; a binary one has none."""
    try:
        return path.read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        return []
