"""Where a request goes: what the base URL and the path template of a target may be (pure)."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, urlsplit

from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.slots import shorten

_SECRET_WORD = re.compile(
    r"key(?!word)|token|secret|passw|pwd|^sig$|signature|auth(?!or(?!i))|credential|session", re.IGNORECASE
)
_BRACES = re.compile(r"\{([^{}]*)\}|[{}]")
_NOT_IN_URL = re.compile(r"[\s\x00-\x20\x7f<>\"\\^`|#]|%(?![0-9A-Fa-f]{2})")
_HOST_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?", re.ASCII)


def require_base_url(url: object, place: str = "url") -> SplitResult:
    """The parts of an absolute http(s) URL without credentials and fragment; no refusal quotes it."""
    if not isinstance(url, str) or not url.isascii():
        raise InvalidInput(
            place, "must be a URL in ASCII; write other hosts as xn--…, and percent-encode the rest"
        )
    if _NOT_IN_URL.search(url) or _BRACES.search(url):
        raise InvalidInput(place, "must be a URL without spaces, #, braces and the like; percent-encode them")
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and _is_host(parts) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise InvalidInput(place, "must be like https://api.example.com or http://127.0.0.1:3000")
    if parts.username is not None:
        raise InvalidInput(place, "must not contain a user or password; use headers with env:NAME or file:PATH")
    _refuse_secret_query(parts.query, place)
    return parts


def configured_url(url: object, setting: str) -> str:
    """`url` if it can be a base URL, else ConfigurationError that names the setting."""
    try:
        require_base_url(url)
    except InvalidInput as error:
        raise ConfigurationError(setting, error.problem) from None
    return str(url)


def _is_host(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    if ":" in host:  # an IPv6 address, which urlsplit has checked; nothing but a port may follow its bracket
        return re.fullmatch(r"\[[^]]*\](:\d*)?", parts.netloc.rpartition("@")[2]) is not None
    labels = host.removesuffix(".").split(".")
    return "[" not in parts.netloc and len(host) <= 253 and all(map(_HOST_LABEL.fullmatch, labels))


def require_path(path: object) -> str:
    """`path` if it is a template that names the window: it starts with `/` and has `{from}` and `{to}`."""
    if not isinstance(path, str) or not path.startswith("/") or not path.isascii():
        raise InvalidInput("path", "must start with / and be ASCII; percent-encode the rest")
    if _NOT_IN_URL.search(path):
        raise InvalidInput("path", "must not contain spaces, # and the like; percent-encode them")
    names = [match[1] for match in _BRACES.finditer(path)]
    if sorted(names, key=str) != ["from", "to"]:
        raise InvalidInput("path", "must contain {from} and {to} once each and no other braces")
    _refuse_secret_query(path.partition("?")[2], "path")
    return path


def _refuse_secret_query(query: str, place: str) -> None:
    for name, _ in parse_qsl(query, keep_blank_values=True):
        if _SECRET_WORD.search(name):
            raise InvalidInput(
                place,
                f"query parameter {shorten(name)} looks like a secret; send it as a header with env:NAME",
            )
