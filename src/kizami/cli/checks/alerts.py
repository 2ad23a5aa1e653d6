"""Whether every receiver of alerts can be told: its secret is there, and what delivers to it; nothing is sent."""

from __future__ import annotations

from collections.abc import Iterator

from kizami.alerts.rules.settings import AlertSettings, Rule
from kizami.cli.checks.machine import Check, Health
from kizami.core.errors import ConfigurationError, KizamiError
from kizami.local.alerts.apprise_call import REMEDY, has_apprise, knows_url
from kizami.local.alerts.receivers import is_webhook, read_url
from kizami.local.http.secrets import read_secret

_TRY = "`kizami alerts test` sends a message"


def check_alerts(settings: AlertSettings | None) -> Iterator[Check]:
    """One check a receiver, and one for the heartbeat."""
    if settings is None:
        return
    for rule in settings.rules:
        yield _checked(f"alerts {rule.name}", rule)
    if settings.heartbeat is not None:
        try:
            read_url(settings.heartbeat, "heartbeat")
            yield Check("heartbeat", Health.OK, "is asked each minute by `kizami up`")
        except ConfigurationError as error:
            yield Check("heartbeat", Health.FAILED, error.problem, "set it, or change heartbeat")


def _checked(name: str, rule: Rule) -> Check:
    try:
        url = read_url(rule.to, name)
        if rule.secret is not None:
            read_secret(rule.secret, name)
        if is_webhook(rule.to, url):
            words = "a JSON webhook" if rule.secret is None else "a signed JSON webhook"
            return Check(name, Health.OK, f"{words}; {_TRY}")
        return _by_apprise(name, url)
    except ConfigurationError as error:
        return Check(name, Health.FAILED, error.problem, "set it, or change its to or secret")
    except KizamiError as error:
        return Check(name, Health.FAILED, str(error), _TRY)


def _by_apprise(name: str, url: str) -> Check:
    if not has_apprise():
        finding, _, remedy = REMEDY.partition("; ")
        return Check(name, Health.FAILED, finding, remedy)
    if not knows_url(url):
        return Check(
            name, Health.FAILED, "Apprise knows no service for its URL", "see docs/alerts.md for the form"
        )
    return Check(name, Health.OK, f"delivered by Apprise; {_TRY}")
