"""A query's text as tokens, with the next one always in sight (pure)."""

from __future__ import annotations

import math
import re

from kizami.core.errors import InvalidInput
from kizami.core.slots import shorten

_UNIT_MS = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
    "y": 31_536_000_000,
}
_DURATION = r"(?:\d+(?:ms|[smhdwy]))+"
_TOKEN = re.compile(
    rf"""\s*(?:
      (?P<duration>{_DURATION})(?![\w:])
    | (?P<number>0x[0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|(?i:inf|nan)(?![\w:]))
    | (?P<name>[a-zA-Z_:][\w:]*)
    | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)
    | (?P<operator>=~|!~|!=|==|>=|<=|[-+*/%^(){{}}\[\],=<>])
    )""",
    re.VERBOSE | re.ASCII,
)
# What stands between brackets: [5m], or [1h:5m] and [1h:] of a subquery.
_RANGE = re.compile(rf"\s*({_DURATION})\s*(?:(:)\s*({_DURATION})?\s*)?\]", re.ASCII)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}


def parse_promql_duration(text: str, field: str = "query") -> int:
    """Milliseconds of `5m` or `1h30m`."""
    if not re.fullmatch(_DURATION, text, re.ASCII) or len(text) > 30:
        raise InvalidInput(field, f"{shorten(text)} is not a duration like 30s, 5m or 1h30m")
    return sum(int(number) * _UNIT_MS[unit] for number, unit in re.findall(r"(\d+)(ms|[smhdwy])", text))


class Tokens:
    """The tokens of a text; `kind` and `text` are those of the next one, both empty at the end."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._position = 0
        self.kind, self.text = "", ""
        self._advance()

    def is_next(self, *texts: str) -> bool:
        """Whether the next one is any of these, and no quoted text."""
        return self.kind != "string" and self.text in texts

    def take(self) -> str:
        """The next one, which is then behind."""
        token = self.text
        self._advance()
        return token

    def expect(self, token: str) -> None:
        """The next one must be this."""
        if not self.is_next(token):
            raise self.fault(f"should be {token}")
        self.take()

    def take_name(self) -> str:
        """The next one must be a name."""
        if self.kind != "name":
            raise self.fault("should be a name")
        return self.take()

    def take_duration(self) -> int:
        """The next one must be a duration; in milliseconds."""
        if self.kind != "duration":
            raise self.fault("should be a duration like 5m")
        return parse_promql_duration(self.take())

    def take_range(self) -> tuple[int, int | None, bool]:
        """What stands in the brackets of which the first is next: range, step, and whether there is a colon."""
        match = _RANGE.match(self._source, self._position)
        if match is None:
            self.take()
            raise self.fault("should be a duration like 5m, or 1h:5m, and then ]")
        range_ms = parse_promql_duration(match[1])
        step_ms = parse_promql_duration(match[3]) if match[3] else None
        if not range_ms or step_ms == 0:
            raise InvalidInput("query", "a range must be longer than nothing")
        self._position = match.end()
        self._advance()
        return range_ms, step_ms, bool(match[2])

    def fault(self, problem: str) -> InvalidInput:
        """What is wrong with the next one, and where that is."""
        found = shorten(self.text, 30) if self.kind else "the end"
        return InvalidInput("query", f"{found} before character {self._position + 1} {problem}")

    def _advance(self) -> None:
        match = _TOKEN.match(self._source, self._position)
        if match is not None and match.lastgroup is not None:
            self.kind, self.text = match.lastgroup, match[match.lastgroup]
            self._position = match.end()
        elif rest := self._source[self._position :].strip():
            raise InvalidInput("query", f"{shorten(rest, 30)} is not understood")
        else:
            self.kind, self.text = "", ""


def number_of(text: str) -> float:
    """The number that a token writes."""
    try:
        return float(int(text, 16)) if text.startswith("0x") else float(text)
    except OverflowError:
        return math.inf


def unquoted(text: str) -> str:
    """The text that a quoted token writes."""
    if text.startswith("`"):
        return text[1:-1]
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), text[1:-1])
