"""Which metrics are paused: set by the dashboard, obeyed by the engine, kept across restarts."""

from __future__ import annotations

from datetime import datetime

import apsw

from kizami.errors import InvalidInput
from kizami.local.database import transaction
from kizami.local.metrics import known_metric
from kizami.local.moments import from_ms, to_ms
from kizami.local.queue import LIVE
from kizami.slots import shorten

# What is planned but not yet due goes too, else a pause would begin up to a minute late.
_UNPLAN = f"""
DELETE FROM messages WHERE metric_id = ?1 AND priority = {LIVE} AND receives = 0 AND due_ms > ?2
"""


def paused_metrics(connection: apsw.Connection) -> dict[str, datetime]:
    """The paused metrics, and since when."""
    rows = connection.execute("SELECT name, since_ms FROM pauses JOIN metrics ON id = metric_id ORDER BY name")
    return {name: from_ms(since) for name, since in rows}


def pause_metric(connection: apsw.Connection, name: str, now: datetime) -> None:
    """Pause a metric from now on; one that is paused already stays so since then."""
    number = _number(connection, name)
    with transaction(connection):
        connection.execute("INSERT INTO pauses VALUES (?, ?) ON CONFLICT DO NOTHING", (number, to_ms(now)))
        connection.execute(_UNPLAN, (number, to_ms(now)))


def resume_metric(connection: apsw.Connection, name: str) -> None:
    """Poll a metric again; the slots of the pause are missing and can be backfilled."""
    number = _number(connection, name)
    with transaction(connection):
        connection.execute("DELETE FROM pauses WHERE metric_id = ?", (number,))


def _number(connection: apsw.Connection, name: str) -> int:
    metric = known_metric(connection, name)
    if metric is None:
        raise InvalidInput("metric", f"{shorten(name)} was never polled")
    return metric.id
