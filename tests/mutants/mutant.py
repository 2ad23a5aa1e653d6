"""A mutant: which words of which file are replaced by which others, and the tests that must notice."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

LISTS = Path(__file__).parent
ROOT = LISTS.parents[1]


@dataclass(frozen=True, slots=True)
class Mutant:
    """`same` says why it is the same program after all; then nobody can notice, and it may survive."""

    name: str
    area: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    same: str = ""

    def apply(self, root: Path) -> None:
        """Change the file below `root`."""
        path = root / self.file
        path.write_text(path.read_text("utf-8").replace(self.old, self.new), "utf-8")

    def fault(self, root: Path) -> str | None:
        """What is wrong with its place, if anything."""
        path = root / self.file
        places = path.read_text("utf-8").count(self.old) if path.is_file() else 0
        if places != 1 or self.old == self.new:
            return f"{self.area}: {self.name}: its words are {places} times in {self.file}; write them anew"
        return None


def read_mutants(lists: Path = LISTS) -> list[Mutant]:
    """All of them, as the lists have them: a list an area, and in it a group for each file and its tests."""
    return [
        Mutant(
            name,
            path.stem,
            group["file"],
            change["old"],
            change["new"],
            tuple(change.get("tests", group.get("tests", ()))),
            change.get("same", ""),
        )
        for path in sorted(lists.glob("*.toml"))
        for group in tomllib.loads(path.read_text("utf-8"))["group"]
        for name, change in group["mutants"].items()
    ]
