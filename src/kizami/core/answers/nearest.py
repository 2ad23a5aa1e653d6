"""What is said of an answer that has something else than was looked for: its shape, key names and numbers (pure).

Other texts of an answer may be somebody's data or secret, and are not repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from kizami.core.answers.numbers import exact_text, read_exact
from kizami.core.slots import shorten

Path = tuple[str, ...]

_ARRAY_INDEX = re.compile(r"0|[1-9]\d{0,8}", re.ASCII)
_WORD = re.compile(r"[^\W_]+")
_LOOKED_AT = 100  # numbers of the answer
_ALIKE = 0.45  # at least; a name that stands one level deeper is like it
_DEPTH = 12
_KEYS = 6
_CHARACTERS = 80


def step_into(value: Any, step: str) -> Any:
    """What an object or an array has there, as a JSON pointer steps; KeyError if it has nothing."""
    if isinstance(value, dict):
        return value[step]
    if isinstance(value, list) and _ARRAY_INDEX.fullmatch(step) and int(step) < len(value):
        return value[int(step)]
    raise KeyError(step)


def path_text(path: Path) -> str:
    """The path as RFC 6901 writes it."""
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in path)


def quoted(text: str) -> str:
    """A path or a key on one line, cut short."""
    shown = text if text.isprintable() else ascii(text)[1:-1]
    return shown if len(shown) <= _CHARACTERS else shown[: _CHARACTERS - 1] + "…"


def json_words(value: Any) -> str:
    """What a value of an answer is, in JSON's words."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    number = read_exact(value)
    return shorten(value) if number is None else exact_text(number)


def said(value: Any) -> str:
    """The same, with a text that is a number kept apart from the number."""
    words = json_words(value)
    return f'"{words}"' if isinstance(value, str) and read_exact(value) is not None else words


def nearest(document: Any, wanted: Path) -> str:
    """What the answer has in place of what is missing: a number whose path has much the same words, else the keys
    where the way ends; beginning with `; `, or nothing where nothing is there."""
    words = _words(wanted)
    scored = ((_likeness(words, _words(path)), path, number) for path, number in _numbers(document))
    likeness, path, number = max(islice(scored, _LOOKED_AT), default=(0.0, (), 0), key=lambda each: each[0])
    if likeness >= _ALIKE:
        return f"; {quoted(path_text(path)) or 'the body'} is {json_words(number)}"
    return _what_is_there(document, wanted)


def _words(path: Path) -> list[str]:
    return [word.casefold() for step in path for word in _WORD.findall(step) if not word.isdecimal()]


def _likeness(wanted: list[str], found: list[str]) -> float:
    """1.0 for the same letters in the same order, else the share of words that both have."""
    if "".join(wanted) == "".join(found):
        return 1.0
    return 0.99 * len({*wanted} & {*found}) / max(len({*wanted} | {*found}), 1)


def _numbers(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every number of the answer with its path."""
    if read_exact(value) is not None:
        yield path, value
    if len(path) < _DEPTH and isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value[:2])
        for key, inner in pairs:
            yield from _numbers(inner, (*path, str(key)))


def _what_is_there(document: Any, wanted: Path) -> str:
    value, path = document, Path()
    for step in wanted:
        try:
            value, path = step_into(value, step), (*path, step)
        except KeyError:
            break
    place = quoted(path_text(path)) or "the answer"
    if isinstance(value, dict) and value:
        names = ", ".join(quoted(key) for key in islice(value, _KEYS))
        return f"; {place} has {names}{', …' if len(value) > _KEYS else ''}"
    if isinstance(value, list):
        return f"; {place} is an array of {len(value)}"
    if isinstance(value, dict):
        return f"; {place} is empty"
    return f"; {place if path else 'the whole body'} is {json_words(value)}"
