"""What is polled: a Target, and the `kizami.toml` that lists many of them (parsed here, read by the runtimes)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

from kizami.errors import ConfigurationError, InvalidInput
from kizami.slots import DEFAULT_INTERVAL_SECONDS, parse_duration, require_interval, shorten

DEFAULT_METRIC = "ai_response_count"
DEFAULT_PATH = "/response_count?from={from}&to={to}"
DEFAULT_TIMEOUT_SECONDS = 10.0
DEFAULT_CATCH_UP_SECONDS = 24 * 3600
MOCK_API_URL = "http://127.0.0.1:3000"

MAX_LAG_SECONDS = 3600
MAX_CATCH_UP_SECONDS = 31 * 86_400

_METRIC = re.compile(r"\w[\w.:/-]{0,127}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_REFERENCE = re.compile(r"(env|file|secretsmanager|ssm):(.+)", re.DOTALL)
_SECRET_WORD = re.compile(r"key|token|secret|passw|signature|auth|credential|session", re.IGNORECASE)
# Only these may stand in the file as they are: any other header might be somebody's secret.
_HARMLESS_HEADERS = frozenset({"accept", "accept-language", "user-agent", "cache-control", "content-type"})
_BRACES = re.compile(r"\{([^{}]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class SecretReference:
    """Where a secret is kept (`env:NAME`, `file:PATH`, `secretsmanager:ID`, `ssm:NAME`), never the secret."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class Target:
    """One polled API: what to ask, how often, and where the count stands in its answer.

    At tick t the window [t - lag, t - lag + interval) is asked for. `lag` below `interval` asks before
    the window has ended, so a real API can only give a partial count, which is then kept for ever.
    """

    name: str = DEFAULT_METRIC
    url: str = MOCK_API_URL
    path: str = DEFAULT_PATH
    interval_seconds: int = DEFAULT_INTERVAL_SECONDS
    lag_seconds: int = 0
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    count_pointer: tuple[str, ...] = ("count",)
    echoes_window: bool = True
    headers: Mapping[str, str | SecretReference] = field(default_factory=dict)
    enabled: bool = True
    catch_up_seconds: int = DEFAULT_CATCH_UP_SECONDS

    def __post_init__(self) -> None:
        require_metric(self.name, "name")
        require_base_url(self.url, "url")
        require_path(self.path)
        require_interval(self.interval_seconds)
        if self.lag_seconds % self.interval_seconds or not 0 <= self.lag_seconds <= MAX_LAG_SECONDS:
            raise InvalidInput(
                "lag",
                f"{self.lag_seconds} s is not a multiple of the interval ({self.interval_seconds} s) "
                f"from 0 to {MAX_LAG_SECONDS} s",
            )
        if not 0.1 <= self.timeout_seconds <= 300:
            raise InvalidInput("timeout", f"{self.timeout_seconds:g} s is not between 0.1 and 300 s")
        if self.catch_up_seconds > MAX_CATCH_UP_SECONDS:
            raise InvalidInput("catch_up", f"must be at most {MAX_CATCH_UP_SECONDS // 86_400}d")
        for name, value in self.headers.items():
            _require_header(name, value)

    @property
    def asks_too_early(self) -> bool:
        """Whether the window is asked for before it has ended (right for the mock API only)."""
        return self.lag_seconds < self.interval_seconds


def require_metric(name: object, place: str = "metric") -> str:
    """`name` if it can name a metric: letters of any script, digits and `_ . : / -`, at most 128."""
    if not isinstance(name, str) or not _METRIC.fullmatch(name):
        raise InvalidInput(
            place, f"{shorten(name)} is not a metric name (1 to 128 letters, digits or _ . : / -, no spaces)"
        )
    return name


def require_base_url(url: object, place: str = "url") -> SplitResult:
    """The parts of an absolute http(s) URL that carries no credentials and no fragment."""
    if not isinstance(url, str) or not url.isascii() or re.search(r"[\s\x00-\x20\x7f<>\"\\^`{}|]", url):
        raise InvalidInput(place, "must be an http:// or https:// URL in ASCII without spaces")
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise InvalidInput(place, "must be like https://api.example.com or http://127.0.0.1:3000")
    if parts.username is not None or parts.password is not None:
        raise InvalidInput(place, "must not contain a user or password; use headers with env:NAME or file:PATH")
    if parts.fragment:
        raise InvalidInput(place, "must not have a #fragment")
    _refuse_secret_query(parts.query, place)
    return parts


def require_path(path: object) -> str:
    """`path` if it is a template that names the window: it starts with `/` and has `{from}` and `{to}`."""
    if not isinstance(path, str) or not path.startswith("/") or not path.isascii():
        raise InvalidInput("path", f"{shorten(path)} must start with / and be ASCII; percent-encode the rest")
    if re.search(r"[\s\x00-\x20\x7f#]", path):
        raise InvalidInput("path", "must not contain spaces, control characters or #")
    names = [match[1] for match in _BRACES.finditer(path)]
    if sorted(names, key=str) != ["from", "to"]:
        raise InvalidInput(
            "path", f"{shorten(path)} must contain {{from}} and {{to}} once each and no other braces"
        )
    _refuse_secret_query(path.partition("?")[2], "path")
    return path


def _refuse_secret_query(query: str, place: str) -> None:
    for name, _ in parse_qsl(query, keep_blank_values=True):
        if _SECRET_WORD.search(name):
            raise InvalidInput(
                place,
                f"query parameter {shorten(name)} looks like a secret; send it as a header with env:NAME",
            )


