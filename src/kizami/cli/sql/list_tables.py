"""The tables that are short lists: `metrics`, `queue` and `dead_letters`, read whole when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

import apsw

from kizami.backend.port import Backend
from kizami.core.slots import format_second

Rows = Callable[[], Iterable[Sequence[Any]]]

METRICS = (
    "metric TEXT",
    "interval_seconds INTEGER",
    "lag_seconds INTEGER",
    "first_slot TEXT",
    "newest_slot TEXT",
    "decimals INTEGER",
    "polling TEXT",
    "last_error TEXT",
)
QUEUE = (
    "metric TEXT",
    "slot TEXT",
    "due_at TEXT",
    "visible_at TEXT",
    "attempts INTEGER",
    "in_flight INTEGER",
    "backfill INTEGER",
    "last_error TEXT",
)
DEAD_LETTERS = (
    "metric TEXT",
    "slot TEXT",
    "interval_seconds INTEGER",
    "attempts INTEGER",
    "backfill INTEGER",
    "sent_at TEXT",
    "died_at TEXT",
    "reason TEXT",
)


def metric_rows(backend: Backend) -> Iterable[Sequence[Any]]:
    """Every target, whether it is polled or not."""
    newest, troubles = backend.newest_slots(), backend.troubles()
    for target in backend.targets():
        trouble = troubles.get(target.name)
        yield (
            target.name,
            target.interval_seconds,
            target.lag_seconds,
            _text(target.first_slot),
            _text(newest.get(target.name)),
            target.decimals,
            target.polling.value,
            trouble.error if trouble else None,
        )


def queue_rows(backend: Backend) -> Iterable[Sequence[Any]]:
    """Every slot that waits to be asked for, or for its answer."""
    for pending in backend.pending():
        yield (
            pending.metric,
            _text(pending.slot),
            _text(pending.due_at),
            _text(pending.visible_at),
            pending.receives,
            int(pending.in_flight),
            int(pending.backfill),
            pending.last_error,
        )


def dead_letter_rows(backend: Backend) -> Iterable[Sequence[Any]]:
    """Every dead letter; none where none are kept."""
    for letter in backend.dead_letters() if backend.keeps_dead_letters else ():
        yield (
            letter.metric,
            _text(letter.slot),
            letter.interval_seconds,
            letter.receives,
            int(letter.backfill),
            _text(letter.sent_at),
            _text(letter.died_at),
            letter.reason,
        )


def _text(instant: datetime | None) -> str | None:
    return format_second(instant) if instant else None


class ListModule:
    """Makes such a table, for `apsw.Connection.create_module`; it is its own table, too."""

    def __init__(self, columns: Sequence[str], rows: Rows) -> None:
        self._columns = columns
        self._rows = rows

    def Connect(self, connection: apsw.Connection, module: str, *about: str) -> tuple[str, ListModule]:
        return f"CREATE TABLE {module} ({', '.join(self._columns)})", self

    Create = Connect

    def BestIndexObject(self, info: apsw.IndexInfo) -> bool:
        return True

    def Open(self) -> ListCursor:
        return ListCursor(self._rows)

    def Disconnect(self) -> None:
        """Nothing is held."""

    Destroy = Disconnect


class ListCursor:
    """Goes through the rows."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def Filter(self, number: int, words: str | None, values: Sequence[Any]) -> None:
        self._found = [*self._rows()]
        self._at = 0

    def Eof(self) -> bool:
        return self._at >= len(self._found)

    def Next(self) -> None:
        self._at += 1

    def Column(self, number: int) -> Any:
        return self._found[self._at][number]

    def Rowid(self) -> int:
        return self._at

    def Close(self) -> None:
        self._found = []
