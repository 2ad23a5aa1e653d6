"""Which metrics are paused: set by the dashboard, obeyed by the engine, kept across restarts.

To the engine a paused target is one that is not enabled. When it is resumed, what was due meanwhile is caught up
with like after any other stop, as far back as the target says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import apsw

from kizami.core.config import Config
from kizami.core.epoch import from_ms, to_ms
from kizami.core.errors import InvalidInput, StoreError
from kizami.core.slots import shorten
from kizami.local.store.database import open_database, sqlite_errors, transaction
from kizami.local.store.metrics import known_metric

# Pauses first: in SQLite's own order every metric is looked at, once a second, though hardly any is paused.
PAUSED = "SELECT name, since_ms FROM pauses CROSS JOIN metrics ON id = metric_id OR source_id = metric_id"


def paused_metrics(connection: apsw.Connection) -> dict[str, datetime]:
    """The paused metrics, and since when; all of several values are."""
    return {name: from_ms(since) for name, since in sorted(connection.execute(PAUSED))}


def pause_metric(connection: apsw.Connection, name: str, now: datetime) -> None:
    """Pause a metric from now on; one that is paused already stays so since then."""
    number = _number(connection, name)
    with transaction(connection):
        connection.execute("INSERT INTO pauses VALUES (?, ?) ON CONFLICT DO NOTHING", (number, to_ms(now)))


def resume_metric(connection: apsw.Connection, name: str) -> None:
    """Poll a metric again; one that is not paused stays as it is."""
    number = _number(connection, name)
    with transaction(connection):
        connection.execute("DELETE FROM pauses WHERE metric_id = ?", (number,))


def _number(connection: apsw.Connection, name: str) -> int:
    metric = known_metric(connection, name)
    if metric is None:
        raise InvalidInput("metric", f"{shorten(name)} was never polled")
    return metric.asked_id


def without_paused(config: Config, paused: Mapping[str, datetime]) -> Config:
    """The configuration with the paused targets not enabled."""
    targets = (replace(each, enabled=False) if each.name in paused else each for each in config.targets)
    return replace(config, targets=tuple(targets))


class PauseWatch:
    """Gives the engine its configuration as the pauses leave it, and news when either changes.

    Used by one thread at a time. A database that cannot be read keeps the pauses as they were: polling
    goes on, and the writer says what is wrong.
    """

    def __init__(self, path: Path, config: Config, new_config: Callable[[], Config | None]) -> None:
        self._path = path
        self._config = config
        self._new_config = new_config
        self._connection: apsw.Connection | None = None
        self._paused: Mapping[str, datetime] = {}
        self._before: Mapping[str, datetime] = {}  # the pauses at the look before
        self._read()

    @property
    def config(self) -> Config:
        """What is to be polled now."""
        return without_paused(self._config, self._paused)

    def new_config(self) -> Config | None:
        """What is to be polled now, if that is news."""
        config, self._before = self._new_config(), self._paused
        self._config = config or self._config
        self._read()
        return self.config if config is not None or self._paused.keys() != self._before.keys() else None

    def keep(self, config: Config) -> None:
        """The last news was refused: go on with `config`. A pause that came with it is news at the next look."""
        self._config, self._paused = config, self._before

    def close(self) -> None:
        """Give the file back."""
        if self._connection is not None:
            self._connection.close()

    def _read(self) -> None:
        try:
            with sqlite_errors(StoreError, self._path):
                self._connection = self._connection or open_database(self._path)
                self._paused = paused_metrics(self._connection)
        except StoreError:
            self.close()
            self._connection = None
