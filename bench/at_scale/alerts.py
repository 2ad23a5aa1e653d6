"""What a look of alerts costs with many targets, when all are well, fail at once and recover: CPU and memory.

    python -m bench.at_scale.alerts [targets …]

A database of a few minutes stands for the backend; the clock is turned by hand, and a look is the daemon's: what
is decided is kept in the database. CPU time is what counts.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from kizami.alerts.rules.conditions import parse_condition
from kizami.alerts.rules.settings import AlertSettings, Rule
from kizami.core.epoch import to_seconds
from kizami.core.targets.target import Target
from kizami.local.alerts.incident_rows import list_incidents, read_state
from kizami.local.alerts.outbox import undelivered
from kizami.local.alerts.watch import LOOK_SECONDS, AlertWatch
from kizami.local.backend import LocalBackend
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import register_targets

START = datetime(2025, 12, 2, 9, 0, tzinfo=UTC)
INTERVAL_SECONDS = 5
WELL, FAILING = 36, 48  # slots, one after the other


class HandClock:
    """A clock that is turned by hand."""

    moment = START

    def now(self) -> datetime:
        return self.moment


class Scale:
    """So many targets in a database, and the watch over them."""

    def __init__(self, path: Path, targets: int) -> None:
        self.path, self.clock = path, HandClock()
        self.connection = open_database(path, create=True)
        with transaction(self.connection):
            names = [Target(name=f"shop/{number:05}", lag_seconds=INTERVAL_SECONDS) for number in range(targets)]
            known = register_targets(self.connection, names, START)
        self.ids = [metric.id for metric in known.values()]
        self.backend = LocalBackend(path)
        self.watch = AlertWatch(path, lambda: self.backend, self.clock)
        conditions = tuple(parse_condition(text, "when") for text in ("fails", "silent", "dead"))
        self.watch._settings = AlertSettings((Rule("ops", "https://k.example", conditions, wait_seconds=15),))
        self.watch._running_since = START
        self.watch._state = read_state(self.connection, START)

    def store(self, slots: Iterable[int]) -> None:
        """These slots of all targets."""
        times = [to_seconds(START + timedelta(seconds=INTERVAL_SECONDS * number)) for number in slots]
        rows = [[slot, each, 7, (slot + 5) * 1000, 9] for slot in times for each in self.ids]
        sql = """INSERT INTO slots
        SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, 1, 0 FROM json_each(?)"""
        with transaction(self.connection):
            self.connection.execute(sql, (json.dumps(rows),))

    def look(self, number: float) -> float:
        """A look when that slot is settled; the seconds of CPU."""
        self.clock.moment = START + timedelta(seconds=INTERVAL_SECONDS * number + 15)
        self.watch._looked_at = self.clock.moment - timedelta(seconds=LOOK_SECONDS)
        began = time.process_time()
        self.watch._look(self.connection, self.backend)
        return time.process_time() - began

    def told(self) -> int:
        """Messages in the outbox."""
        return undelivered(self.connection).get("ops", (0, None))[0]


def measure(targets: int) -> None:
    """Print what each kind of look costs."""
    with tempfile.TemporaryDirectory() as folder:
        here = Scale(Path(folder) / "kizami.db", targets)
        here.store(range(WELL + 1))
        here.look(WELL)
        report(targets, "all well", here.look(WELL))
        report(targets, "all fail: an incident", here.look(WELL + 12))
        report(targets, "it is told", here.look(WELL + 15))
        report(targets, "it goes on", max(here.look(WELL + number) for number in (18, 21, 24)))
        here.store(range(WELL + 1, FAILING + 40))
        report(targets, "all answer again", here.look(FAILING + 24))
        report(targets, "the recovery is told", here.look(FAILING + 37))
        incidents = list_incidents(here.connection)
        size = here.connection.execute("SELECT sum(length(document)) FROM incidents").get
        print(f"{targets:7,}  {len(incidents)} incident, {here.told()} messages, {size / 1e6:.2f} MB kept")
        here.backend.close()
        here.connection.close()


def report(targets: int, what: str, seconds: float) -> None:
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{targets:7,}  {what:24} {seconds * 1000:8.0f} ms of CPU, {memory:5.0f} MB at most", flush=True)


if __name__ == "__main__":
    for count in map(int, sys.argv[1:] or ("1000", "10000")):
        measure(count)
