"""`kizami alerts`: what is wrong and was, who has taken it on, and whether messages arrive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from kizami.alerts.rules.settings import NO_ALERTS, AlertSettings, Rule
from kizami.backend.incidents import BACKEND, Incident
from kizami.backend.wire import event_json, incident_json
from kizami.cli.backends import BackendOptions, backend_options, user_name
from kizami.cli.exit_codes import OK, exit_code
from kizami.cli.metric_names import optional_metric_argument, require_known
from kizami.cli.options import SuggestingGroup, config_option
from kizami.cli.terminal.printing import instant_text, json_option, plural, print_json, say
from kizami.cli.terminal.tables import print_table
from kizami.core.errors import ConfigurationError, InvalidInput, KizamiError
from kizami.core.slots import parse_duration, shift
from kizami.platform.clock import SystemClock
from kizami.platform.config_file import load_config

LONGEST_SILENCE_SECONDS = 31 * 86_400
_COLUMNS = (
    *(("number", True), ("since", False), ("over", False), ("kinds", False)),
    *(("targets", True), ("first", False), ("cause", False)),
)
_EVENT_COLUMNS = (("time", False), ("event", False), ("by", False), ("details", False))


@click.group(cls=SuggestingGroup, short_help="Show incidents, take them on, try receivers.")
def command() -> None:
    """What is wrong and was, who has taken it on, and whether messages arrive."""


@command.command("list", short_help="List the open incidents, the newest first.")
@optional_metric_argument
@json_option
@backend_options
@click.option("--all", "is_all", is_flag=True, help="Those that are over, too.")
@click.option("--limit", type=click.IntRange(0), default=50, show_default=True, help="At most so many; 0: all.")
def list_incidents(
    metric: str | None, as_json: bool, backend_options: BackendOptions, is_all: bool, limit: int
) -> None:
    """List the open incidents, the newest first: of all targets, or of METRIC and of kizami itself."""
    with backend_options.opened() as backend:
        log = backend.incident_log
        chosen = require_known(backend, metric) if metric else None
        found = log.incidents(limit or -1, open_only=not is_all, metric=chosen)
        waiting = log.undelivered()
    if as_json:
        print_json({"incidents": [incident_json(incident) for incident in found]})
    elif found:
        print_table(_COLUMNS, [_row(incident) for incident in found])
    say(plural(len(found), "incident" if is_all else "open incident"))
    for receiver, (count, error) in waiting.items():
        reason = f": {error}" if error else ""
        say(f"{plural(count, 'message')} not delivered to {receiver} yet{reason}")


@command.command(short_help="Show all that is known about one.")
@click.argument("number", type=click.IntRange(1))
@json_option
@backend_options
def show(number: int, as_json: bool, backend_options: BackendOptions) -> None:
    """Show all that is known about the incident NUMBER."""
    with backend_options.opened() as backend:
        incident = backend.incident_log.incident(number)
    fields = incident_json(incident)
    if as_json:
        print_json(fields)
        return
    members = fields.pop("members")
    print_table((("field", False), ("value", False)), [(name, _text(value)) for name, value in fields.items()])
    columns = (("target", False), ("since", False), ("well since", False), ("kinds", False), ("detail", False))
    rows = [
        [each["name"] or "kizami", each["since"], each["clearSince"] or "-", _text(each["kinds"]), each["detail"]]
        for each in members
    ]
    print_table(columns, rows)


@command.command(short_help="Take one on: nobody is told of it any more until it is over.")
@click.argument("number", type=click.IntRange(1))
@click.option("--by", default=None, help="Who takes it on.  [default: the user]")
@json_option
@backend_options
def acknowledge(number: int, by: str | None, as_json: bool, backend_options: BackendOptions) -> None:
    """Take the incident NUMBER on: there are no reminders, and its end is told."""
    with backend_options.opened() as backend:
        incident = backend.incident_log.acknowledge(number, by or user_name())
    if as_json:
        print_json(incident_json(incident))
    say(f"incident {number} is acknowledged by {incident.acknowledged_by}")


@command.command(short_help="Keep quiet about one for a while.")
@click.argument("number", type=click.IntRange(1))
@click.option("--for", "duration", default="2h", show_default=True, help="How long, like 30m, 2h or 7d.")
@json_option
@backend_options
def silence(number: int, duration: str, as_json: bool, backend_options: BackendOptions) -> None:
    """Keep quiet about the incident NUMBER for a while; what is to be told then is told after it."""
    seconds = parse_duration(duration, "--for")
    if not 0 < seconds <= LONGEST_SILENCE_SECONDS:
        raise InvalidInput("--for", "must be from 1s to 31d")
    until = shift(SystemClock().now(), seconds)
    with backend_options.opened() as backend:
        incident = backend.incident_log.silence(number, until, user_name())
    if as_json:
        print_json(incident_json(incident))
    say(f"incident {number} is silenced until {instant_text(until)}")


@command.command(short_help="End the silence about one.")
@click.argument("number", type=click.IntRange(1))
@json_option
@backend_options
def unsilence(number: int, as_json: bool, backend_options: BackendOptions) -> None:
    """End the silence about the incident NUMBER: what is to be told of it, its end included, is told now."""
    with backend_options.opened() as backend:
        incident = backend.incident_log.unsilence(number, user_name())
    if as_json:
        print_json(incident_json(incident))
    say(f"incident {number} is not silenced any more")


@command.command(short_help="List what happened, the newest first.")
@optional_metric_argument
@json_option
@backend_options
@click.option("--limit", type=click.IntRange(0), default=50, show_default=True, help="At most so many; 0: all.")
def events(metric: str | None, as_json: bool, backend_options: BackendOptions, limit: int) -> None:
    """List what happened: started, stopped, reloaded, backfilled by whom, a clock that jumped …

    With METRIC, what happened to that target, alone or with others, and to kizami itself.
    """
    with backend_options.opened() as backend:
        chosen = require_known(backend, metric) if metric else None
        found = [event_json(event) for event in backend.incident_log.events(limit or -1, metric=chosen)]
    if as_json:
        print_json({"events": found})
    elif found:
        rows = [[each["at"], each["event"], each["by"], _text(each["details"])] for each in found]
        print_table(_EVENT_COLUMNS, rows)
    say(plural(len(found), "event"))


@command.command(short_help="Send a test message to the receivers.")
@click.argument("names", metavar="[NAME]…", nargs=-1)
@json_option
@config_option
def test(names: tuple[str, ...], as_json: bool, config: Path | None) -> int:
    """Send a test message to the receivers NAME (or to all) of kizami.toml, now and from here."""
    settings = load_config(config).config.alerts or NO_ALERTS
    rules = [settings.rule(name) for name in names] or settings.rules
    if not rules:
        raise ConfigurationError("alerts", "there is no [[alerts]] in the file; see docs/alerts.md")
    failures = {rule.name: _try(rule, settings) for rule in rules}
    if as_json:
        print_json({"receivers": [_outcome(name, error) for name, error in failures.items()]})
    for name, error in failures.items():
        say(f"{name}: {error or 'the message was taken'}")
    return max((exit_code(error) for error in failures.values() if error), default=OK)


def _outcome(name: str, error: KizamiError | None) -> dict[str, object]:
    return {"receiver": name, "delivered": error is None, "error": str(error) if error else None}


def _try(rule: Rule, settings: AlertSettings) -> KizamiError | None:
    from kizami.alerts.messages import trial_message
    from kizami.local.alerts.outbox import outgoing_of
    from kizami.local.alerts.receivers import deliver

    message = trial_message(rule.name, SystemClock().now(), settings.public_url)
    try:
        deliver(rule, outgoing_of(message, settings.language))
    except KizamiError as error:
        return error
    return None


def _row(incident: Incident) -> list[str]:
    first = next(iter(incident.members), BACKEND)
    kinds = _text(sorted(kind.value for kind in incident.kinds))
    moments = instant_text(incident.shown_since), instant_text(incident.over_since)
    return [
        str(incident.number),
        *moments,
        kinds,
        str(len(incident.members)),
        first or "kizami",
        incident.shown_cause,
    ]


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_text(each)}" for name, each in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_text, value))
    return "-" if value is None else str(value)
