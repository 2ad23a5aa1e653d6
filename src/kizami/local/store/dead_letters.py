"""Slots that were given up, with their reasons: listed, put back on the queue, or forgotten."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from kizami.backend.values import DeadLetter, DeadLetterKey, Deaths
from kizami.core.epoch import from_ms, from_seconds, to_ms, to_seconds
from kizami.core.errors import QueueError
from kizami.core.ports import Clock
from kizami.local.store.backfill_queue import PIECE
from kizami.local.store.database import open_database, sqlite_errors, transaction
from kizami.local.store.statements import BACKFILL

_SELECT = """
SELECT d.slot, name, seconds, receives, sent_ms, died_ms, reason, priority
FROM dead_letters AS d JOIN metrics ON id = metric_id
"""
_NEWEST = (
    _SELECT
    + """
WHERE (?1 IS NULL OR name = ?1) AND (?3 IS NULL OR (died_ms, d.slot, name) < (?3, ?4, ?5))
ORDER BY died_ms DESC, d.slot DESC, name DESC LIMIT ?2
"""
)
# The letters are read once; those of who asks for several values are told of each of these.
_SINCE = """
WITH died AS MATERIALIZED (
    SELECT metric_id, count(*) AS letters, min(slot) AS first, reason, max(died_ms) AS last
    FROM dead_letters WHERE died_ms >= ?1 AND died_ms <= ?2 GROUP BY metric_id
)
SELECT name, sum(letters), min(first), reason, max(last) FROM (
    SELECT metrics.id, name, died.* FROM died CROSS JOIN metrics ON metrics.id = metric_id
    UNION ALL SELECT metrics.id, name, died.* FROM died CROSS JOIN metrics ON source_id = metric_id
) GROUP BY id
"""
# ?1 is a JSON array of [slot, metric name].
_THESE = """
(slot, metric_id) IN (SELECT value ->> 0, metrics.id FROM json_each(?1) JOIN metrics ON name = value ->> 1)
"""
_REDRIVE = f"""
INSERT INTO messages (slot, metric_id, seconds, priority, due_ms, visible_ms, sent_ms, last_error)
SELECT slot, metric_id, seconds, {BACKFILL}, due_ms, due_ms, ?2, reason FROM dead_letters WHERE {_THESE}
"""
_FORGET = f"DELETE FROM dead_letters WHERE {_THESE}"


class DeadLetters:
    """The dead letters of one database; works while the daemon runs and while it does not."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._connection = open_database(path)

    def newest(
        self, metric: str | None = None, limit: int = -1, before: DeadLetterKey | None = None
    ) -> list[DeadLetter]:
        """Those of one metric or of all, newest first, from after `before` on; no limit if it is negative."""
        key = (to_ms(before[0]), to_seconds(before[1]), before[2]) if before else (None, None, None)
        with sqlite_errors(QueueError, self._path):
            return [_dead_letter(row) for row in self._connection.execute(_NEWEST, (metric, limit, *key))]

    def between(self, metric: str, start: datetime, end: datetime) -> list[DeadLetter]:
        """Those of the metric's slots in [start, end), oldest slot first."""
        sql = _SELECT + "WHERE name = ? AND d.slot >= ? AND d.slot < ? ORDER BY d.slot"
        with sqlite_errors(QueueError, self._path):
            rows = self._connection.execute(sql, (metric, to_seconds(start), to_seconds(end)))
            return [_dead_letter(row) for row in rows]

    def since(self, moment: datetime) -> dict[str, Deaths]:
        """What died from then until now, by metric; of several values each."""
        bounds = to_ms(moment), to_ms(self._clock.now())
        with sqlite_errors(QueueError, self._path):
            rows: list[tuple[Any, ...]] = self._connection.execute(_SINCE, bounds).fetchall()
        return {name: Deaths(count, from_seconds(slot), reason) for name, count, slot, reason, _ in rows}

    def redrive(self, letters: Iterable[DeadLetter]) -> int:
        """Put them back on the queue with a fresh count of receives; how many went back."""
        return self._settle(letters, back_on_queue=True)

    def purge(self, letters: Iterable[DeadLetter]) -> int:
        """Forget them: their slots are missing from then on. How many there were."""
        return self._settle(letters, back_on_queue=False)

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()

    def _settle(self, letters: Iterable[DeadLetter], *, back_on_queue: bool) -> int:
        remaining = iter(letters)
        settled = 0
        while piece := list(islice(remaining, PIECE)):
            keys = json.dumps([[to_seconds(letter.slot), letter.metric] for letter in piece])
            with sqlite_errors(QueueError, self._path), transaction(self._connection):
                if back_on_queue:
                    self._connection.execute(_REDRIVE, (keys, to_ms(self._clock.now())))
                self._connection.execute(_FORGET, (keys,))
                settled += self._connection.changes()
        return settled


def _dead_letter(row: tuple[Any, ...]) -> DeadLetter:
    slot, name, seconds, receives, sent, died, reason, priority = row
    return DeadLetter(
        from_seconds(slot), name, seconds, receives, from_ms(sent), from_ms(died), reason, priority == BACKFILL
    )