def _require_header(name: str, value: str | SecretReference) -> None:
    place = f"headers.{name}" if _HEADER.fullmatch(name) else "headers"
    if place == "headers":
        raise InvalidInput(place, f"{shorten(name)} is not a header name")
    if name.lower() in ("host", "content-length", "transfer-encoding", "connection"):
        raise InvalidInput(place, "is set by kizami itself")
    if isinstance(value, SecretReference):
        return
    if name.lower() not in _HARMLESS_HEADERS:
        raise InvalidInput(
            place,
            "must be a reference (env:NAME, file:PATH, secretsmanager:ID or ssm:NAME), not the value itself",
        )
    if not value.isascii() or not value.isprintable():
        raise InvalidInput(place, "must be printable ASCII")


def parse_pointer(text: object, place: str = "count") -> tuple[str, ...]:
    """The steps of a JSON pointer (RFC 6901); a bare name such as `count` means `/count`."""
    if not isinstance(text, str) or not text:
        raise InvalidInput(place, f"{shorten(text)} must be a JSON pointer like /data/count")
    pointer = text if text.startswith("/") else "/" + text.replace("~", "~0").replace("/", "~1")
    steps = pointer.split("/")[1:]
    if any(re.search(r"~(?![01])", step) for step in steps):
        raise InvalidInput(place, f"{shorten(text)} has a ~ that is neither ~0 nor ~1")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)


def parse_config(text: str, place: str = "kizami.toml") -> Config:
    """The configuration that the TOML `text` states; every error names its place in the file."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigurationError(place, f"is not valid TOML: {error}") from None
    _refuse_unknown(document, ("targets",), place)
    entries = document.get("targets")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigurationError(place, "needs at least one [[targets]] table; `kizami init` writes an example")
    targets = tuple(_parse_target(entry, f"{place}: targets[{index}]") for index, entry in enumerate(entries))
    _refuse_repeated([target.name for target in targets], place)
    return Config(targets)


def _refuse_unknown(table: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
    for key in table:
        if key not in known:
            raise ConfigurationError(f"{place}: {key}", f"is not a setting; known: {', '.join(known)}")


def _refuse_repeated(names: list[str], place: str) -> None:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            raise ConfigurationError(f"{place}: targets[{index}].name", f"{shorten(name)} is used twice")
        seen.add(name)


def _parse_target(entry: Mapping[str, Any], place: str) -> Target:
    _refuse_unknown(entry, tuple(TARGET_SETTINGS), place)
    values: dict[str, Any] = {}
    try:
        for setting, value in entry.items():
            name, parse = TARGET_SETTINGS[setting]
            values[name] = parse(value)
        for required in ("name", "url"):
            if required not in values:
                raise InvalidInput(required, "is required")
        interval = require_interval(values.get("interval_seconds", DEFAULT_INTERVAL_SECONDS))
        values.setdefault("lag_seconds", interval)
        return Target(**values)
    except InvalidInput as error:
        raise ConfigurationError(f"{place}.{error.field}", error.problem) from None


def _text(setting: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if not isinstance(value, str):
            raise InvalidInput(setting, f"{shorten(value)} must be a string")
        return value

    return parse


def _flag(setting: str) -> Callable[[object], bool]:
    def parse(value: object) -> bool:
        if not isinstance(value, bool):
            raise InvalidInput(setting, f"{shorten(value)} must be true or false")
        return value

    return parse


def _seconds(setting: str) -> Callable[[object], int]:
    return lambda value: parse_duration(value, setting)


def _timeout(value: object) -> float:
    if isinstance(value, float):
        return value
    return float(parse_duration(value, "timeout"))


def parse_headers(value: object) -> dict[str, str | SecretReference]:
    """Header names to literal values or secret references, as the file writes them."""
    if not isinstance(value, dict):
        raise InvalidInput("headers", 'must be a table like { Authorization = "env:API_TOKEN" }')
    headers: dict[str, str | SecretReference] = {}
    for name, text in value.items():
        if not isinstance(text, str):
            raise InvalidInput(f"headers.{name}", "must be a string")
        match = _REFERENCE.fullmatch(text)
        headers[name] = SecretReference(match[1], match[2]) if match else text
    return headers


# What a [[targets]] table may say, the field it sets, and how it is read.
TARGET_SETTINGS: dict[str, tuple[str, Callable[[object], Any]]] = {
    "name": ("name", _text("name")),
    "url": ("url", _text("url")),
    "path": ("path", _text("path")),
    "interval": ("interval_seconds", _seconds("interval")),
    "lag": ("lag_seconds", _seconds("lag")),
    "timeout": ("timeout_seconds", _timeout),
    "count": ("count_pointer", parse_pointer),
    "echo": ("echoes_window", _flag("echo")),
    "headers": ("headers", parse_headers),
    "enabled": ("enabled", _flag("enabled")),
    "catch_up": ("catch_up_seconds", _seconds("catch_up")),
}
assert {name for name, _ in TARGET_SETTINGS.values()} == {entry.name for entry in fields(Target)}

SEED_TARGET = Target()


@dataclass(frozen=True, slots=True)
class Config:
    """What `kizami.toml` says."""

    targets: tuple[Target, ...] = (SEED_TARGET,)

    @property
    def enabled_targets(self) -> tuple[Target, ...]:
        return tuple(target for target in self.targets if target.enabled)

    def target(self, name: str) -> Target:
        """The target of that name, else ConfigurationError with the names there are."""
        for target in self.targets:
            if target.name == name:
                return target
        known = ", ".join(target.name for target in self.targets[:10])
        raise ConfigurationError("metric", f"{shorten(name)} is not a target; known: {known}")
