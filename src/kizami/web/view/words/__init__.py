"""What the page says, in English and Japanese: sentences, numbers, durations (pure but for reading its files)."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib import resources
from typing import Any

from kizami.core.answers.numbers import Number, plain_text
from kizami.core.coverage import Completeness

LANGUAGES = ("en", "ja")
DEFAULT_LANGUAGE = "en"

# As the browser writes them on the chart's axis.
_LARGE = (("T", 10**12), ("B", 10**9), ("M", 10**6), ("K", 10**3))
_UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))


@dataclass(frozen=True, slots=True)
class Words:
    """One language: `words("episodes.none")`; `n` chooses the form for one or for many."""

    language: str
    phrases: Mapping[str, str]

    def __call__(self, key: str, n: int | None = None, **values: object) -> str:
        phrase = self.phrases.get(f"{key}_one") if n == 1 else None
        if phrase is None:
            phrase = self.phrases[key]
        if n is not None:
            values["n"] = number(n)
        return phrase.format(**values) if values else phrase

    def section(self, name: str) -> dict[str, str]:
        """The phrases of one part of the page, as they stand, for the script to fill in."""
        start = f"{name}."
        return {key[len(start) :]: phrase for key, phrase in self.phrases.items() if key.startswith(start)}

    def duration(self, length: timedelta | float) -> str:
        """A length of time in its two largest units; below a second in milliseconds."""
        seconds = length.total_seconds() if isinstance(length, timedelta) else float(length)
        if 0 < seconds < 1:
            return self.milliseconds(round(seconds * 1000))
        return self._in_units(max(0, int(seconds)))

    def milliseconds(self, value: int) -> str:
        """A short time: `3 ms`, `1.2 s`, `2 min 5 s`."""
        if value < 1000:
            return self("unit.millisecond", value)
        if value < 10_000:
            return self("unit.second").format(n=f"{value // 100 / 10:g}")
        return self._in_units(value // 1000)

    def _in_units(self, seconds: int) -> str:
        parts: list[str] = []
        for unit, size in _UNITS:
            if seconds >= size or (unit == "second" and not parts):
                parts.append(self(f"unit.{unit}", seconds // size))
                seconds %= size
        # "1 h 0 min" says no more than "1 h"; the second unit is there only if it is not zero.
        return self("unit.join").join(parts[:2])


@cache
def words_in(language: str) -> Words:
    """The words of one of LANGUAGES."""
    text = resources.files(__package__).joinpath(f"{language}.toml").read_text(encoding="utf-8")
    return Words(language, dict(_flatten(tomllib.loads(text))))


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, str):
            yield prefix + key, value
        else:
            yield from _flatten(value, f"{prefix}{key}.")


def number(value: float) -> str:
    """Grouped by thousands; at most two decimals."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def exact_number(value: Number) -> str:
    """A count with all of its decimal places, grouped by thousands."""
    if isinstance(value, int):
        return number(value)
    whole, _, places = plain_text(abs(value)).partition(".")
    return f"{'-' if value < 0 else ''}{int(whole):,}.{places}"


def compact(value: Number) -> str:
    """Short enough for a cell of the grid: from 100,000 on three digits and a unit, cut and not rounded."""
    if value < 0:
        return "-" + compact(-value)
    if value < 100_000:
        return number(value) if isinstance(value, int) else _short_fraction(value)
    value = int(value)
    unit, size = next((unit, size) for unit, size in _LARGE if value >= size)
    whole = str(value // size)
    decimals = max(0, 3 - len(whole))
    return f"{whole}.{value * 10**decimals // size % 10**decimals:0{decimals}}{unit}" if decimals else whole + unit


def _short_fraction(value: float) -> str:
    """As many digits of it as the cell has room for: 12.34, 1,234, 0.05, 3e-05."""
    whole, _, places = plain_text(value).partition(".")
    room = max(0, 4 - len(whole))
    if value < 0.01:
        return f"{value:.0e}"
    return f"{int(whole):,}.{places[:room]}".rstrip("0").rstrip(".") if room else f"{int(whole):,}"


def percent(part: Completeness) -> str:
    """Two decimals, cut and not rounded: never 100% unless it is whole."""
    if part.stored >= part.expected:
        return "100%"
    hundredths = part.stored * 10_000 // part.expected
    return f"{hundredths // 100}.{hundredths % 100:02}%"


def choose_language(*wishes: str | None, accept_language: str = "") -> str:
    """The first wish that is one of LANGUAGES, else what the browser likes best, else English."""
    for wish in (*wishes, *_accepted(accept_language)):
        if wish is not None and wish.split("-")[0] in LANGUAGES:
            return wish.split("-")[0]
    return DEFAULT_LANGUAGE


def _accepted(header: str) -> list[str]:
    """The tags of an Accept-Language header, best first; whatever is malformed comes last."""
    tags = []
    for place, entry in enumerate(header[:500].split(",")):
        tag, _, quality = entry.partition(";q=")
        try:
            tags.append((-float(quality or 1), place, tag.strip().lower()))
        except ValueError:
            tags.append((0.0, place, tag.strip().lower()))
    return [tag for _, _, tag in sorted(tags)]
