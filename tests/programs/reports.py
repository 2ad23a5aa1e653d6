"""What a campaign has found, written into a document: on which commit, and between which marks."""

from __future__ import annotations

import subprocess


def commit_here() -> str:
    """The commit of this tree."""
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "unknown"


def with_part(document: str, mark: str, part: str, end: str) -> str:
    """The document with this part between its marks."""
    before, _, rest = document.partition(mark)
    _, _, after = rest.partition(end)
    return f"{before}{mark}{part}{end}{after}"
