"""Whom to tell what about an incident: a wait before, a pause between, a reminder a day, the end (pure).

    nothing told ──wait──▶ opened ──others join──▶ grown ──a day──▶ reminded ──all well and filled──▶ recovered
         ▲                                                                                              │
         └───────────────────────────────── it fails again ◀────────────────────────────────────────────┘

Each arrow is at most one message. Somebody who was told that it began is told that it is over.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum

from kizami.alerts.incidents import Standing, has_passed
from kizami.alerts.rules.maintenance import Maintenance, in_maintenance
from kizami.alerts.rules.settings import Rule
from kizami.backend.incidents import Incident, Kind, Member, Notice

_DEAD = frozenset({Kind.DEAD})
_DYING = timedelta(minutes=10)  # so long may slots of before die, and be news, when a target answers again


class MessageState(Enum):
    """What a message says."""

    OPENED = "opened"
    GROWN = "grown"
    REMINDED = "reminded"
    RECOVERED = "recovered"
    TEST = "test"


def members_for(incident: Incident, rule: Rule) -> list[Member]:
    """The members that the rule is about."""
    every = incident.members.values()
    return [member for member in every if rule.is_about(member.name, member.kinds, incident.group)]


def not_in_maintenance(
    members: Sequence[Member], windows: Sequence[Maintenance], now: datetime
) -> Sequence[Member]:
    """Those that are worth a message at the moment."""
    if not windows:
        return members
    return [member for member in members if not in_maintenance(windows, member.name, now)]


def next_state(
    notice: Notice,
    rule: Rule,
    incident: Incident,
    members: Collection[Member],
    now: datetime,
    told_at: datetime | None,
) -> MessageState | None:
    """What the receiver is to be told while it goes on; `told_at` is when it was told last of the same topic."""
    if incident.acknowledged_at is not None:
        return None
    bad = [member for member in members if _is_bad(member, rule, incident.group)]
    if not bad or not _has_passed(told_at, rule.pause_seconds, now):
        return None
    if notice.told_since is None:
        has_waited = _has_passed(min(member.since for member in bad), rule.wait_seconds, now)
        return MessageState.OPENED if has_waited else None
    if len(members) > notice.members:
        return MessageState.GROWN
    is_due = rule.reminder_seconds and _has_passed(notice.last_at, rule.reminder_seconds, now)
    return MessageState.REMINDED if is_due and any(_goes_on(member, now) for member in bad) else None


def _is_bad(member: Member, rule: Rule, group: str) -> bool:
    """Whether what the rule asks for is so at the moment; of one that answers, only that slots have died is."""
    if member.clear_since is not None:
        return False
    return member.answers_since is None or rule.is_about(member.name, _DEAD, group)


def _goes_on(member: Member, now: datetime) -> bool:
    """Whether it fails still, or loses slots though it answers."""
    return member.answers_since is None or now - member.answers_since > _DYING


def _has_passed(since: datetime | None, seconds: int, now: datetime) -> bool:
    return since is None or has_passed(since, seconds, now)


def final_state(notice: Notice, stands: Standing) -> MessageState | None:
    """What the receiver is to be told at the end: nothing, if it was never told of the beginning."""
    is_told = notice.told_since is not None
    return MessageState.RECOVERED if is_told and stands is Standing.OVER else None


def after_message(notice: Notice, state: MessageState, members: int, now: datetime) -> Notice:
    """What the receiver has been told then."""
    told = replace(notice, messages=notice.messages + 1, last_at=now, members=members)
    if state is MessageState.RECOVERED:
        return replace(told, told_since=None, members=0)
    return replace(told, told_since=notice.told_since or now)
