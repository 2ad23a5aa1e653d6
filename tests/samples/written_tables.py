"""The tables of the documents as tests read them."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def table_after(document: str, heading: str) -> list[list[str]]:
    """The rows of the first table under a heading, cell by cell."""
    text = (DOCS / document).read_text(encoding="utf-8").partition(f"## {heading}\n")[2]
    (first, *_) = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    lines = first.splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
