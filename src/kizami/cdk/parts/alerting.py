"""What is asked for about alerts, checked at synth: what the reconciler could not obey is not deployed."""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from kizami.alerts.rules.conditions import WEEK_SECONDS, AlertCondition, NumberTest
from kizami.alerts.rules.patterns import matches
from kizami.alerts.rules.settings import NO_ALERTS, AlertSettings, Rule
from kizami.aws.alerts.packaged import MOST_COUNTS, counts_read
from kizami.cdk.settings import Settings
from kizami.core.config import Config
from kizami.core.errors import ConfigurationError
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target


def maintenance_zones(alerts: AlertSettings | None) -> set[str]:
    """The time zones of maintenance windows, which the package must know."""
    weekly = (window.weekly for window in (alerts or NO_ALERTS).maintenance if window.weekly is not None)
    return {each.zone.key for each in weekly if isinstance(each.zone, ZoneInfo)}


def told_urls(alerts: AlertSettings | None) -> list[str]:
    """Where webhooks and heartbeat go, as far as the file says it itself."""
    told = alerts or NO_ALERTS
    return [to for to in (told.heartbeat, *(rule.to for rule in told.rules)) if isinstance(to, str)]


def require_obeyable(config: Config, settings: Settings) -> None:
    """ConfigurationError for what cannot be known on AWS, or who cannot be told from there."""
    alerts, place = config.alerts or NO_ALERTS, settings.config or "kizami.toml"
    for number, rule in enumerate(alerts.rules):
        _require_reachable(rule, f"{place}: alerts[{number}]")
    _require_encrypted(alerts.heartbeat, f"{place}: heartbeat")
    _require_bounded(alerts, config.enabled_targets, settings, place)
    for condition, _ in alerts.conditions():
        _require_kept(condition, settings, place)


def _require_encrypted(to: str | SecretReference | None, place: str) -> None:
    if isinstance(to, str) and to.startswith("http://"):
        raise ConfigurationError(place, "http:// is for one machine, not for Lambda; use https://…")


def _require_reachable(rule: Rule, place: str) -> None:
    _require_encrypted(rule.to, f"{place}.to")
    is_webhook = isinstance(rule.to, str) or rule.to.is_on_aws
    if is_webhook and isinstance(rule.secret, SecretReference) and not rule.secret.is_on_aws:
        raise ConfigurationError(
            f"{place}.secret",
            f"{rule.secret.kind}: cannot be read on Lambda; use secretsmanager:ID or ssm:NAME",
        )


def _require_bounded(alerts: AlertSettings, targets: Sequence[Target], settings: Settings, place: str) -> None:
    period = settings.reconcile_minutes * 60
    parts = [each for target in targets for each in target.of_each_metric()]
    reads = {
        condition.text: counts_read(condition, [part for part in parts if matches(patterns, part.name)], period)
        for condition, patterns in alerts.conditions()
    }
    whole = sum(reads.values())
    if whole > MOST_COUNTS:
        most = max(reads, key=lambda text: reads[text])
        raise ConfigurationError(
            f"{place}: alerts",
            f'"{most}" would read {reads[most]:,} counts in each run of the reconciler, all conditions {whole:,}; '
            f"on AWS at most {MOST_COUNTS:,}: name fewer targets, or a shorter time",
        )


def _require_kept(condition: AlertCondition, settings: Settings, place: str) -> None:
    """The same time last week, for as long as the condition speaks of."""
    days = -(-(WEEK_SECONDS + condition.seconds) // 86_400) + 1
    if condition.comparison is NumberTest.DIFFERS and 0 < (settings.keep_days or 0) < days:
        problem = f'"{condition.text}" needs -c keep_days={days} at least, for it looks at last week'
        raise ConfigurationError(f"{place}: alerts", problem)
