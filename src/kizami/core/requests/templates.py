"""Texts with times of the window in them, `{from}` or `{to-1s:unix}`: read once, filled in often (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

from kizami.core.errors import InvalidInput
from kizami.core.requests.time_forms import DIRECTIVES, is_form, names_zone, unknown_directive, write_instant
from kizami.core.slots import Window, shift

MAX_SHIFT_SECONDS = 3660 * 86_400
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

_TIME = re.compile(r"(from|to)(?:([+-][0-9]{1,9})([smhd]))?(?::(.+))?", re.DOTALL)
# In a text of any kind, {topic="a"} and {totalCount} are no times; {to unix} and {to_unix} were meant to be some.
_END = r"(?:from|to)(?:(?!\w)|(?=_?(?:unix|iso|ms|ns|[0-9])\w*\}))"
_IN_TEXT = re.compile(rf"\{{\{{({_END}[^{{}}]*)\}}\}}|\{{({_END}[^{{}}]*)(\}})?")
_IN_URL = re.compile(r"\{([^{}]*)\}|[{}]")
_SHOWN = re.compile(r"[\w+:%. -]{1,40}|(?:from|to):[\w+:%./ -]{1,60}", re.ASCII)


@dataclass(frozen=True, slots=True)
class WindowTime:
    """An end of the window (`from` or `to`), moved by a shift, in a form ("" is ISO 8601)."""

    end: str
    shift_seconds: int = 0
    form: str = ""

    def __str__(self) -> str:
        moved = f"{self.shift_seconds:+}s" if self.shift_seconds else ""
        return "{" + self.end + moved + (f":{self.form}" if self.form else "") + "}"


@dataclass(frozen=True, slots=True)
class Template:
    """A text with times in it; in a URL they are percent-encoded."""

    parts: tuple[str | WindowTime, ...]
    in_url: bool = False

    @property
    def has_time(self) -> bool:
        return any(isinstance(part, WindowTime) for part in self.parts)

    def fill(self, window: Window) -> str:
        """The text for that window."""
        write = write_encoded if self.in_url else write_time
        return "".join([part if isinstance(part, str) else write(part, window) for part in self.parts])


@lru_cache(maxsize=4096)  # thousands of targets share the few windows of the moment, and their forms
def write_time(time: WindowTime, window: Window) -> str:
    """The time, as the request has it."""
    return write_instant(shift(window.start if time.end == "from" else window.end, time.shift_seconds), time.form)


@lru_cache(maxsize=4096)
def write_encoded(time: WindowTime, window: Window) -> str:
    """The time, as a URL has it; the slashes of a pattern stay."""
    return quote(write_time(time, window))


def read_text(text: str, place: str) -> Template:
    """A text of any kind: what is no time is literal, and `{{from}}` is a literal `{from}`."""
    return Template(tuple(_merged(_parts_of_text(text, place))))


def read_url(text: str, place: str) -> Template:
    """A text that has no braces but those of times."""
    return Template(tuple(_merged(_parts_of_url(text, place))), in_url=True)


def _parts_of_text(text: str, place: str) -> Iterator[str | WindowTime]:
    at = 0
    for match in _IN_TEXT.finditer(text):
        yield text[at : match.start()]
        at = match.end()
        escaped, content, closed = match.groups()
        if escaped is not None:
            yield "{" + escaped + "}"
        elif closed:
            yield _time(content, place, in_url=False)
        else:
            raise InvalidInput(place, "has a time without its closing brace; or write a space: { from …")
    yield text[at:]


def _parts_of_url(text: str, place: str) -> Iterator[str | WindowTime]:
    at = 0
    for match in _IN_URL.finditer(text):
        yield text[at : match.start()]
        at = match.end()
        yield _time(match[1] or "", place, in_url=True)
    yield text[at:]


def _merged(parts: Iterator[str | WindowTime]) -> Iterator[str | WindowTime]:
    literal = ""
    for part in parts:
        if isinstance(part, str):
            literal += part
            continue
        if literal:
            yield literal
        literal = ""
        yield part
    if literal:
        yield literal


def _time(content: str, place: str, *, in_url: bool) -> WindowTime:
    match = _TIME.fullmatch(content)
    end, number, unit, form = match.groups() if match else ("", None, None, None)
    if not end or (form is not None and (not is_form(form) or names_zone(form))):
        raise InvalidInput(place, _no_time(content, in_url=in_url))
    if unknown := unknown_directive(form or ""):
        known = " ".join(f"%{letter}" for letter in DIRECTIVES)
        raise InvalidInput(
            place, f"{_shown(content)} has {ascii(unknown)[1:-1]}, which is no part of a time; use {known}"
        )
    seconds = int(number or 0) * UNITS[unit or "s"]
    if abs(seconds) > MAX_SHIFT_SECONDS:
        raise InvalidInput(place, f"{_shown(content)} is moved by more than {MAX_SHIFT_SECONDS // 86_400}d")
    return WindowTime(end, seconds, form or "")


def _no_time(content: str, *, in_url: bool) -> str:
    from kizami.core.requests.misspelt_times import in_zone, meant  # only a mistake needs it

    if utc := in_zone(content):
        return f"{_shown(content)} names a time zone; {utc}"
    instead = f"write {meant(content) or '{from} or {to}, like {from:unix} or {to-1s}'}"
    literally = "%7B and %7D for other braces" if in_url else "{{from}} for a literal {from}"
    if in_url and not _SHOWN.fullmatch(content):  # a language of queries, as that of Prometheus
        literally += ', or the query as query = { name = "value" }'
    return f"{_shown(content)} is no time of the window; {instead}, or {literally}"


def _shown(content: str) -> str:
    """Not what is no placeholder at all: a secret may stand in it."""
    return "{" + content + "}" if _SHOWN.fullmatch(content) else "a brace"
