"""What verbs and page read and order of incidents on AWS: the port's IncidentLog over the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from itertools import islice

from kizami.aws.alerts.incident_items import IncidentItems
from kizami.backend.incidents import BACKEND, BackendEvent, Incident
from kizami.core.errors import InvalidInput
from kizami.core.ports import Clock
from kizami.core.slots import floor_to_second, format_instant


class AwsIncidentLog:
    """`IncidentLog` of a stack. Events are in the functions' logs there, and not listed."""

    def __init__(
        self, items: IncidentItems, clock: Clock, asker: Callable[[str], str] = lambda name: name
    ) -> None:
        self._items = items
        self._clock = clock
        self._asker = asker

    def incidents(
        self, limit: int = -1, before: int | None = None, *, open_only: bool = False, metric: str | None = None
    ) -> list[Incident]:
        found = self._items.newest(before)
        about = None if metric is None else {metric, self._asker(metric), BACKEND}
        wanted = (
            incident
            for incident in found
            if (incident.is_open or not open_only) and (about is None or incident.is_about(about))
        )
        return list(islice(wanted, None if limit < 0 else limit))

    def incident(self, number: int) -> Incident:
        found = self._items.incident(number)
        if found is None:
            raise InvalidInput("incident", f"there is none of number {number}; see `kizami alerts list --all`")
        return found

    def acknowledge(self, number: int, by: str) -> Incident:
        if self._open(number).acknowledged_at is None:
            now = format_instant(floor_to_second(self._clock.now()))
            self._items.order(number, acknowledgedAt=now, acknowledgedBy=by)
        return self.incident(number)

    def silence(self, number: int, until: datetime, by: str) -> Incident:
        self._open(number)
        self._items.order(number, silencedUntil=format_instant(floor_to_second(until)))
        return self.incident(number)

    def unsilence(self, number: int, by: str) -> Incident:
        self.incident(number)
        self._items.revoke(number, "silencedUntil")
        return self.incident(number)

    def events(
        self, limit: int = -1, before: int | None = None, *, metric: str | None = None
    ) -> list[BackendEvent]:
        return []

    def undelivered(self) -> dict[str, tuple[int, str | None]]:
        waiting = Counter(item.receiver for item in self._items.outbox())
        return {receiver: (count, None) for receiver, count in waiting.items()}

    def _open(self, number: int) -> Incident:
        incident = self.incident(number)
        if not incident.is_open:
            raise InvalidInput("incident", f"number {number} is over already")
        return incident
