"""Which metrics the database knows: the id, the grid and the beginning of each, kept for ever."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from math import gcd
from typing import Any

import apsw

from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.errors import StoreError
from kizami.core.slots import floor_to_slot, shift
from kizami.core.targets.target import Target


@dataclass(frozen=True, slots=True)
class KnownMetric:
    """A metric that was polled at some time, as the database remembers it.

    `first_slot` is the first one expected: slots before it were due when nobody knew the metric.
    `step_seconds` divides every interval it ever had, so all of its rows stand on multiples of it.
    """

    id: int
    name: str
    interval_seconds: int
    lag_seconds: int
    step_seconds: int
    first_slot: datetime


ID_SPACE = 1 << 20
_COLUMNS = "id, name, interval_seconds, lag_seconds, step_seconds, first_slot"


def metric_id(ordinal: int) -> int:
    """The id of the n-th metric: n's twenty bits in reverse (a van der Corput sequence).

    Ids so made are spread evenly however many there are, so that id / 2^20 is the metric's place within the
    interval; and since ids order both the polls and the rows, polls made together are stored together.
    """
    if ordinal >= ID_SPACE:
        raise StoreError(f"more than {ID_SPACE} metrics in one database")
    return int(f"{ordinal:020b}"[::-1], 2)


def known_metrics(connection: apsw.Connection) -> dict[str, KnownMetric]:
    """All of them by name, in the order of their names."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM metrics ORDER BY name")
    return {row[1]: _metric(row) for row in rows}


def known_metric(connection: apsw.Connection, name: str) -> KnownMetric | None:
    """The metric of that name, if it was ever polled."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM metrics WHERE name = ?", (name,)).fetchone()
    return _metric(row) if row else None


def register_targets(
    connection: apsw.Connection, targets: Iterable[Target], now: datetime
) -> dict[str, KnownMetric]:
    """Make each target known; to be called in a transaction.

    A new one is expected from the slot of its next tick on, so a new database has no past to catch up with. One
    whose interval has changed is expected from now on: its old slots are another tiling of time and stay as they
    are, and none of them may pass for one of the new.
    """
    known = known_metrics(connection)
    for target in targets:
        metric = known.get(target.name)
        if metric is None or metric.interval_seconds != target.interval_seconds:
            next_tick = shift(floor_to_slot(now, target.interval_seconds), target.interval_seconds)
            first_slot = next_tick if metric else shift(next_tick, -target.lag_seconds)
            metric = _metric_of(target, first_slot, metric, len(known))
        elif metric.lag_seconds != target.lag_seconds:
            metric = replace(metric, lag_seconds=target.lag_seconds)
        if metric != known.get(target.name):
            _save(connection, metric)
            known[target.name] = metric
    return known


def register_slot(connection: apsw.Connection, name: str, slot: datetime, interval_seconds: int) -> KnownMetric:
    """Make a metric known by a slot of it, if it is not, and its grid fine enough for that slot."""
    metric = known_metric(connection, name)
    if metric is None:
        ordinal = int(connection.execute("SELECT count(*) FROM metrics").get)
        metric = KnownMetric(metric_id(ordinal), name, interval_seconds, 0, interval_seconds, slot)
        _save(connection, metric)
    step = gcd(metric.step_seconds, to_seconds(slot))
    if step != metric.step_seconds:
        metric = replace(metric, step_seconds=step)
        _save(connection, metric)
    return metric


def expect_from(connection: apsw.Connection, name: str, slot: datetime) -> None:
    """Let the metric's slots be expected from `slot` on if that is earlier than before; no metric: no change."""
    sql = "UPDATE metrics SET first_slot = min(first_slot, ?) WHERE name = ?"
    connection.execute(sql, (to_seconds(slot), name))


def _metric_of(target: Target, first_slot: datetime, old: KnownMetric | None, ordinal: int) -> KnownMetric:
    interval, lag = target.interval_seconds, target.lag_seconds
    if old is None:
        return KnownMetric(metric_id(ordinal), target.name, interval, lag, interval, first_slot)
    return KnownMetric(old.id, target.name, interval, lag, gcd(old.step_seconds, interval), first_slot)


def _save(connection: apsw.Connection, metric: KnownMetric) -> None:
    first_slot = to_seconds(metric.first_slot)
    connection.execute(
        f"INSERT OR REPLACE INTO metrics ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
        (
            metric.id,
            metric.name,
            metric.interval_seconds,
            metric.lag_seconds,
            metric.step_seconds,
            first_slot,
        ),
    )


def _metric(row: tuple[Any, ...]) -> KnownMetric:
    number, name, interval, lag, step, first = row
    return KnownMetric(number, name, interval, lag, step, from_seconds(first))
