"""What is polled: a Target, and the `kizami.toml` that lists many of them (parsed here, read by the runtimes)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Protocol

from kizami.errors import ConfigurationError, InvalidInput
from kizami.slots import DEFAULT_INTERVAL_SECONDS, parse_duration, require_interval, shorten
from kizami.urls import require_base_url, require_path

if TYPE_CHECKING:
    from kizami.aggregation.schedule import AggregationSchedule

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
_REFERENCE = re.compile(r"(env|file|secretsmanager|ssm):(.+)", re.DOTALL)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# Only these may stand in the file as they are: any other header might be somebody's secret.
_HARMLESS_HEADERS = frozenset({"accept", "accept-language", "user-agent", "cache-control", "content-type"})
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]{1,60}", re.ASCII)


@dataclass(frozen=True, slots=True)
class SecretReference:
    """Where a secret is kept (`env:NAME`, `file:PATH`, `secretsmanager:ID`, `ssm:NAME`), never the secret."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class Paced(Protocol):
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
        _require_reference(value, place)
        return
    if name.lower() not in _HARMLESS_HEADERS:
        raise InvalidInput(
            place,
            "must be a reference (env:NAME, file:PATH, secretsmanager:ID or ssm:NAME), not the value itself",
        )
    if not value.isascii() or not value.isprintable():
        raise InvalidInput(place, "must be printable ASCII")


def _require_reference(reference: SecretReference, place: str) -> None:
    # Not quoted either: the secret itself may have been put behind the colon.
    if reference.kind == "env" and not _VARIABLE.fullmatch(reference.name):
        raise InvalidInput(place, "must name a variable after env: (letters, digits and _)")
    if not reference.name.isprintable():
        raise InvalidInput(place, f"must not have control characters after {reference.kind}:")


def parse_pointer(text: object, place: str = "count") -> tuple[str, ...]:
    """The steps of a JSON pointer (RFC 6901); a bare name such as `count` means `/count`."""
    if not isinstance(text, str) or not re.fullmatch(r"/.*|[^/~]+", text) or not text.isprintable():
        raise InvalidInput(place, f"{shorten(text)} must be a JSON pointer like /data/count")
    steps = text.removeprefix("/").split("/")
    if any(re.search(r"~(?![01])", step) for step in steps):
        raise InvalidInput(place, f"{shorten(text)} has a ~ that is neither ~0 nor ~1")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)


def parse_config(text: str, place: str = "kizami.toml") -> Config:
    """The configuration that the TOML `text` states; every error names its place in the file."""
    document = _load_toml(text, place)
    refuse_unknown(document, ("targets", "aggregation"), place)
    entries = document.get("targets")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigurationError(place, "needs at least one [[targets]] table; `kizami init` writes an example")
    targets = tuple(_parse_target(entry, f"{place}: targets[{index}]") for index, entry in enumerate(entries))
    _refuse_repeated([target.name for target in targets], place)
    return Config(targets, _parse_aggregation(document, place))


def _parse_aggregation(document: Mapping[str, Any], place: str) -> AggregationSchedule | None:
    if "aggregation" not in document:
        return None
    from kizami.aggregation.schedule import parse_schedule  # it knows this module, and no Lambda needs it

    return parse_schedule(document["aggregation"], f"{place}: aggregation")


def _load_toml(text: str, place: str) -> dict[str, Any]:
    import tomllib  # here, because no Lambda reads the file and each one's start is measured

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # The place stands at the end; what comes before may quote a key of any length.
        raise ConfigurationError(place, f"is not valid TOML: {str(error)[-200:]}") from None
    except RecursionError:
        raise ConfigurationError(place, "is nested too deeply") from None
    except ValueError:  # what int() says of a number with thousands of digits is about Python
        raise ConfigurationError(place, "has a number with too many digits") from None


def refuse_unknown(table: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
    """ConfigurationError for a key of the table that is no setting."""
    for key in table:
        if key not in known:
            raise ConfigurationError(f"{place}: {_key(key)}", f"is not a setting; known: {', '.join(known)}")


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else shorten(name)


def _refuse_repeated(names: list[str], place: str) -> None:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            raise ConfigurationError(f"{place}: targets[{index}].name", f"{shorten(name)} is used twice")
        seen.add(name)


def _parse_target(entry: Mapping[str, Any], place: str) -> Target:
    refuse_unknown(entry, tuple(TARGET_SETTINGS), place)
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
            raise InvalidInput(setting, "must be a string")
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


def parse_reference(value: object, place: str) -> SecretReference:
    """The place of a secret; the secret itself, written there by mistake, is not quoted."""
    match = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise InvalidInput(place, "must be a reference like env:NAME or file:PATH, not the value itself")
    reference = SecretReference(match[1], match[2])
    _require_reference(reference, place)
    return reference


def parse_headers(value: object) -> dict[str, str | SecretReference]:
    """Header names to literal values or secret references, as the file writes them."""
    if not isinstance(value, dict):
        raise InvalidInput("headers", 'must be a table like { Authorization = "env:API_TOKEN" }')
    headers: dict[str, str | SecretReference] = {}
    for name, text in value.items():
        if not isinstance(text, str):
            raise InvalidInput(f"headers.{_key(name)}", "must be a string")
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
    aggregation: AggregationSchedule | None = None

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
