"""Which targets a rule or a window is about: names, with `*` for any characters (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from kizami.backend.name_patterns import compile_names
from kizami.core.errors import InvalidInput
from kizami.core.slots import shorten

EVERYTHING = ("*",)


def parse_patterns(value: object, place: str) -> tuple[str, ...]:
    """A list of names and patterns, at least one."""
    if not isinstance(value, list) or not value:
        raise InvalidInput(place, 'must be a list like ["chat/*", "orders"]')
    for pattern in value:
        if not isinstance(pattern, str) or not pattern:
            raise InvalidInput(
                place, f'{shorten(pattern)} is not the name of a target, or a pattern like "chat/*"'
            )
    return tuple(value)


def matches(patterns: Sequence[str], name: str) -> bool:
    """Whether any of them is about the target of that name."""
    return any(compile_names(pattern).fullmatch(name) for pattern in patterns)
