"""What kizami.toml says about alerts: who is told what, and when, in which language (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import SplitResult, urlsplit

from kizami.alerts.rules.conditions import AlertCondition, parse_condition
from kizami.alerts.rules.maintenance import Maintenance, parse_maintenance
from kizami.alerts.rules.patterns import EVERYTHING, matches, parse_patterns
from kizami.backend.incidents import BACKEND, Kind
from kizami.core.errors import ConfigurationError, InvalidInput
from kizami.core.requests.secret_names import key_in_path, secret_in_url
from kizami.core.requests.urls import require_base_url, require_url
from kizami.core.slots import parse_duration, shorten
from kizami.core.targets.references import SecretReference, parse_reference, read_reference, require_reference
from kizami.core.targets.unknown_names import near_names, refuse_unknown

ALERT_SETTINGS = ("to", "when", "targets", "wait", "pause", "reminder", "name", "secret")
LANGUAGES = ("en", "ja")
DEFAULT_WHEN = ("fails", "silent", "dead", "disk full", "queue stuck", "aggregation failed")
DEFAULT_WAIT_SECONDS, DEFAULT_PAUSE_SECONDS, DEFAULT_REMINDER_SECONDS = 120, 900, 86_400
LONGEST_WAIT_SECONDS = 86_400
LONGEST_REMINDER_SECONDS = 31 * 86_400
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Rule:
    """One `[[alerts]]` table: who is told, of what, about which targets, and how patiently."""

    name: str
    to: str | SecretReference
    conditions: tuple[AlertCondition, ...]
    targets: tuple[str, ...] = EVERYTHING
    wait_seconds: int = DEFAULT_WAIT_SECONDS
    pause_seconds: int = DEFAULT_PAUSE_SECONDS
    reminder_seconds: int = DEFAULT_REMINDER_SECONDS  # 0: never
    secret: SecretReference | None = None

    def is_about(self, name: str, kinds: frozenset[Kind], group: str) -> bool:
        """Whether it wants to know of such a member of an incident of that group."""
        if not any(each.kind in kinds and _is_of(each, group) for each in self.conditions):
            return False
        return name == BACKEND or Kind.AGGREGATION_FAILED in kinds or matches(self.targets, name)


def _is_of(condition: AlertCondition, group: str) -> bool:
    return condition.kind not in (Kind.COVERAGE, Kind.NUMBER) or condition.text == group


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """All that the file says about alerts."""

    rules: tuple[Rule, ...] = ()
    maintenance: tuple[Maintenance, ...] = ()
    public_url: str | None = None
    language: str = LANGUAGES[0]
    heartbeat: str | SecretReference | None = None

    def rule(self, name: str) -> Rule:
        """The rule of that name, else ConfigurationError with the names there are."""
        for rule in self.rules:
            if rule.name == name:
                return rule
        names = [rule.name for rule in self.rules]
        near = near_names(name, names) or f"known: {', '.join(names) or 'none'}"
        raise ConfigurationError("alerts", f"{shorten(name)} is not the name of an [[alerts]] table; {near}")

    def conditions(self) -> list[tuple[AlertCondition, tuple[str, ...]]]:
        """Those about coverage and numbers, each with the patterns of all rules that have it."""
        found: dict[AlertCondition, tuple[str, ...]] = {}
        for rule in self.rules:
            for condition in rule.conditions:
                if condition.kind in (Kind.COVERAGE, Kind.NUMBER):
                    found[condition] = (*found.get(condition, ()), *rule.targets)
        return list(found.items())


NO_ALERTS = AlertSettings()


def parse_alerts(document: Mapping[str, Any], place: str) -> AlertSettings:
    """What the file states; every error names its place in it."""
    rules = [_parse_rule(entry, f"{place}: alerts[{n}]") for n, entry in _tables(document, "alerts", place)]
    windows = [
        parse_maintenance(entry, f"{place}: maintenance[{n}]")
        for n, entry in _tables(document, "maintenance", place)
    ]
    try:
        url = document.get("public_url")
        return AlertSettings(
            _named(rules, place),
            tuple(windows),
            None if url is None else _public_url(url),
            _language(document.get("language", LANGUAGES[0])),
            _receiver(document["heartbeat"], "heartbeat", web_only=True) if "heartbeat" in document else None,
        )
    except InvalidInput as error:
        raise ConfigurationError(f"{place}: {error.field}", error.problem) from None


def _tables(document: Mapping[str, Any], name: str, place: str) -> list[tuple[int, Any]]:
    entries = document.get(name, [])
    if not isinstance(entries, list):
        raise ConfigurationError(f"{place}: {name}", f"must be tables: write [[{name}]], in double brackets")
    return list(enumerate(entries))


def _parse_rule(entry: object, place: str) -> Rule:
    if not isinstance(entry, dict):
        raise ConfigurationError(place, "must be a table: write [[alerts]], in double brackets")
    refuse_unknown(entry, ALERT_SETTINGS, place)
    try:
        if "to" not in entry:
            raise InvalidInput("to", 'is required: "env:NAME" of an Apprise URL, or https://… for a JSON webhook')
        return Rule(
            _name(entry.get("name", "")),
            _receiver(entry["to"], "to"),
            _conditions(entry.get("when", list(DEFAULT_WHEN))),
            parse_patterns(entry.get("targets", list(EVERYTHING)), "targets"),
            _seconds(entry, "wait", DEFAULT_WAIT_SECONDS, LONGEST_WAIT_SECONDS),
            _seconds(entry, "pause", DEFAULT_PAUSE_SECONDS, LONGEST_WAIT_SECONDS),
            _seconds(entry, "reminder", DEFAULT_REMINDER_SECONDS, LONGEST_REMINDER_SECONDS),
            parse_reference(entry["secret"], "secret") if "secret" in entry else None,
        )
    except InvalidInput as error:
        raise ConfigurationError(f"{place}.{error.field}", error.problem) from None


def _name(value: object) -> str:
    if not isinstance(value, str) or len(value) > 100 or not (value.isprintable() or not value):
        raise InvalidInput("name", f"{shorten(value)} is not a name of up to 100 printable characters")
    return value


def _conditions(value: object) -> tuple[AlertCondition, ...]:
    if not isinstance(value, list) or not value:
        raise InvalidInput("when", 'must be a list of conditions like ["fails", "dead", "coverage < 99%"]')
    return tuple(dict.fromkeys(parse_condition(text, "when") for text in value))


def _seconds(entry: Mapping[str, Any], name: str, default: int, longest: int) -> int:
    seconds = parse_duration(entry.get(name, default), name)
    if seconds > longest:
        raise InvalidInput(name, f"must be at most {longest // 86_400}d")
    return seconds


def _receiver(value: object, name: str, *, web_only: bool = False) -> str | SecretReference:
    """A reference, or a URL that can stand in the file; an Apprise URL holds secrets, and is not quoted."""
    if isinstance(value, str) and (reference := read_reference(value)) is not None:
        require_reference(reference, name)
        return reference
    if not isinstance(value, str) or not value.startswith(("https://", "http://")):
        kinds = "https://…" if web_only else "an Apprise URL, which holds secrets, or https://…"
        raise InvalidInput(name, f'must be a reference like "env:NAME" to {kinds}, or https://… itself')
    parts = require_web_url(value, name)
    if secret := secret_in_url(parts) or key_in_path(parts):
        raise InvalidInput(name, f'has {secret} in it; put the URL into a variable and write {name} = "env:NAME"')
    return value


def require_web_url(url: str, place: str) -> SplitResult:
    """The parts of a URL to call, which may be a secret: https, or http on this machine; no refusal quotes it."""
    parts = require_url(url, place)
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise InvalidInput(place, "must be https://…; http:// goes to this machine only")
    return parts


def _public_url(value: object) -> str:
    require_base_url(value, "public_url")
    if urlsplit(str(value)).query:
        raise InvalidInput("public_url", "must be the page's address without a query")
    return str(value).rstrip("/")


def _language(value: object) -> str:
    if value not in LANGUAGES:
        raise InvalidInput("language", f"{shorten(value)} is none of {', '.join(LANGUAGES)}")
    return str(value)


def _named(rules: Sequence[Rule], place: str) -> tuple[Rule, ...]:
    """Each with a name of its own: the one it has, else that of its receiver, with a number from the second on."""
    seen: dict[str, int] = {}
    named = []
    for index, rule in enumerate(rules):
        if rule.name and rule.name in seen:
            raise ConfigurationError(f"{place}: alerts[{index}].name", f"{shorten(rule.name)} is used twice")
        name = rule.name or str(rule.to)
        seen[name] = seen.get(name, 0) + 1
        named.append(replace(rule, name=name if seen[name] == 1 else f"{name} #{seen[name]}"))
    return tuple(named)
