"""What is polled: a Target, its checks, and the references in place of its secrets (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kizami.core.errors import InvalidInput
from kizami.core.slots import DEFAULT_INTERVAL_SECONDS, require_interval, shorten
from kizami.core.targets.urls import require_base_url, require_path

DEFAULT_METRIC = "ai_response_count"
DEFAULT_PATH = "/response_count?from={from}&to={to}"
DEFAULT_TIMEOUT_SECONDS = 10.0
DEFAULT_CATCH_UP_SECONDS = 24 * 3600
MOCK_API_URL = "http://127.0.0.1:3000"

MAX_LAG_SECONDS = 3600
MAX_CATCH_UP_SECONDS = 31 * 86_400

_METRIC = re.compile(r"\w[\w.:/-]{0,127}", re.ASCII)
_SEPARATORS = str.maketrans(".:/-", "____")
# Fillers and selectors that Unicode counts among the parts of a word although they show nothing.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# Only these may stand in the file as they are: any other header might be somebody's secret.
_HARMLESS_HEADERS = frozenset({"accept", "accept-language", "user-agent", "cache-control", "content-type"})


@dataclass(frozen=True, slots=True)
class SecretReference:
    """Where a secret is kept (`env:NAME`, `file:PATH`, `secretsmanager:ID`, `ssm:NAME`), never the secret."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class Timed(Protocol):
    """What the plan and coverage ask of a target; a store's memory of a former one has it too."""

    @property
    def name(self) -> str: ...
    @property
    def interval_seconds(self) -> int: ...
    @property
    def lag_seconds(self) -> int: ...


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
    headers: Mapping[str, str | SecretReference] = field(default_factory=dict, hash=False)
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
        if not 0 <= self.catch_up_seconds <= MAX_CATCH_UP_SECONDS:
            raise InvalidInput("catch_up", f"must be from 0 (off) to {MAX_CATCH_UP_SECONDS // 86_400}d")
        if 0 < self.catch_up_seconds <= self.lag_seconds:
            raise InvalidInput("catch_up", "must be longer than lag (no slot is due before), or 0 for off")
        for name, value in self.headers.items():
            _require_header(name, value)
        if len({name.lower() for name in self.headers}) != len(self.headers):
            raise InvalidInput("headers", "has a name twice, in capital and small letters")

    @property
    def asks_too_early(self) -> bool:
        """Whether the window is asked for before it has ended (right for the mock API only)."""
        return self.lag_seconds < self.interval_seconds

    @property
    def is_mock(self) -> bool:
        """Whether it is the mock API where `kizami up` and `kizami mock` serve it."""
        return self.url.rstrip("/") in (MOCK_API_URL, MOCK_API_URL.replace("127.0.0.1", "localhost"))

    @property
    def timing_problem(self) -> str | None:
        """What is wrong with asking a real API too early, and what to write instead; None if all is well."""
        if not self.asks_too_early or self.is_mock:
            return None
        return (
            f"{self.name}: lag {self.lag_seconds}s is shorter than the interval, so a window is asked for before "
            f'it has ended and its count stays partial; set lag = "{self.interval_seconds}s" or more'
        )


def require_metric(name: object, place: str = "metric") -> str:
    """`name` if it can name a metric: letters of any script, digits and `_ . : / -`, at most 128."""
    if not isinstance(name, str) or not (_METRIC.fullmatch(name) or _is_unicode_metric(name)):
        raise InvalidInput(
            place, f"{shorten(name)} is not a metric name (1 to 128 letters, digits or _ . : / -, no spaces)"
        )
    if not name.isascii():
        _refuse_look_alike(name, place)
    return name


def _is_unicode_metric(name: str) -> bool:
    # A word of any script, by the rule that Python's identifiers follow (UAX 31), with our separators.
    return 0 < len(name) <= 128 and name[0].isalnum() and ("_" + name.translate(_SEPARATORS)).isidentifier()


def _refuse_look_alike(name: str, place: str) -> None:
    import unicodedata  # here, because hardly any name needs it and a Lambda's start does

    normal = unicodedata.normalize("NFC", name)
    if normal != name:
        raise InvalidInput(place, f"{ascii(name)[:60]} must be written as {shorten(normal)} (Unicode form NFC)")
    if _INVISIBLE.search(name):
        raise InvalidInput(place, f"{ascii(name)[:60]} has an invisible character")


def _require_header(name: str, value: str | SecretReference) -> None:
    if not _HEADER.fullmatch(name):  # not quoted: a whole "Name: value" may stand there
        raise InvalidInput("headers", "has a name that no header can have; use letters, digits and -")
    place = f"headers.{name}"
    if name.lower() in ("host", "content-length", "transfer-encoding", "connection"):
        raise InvalidInput(place, "is set by kizami itself")
    if isinstance(value, SecretReference):
        require_reference(value, place)
        return
    if name.lower() not in _HARMLESS_HEADERS:
        raise InvalidInput(
            place,
            "must be a reference (env:NAME, file:PATH, secretsmanager:ID or ssm:NAME), not the value itself",
        )
    if not value.isascii() or not value.isprintable():
        raise InvalidInput(place, "must be printable ASCII")


def require_reference(reference: SecretReference, place: str) -> None:
    """InvalidInput if nothing can be kept there; not quoted, for the secret itself may stand behind the colon."""
    if reference.kind == "env" and not _VARIABLE.fullmatch(reference.name):
        raise InvalidInput(place, "must name a variable after env: (letters, digits and _)")
    if not reference.name.isprintable():
        raise InvalidInput(place, f"must not have control characters after {reference.kind}:")


SEED_TARGET = Target()
