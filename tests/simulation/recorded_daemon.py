"""A daemon whose every write to disk is recorded, for tests that replay how far a crash let it get.

    python recorded_daemon.py DATABASE CONFIG SECONDS RECORDING

It runs for so many seconds, and longer on a machine that has not done enough by then. Old slots are sealed.

The recording is a pickle of ("write", file, offset, data), ("truncate", file, size), ("sync", file),
("delete", file) and ("acknowledged", [(metric, slot, count)]) in the order in which they happened.
"""

from __future__ import annotations

import pickle
import sys
import threading
import time
from pathlib import Path
from typing import Any

import apsw

from kizami.local.engine.loop import Engine, StoredRecord
from kizami.local.engine.options import Options
from kizami.local.store.database import open_database
from kizami.platform.clock import SystemClock
from kizami.platform.config_file import read_config

ROWS, SYNCS = 300, 10

events: list[tuple[Any, ...]] = []


class RecordedFile(apsw.VFSFile):
    """A file of the database or its log; temporary ones have no name and do not matter."""

    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._name = Path(path).name if path else ""

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        events.append(("write", self._name, offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        events.append(("truncate", self._name, size))

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        events.append(("sync", self._name))


class RecordedDisk(apsw.VFS):
    def __init__(self) -> None:
        super().__init__("recorded", "unix", makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return RecordedFile(name, flags)

    def xDelete(self, name: str, sync: bool) -> None:
        super().xDelete(name, sync)
        events.append(("delete", Path(name).name))


def acknowledge(records: list[StoredRecord]) -> None:
    rows = [(each.record.metric, each.record.slot, each.record.count) for each in records]
    events.append(("acknowledged", rows))


def has_done_enough(connection: apsw.Connection) -> bool:
    """Whether there are as many rows and syncs as the tests want to see, and nothing is left to seal."""
    rows = sum(len(event[1]) for event in list(events) if event[0] == "acknowledged")
    old = connection.execute("SELECT count(*) FROM tallies WHERE bucket < ?", (time.time() - 86_400,)).get
    return rows > ROWS and events.count(("sync", "kizami.db-wal")) > SYNCS and not old


def stop_in_time(engine: Engine, database: Path, seconds: float) -> None:
    time.sleep(seconds)
    connection = open_database(database)
    while not has_done_enough(connection):
        time.sleep(0.05)
    connection.close()
    engine.stop()


def main(database: Path, config: Path, seconds: float, recording: Path) -> None:
    disk = RecordedDisk()
    engine = Engine(database, Options(seal_after_seconds=0), SystemClock(), acknowledge)
    threading.Thread(target=stop_in_time, args=[engine, database, seconds], daemon=True).start()
    engine.run(read_config(config))
    recording.write_bytes(pickle.dumps(events))
    disk.unregister()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]))
