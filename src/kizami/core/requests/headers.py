"""The headers of a target: which of them may stand in the file, and which only as a reference (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kizami.core.errors import InvalidInput
from kizami.core.targets.references import SecretReference, require_reference

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}", re.ASCII)
_HARMLESS = frozenset({"accept", "accept-language", "user-agent", "cache-control", "content-type"})
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})
# What such a header has is a secret, whatever it looks like; of the next ones it is if it looks like one.
_SECRET_NAME = re.compile(
    r"(key|token|secret|passw(or)?d|pwd|sig|signature|auth|authorization|credentials?|cookie|session(-?id)?|jwt)$",
    re.IGNORECASE,
)
_SECRET_WORD = re.compile(
    r"key(?!word)|token|secret|passw|pwd|signature|auth(?!or(?!i))|credential|session|cookie|jwt", re.IGNORECASE
)
_SCHEME = re.compile(r"(bearer|basic|digest|token|bot|negotiate|api-?key) +\S+", re.IGNORECASE)
_MISWRITTEN = re.compile(r"\s*(env|file|secretsmanager|ssm|vault)\s*:", re.IGNORECASE)
_RANDOM = re.compile(r"(?=\S*[0-9])(?=\S*[A-Za-z])\S{12,}|\S{20,}")
_CONSTANT = re.compile(r"[A-Z]+(_[A-Z]+)+", re.ASCII)  # PROGRAMMATIC_ACCESS_TOKEN says what kind it is


def require_headers(headers: Mapping[str, str | SecretReference]) -> None:
    """InvalidInput for a name that no header has, or has twice, and for a secret that is not a reference."""
    for name, value in headers.items():
        _require_header(name, value)
    if len({name.lower() for name in headers}) != len(headers):
        raise InvalidInput("headers", "has a name twice, in capital and small letters")


def is_secret_header(name: str) -> bool:
    """Whether the value of a header of that name is a secret, in a request or an answer."""
    return _SECRET_NAME.search(name) is not None


def _require_header(name: str, value: str | SecretReference) -> None:
    if not _NAME.fullmatch(name):  # not quoted: a whole "Name: value" may stand there
        raise InvalidInput("headers", "has a name that no header can have; use letters, digits and -")
    place = f"headers.{name}"
    if name.lower() in _OURS:
        raise InvalidInput(place, "is set by kizami itself")
    if isinstance(value, SecretReference):
        require_reference(value, place)
        return
    if name.lower() not in _HARMLESS and _may_be_secret(name, value):
        raise InvalidInput(
            place,
            "must be a reference (env:NAME, file:PATH, secretsmanager:ID or ssm:NAME), not the value itself",
        )
    if not value.isascii() or not value.isprintable():
        raise InvalidInput(place, "must be printable ASCII")


def _may_be_secret(name: str, value: str) -> bool:
    if _SCHEME.fullmatch(value.strip()) or _MISWRITTEN.match(value):
        return True
    if is_secret_header(name):
        return True
    looks_random = _RANDOM.search(value) is not None and not _CONSTANT.fullmatch(value)
    return looks_random and _SECRET_WORD.search(name) is not None
