"""Records in stretches for charts and sums: their figures, whether they are sealed or not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import apsw

from kizami.backend.values import Bucket
from kizami.core.answers.numbers import Number, to_number, to_total
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.slots import floor_to_second
from kizami.local.store.database import snapshot
from kizami.local.store.history.figures import Figures, figures_between
from kizami.local.store.history.sealed import sealed_counts, sealed_until
from kizami.local.store.metrics import KnownMetric
from kizami.local.store.rows import SlotKey
from kizami.local.store.schema import TALLY_SECONDS

_NOTHING = Figures(0, 0, 0, 0)

# Of all metrics at once: whole buckets are drawn together already, and only the rows around them are read. Sums
# are made in two parts, for a day of the largest counts is more than 64 bits hold.
_LOW_BITS = 20
_OF_SLOTS = f"""
SELECT metric_id, count(*), min(count), max(count), sum(count >> {_LOW_BITS}), sum(count & {(1 << _LOW_BITS) - 1})
"""
_TOTALS = f"""
SELECT name, sum(stored), min(lowest), max(highest), sum(high), sum(low) FROM (
    SELECT metric_id, stored, lowest, highest,
           total >> {_LOW_BITS} AS high, total & {(1 << _LOW_BITS) - 1} AS low
    FROM tallies WHERE bucket >= :head AND bucket < :tail
    UNION ALL {_OF_SLOTS} FROM slots WHERE slot >= :start AND slot < :head GROUP BY 1
    UNION ALL {_OF_SLOTS} FROM slots WHERE slot >= :tail AND slot < :end GROUP BY 1
) JOIN metrics ON id = metric_id GROUP BY metric_id
"""

_COUNTS_AT = """
SELECT s.slot, count FROM json_each(?1) CROSS JOIN slots AS s ON s.slot = value AND metric_id = ?2
"""

# The names and slots come as one JSON array of pairs.
_NEWEST_COUNTS = """
SELECT name, metrics.id, decimals, value ->> 1, count FROM json_each(?1) CROSS JOIN metrics ON name = value ->> 0
LEFT JOIN slots AS s ON s.slot = value ->> 1 AND metric_id = metrics.id
"""


def read_buckets(
    connection: apsw.Connection, metric: KnownMetric, start: datetime, end: datetime, seconds: int
) -> list[Bucket]:
    """The stretches of `seconds`, counted from 1970, that begin before `end` and end after `start`.

    They are whole, ascending, and those without a record are left out.
    """
    first = to_seconds(floor_to_second(start)) // seconds * seconds
    last = -(-to_seconds(end) // seconds) * seconds
    edges = range(first, last + 1, seconds)
    found = figures_between(connection, metric, edges)
    return [_bucket(from_seconds(edges[place]), figures, metric.decimals) for place, figures in found.items()]


def _bucket(start: datetime, figures: Figures, decimals: int) -> Bucket:
    extremes = to_number(figures.lowest, decimals), to_number(figures.highest, decimals)
    return Bucket(start, figures.stored, *extremes, to_total(figures.total, decimals))


def read_figures(connection: apsw.Connection, metric: KnownMetric, edges: Sequence[datetime]) -> list[Bucket]:
    """What is stored between each two edges; `stored` is 0 where nothing is."""
    found = figures_between(connection, metric, [to_seconds(edge) for edge in edges])
    stretches = enumerate(edges[:-1])
    return [_bucket(start, found.get(place, _NOTHING), metric.decimals) for place, start in stretches]


def read_totals(
    connection: apsw.Connection, metrics: Sequence[KnownMetric], start: datetime, end: datetime
) -> dict[str, Bucket]:
    """What is stored of [start, end), of each of the metrics that has anything there."""
    first, last = to_seconds(start), to_seconds(end)
    with snapshot(connection):
        if first < sealed_until(connection):
            found = {metric.name: figures_between(connection, metric, (first, last)).get(0) for metric in metrics}
        else:
            found = _unsealed_totals(connection, first, last)
    return {
        metric.name: _bucket(start, figures, metric.decimals)
        for metric in metrics
        if (figures := found.get(metric.name)) is not None
    }


def _unsealed_totals(connection: apsw.Connection, first: int, last: int) -> dict[str, Figures | None]:
    head, tail = -(-first // TALLY_SECONDS) * TALLY_SECONDS, last - last % TALLY_SECONDS
    if head > tail:
        head = tail = first
    bounds = {"start": first, "head": head, "tail": tail, "end": last}
    rows: list[tuple[Any, ...]] = connection.execute(_TOTALS, bounds).fetchall()
    return {
        name: Figures(stored, lowest, highest, (high << _LOW_BITS) + low)
        for name, stored, lowest, highest, high, low in rows
    }


def read_counts(
    connection: apsw.Connection, metric: KnownMetric, slots: Sequence[datetime]
) -> dict[datetime, Number]:
    """The counts of those of the slots that are stored."""
    wanted = sorted({to_seconds(slot) for slot in slots})
    with snapshot(connection):
        rows: list[tuple[Any, ...]] = connection.execute(_COUNTS_AT, (json.dumps(wanted), metric.id)).fetchall()
        sealed = sealed_counts(connection, [SlotKey(slot, metric.id) for slot in wanted])
    found = {key.slot: units for key, units in sealed.items()} | dict(rows)
    return {from_seconds(slot): to_number(units, metric.decimals) for slot, units in found.items()}


def read_newest_counts(connection: apsw.Connection, newest: Mapping[str, datetime]) -> dict[str, Number]:
    """The count of one slot of each metric, where it is stored."""
    wanted = json.dumps([(name, to_seconds(slot)) for name, slot in newest.items()])
    with snapshot(connection):
        rows: list[tuple[Any, ...]] = connection.execute(_NEWEST_COUNTS, (wanted,)).fetchall()
        absent = [
            (SlotKey(slot, number), name, decimals)
            for name, number, decimals, slot, units in rows
            if units is None
        ]
        sealed = sealed_counts(connection, [key for key, *_ in absent])
    counts = {name: to_number(units, decimals) for name, _, decimals, _, units in rows if units is not None}
    return counts | {name: to_number(sealed[key], decimals) for key, name, decimals in absent if key in sealed}
