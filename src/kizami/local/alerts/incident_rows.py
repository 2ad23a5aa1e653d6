"""Incidents in the file: what is gone on with after a restart, listed, acknowledged and silenced."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import apsw

from kizami.alerts.decision import AlertState, Decision, Topic
from kizami.alerts.documents import read_members, read_notices, write_document
from kizami.backend.incidents import Incident, Kind
from kizami.core.epoch import from_ms, to_ms
from kizami.core.errors import InvalidInput
from kizami.local.alerts.event_rows import marks

KEPT = 10_000  # incidents that are over; older ones are forgotten

_COLUMNS = (
    "number, family, topic, cause, since_ms, over_ms, acknowledged_ms, acknowledged_by, silenced_ms, document"
)
# What people order is theirs: the daemon's row leaves it alone.
_SAVE = """
INSERT INTO incidents (number, kept_in_mind, family, topic, cause, since_ms, over_ms, document)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET kept_in_mind = excluded.kept_in_mind, over_ms = excluded.over_ms,
    document = excluded.document
"""
_DAY = timedelta(days=1)


def read_state(connection: apsw.Connection, now: datetime) -> AlertState:
    """Where the last run was."""
    since_ms = to_ms(now - _DAY)
    recent = _read(connection, "WHERE kept_in_mind OR over_ms >= ? ORDER BY number", (since_ms,))
    in_mind = {number for (number,) in connection.execute("SELECT number FROM incidents WHERE kept_in_mind")}
    newest = connection.execute("SELECT ifnull(max(number), 0) FROM incidents").get
    unfinished = tuple(incident for incident in recent if incident.number in in_mind)
    return AlertState(unfinished, int(newest) + 1, _told_at(recent))


def _told_at(incidents: Iterable[Incident]) -> dict[Topic, datetime]:
    told: dict[Topic, datetime] = {}
    for incident in incidents:
        for rule, notice in incident.notices.items():
            topic = rule, incident.group, incident.topic
            if notice.last_at is not None:
                told[topic] = max(notice.last_at, told.get(topic, notice.last_at))
    return told


def with_orders(connection: apsw.Connection, state: AlertState) -> AlertState:
    """The state with what people have ordered since."""
    sql = "SELECT number, acknowledged_ms, acknowledged_by, silenced_ms FROM incidents WHERE kept_in_mind"
    orders = {number: _orders(*row) for number, *row in connection.execute(sql)}
    incidents = (replace(each, **orders.get(each.number, {})) for each in state.incidents)
    return replace(state, incidents=tuple(incidents))


def _orders(acknowledged: int | None, by: str | None, silenced: int | None) -> dict[str, Any]:
    return {
        "acknowledged_at": _moment(acknowledged),
        "acknowledged_by": by or "",
        "silenced_until": _moment(silenced),
    }


def save_incidents(connection: apsw.Connection, decision: Decision) -> None:
    """Keep what has changed; to be called in a transaction."""
    in_mind = {incident.number for incident in decision.state.incidents}
    for incident in decision.changed:
        fixed = incident.group, incident.topic, incident.cause, to_ms(incident.since)
        changing = None if incident.over_since is None else to_ms(incident.over_since), write_document(incident)
        connection.execute(_SAVE, (incident.number, incident.number in in_mind, *fixed, *changing))
        if incident.group != Kind.AGGREGATION_FAILED.value:  # its members are companies
            about = [(name, incident.number) for name in incident.members]
            connection.executemany("INSERT OR IGNORE INTO incident_targets VALUES (?, ?)", about)


def forget_old(connection: apsw.Connection) -> None:
    """Let go of the oldest that are over."""
    sql = "DELETE FROM incidents WHERE NOT kept_in_mind AND number <= (SELECT max(number) FROM incidents) - ?"
    connection.execute(sql, (KEPT,))
    connection.execute("DELETE FROM incident_targets WHERE incident NOT IN (SELECT number FROM incidents)")


def list_incidents(
    connection: apsw.Connection,
    limit: int = -1,
    before: int | None = None,
    *,
    open_only: bool = False,
    about: Collection[str] = (),
) -> list[Incident]:
    """Newest first, from after `before` on; with `about`, those that any of these targets is in."""
    is_wanted = "(?1 IS NULL OR number < ?1)"
    if open_only:
        is_wanted += " AND over_ms IS NULL"
    if about:
        is_wanted += f" AND number IN (SELECT incident FROM incident_targets WHERE metric IN ({marks(about)}))"
    return _read(connection, f"WHERE {is_wanted} ORDER BY number DESC LIMIT ?2", (before, limit, *about))


def find_incident(connection: apsw.Connection, number: int) -> Incident:
    """The incident of that number, else InvalidInput."""
    found = _read(connection, "WHERE number = ?", (number,))
    if not found:
        raise InvalidInput("incident", f"there is none of number {number}; see `kizami alerts list --all`")
    return found[0]


def acknowledge_incident(connection: apsw.Connection, number: int, by: str, now: datetime) -> Incident:
    """Somebody has taken it on; to be called in a transaction. A second time changes nothing."""
    _require_open(find_incident(connection, number))
    connection.execute(
        """UPDATE incidents SET acknowledged_ms = ifnull(acknowledged_ms, ?),
        acknowledged_by = ifnull(acknowledged_by, ?) WHERE number = ?""",
        (to_ms(now), by, number),
    )
    return find_incident(connection, number)


def silence_incident(connection: apsw.Connection, number: int, until: datetime, now: datetime) -> Incident:
    """Nobody is told of it until then; to be called in a transaction."""
    _require_open(find_incident(connection, number))
    sql = "UPDATE incidents SET silenced_ms = ?, silenced_at_ms = ? WHERE number = ?"
    connection.execute(sql, (to_ms(until), to_ms(now), number))
    return find_incident(connection, number)


def unsilence_incident(connection: apsw.Connection, number: int) -> Incident:
    """What is to be told of it is told; to be called in a transaction."""
    connection.execute(
        "UPDATE incidents SET silenced_ms = NULL, silenced_at_ms = NULL WHERE number = ?", (number,)
    )
    return find_incident(connection, number)


def _require_open(incident: Incident) -> None:
    if not incident.is_open:
        raise InvalidInput("incident", f"number {incident.number} is over already")


def _read(connection: apsw.Connection, where: str, bindings: Sequence[Any]) -> list[Incident]:
    rows = connection.execute(f"SELECT {_COLUMNS} FROM incidents {where}", tuple(bindings))
    return [_incident(*row) for row in rows.fetchall()]


def _incident(*row: Any) -> Incident:
    number, family, topic, cause, since, over, acknowledged, by, silenced, document = row
    members, notices = read_members(document), read_notices(document)
    moments = _moment(over), _moment(acknowledged), by or "", _moment(silenced)
    return Incident(number, family, topic, cause, from_ms(since), members, notices, *moments)


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else from_ms(milliseconds)
