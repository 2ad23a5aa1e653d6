"""Where a request goes: what the URL and the path of a target may be, and how they are joined (pure)."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.requests.secret_names import is_secret_name, secret_in_url, secret_remedy

_BRACES = re.compile(r"\{([^{}]*)\}|[{}]")
_NOT_IN_URL = re.compile(r"[\s\x00-\x20\x7f<>\"\\^`|#]|%(?![0-9A-Fa-f]{2})")
_HOST_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?", re.ASCII)


def require_base_url(url: object, place: str = "url") -> SplitResult:
    """The parts of an absolute http(s) URL without secrets and fragment; no refusal quotes it."""
    parts = require_url(url, place)
    if parts.username is not None:
        raise InvalidInput(place, "must not contain a user or password; use headers with env:NAME or file:PATH")
    _refuse_secret_query(parts.query, place)
    _refuse_secret(parts, place)
    return parts


def require_url(url: object, place: str) -> SplitResult:
    """The parts of an absolute http(s) URL without a fragment, which may have secrets; no refusal quotes it."""
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


def require_target_url(url: object) -> None:
    """InvalidInput if it is no base URL, but for times in its path and query."""
    if not isinstance(url, str) or "{" not in url:
        _require_query_characters(url, "url")
        require_base_url(url)
        return
    neutral = _without_times(url, "url")
    if "{" in re.split("[/?]", url.partition("://")[2], maxsplit=1)[0]:
        raise InvalidInput("url", "must not have a time in its host; use one in the path, query or body")
    _require_query_characters(neutral, "url")
    require_base_url(neutral)


def require_path(path: object) -> str:
    """`path` if it is empty, or a path in which times are the only braces."""
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise InvalidInput("path", "must start with / and be ASCII; percent-encode the rest")
    neutral = _without_times(path, "path")
    if not neutral.isascii():
        raise InvalidInput("path", "must start with / and be ASCII; percent-encode the rest")
    _require_query_characters(neutral, "path")
    if _NOT_IN_URL.search(neutral):
        raise InvalidInput("path", "must not contain spaces, # and the like; percent-encode them")
    _refuse_secret_query(neutral.partition("?")[2], "path")
    _refuse_secret(urlsplit(f"http://host{neutral}"), "path")
    return path


def is_plain(text: str) -> bool:
    """Whether its times, if it has any, are `{from}` and `{to}` as they are."""
    return "{" not in text.replace("{from}", "").replace("{to}", "")


def join_url(base: SplitResult, path: str) -> str:
    """A base URL and a path; the query of the first stays in front of that of the second."""
    path, _, query = path.partition("?")
    full_path = (base.path.rstrip("/") + path if path else base.path) or "/"
    full_query = "&".join(part for part in (base.query, query) if part)
    return urlunsplit((base.scheme, base.netloc, full_path, full_query, ""))


def _without_times(text: str, place: str) -> str:
    """The text with a digit in place of each time."""
    neutral = text.replace("{from}", "0").replace("{to}", "0")
    if not _BRACES.search(neutral):
        return neutral
    from kizami.core.requests.templates import read_url  # the seeds' one target never needs it

    return "".join(part if isinstance(part, str) else "0" for part in read_url(text, place).parts)


def _require_query_characters(text: object, place: str) -> None:
    query = text.partition("?")[2] if isinstance(text, str) else ""
    if not query.isascii() or _NOT_IN_URL.search(query):
        raise InvalidInput(
            place, 'has a query that must be percent-encoded; or write it as query = { name = "value" }'
        )


def _refuse_secret(parts: SplitResult, place: str) -> None:
    if secret := secret_in_url(parts):
        raise InvalidInput(place, f"has {secret} in it; only headers, query and auth can have one, as env:NAME")


def _refuse_secret_query(query: str, place: str) -> None:
    for name, _ in parse_qsl(query, keep_blank_values=True):
        if is_secret_name(name):
            raise InvalidInput(place, f"query parameter {name} is a secret; {secret_remedy(name)} instead")
