"""The Japanese words of docs/glossary.md against those of the page: one word a thing."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from house.tree import Fault, text_lines

GLOSSARY = "docs/glossary.md"
JAPANESE = "src/kizami/web/view/words/ja.toml"
# Where the page says a word of the glossary.
ON_THE_PAGE = {
    "slot": "episodes.slots",
    "interval": "targets.interval",
    "lag": "targets.lag",
    "lateness": "tile.lateness",
    "planned": "tile.queue_idle",
    "waiting": "tile.queue_note",
    "pending": "state.pending",
    "stored": "state.stored",
    "dead letter": "tile.dead",
    "missing": "state.missing",
    "gap": "tile.gaps",
    "coverage": "tile.day",
    "attempt": "cell.tries",
    "retry": "state.retried",
    "backfill": "state.backfilled",
    "redrive": "episodes.redrive",
    "target": "targets.name",
}

_ROW = re.compile(r"^\| ([a-z][a-z -]*) \| ([^|]+) \| [^|]+ \|$")


def other_words(root: Path) -> list[Fault]:
    """Words that the page says otherwise, or that the glossary does not explain."""
    page = dict(_flat(tomllib.loads((root / JAPANESE).read_text("utf-8"))))
    written = {
        match[1]: (number, match[2])
        for number, line in enumerate(text_lines(root / GLOSSARY), 1)
        if (match := _ROW.match(line)) and match[1] != "word"
    }
    faults = []
    for word, key in ON_THE_PAGE.items():
        if word not in written:
            faults.append(Fault(GLOSSARY, 1, f"{word} is not explained", "give it a row"))
        elif written[word][1] not in page.get(key, ""):
            problem = f"{word} is {written[word][1]} here, and on the page {page.get(key)}"
            faults.append(
                Fault(GLOSSARY, written[word][0], problem, f"use the word that {key} in {JAPANESE} uses")
            )
    return faults


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, str):
            yield prefix + key, value
        else:
            yield from _flat(value, f"{prefix}{key}.")
