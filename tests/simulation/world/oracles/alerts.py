"""Who knows what every receiver has heard, and holds it against what the store says of incidents."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

import apsw

from kizami.alerts.notices import MessageState, members_for
from kizami.alerts.rules.settings import AlertSettings, Rule
from kizami.backend.incidents import NOTHING_TOLD, Incident
from kizami.local.alerts.incident_rows import list_incidents
from kizami.local.alerts.outbox import OutgoingMessage
from simulation.world.apis import SECRET
from simulation.world.oracle import Violation

_ENDS = (MessageState.RECOVERED.value, None)  # what stands before a beginning

Heard = tuple[str, str]  # which receiver, which message


class AlertOracle:
    """What was said in all lives of the process."""

    def __init__(self) -> None:
        self._heard: dict[Heard, dict[str, Any]] = {}
        self._answered: set[Heard] = set()  # in this life
        self._settled: set[Heard] = set()  # as the file had it when this life began
        self.look_seconds = 15.0

    @property
    def _slack(self) -> timedelta:
        return timedelta(seconds=6 * self.look_seconds)

    def heard(self, receiver: str, outgoing: OutgoingMessage, answered: bool) -> None:
        """A receiver has a message; `answered` says whether it can let us know."""
        key, document = (receiver, outgoing.message), outgoing.document
        if key in self._answered or key in self._settled:
            raise Violation(f"{receiver} is told {outgoing.message} again, though it had answered")
        if self._heard.setdefault(key, document) != document:
            raise Violation(f"{receiver} is told two things as {outgoing.message}")
        if SECRET in json.dumps(document):
            raise Violation(f"a secret is in a message to {receiver}: {document}")
        self._require_order(receiver, document)
        if answered:
            self._answered.add(key)

    def _require_order(self, receiver: str, document: dict[str, Any]) -> None:
        """Nobody hears of an end who has not heard of the beginning, nor twice of one beginning."""
        incident, number = map(int, document["id"].split("-"))
        before = self._heard.get((receiver, f"{incident}-{number - 1}"), {}).get("state")
        begins = document["state"] == MessageState.OPENED.value
        if begins != (before in _ENDS) or (number > 1) != (before is not None):
            raise Violation(f"{receiver} is told {document['id']} {document['state']} after {before}")

    def begin_life(self, connection: apsw.Connection) -> None:
        """A process has started on what the file says."""
        self._answered.clear()
        rows = connection.execute("SELECT receiver, message FROM outbox WHERE settled_ms IS NOT NULL")
        self._settled = {(receiver, message) for receiver, message in rows}

    def restored(self, connection: apsw.Connection) -> None:
        """The file is one of long ago: its incidents go on from there, and numbers come again."""
        rows = connection.execute("SELECT receiver, message, document FROM outbox WHERE settled_ms IS NOT NULL")
        self._heard = {(receiver, message): json.loads(document) for receiver, message, document in rows}

    def check(self, connection: apsw.Connection, settings: AlertSettings, now: datetime, *, is_well: bool) -> None:
        """What is noted as told was told, what was told is noted, and no incident goes on without a word."""
        told = "SELECT receiver, message, settled_ms IS NOT NULL AND last_error IS NULL FROM outbox"
        noted = {(receiver, message): is_told for receiver, message, is_told in connection.execute(told)}
        for key, is_told in noted.items():
            if is_told and key not in self._heard:
                raise Violation(f"{key} is noted as told, and nobody has heard it")
        for key in self._heard.keys() - noted.keys():
            raise Violation(f"{key} was told, and is not in the outbox")
        incidents = list_incidents(connection)
        for receiver, message in noted.keys() - self._known(incidents, settings.rules):
            raise Violation(f"{receiver} has {message}, of which no incident knows")
        if is_well:
            for incident in incidents:
                self._require_word(incident, settings.rules, incidents, now)

    def _known(self, incidents: Iterable[Incident], rules: Iterable[Rule]) -> set[Heard]:
        return {
            (rule.name, f"{incident.number}-{number + 1}")
            for incident in incidents
            for rule in rules
            for number in range(incident.notices.get(rule.name, NOTHING_TOLD).messages)
        }

    def _require_word(
        self, incident: Incident, rules: Iterable[Rule], incidents: Iterable[Incident], now: datetime
    ) -> None:
        for rule in rules:
            notice = incident.notices.get(rule.name, NOTHING_TOLD)
            if not incident.is_open and notice.told_since is not None:
                raise Violation(f"incident {incident.number} is over, and {rule.name} is not told so")
            bad = [member for member in members_for(incident, rule) if member.clear_since is None]
            if not incident.is_open or notice.told_since is not None or not bad:
                continue
            waited = min(member.since for member in bad) + timedelta(seconds=rule.wait_seconds)
            quiet = [at + timedelta(seconds=rule.pause_seconds) for at in _told_at(incident, rule, incidents)]
            if now > max([waited, *quiet]) + self._slack:
                raise Violation(f"incident {incident.number} goes on, and {rule.name} is not told: {incident}")

    def check_quiet(self, connection: apsw.Connection, slow: Collection[str], now: datetime) -> None:
        """All is well for long, and all who are told things answer; `slow` are those who were not asked since."""
        for incident in list_incidents(connection, open_only=True):
            bad = {name for name, member in incident.members.items() if member.clear_since is None}
            if wrong := sorted(bad.difference(slow)):
                raise Violation(f"incident {incident.number} goes on, though all is well with {wrong[:3]}")
        waiting = "SELECT receiver, message, last_error FROM outbox WHERE settled_ms IS NULL AND next_ms < ?"
        for row in connection.execute(waiting, ((now - self._slack).timestamp() * 1000,)):
            raise Violation(f"{row} still waits, though its receiver answers")


def _told_at(incident: Incident, rule: Rule, incidents: Iterable[Incident]) -> Iterator[datetime]:
    """When the receiver was told last of the same topic."""
    for each in incidents:
        if (each.group, each.topic) == (incident.group, incident.topic):
            last = each.notices.get(rule.name, NOTHING_TOLD).last_at
            if last is not None:
                yield last
