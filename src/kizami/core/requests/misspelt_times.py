"""What a placeholder that is none was meant to be, for the line that refuses it (pure)."""

from __future__ import annotations

import re
from difflib import get_close_matches

from kizami.core.requests.time_forms import NAMED_FORMS, is_form, names_zone, unknown_directive

_LOOSE = re.compile(
    r"\s*(?P<end>(?:from|to)(?=unix|iso|ms|ns)|[A-Za-z]+)\s*"
    r"(?:(?P<sign>[+-])\s*(?P<number>[0-9]{1,4})\s*(?P<unit>[A-Za-z]*))?"
    r"\s*[:._| -]?\s*(?P<form>.*?)\s*",
    re.DOTALL,
)
_ENDS = {
    **dict.fromkeys(("from", "form", "start", "begin", "since", "after", "gte"), "from"),
    **dict.fromkeys(("to", "end", "until", "till", "stop", "before", "lt"), "to"),
}
_FORMS = {
    **dict.fromkeys(("unix", "s", "sec", "seconds", "epoch", "timestamp", "ts"), "unix"),
    **dict.fromkeys(("ms", "millis", "milliseconds", "epoch_ms"), "unix_ms"),
    **dict.fromkeys(("ns", "nanos", "nanoseconds"), "unix_ns"),
    **dict.fromkeys(("iso", "iso8601", "rfc3339", "z", "utc"), ""),
}
_TOKYO = "{from+9h:%Y-%m-%dT%H:%M:%S+09:00}"
_LONGEST = 60  # nobody has misspelt as much


def meant(content: str) -> str | None:
    """The nearest placeholder to what stands between the braces; None if there is none near."""
    match = _LOOSE.fullmatch(content) if len(content) <= _LONGEST else None
    end = _end(match["end"].lower()) if match else None
    if match is None or end is None:
        return None
    shift = f"{match['sign']}{match['number']}{_unit(match['unit'])}" if match["number"] else ""
    form = _form(match["form"])
    return "{" + end + shift + (f":{form}" if form else "") + "}"


def in_zone(content: str) -> str | None:
    """How to write a time whose form names a time zone; None if it names none."""
    form = content.partition(":")[2]
    if not names_zone(form) or form.lower() in _FORMS:
        return None
    forms = ", ".join([*NAMED_FORMS, "or a pattern such as %Y-%m-%d"])
    return f"times are UTC: move them by the offset, as {_TOKYO}; forms are {forms}"


def _end(word: str) -> str | None:
    near = get_close_matches(word, ["from"], cutoff=0.6)
    return _ENDS.get(word) or (near[0] if near else None)


def _unit(word: str) -> str:
    return word[:1].lower() if word[:1].lower() in tuple("smhd") else "s"


def _form(text: str) -> str:
    if is_form(text) and text.isprintable() and not unknown_directive(text):
        return text
    word = text.lower().lstrip(":")
    near = get_close_matches(word, NAMED_FORMS, n=1, cutoff=0.5)
    return _FORMS[word] if word in _FORMS else near[0] if near else ""
