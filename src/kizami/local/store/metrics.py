"""Which metrics the database knows: the id, the grid and the beginning of each, kept for ever."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import gcd
from typing import Any

import apsw

from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.errors import ConfigurationError, StoreError
from kizami.core.slots import floor_to_second, floor_to_slot, shift
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
    decimals: int = 0  # its counts are whole numbers of units with so many decimal places
    source_id: int | None = None  # one of several values: whose messages ask for it
    keep_seconds: int | None = None  # how long its slots are kept, and then their totals; for ever
    keep_totals_seconds: int | None = None
    expired_until: int | None = None  # (seconds) what was stored before is kept no more

    @property
    def asked_id(self) -> int:
        """Whose messages and dead letters are about its slots."""
        return self.id if self.source_id is None else self.source_id

    def kept_from(self, now: datetime) -> datetime | None:
        """From when on its slots are kept; None if for ever."""
        expired = None if self.expired_until is None else from_seconds(self.expired_until)
        if self.keep_seconds is None:
            return expired
        kept = floor_to_second(shift(now, -self.keep_seconds))
        return max(kept, expired) if expired else kept

    def expected_from(self, now: datetime) -> datetime:
        """The first slot that is expected and kept, or a moment shortly before it."""
        kept = self.kept_from(now)
        return max(kept, self.first_slot) if kept else self.first_slot


ID_SPACE = 1 << 20
_COLUMNS = """id, name, interval_seconds, lag_seconds, step_seconds, first_slot, decimals, source_id,
keep_seconds, keep_totals_seconds, expired_until"""
_ALL = f"SELECT {_COLUMNS} FROM metrics ORDER BY name"
_WITH_EXPIRED = f"""
SELECT {_COLUMNS} FROM metrics WHERE keep_seconds IS NOT NULL AND (
    EXISTS (
        SELECT 1 FROM sealed_spans WHERE metric_id = metrics.id AND start >= ifnull(expired_until, -(1 << 62))
        AND start < :now - keep_seconds AND start + seconds <= :now - keep_seconds
    ) OR EXISTS (
        SELECT 1 FROM sealed_spans WHERE metric_id = metrics.id
        AND start < :now - keep_totals_seconds AND start + seconds <= :now - keep_totals_seconds
    )
) ORDER BY name
"""


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
    return {row[1]: _metric(row) for row in connection.execute(_ALL)}


def with_expired_spans(connection: apsw.Connection, now: int) -> list[KnownMetric]:
    """Those that have sealed slots, or totals of such, which were kept for long enough at `now` (seconds)."""
    return [_metric(row) for row in connection.execute(_WITH_EXPIRED, {"now": now})]


class MetricCatalogue:
    """All of them, for who asks again and again over one connection: read anew only where they have changed."""

    def __init__(self) -> None:
        self._version: tuple[Any, int] | None = None
        self._known: Mapping[str, KnownMetric] = {}
        self._recorded: Mapping[str, KnownMetric] | None = None

    def read(self, connection: apsw.Connection) -> Mapping[str, KnownMetric]:
        """As `known_metrics`, and the very same mapping as long as nothing has changed."""
        # A change of this connection that is rolled back gives its number to the next one; total_changes stays.
        version = connection.execute("SELECT changes FROM metric_changes").get, connection.total_changes()
        if version != self._version:
            self._known, self._recorded, self._version = known_metrics(connection), None, version
        return self._known

    def read_recorded(self, connection: apsw.Connection) -> Mapping[str, KnownMetric]:
        """Those of them `with_records`."""
        known = self.read(connection)
        if self._recorded is None:
            self._recorded = with_records(known)
        return self._recorded


def known_metric(connection: apsw.Connection, name: str) -> KnownMetric | None:
    """The metric of that name, if it was ever polled."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM metrics WHERE name = ?", (name,)).fetchone()
    return _metric(row) if row else None


def with_records(known: Mapping[str, KnownMetric]) -> Mapping[str, KnownMetric]:
    """Those that have records of their own, and not only ask for several values."""
    sources = {metric.source_id for metric in known.values()} - {None}
    return known if not sources else {name: metric for name, metric in known.items() if metric.id not in sources}


