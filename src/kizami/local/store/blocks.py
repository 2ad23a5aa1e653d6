"""Which targets are blocked, and from which slot on their slots were kept: a row a target, across restarts.

The row stays when the target has answered, until catch-up has put all that was kept on the queue.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import apsw

from kizami.core.blocking import Trouble, Turn
from kizami.core.epoch import from_ms, from_seconds, to_ms
from kizami.local.store import statements
from kizami.local.store.rows import SentRow, TakenMessage
from kizami.local.store.statements import BACKFILL

_COLUMNS = "since_ms, reason, asked_ms, failures, probes, next_ms"
_NOW = 0  # as `next_ms`: somebody asks for a probe

_SAVE = f"""
INSERT INTO blocks (metric_id, kept_from, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET kept_from = min(kept_from, excluded.kept_from), since_ms = excluded.since_ms,
    reason = excluded.reason, asked_ms = excluded.asked_ms, failures = excluded.failures,
    probes = excluded.probes, next_ms = excluded.next_ms
"""


class KeptSlots(NamedTuple):
    """What was kept of a metric that was blocked: none of its slots before `first`."""

    metric_id: int
    first: datetime
    blocked_since: datetime


class ProbeRow(NamedTuple):
    """A blocked metric that is to be probed, with its timing and whose turn it is."""

    metric_id: int
    seconds: int
    lag_seconds: int
    turn: Turn


def save_block(connection: apsw.Connection, metric_id: int, trouble: Trouble, kept_from: int) -> None:
    """Keep it in mind that the target is blocked; no slot before `kept_from` (seconds) has been kept since."""
    assert trouble.next_probe is not None
    moments = to_ms(trouble.since), trouble.reason, to_ms(trouble.asked_at)
    counts = trouble.failures, trouble.probes, to_ms(trouble.next_probe)
    connection.execute(_SAVE, (metric_id, kept_from, *moments, *counts))


def end_block(connection: apsw.Connection, metric_id: int) -> None:
    """The target has answered; what was kept is still to be put on the queue."""
    connection.execute("UPDATE blocks SET next_ms = NULL WHERE metric_id = ?", (metric_id,))


def forget_kept(connection: apsw.Connection, kept: KeptSlots) -> None:
    """All that was kept is on the queue; a block since then has kept others."""
    connection.execute(
        "DELETE FROM blocks WHERE metric_id = ? AND since_ms = ? AND next_ms IS NULL",
        (kept.metric_id, to_ms(kept.blocked_since)),
    )


def hurry_blocks(connection: apsw.Connection, names: Iterable[str]) -> None:
    """Have these metrics probed at once, as far as they are blocked."""
    connection.execute(
        f"""UPDATE blocks SET next_ms = {_NOW} WHERE next_ms IS NOT NULL
        AND metric_id IN (SELECT metrics.id FROM json_each(?) JOIN metrics ON name = value)""",
        (json.dumps(sorted(names)),),
    )


@dataclass(slots=True)
class ProbeSearch:
    """Looks for the messages to probe with, and for metrics that somebody wants probed at once, each told once.

    It is a change that the writer makes, and repeats as a whole where that fails.
    """

    probes: Sequence[ProbeRow]
    now_ms: int
    hidden_until_ms: int
    messages: list[TakenMessage] = field(default_factory=list)
    hurried: list[int] = field(default_factory=list)

    def __call__(self, connection: apsw.Connection) -> None:
        self.messages = [
            found for probe in self.probes for found in _probe_message(connection, probe, self.now_ms)
        ]
        statements.hand_out(connection, self.messages, self.hidden_until_ms)
        asked = connection.execute(f"SELECT metric_id FROM blocks WHERE next_ms = {_NOW}")
        self.hurried = [number for (number,) in asked]
        if self.hurried:
            connection.execute(f"UPDATE blocks SET next_ms = ? WHERE next_ms = {_NOW}", (self.now_ms,))


def _probe_message(connection: apsw.Connection, probe: ProbeRow, now_ms: int) -> list[TakenMessage]:
    if probe.turn is Turn.FAILED_BEFORE and (
        found := statements.probe_of(connection, probe.metric_id, now_ms, newest=False)
    ):
        return found
    slot = (now_ms // 1000 - probe.lag_seconds) // probe.seconds * probe.seconds
    newest = SentRow(slot, probe.metric_id, probe.seconds, (slot + probe.lag_seconds) * 1000)
    statements.send(connection, [newest], BACKFILL, now_ms)
    return statements.probe_of(connection, probe.metric_id, now_ms, newest=True)


def blocked_metrics(connection: apsw.Connection) -> dict[int, Trouble]:
    """The blocked metrics by id."""
    rows = connection.execute(f"SELECT metric_id, {_COLUMNS} FROM blocks WHERE next_ms IS NOT NULL")
    return {number: _trouble(*row) for number, *row in rows}


def kept_slots(connection: apsw.Connection) -> dict[int, KeptSlots]:
    """What was kept of the metrics that have answered again, by their ids."""
    rows = connection.execute("SELECT metric_id, kept_from, since_ms FROM blocks WHERE next_ms IS NULL")
    return {number: KeptSlots(number, from_seconds(slot), from_ms(since)) for number, slot, since in rows}


def _trouble(*row: Any) -> Trouble:
    since, reason, asked, failures, probes, next_ms = row
    return Trouble(from_ms(since), reason, from_ms(asked), failures, probes, from_ms(next_ms))
