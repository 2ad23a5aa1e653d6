"""What is said about an incident, as values: the texts and the JSON are made of it (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from urllib.parse import urlencode

from kizami.alerts.incidents import recovered_at
from kizami.alerts.notices import MessageState
from kizami.alerts.rules.settings import NO_ALERTS, AlertSettings
from kizami.alerts.seen import Holes
from kizami.backend.health import SlotTally, add_tallies
from kizami.backend.incidents import BACKEND, Incident, Kind, Member
from kizami.core.coverage import Completeness
from kizami.core.slots import floor_to_second, format_second, shift

LISTED = 10  # members that a message names, at most
_LINK_SECONDS = 900  # so much before the beginning is shown, too


@dataclass(frozen=True, slots=True)
class Unfilled:
    """A target whose slots are not all filled, and why: dead, still on the queue, or missing."""

    name: str
    slots: SlotTally
    is_refilled: bool


@dataclass(frozen=True, slots=True)
class Message:
    """One message about one state of one incident, for one receiver; `number` counts those that it got."""

    incident: int
    number: int
    receiver: str
    state: MessageState
    at: datetime
    since: datetime
    group: str = ""
    cause: str = ""
    kinds: frozenset[Kind] = frozenset()
    members: tuple[Member, ...] = ()  # the first LISTED of them
    targets: int = 0  # how many there are
    slots: SlotTally = field(default_factory=SlotTally)
    recovered_at: datetime | None = None
    coverage: Completeness | None = None  # of 24 hours
    unfilled: tuple[Unfilled, ...] = ()
    link: str | None = None

    @property
    def key(self) -> str:
        """What tells it from every other message: one state of one incident for one receiver."""
        return f"{self.incident}-{self.number}"


def write_message(
    incident: Incident,
    receiver: str,
    state: MessageState,
    number: int,
    members: Sequence[Member],
    holes: Mapping[str, Holes],
    coverage: Completeness | None,
    now: datetime,
    settings: AlertSettings,
) -> Message:
    """The message about these members of an incident."""
    lacking = {member.name: holes[member.name] for member in members if member.name in holes}
    is_over = state is MessageState.RECOVERED
    ended = recovered_at(members) if is_over else None
    shown = replace(incident, members={member.name: member for member in members})
    since = shown.shown_since
    return Message(
        incident.number,
        number,
        receiver,
        state,
        now,
        since,
        incident.group,
        shown.shown_cause,
        frozenset(kind for member in members for kind in member.kinds),
        tuple(members[:LISTED]),
        len(members),
        add_tallies([each.slots for each in lacking.values()]),
        ended,
        coverage,
        _unfilled(lacking) if is_over else (),
        link_to(settings.public_url, members[0].name, since, ended or now),
    )


def _unfilled(lacking: Mapping[str, Holes]) -> tuple[Unfilled, ...]:
    short = [(name, holes) for name, holes in lacking.items() if holes.lacking]
    return tuple(Unfilled(name, holes.slots, holes.is_refilled) for name, holes in short[:LISTED])


def link_to(public_url: str | None, name: str, since: datetime, until: datetime) -> str | None:
    """The page at the time of the incident, and at its first target."""
    if public_url is None:
        return None
    if name == BACKEND:
        return f"{public_url}/"
    ends = floor_to_second(shift(since, -_LINK_SECONDS)), floor_to_second(shift(until, 1))
    query = {"metric": name, "from": format_second(ends[0]), "to": format_second(ends[1])}
    return f"{public_url}/?{urlencode(query)}"


def page_message(
    incident: Incident, holes: Mapping[str, Holes], now: datetime, metric: str | None = None
) -> Message:
    """What the page says of an incident: as the first message does, or as the last one.

    On the page of a target, `metric`, it is told of that member first: since when and why it is in the incident.
    """
    own = incident.members.get(metric) if metric is not None else None
    every = incident.members.values()
    members = (own, *(member for member in every if member is not own)) if own else tuple(every)
    state = MessageState.OPENED if incident.is_open else MessageState.RECOVERED
    message = write_message(incident, "", state, 0, members, holes, None, now, NO_ALERTS)
    if own is None:
        return message
    return replace(message, since=own.shown_since, cause=message.cause if own.cause is None else own.cause)


def trial_message(receiver: str, now: datetime, public_url: str | None) -> Message:
    """What `kizami alerts test` sends."""
    link = None if public_url is None else f"{public_url}/"
    return Message(0, 0, receiver, MessageState.TEST, now, now, link=link)
