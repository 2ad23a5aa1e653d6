"""`make bench`, its last part: what sealing old slots costs a daemon that polls, and whether a poll waits for it.

    python -m bench.sealing [--targets 10000] [--hours 2] [--seconds 60] [--minutes 30]

The daemon finds so many hours of every target that are ripe to be sealed, each a sealing of its own, and polls
meanwhile. It is measured twice in one run: until all is sealed, and then for some time without. Each poll leaves
one slot to be sealed an hour later, so what sealing a slot takes stands beside what a poll takes.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import apsw

from bench.contenders import Kizami
from bench.run import HEADINGS, WARM_UP_SECONDS, Result, Servers, cpu_seconds, line_of, peak_rss_mb, result_of
from kizami.core.targets.target import Target
from kizami.local.store import statements
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import register_targets
from kizami.local.store.rows import StoredRow

HOUR, INTERVAL = 3600, 5
_SEALED_AFTER = 2 * HOUR  # as the daemon does, an hour after an hour is over
_ROWS_AT_ONCE = 200_000


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of the run: from when to when, the daemon's CPU in it, and how many slots were sealed."""

    since_ms: float
    until_ms: float
    cpu: float
    sealed: int


def make_history(path: Path, count: int, hours: int) -> int:
    """So many hours of each target, as rows; how many there are."""
    chance, now = random.Random(12), int(time.time())
    end = now // HOUR * HOUR - _SEALED_AFTER
    connection = open_database(path, create=True)
    connection.execute("PRAGMA synchronous = OFF")
    with transaction(connection):
        targets = [Target(name=f"t{n}", lag_seconds=INTERVAL) for n in range(count)]
        known = register_targets(connection, targets, datetime.now(UTC))
    step = max(INTERVAL, _ROWS_AT_ONCE // count * INTERVAL)
    for start in range(end - hours * HOUR, end, step):
        rows = [
            StoredRow(slot, metric.id, chance.getrandbits(8), slot * 1000 + 5000 + late, late, 1, False)
            for slot in range(start, min(start + step, end), INTERVAL)
            for metric in known.values()
            for late in [chance.getrandbits(3)]
        ]
        with transaction(connection):
            statements.store(connection, rows)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return hours * HOUR // INTERVAL * count


def phases(pid: int, path: Path, slots: int, seconds: float, most_seconds: float) -> Iterator[Phase]:
    """While it is sealed, and without."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    for at_most, until_sealed in ((most_seconds, slots), (seconds, None)):
        deadline, sealed = time.monotonic() + at_most, sealed_in(connection)
        since_ms, cpu = time.time() * 1000, cpu_seconds(pid)
        while time.monotonic() < deadline and (until_sealed is None or sealed_in(connection) < until_sealed):
            time.sleep(1)
        yield Phase(since_ms, time.time() * 1000, cpu_seconds(pid) - cpu, sealed_in(connection) - sealed)
    connection.close()


def sealed_in(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT ifnull(sum(stored), 0) FROM sealed_spans").get)


def measure(count: int, hours: int, seconds: float, most_seconds: float) -> list[tuple[Phase, Result]]:
    with tempfile.TemporaryDirectory(prefix="kizami-bench-") as name:
        directory = Path(name)
        slots = make_history(directory / "kizami.db", count, hours)
        server = Servers(directory, "own", count)
        contender = Kizami(directory, server.layout, count)
        contender.settings = "catch_up = 0\n"  # the hours since its history are no part of what is measured
        contender.start()
        try:
            time.sleep(WARM_UP_SECONDS)
            found = [*phases(contender.process.pid, directory / "kizami.db", slots, seconds, most_seconds)]
            peak_mb = peak_rss_mb(contender.process.pid)
        finally:
            contender.process.send_signal(signal.SIGTERM)
            contender.process.wait()
            arrivals = server.stop()
        return [
            (phase, result_of(contender, arrivals, phase.since_ms, phase.until_ms, phase.cpu, peak_mb))
            for phase in found
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=10_000)
    parser.add_argument("--hours", type=int, default=2, help="how many sealings")
    parser.add_argument("--seconds", type=float, default=60, help="how long it is measured without sealing")
    parser.add_argument("--minutes", type=float, default=30, help="how long sealing may take")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    sealing, quiet = measure(options.targets, options.hours, options.seconds, 60 * options.minutes)
    print(f"\n{options.hours} hours of {options.targets:,} targets are sealed by a daemon that polls them:\n")
    print(f"| while | {HEADINGS} |\n|{' --- |' * (HEADINGS.count('|') + 2)}")
    for words, (_, result) in (("sealing", sealing), ("not", quiet)):
        print(f"| {words} {line_of(result, None)}")
    phase, result = sealing
    if not phase.sealed:
        print("\nNothing was sealed after the first seconds: take more hours or targets.")
        return
    polls = (phase.until_ms - phase.since_ms) / (1000 * INTERVAL) * options.targets
    a_slot_ms = (result.cpu_ms - quiet[1].cpu_ms) * polls / phase.sealed
    print(f"\n{phase.sealed:,} slots were sealed in {(phase.until_ms - phase.since_ms) / 1000:.0f} s: ", end="")
    if a_slot_ms > 0:
        print(f"{1000 * a_slot_ms:.1f} us of CPU a slot, {a_slot_ms / quiet[1].cpu_ms:.1%} of a poll's.")
    else:
        print("less CPU than polls differ by from one minute to the next; take more targets.")


if __name__ == "__main__":
    main()
