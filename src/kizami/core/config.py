"""What `kizami.toml` says: the targets and the aggregation's schedule (parsed here, read by the runtimes)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.slots import DEFAULT_INTERVAL_SECONDS, parse_duration, require_interval, shorten
from kizami.core.targets.target import SEED_TARGET, SecretReference, Target, require_reference

if TYPE_CHECKING:
    from kizami.aggregation.schedule import AggregationSchedule

_REFERENCE = re.compile(r"(env|file|secretsmanager|ssm):(.+)", re.DOTALL)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]{1,60}", re.ASCII)


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
    from kizami.aggregation.schedule import parse_schedule  # it knows this module, and hardly any file has one

    return parse_schedule(document["aggregation"], f"{place}: aggregation")


def _load_toml(text: str, place: str) -> dict[str, Any]:
    import tomllib  # here, because hardly any Lambda has a file and each one's start is measured

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


def parse_pointer(text: object) -> tuple[str, ...]:
    """The steps of a JSON pointer (RFC 6901); a bare name such as `count` means `/count`."""
    if not isinstance(text, str) or not re.fullmatch(r"/.*|[^/~]+", text) or not text.isprintable():
        raise InvalidInput("count", f"{shorten(text)} must be a JSON pointer like /data/count")
    steps = text.removeprefix("/").split("/")
    if any(re.search(r"~(?![01])", step) for step in steps):
        raise InvalidInput("count", f"{shorten(text)} has a ~ that is neither ~0 nor ~1")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)


def parse_reference(value: object, place: str) -> SecretReference:
    """The place of a secret; the secret itself, written there by mistake, is not quoted."""
    match = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise InvalidInput(place, "must be a reference like env:NAME or file:PATH, not the value itself")
    reference = SecretReference(match[1], match[2])
    require_reference(reference, place)
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
