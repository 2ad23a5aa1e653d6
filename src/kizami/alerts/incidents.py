"""From what is wrong now to incidents: they begin, are joined by others, and are over (pure).

A target that was well for CALM_SECONDS has recovered; before that it flaps, and stays where it is. Those that
begin to fail of one cause within TOGETHER_SECONDS are one incident. One that fails anew of another cause is in
another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum

from kizami.alerts.findings import AlertFinding, Findings
from kizami.alerts.seen import Holes
from kizami.backend.incidents import Incident, Kind, Member

CALM_SECONDS = 60
TOGETHER_SECONDS = 600
LONGEST_FILL_SECONDS = 86_400

_DEAD_ONLY = frozenset({Kind.DEAD})
_OWN_TROUBLES = frozenset({Kind.DISK_FULL, Kind.QUEUE_STUCK})

Key = tuple[str, str]


class Standing(Enum):
    """How far an incident, or a part of it, is: it goes on, all are well and slots are filled, it is over."""

    ONGOING = "ongoing"
    FILLING = "filling"
    OVER = "over"


def is_calm(member: Member, now: datetime) -> bool:
    """Whether it has been well for long enough to be called so."""
    return member.clear_since is not None and has_passed(member.clear_since, CALM_SECONDS, now)


def has_passed(since: datetime, seconds: int, now: datetime) -> bool:
    """Return True if so long has passed; also if `since` is to come, as noted while the clock was ahead."""
    return not timedelta() <= now - since < timedelta(seconds=seconds)


def standing(members: Collection[Member], holes: Mapping[str, Holes], now: datetime) -> Standing:
    """How far it is with these members, of whom so much lacks."""
    if not all(is_calm(member, now) for member in members):
        return Standing.ONGOING
    is_over = all(_is_settled(member, holes.get(member.name), now) for member in members)
    return Standing.OVER if is_over else Standing.FILLING


def _is_settled(member: Member, holes: Holes | None, now: datetime) -> bool:
    """Whether what it lacked is filled, or nobody will fill the rest by himself."""
    if holes is None or not holes.lacking or member.clear_since is None:
        return True
    if holes.awaited:
        return has_passed(member.clear_since, LONGEST_FILL_SECONDS, now)
    is_filled = not (holes.slots.missing and holes.is_refilled)
    return is_filled or has_passed(member.clear_since, holes.refill_seconds, now)


def is_backend_well(incidents: Iterable[Incident]) -> bool:
    """Whether nothing is wrong with kizami itself, whatever its targets do: the heartbeat may say so."""
    return not any(incident.kinds & _OWN_TROUBLES for incident in incidents if incident.is_open)


def recovered_at(members: Iterable[Member]) -> datetime | None:
    """When the last of them was well again."""
    return max((member.well_since for member in members if member.well_since is not None), default=None)


def track(incidents: Sequence[Incident], findings: Findings, now: datetime, number: int) -> list[Incident]:
    """The incidents after a look; new ones are numbered from `number` on. One that is over stays as it is."""
    holders = _holders(incidents, findings, now)
    tracked = [_seen(incident, findings, holders, now) for incident in incidents]
    news: dict[Key, list[AlertFinding]] = {}
    for key, finding in findings.bad.items():
        if key not in holders:
            news.setdefault((finding.group, finding.topic), []).append(finding)
    for found in news.values():
        _admit(tracked, found, now, number)
        number = max([number, *(incident.number + 1 for incident in tracked)])
    return tracked


def _holders(incidents: Sequence[Incident], findings: Findings, now: datetime) -> dict[Key, int]:
    """In which incident each finding goes on: where its target has not recovered, or failed of the same cause."""
    holders: dict[Key, int] = {}
    for incident in incidents:
        for member in incident.members.values() if incident.is_open else ():
            finding = findings.bad.get((incident.group, member.name))
            if finding and (not is_calm(member, now) or finding.topic == incident.topic):
                holders.setdefault((incident.group, member.name), incident.number)
    return holders


def _seen(incident: Incident, findings: Findings, holders: Mapping[Key, int], now: datetime) -> Incident:
    if not incident.is_open:
        return incident
    members = {}
    for name, member in incident.members.items():
        key = incident.group, name
        finding = findings.bad.get(key) if holders.get(key) == incident.number else None
        is_known = finding is not None or key not in findings.unjudged
        members[name] = _member_now(member, finding, now) if is_known else member
    return incident if members == incident.members else replace(incident, members=members)


def _member_now(member: Member, finding: AlertFinding | None, now: datetime) -> Member:
    if finding is None:
        return member if member.clear_since is not None else replace(member, clear_since=now)
    if is_calm(member, now):
        return _member(finding, now)
    firsts = [slot for slot in (member.first_slot, finding.first_slot) if slot is not None]
    return replace(
        member,
        kinds=member.kinds | finding.kinds,
        detail=finding.detail or member.detail,
        first_slot=min(firsts, default=None),
        clear_since=None,
        answers_since=(member.well_since or now) if finding.kinds == _DEAD_ONLY else None,
        began=finding.since or member.began,
        cause=finding.cause,
    )


def _member(finding: AlertFinding, now: datetime) -> Member:
    answers_since = now if finding.kinds == _DEAD_ONLY else None
    return Member(
        finding.name,
        finding.kinds,
        now,
        finding.detail,
        finding.first_slot,
        answers_since=answers_since,
        began=finding.since or finding.first_slot,
        cause=finding.cause,
    )


def _admit(tracked: list[Incident], found: Sequence[AlertFinding], now: datetime, number: int) -> None:
    """Let new findings of one topic join the youngest incident about it, or begin one."""
    first = found[0]
    members = {finding.name: _member(finding, now) for finding in found}
    for at in range(len(tracked) - 1, -1, -1):
        incident = tracked[at]
        is_same = incident.is_open and (incident.group, incident.topic) == (first.group, first.topic)
        if is_same and now - incident.since <= timedelta(seconds=TOGETHER_SECONDS):
            tracked[at] = replace(incident, members={**incident.members, **members})
            return
    tracked.append(Incident(number, first.group, first.topic, first.cause, now, members))
