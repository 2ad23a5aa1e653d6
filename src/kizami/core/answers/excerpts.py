"""What a person is shown of an answer: JSON indented and cut, the beginning of anything else, no secret (pure)."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any

from kizami.core.redaction import KNOWN

EXCERPT_CHARACTERS = 200
HIDDEN_MARK = "••••"

_LOOKED_AT = 16_384  # bytes of a body, characters of a text in it
_ELEMENTS = 3  # of an array
_KEYS = 30
_DEPTH = 12
_TEXT_CHARACTERS = 120
_LINES = 60
_MARKUP = re.compile(r"(?is)<(script|style|svg|noscript)\b.*?(</\1\s*>|$)|<!--.*?(-->|$)|<[!/?a-z][^>]*(>|$)")
_IS_MARKUP = re.compile(r"(?i)\s*<(!doctype|html|\?xml|head|body)")
_MORE = re.compile(r'(?m)^(\s*)"(… [\d,]+ more)"(: "")?')


def hidden(text: str) -> str:
    """One line for a terminal: without secrets, and with nothing that would be obeyed instead of shown."""
    return shown(KNOWN.hide(text[:_LOOKED_AT], HIDDEN_MARK))


def shown(text: str) -> str:
    """The text with escapes in place of what cannot be printed."""
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]


def excerpt(body: bytes) -> str:
    """The first 200 characters on one line; of a page, what a browser would show of it."""
    text = body[:_LOOKED_AT].decode("utf-8", "replace").removeprefix("\ufeff")
    if _IS_MARKUP.match(text):
        text = _MARKUP.sub(" ", text)
    line = hidden(" ".join(text.split()))
    return line if len(line) <= EXCERPT_CHARACTERS else line[: EXCERPT_CHARACTERS - 1] + "…"


def pretty_lines(document: Any) -> list[str]:
    """A JSON document indented, long arrays, texts and all that is too deep cut short."""
    text = json.dumps(_cut(document, 0), ensure_ascii=False, indent=2)
    lines = [hidden(line) for line in _MORE.sub(r"\1\2", text).splitlines()]
    return [*lines[:_LINES], f"… {len(lines) - _LINES:,} more lines"] if len(lines) > _LINES else lines


def _cut(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        text = KNOWN.hide(value[:_LOOKED_AT], HIDDEN_MARK)
        return text if len(text) <= _TEXT_CHARACTERS else text[: _TEXT_CHARACTERS - 1] + "…"
    if not isinstance(value, dict | list) or not value:
        return value
    if depth == _DEPTH:
        return "…"
    if isinstance(value, list):
        return [_cut(each, depth + 1) for each in value[:_ELEMENTS]] + _more(len(value) - _ELEMENTS)
    pairs = ((_cut(key, depth), _cut(each, depth + 1)) for key, each in islice(value.items(), _KEYS))
    return dict(pairs) | dict.fromkeys(_more(len(value) - _KEYS), "")


def _more(number: int) -> list[str]:
    return [f"… {number:,} more"] if number > 0 else []
