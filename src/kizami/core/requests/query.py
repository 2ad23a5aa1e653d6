"""The `query` table of a target: what its parameters may be, and how they stand in the URL (pure)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote

from kizami.core.errors import InvalidInput
from kizami.core.requests.secret_names import is_secret_name, secret_remedy
from kizami.core.slots import shorten
from kizami.core.targets.references import SecretReference, read_reference, require_reference

# A parameter is repeated for each of its values.
Query = Mapping[str, tuple[str | SecretReference, ...]]
SecretQuery = tuple[tuple[str, SecretReference], ...]


def parse_query(value: object) -> dict[str, tuple[str | SecretReference, ...]]:
    """Parameter names to texts and secret references, as the file writes them."""
    if not isinstance(value, dict):
        raise InvalidInput("query", 'must be a table like { start = "{from:unix}", key = "env:API_KEY" }')
    return {name: tuple(_read_values(given, query_place(name))) for name, given in value.items()}


def query_place(name: str) -> str:
    """Where a parameter stands, as an error names it."""
    return f"query.{name if name.isascii() and name.isidentifier() else shorten(name)}"


def require_query(query: Query) -> None:
    """InvalidInput if a parameter has no name or no value, or has a secret that is not a reference."""
    for name, values in query.items():
        place = query_place(name)
        if not name or not name.isprintable():
            raise InvalidInput(place, "must have a name without control characters")
        if not values:
            raise InvalidInput(place, "must have at least one value")
        for value in values:
            if isinstance(value, SecretReference):
                require_reference(value, place)
            elif is_secret_name(name):
                raise InvalidInput(place, f"is a secret; {secret_remedy(name)}, not the value itself")


def secret_query(query: Query) -> SecretQuery:
    """The parameters whose values are kept elsewhere; they are sent last."""
    return tuple((name, value) for name, value in _pairs(query) if isinstance(value, SecretReference))


def literal_query(query: Query) -> list[tuple[str, str]]:
    """The parameters that stand in the file, in its order."""
    return [(name, value) for name, value in _pairs(query) if isinstance(value, str)]


def encode(text: str) -> str:
    """A name or a value, as a query has it."""
    return quote(text, safe="")


def encode_query(parameters: Iterable[tuple[str, str]]) -> str:
    """The parameters, as a query has them."""
    return "&".join(f"{encode(name)}={encode(value)}" for name, value in parameters)


def add_query(url: str, query: str) -> str:
    """The URL with more parameters at its end."""
    return f"{url}{'&' if '?' in url else '?'}{query}" if query else url


def _pairs(query: Query) -> Iterator[tuple[str, str | SecretReference]]:
    return ((name, value) for name, values in query.items() for value in values)


def _read_values(given: object, place: str) -> Iterator[str | SecretReference]:
    for value in given if isinstance(given, list) else [given]:
        if isinstance(value, str):
            yield read_reference(value) or value
        elif isinstance(value, bool):
            yield "true" if value else "false"
        elif isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
            yield str(value)
        else:
            raise InvalidInput(place, "must be a string, a number, true or false, or an array of those")
