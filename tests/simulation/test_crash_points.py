"""A crash at every write of a real run, replayed: the machine that stops, and the power that goes.

The daemon's writes are recorded once. For each point of the recording the files are rebuilt as a crash would
have left them, opened, and held against what had been acknowledged by then.
"""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

import fakes.fault_server as faults
from fakes.fault_server import FaultServer
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.errors import StoreError
from kizami.core.targets.target import Target
from kizami.local.store import statements
from kizami.local.store.database import open_database, require_intact, transaction
from kizami.local.store.history.sealing import seal_closed
from kizami.local.store.metrics import register_targets
from kizami.local.store.reader import Reader
from kizami.local.store.rows import StoredRow
from programs.daemon import SOURCES, toml

# `make campaign` tries every point; a test run tries these many, evenly spread.
POINTS = int(os.environ.get("KIZAMI_CRASH_POINTS", "120"))
RUNNING_SECONDS = 3.0
PAST = timedelta(minutes=10)
OLD, OLD_HOURS = datetime(2025, 12, 2, 9, tzinfo=UTC), 4
EVER = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)

Event = tuple[Any, ...]
Files = dict[str, bytearray]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A daemon with ten minutes to catch up with, live targets and one that fails, and hours of `old` to seal.

    The first of those hours is sealed already, and some of its slots came later than that.
    """
    directory = tmp_path_factory.mktemp("recording")
    database = directory / "kizami.db"
    names = ["one", "two", "three"]
    connection = open_database(database, create=True)
    with transaction(connection):
        targets = [Target(name=name, interval_seconds=1, lag_seconds=1) for name in names]
        register_targets(connection, targets, datetime.now(UTC) - PAST)
        old = register_targets(connection, [Target(name="old")], OLD)["old"]
    first, slots = to_seconds(OLD), range(0, OLD_HOURS * 3600, 5)
    store_old(connection, old.id, [first + each for each in slots if each % 35 or each > 3600])
    assert sum(seal_closed(connection, first + 3600, 0)) > 500
    store_old(connection, old.id, [first + each for each in slots])
    connection.close()
    before = {"kizami.db": bytearray(database.read_bytes())}
    with FaultServer(faults.answer()) as server, FaultServer(faults.status(500)) as broken:
        tables = [{"name": name, "url": server.url, "interval": 1, "timeout": 60} for name in names]
        tables.append({"name": "broken", "url": broken.url, "interval": 1})
        (directory / "kizami.toml").write_text(toml(tables))
        script = Path(__file__).with_name("recorded_daemon.py")
        arguments = map(str, (database, directory / "kizami.toml", RUNNING_SECONDS, directory / "recording"))
        subprocess.run(
            [sys.executable, script, *arguments],
            env=os.environ | {"PYTHONPATH": str(SOURCES)},
            check=True,
            timeout=240,
        )
    return Recording(before, pickle.loads((directory / "recording").read_bytes()))


def store_old(connection: apsw.Connection, metric_id: int, slots: list[int]) -> None:
    with transaction(connection):
        rows = [StoredRow(slot, metric_id, slot % 97, slot * 1000, slot % 7, 1, False) for slot in slots]
        statements.store(connection, rows)


def old_rows() -> set[tuple[str, datetime, int]]:
    slots = [to_seconds(OLD) + each for each in range(0, OLD_HOURS * 3600, 5)]
    return {("old", from_seconds(slot), slot % 97) for slot in slots}


class Recording:
    def __init__(self, before: Files, events: list[Event]) -> None:
        self.before = before
        self.events = events

    def points(self) -> Iterator[int]:
        """Where to crash: after so many events."""
        step = max(1, len(self.events) // POINTS)
        return iter(range(1, len(self.events) + 1, step))

    def acknowledged(self, point: int) -> set[tuple[str, datetime, int]]:
        told = (row for event in self.events[:point] if event[0] == "acknowledged" for row in event[1])
        return old_rows().union(told)


def test_the_recording_has_something_to_show(recording: Recording) -> None:
    kinds = {event[0] for event in recording.events}
    assert {"write", "sync", "acknowledged"} <= kinds
    assert len(recording.acknowledged(len(recording.events))) > 300
    assert sum(event == ("sync", "kizami.db-wal") for event in recording.events) > 10


def test_the_old_hours_are_sealed_in_the_end_and_not_at_the_beginning(
    recording: Recording, tmp_path: Path
) -> None:
    sealed = []
    for point in (1, len(recording.events)):
        connection = opened(rebuilt(recording.before, recording.events[:point], random.Random(point)), tmp_path)
        sealed.append(connection.execute("SELECT sum(stored) FROM sealed_spans").get)
        connection.close()
    assert sealed[0] < 720
    assert sealed[1] >= OLD_HOURS * 720


def test_killed_at_any_write_it_has_all_it_acknowledged(recording: Recording, tmp_path: Path) -> None:
    """kill -9: what was written is there, and of the last write perhaps a part."""
    for point in recording.points():
        files = rebuilt(recording.before, recording.events[:point], torn=random.Random(point))
        assert_sound(files, recording.acknowledged(point), tmp_path, f"killed after event {point}")


def test_without_power_at_any_moment_it_has_all_it_acknowledged(recording: Recording, tmp_path: Path) -> None:
    """What was synced is there; of what was written since, the disk kept what it liked."""
    for point in recording.points():
        chance = random.Random(point)
        events = list(surviving(recording.events[:point], chance))
        files = rebuilt(recording.before, events, torn=chance)
        assert_sound(files, recording.acknowledged(point), tmp_path, f"no power after event {point}")


def test_this_test_would_notice_rows_acknowledged_before_they_are_synced(
    recording: Recording, tmp_path: Path
) -> None:
    """Without the syncs of the log (as with synchronous=NORMAL) the same power failures do lose rows."""
    careless = [event for event in recording.events if event != ("sync", "kizami.db-wal")]
    lost = 0
    for point in range(1, len(careless) + 1, max(1, len(careless) // 20)):
        events = list(surviving(careless[:point], random.Random(point)))
        files = rebuilt(recording.before, events, torn=random.Random(point))
        acknowledged = {row for event in careless[:point] if event[0] == "acknowledged" for row in event[1]}
        try:
            lost += not acknowledged <= stored_in(files, tmp_path)
        except StoreError:  # damaged, which is worse
            lost += 1
    assert lost


def surviving(events: list[Event], chance: random.Random) -> Iterator[Event]:
    """The events less some of the writes that no sync of their file followed."""
    last_sync = {event[1]: number for number, event in enumerate(events) if event[0] == "sync"}
    for number, event in enumerate(events):
        synced = number < last_sync.get(event[1], -1) if event[0] != "acknowledged" else False
        if event[0] in ("write", "truncate") and not synced and chance.random() < 0.5:
            continue
        yield event


def rebuilt(before: Files, events: list[Event], torn: random.Random) -> Files:
    files = {name: bytearray(content) for name, content in before.items()}
    for number, event in enumerate(events):
        kind, name = event[0], event[1]
        if kind == "write":
            offset, data = event[2], event[3]
            if number == len(events) - 1:
                data = data[: torn.randrange(len(data) + 1)]
            content = files.setdefault(name, bytearray())
            content.extend(bytes(max(0, offset + len(data) - len(content))))
            content[offset : offset + len(data)] = data
        elif kind == "truncate":
            del files.setdefault(name, bytearray())[event[2] :]
        elif kind == "delete":
            files.pop(name, None)
    return files


def opened(files: Files, directory: Path) -> apsw.Connection:
    for left_over in directory.iterdir():
        left_over.unlink()
    for name, content in files.items():
        if name.startswith("kizami.db"):
            (directory / name).write_bytes(content)
    require_intact(directory / "kizami.db")
    return open_database(directory / "kizami.db")


def stored_in(files: Files, directory: Path) -> set[tuple[str, datetime, int]]:
    connection = opened(files, directory)
    reader = Reader(connection, directory / "kizami.db")
    rows = [
        (each.metric, each.slot, int(each.count))
        for name in reader.metrics()
        for each in reader.records(name, *EVER)
    ]
    connection.close()
    assert len({(name, slot) for name, slot, _ in rows}) == len(rows), "a slot is stored twice"
    return set(rows)


def assert_sound(files: Files, acknowledged: set[tuple[str, datetime, int]], directory: Path, when: str) -> None:
    stored = stored_in(files, directory)
    assert acknowledged <= stored, f"{when}: {len(acknowledged - stored)} acknowledged rows are lost"
    connection = open_database(directory / "kizami.db")
    keys = "SELECT slot, metric_id FROM"
    for one, other in (("slots", "messages"), ("slots", "dead_letters"), ("messages", "dead_letters")):
        both = connection.execute(f"{keys} {one} INTERSECT {keys} {other}").fetchall()
        assert not both, f"{when}: {len(both)} slots are in {one} and in {other}"
    for figures in ("sum(stored) FROM tallies", "count(*) FROM slots"):
        sealed = connection.execute("SELECT sum(stored) FROM sealed_spans").get or 0
        assert sealed + (connection.execute(f"SELECT {figures}").get or 0) == len(stored), when
    connection.close()
