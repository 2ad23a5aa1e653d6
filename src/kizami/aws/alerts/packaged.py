"""What kizami.toml says about alerts, as it is packed for functions that have their targets in bundles.

Which metrics the conditions about coverage and numbers are about is found out at synth, where all targets are at
hand, and so is what they cost: a run of the reconciler reads a bounded number of counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from kizami.alerts.rules.conditions import AlertCondition, NumberTest
from kizami.alerts.rules.patterns import matches
from kizami.alerts.rules.settings import NO_ALERTS, AlertSettings, parse_alerts
from kizami.backend.incidents import Kind
from kizami.core.targets.target import Target

ALERTS_FILE = "alerts.json"
MOST_COUNTS = 100_000  # that a run may read for conditions about numbers
_SETTINGS = ("alerts", "maintenance", "public_url", "language", "heartbeat")

Watched = Mapping[str, Sequence[tuple[str, str]]]  # by the condition's text: metrics, and the targets they are of


@dataclass(frozen=True, slots=True)
class PackagedAlerts:
    """The rules, and the metrics that their conditions about coverage and numbers are about."""

    settings: AlertSettings = NO_ALERTS
    watched: Watched = field(default_factory=dict)


def watch(settings: AlertSettings, targets: Iterable[Target]) -> dict[str, list[tuple[str, str]]]:
    """The metrics of each condition about coverage or numbers."""
    metrics = [(metric, target.name) for target in targets for metric in target.metrics]
    return {
        condition.text: [each for each in metrics if matches(patterns, each[0])]
        for condition, patterns in settings.conditions()
    }


def counts_read(condition: AlertCondition, targets: Iterable[Target], period_seconds: int) -> int:
    """How many counts a run reads for a condition about numbers of these targets."""
    if condition.kind is not Kind.NUMBER:
        return 0
    times = 2 if condition.comparison is NumberTest.DIFFERS else 1
    seconds = condition.seconds or (0 if condition.comparison is NumberTest.DIFFERS else period_seconds)
    return sum(times * max(1, seconds // target.interval_seconds) for target in targets)


def write_alerts(document: Mapping[str, Any], settings: AlertSettings, targets: Iterable[Target]) -> bytes:
    """The file, of a kizami.toml that says something about alerts."""
    said = {name: document[name] for name in _SETTINGS if name in document}
    packed = {"settings": said, "watched": watch(settings, targets)}
    return json.dumps(packed, ensure_ascii=False, default=_text).encode()


def read_alerts(packed: Mapping[str, Any]) -> PackagedAlerts:
    """What was packed."""
    watched = {text: [(metric, name) for metric, name in pairs] for text, pairs in packed["watched"].items()}
    return PackagedAlerts(parse_alerts(packed["settings"], "kizami.toml"), watched)


def _text(value: object) -> str:
    """TOML knows times of day, JSON does not."""
    assert isinstance(value, date)
    return value.isoformat()