def register_targets(
    connection: apsw.Connection, targets: Collection[Target], now: datetime
) -> dict[str, KnownMetric]:
    """Make each target known; to be called in a transaction.

    A new one is expected from the slot of its next tick on, so a new database has no past to catch up with. One
    whose interval has changed is expected from now on: its old slots are another tiling of time and stay as they
    are, and none of them may pass for one of the new. Of one with several values each is a metric, and it itself
    one that only asks. ConfigurationError where that or other decimal places would change records that are there.
    """
    known = known_metrics(connection)
    values = [metric for metric in known.values() if metric.source_id is not None]
    for target in targets:
        if target.answer.values and target.name in known:
            _require_no_records(connection, known[target.name], values)
        source = _register(connection, target, None, known, now)
        for value in target.of_each_metric() if target.answer.values else ():
            _register(connection, value, source.id, known, now)
    _release(connection, values, targets, known)
    return known


def _register(
    connection: apsw.Connection,
    target: Target,
    source_id: int | None,
    known: dict[str, KnownMetric],
    now: datetime,
) -> KnownMetric:
    metric = known.get(target.name)
    if metric is None or metric.interval_seconds != target.interval_seconds:
        next_tick = shift(floor_to_slot(now, target.interval_seconds), target.interval_seconds)
        first_slot = next_tick if metric else shift(next_tick, -target.lag_seconds)
        metric = _metric_of(target, first_slot, metric, len(known))
    if metric.decimals != target.answer.decimals:
        metric = _with_decimals(connection, metric, target.answer.decimals)
    keep = target.keep_seconds, target.keep_totals_seconds
    if (metric.lag_seconds, metric.source_id, *_keep_of(metric)) != (target.lag_seconds, source_id, *keep):
        metric = replace(
            metric,
            lag_seconds=target.lag_seconds,
            source_id=source_id,
            keep_seconds=target.keep_seconds,
            keep_totals_seconds=target.keep_totals_seconds,
        )
    if metric != known.get(target.name):
        _save(connection, metric)
        known[target.name] = metric
    return metric


def _keep_of(metric: KnownMetric) -> tuple[int | None, int | None]:
    return metric.keep_seconds, metric.keep_totals_seconds


def _require_no_records(connection: apsw.Connection, metric: KnownMetric, values: Sequence[KnownMetric]) -> None:
    """ConfigurationError for a name that stood for one value, which is stored, and now stands for several."""
    is_source = any(value.source_id == metric.id for value in values)
    if not is_source and _has_records(connection, metric):
        problem = "its records are of one value, and stay as they are; use another name for several"
        raise ConfigurationError(f"{metric.name}: values", problem)


def _release(
    connection: apsw.Connection,
    values: Sequence[KnownMetric],
    targets: Iterable[Target],
    known: dict[str, KnownMetric],
) -> None:
    """A value that its target has no more is asked for by nobody."""
    metrics = {known[target.name].id: target.metrics for target in targets}
    for value in values:
        if value.source_id in metrics and value.name not in metrics[value.source_id]:
            known[value.name] = replace(known[value.name], source_id=None)
            _save(connection, known[value.name])


def _has_records(connection: apsw.Connection, metric: KnownMetric) -> bool:
    sql = """SELECT EXISTS (SELECT 1 FROM tallies WHERE metric_id = ?1)
                 OR EXISTS (SELECT 1 FROM sealed_spans WHERE metric_id = ?1)"""
    return bool(connection.execute(sql, (metric.id,)).get)


def _with_decimals(connection: apsw.Connection, metric: KnownMetric, decimals: int) -> KnownMetric:
    """The metric with other decimal places, as long as it has no record: a stored one never changes."""
    if _has_records(connection, metric):
        problem = f"its records have decimals = {metric.decimals}, and stay as they are; use that, or another name"
        raise ConfigurationError(f"{metric.name}: decimals", problem)
    return replace(metric, decimals=decimals)


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
        return KnownMetric(
            metric_id(ordinal), target.name, interval, lag, interval, first_slot, target.answer.decimals
        )
    step = gcd(old.step_seconds, interval)
    return replace(old, interval_seconds=interval, lag_seconds=lag, step_seconds=step, first_slot=first_slot)


def _save(connection: apsw.Connection, metric: KnownMetric) -> None:
    first_slot = to_seconds(metric.first_slot)
    connection.execute(
        f"INSERT OR REPLACE INTO metrics ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            metric.id,
            metric.name,
            metric.interval_seconds,
            metric.lag_seconds,
            metric.step_seconds,
            first_slot,
            metric.decimals,
            metric.source_id,
            *_keep_of(metric),
            metric.expired_until,
        ),
    )


def _metric(row: tuple[Any, ...]) -> KnownMetric:
    number, name, interval, lag, step, first, *more = row
    return KnownMetric(number, name, interval, lag, step, from_seconds(first), *more)
