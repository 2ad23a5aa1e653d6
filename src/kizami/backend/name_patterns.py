"""Names with `*` for any characters: what page, verbs and alerts choose targets by (pure).

A plain regular expression with many stars can take longer than anybody waits. Between two stars the first place
where a part fits is as good as any later one, so nothing is ever tried twice.
"""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=1024)
def compile_names(pattern: str, *, single: bool = False) -> re.Pattern[str]:
    """What matches the names that are meant, as a whole; with `single` a `?` is any one character."""
    parts = [_fixed(part, single=single) for part in pattern.split("*")]
    if len(parts) == 1:
        return re.compile(parts[0], re.DOTALL)
    first, *between, last = parts
    found = "".join(f"(?>.*?{part})" for part in between if part)
    return re.compile(f"{first}{found}.*{last}", re.DOTALL)


def _fixed(part: str, *, single: bool) -> str:
    return "".join("." if single and character == "?" else re.escape(character) for character in part)
