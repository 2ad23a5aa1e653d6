"""Databases as earlier runs have left them, with records."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from kizami.core.targets.target import Target
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import metric_id
from simulation.world.apis import right_value
from simulation.world.oracle import Slot
from simulation.world.timeline import SECOND

_RECORDS = 400  # of all targets
_METRIC = """
INSERT INTO metrics (id, name, interval_seconds, lag_seconds, step_seconds, first_slot) VALUES (?, ?, ?, ?, ?, ?)
"""


def make_old_file(path: Path, targets: Sequence[Target], start: int) -> dict[Slot, int]:
    """A file with the last records before `start` of targets of one value."""
    records: dict[Slot, int] = {}
    with (
        closing(open_database(path, create=True)) as connection,
        transaction(connection),
    ):
        for ordinal, target in enumerate(target for target in targets if target.metrics == (target.name,)):
            number, interval, lag = metric_id(ordinal), target.interval_seconds, target.lag_seconds
            last = (start // SECOND - lag) // interval * interval
            slots = range(last - max(2, _RECORDS // len(targets)) * interval, last, interval)
            connection.execute(_METRIC, (number, target.name, interval, lag, interval, slots[0]))
            for slot in slots:
                count = records[target.name, slot] = right_value(target.name, slot)
                row = slot, number, count, 1000 * (slot + lag), 0, 1, 0
                connection.execute("INSERT INTO slots VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    return records
