"""Suggestions for names that are not known: settings, tables, verbs, recipes, metrics (pure)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from kizami.core.errors import ConfigurationError
from kizami.core.slots import shorten

HEAD_SETTINGS = ("public_url", "language", "heartbeat", "keep", "keep_totals")

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]{1,60}", re.ASCII)
_ALIKE = 0.65  # ulr and url are; nosuch and couchdb are not
_LONGEST = 100
_HEAD = "stands at the head of the file, before the first table"


def near_names(name: str, known: Collection[str], most: int = 1) -> str:
    """`did you mean url?`, or nothing if no known name is like it."""
    from difflib import get_close_matches  # only a mistake needs it

    plain = {_folded(each): each for each in known}
    near = get_close_matches(_folded(name[:_LONGEST]), plain, most, _ALIKE)
    return f"did you mean {', '.join(plain[each] for each in near)}?" if near else ""


def _folded(name: str) -> str:
    return name.casefold().replace("-", "_").strip("[]")


def unknown_setting(name: str, known: Collection[str]) -> str:
    """What is wrong with a setting of that name, and which one was probably meant."""
    if name in HEAD_SETTINGS:
        return _HEAD
    return f"is not a setting; {near_names(name, known) or 'known: ' + ', '.join(known)}"


def unknown_zone(name: object, zones: Collection[str]) -> str:
    """What is wrong with the name of a time zone that there is not, and which one was probably meant."""
    wanted = name.casefold() if isinstance(name, str) else "?"
    cities = [each for each in sorted(zones) if each.casefold().endswith(f"/{wanted}")]
    near = near_names(cities[0] if cities else wanted, [each for each in zones if "/" in each])
    return f"{shorten(name)} is not a time zone{f'; {near}' if near else ' like Asia/Tokyo, Europe/Berlin or UTC'}"


def refuse_unknown(table: Mapping[str, Any], known: Collection[str], place: str) -> None:
    """ConfigurationError for a key of the table that is not a setting."""
    for key in table:
        if key not in known:
            raise ConfigurationError(f"{place}: {shown_key(key)}", unknown_setting(key, known))


def shown_key(name: str) -> str:
    """A key of the file as an error quotes it."""
    return name if _BARE_KEY.fullmatch(name) else shorten(name)
