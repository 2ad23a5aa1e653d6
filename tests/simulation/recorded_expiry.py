"""Old slots given up and their space given back, with every write to disk recorded, for tests that replay a crash.

    python recorded_expiry.py DATABASE NOW RECORDING

The recording is that of `recorded_daemon.py`; what is acknowledged is up to where each metric has given up slots.
The steps are smaller than those of the daemon, so that a small file takes many of them.
"""

from __future__ import annotations

import pickle
import sys
from itertools import chain
from pathlib import Path

from kizami.local.store.database import open_database
from kizami.local.store.history import expiry, free_space
from kizami.local.store.metrics import known_metrics
from simulation.recorded_daemon import RecordedDisk, events


def main(database: Path, now: int, recording: Path) -> None:
    expiry._SPANS_AT_ONCE = 15
    free_space._LEAST_PAGES, free_space._PAGES_AT_ONCE = 5, 4
    disk = RecordedDisk()
    connection = open_database(database)
    for _ in chain(expiry.expire(connection, now), free_space.give_back(connection)):
        events.append(
            ("acknowledged", {each.name: each.expired_until for each in known_metrics(connection).values()})
        )
    connection.close()
    recording.write_bytes(pickle.dumps(events))
    disk.unregister()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
