"""`make soak`: an hour in which a third of the hosts hang, fail, drip or cannot be resolved.

Every host is an address of its own on the loopback. What is told each minute, and drawn and judged at the end: the
queue, the memory, descriptors, the file, and how late the healthy hosts' polls are. One hanging host has many
targets. Every few minutes a past hour of a healthy target is asked for, which must come in while the others hang.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import linear_regression, median
from urllib.parse import parse_qs, urlsplit

from kizami.core.sender import message_for_slot
from kizami.core.slots import floor_to_slot
from kizami.core.targets.target import Target
from kizami.local.store.backfill_queue import BackfillQueue
from kizami.local.store.reader import Reader
from kizami.platform.clock import SystemClock

ROOT = Path(__file__).parent.parent
PORT = 18080
BACKFILL_SLOTS = 720
TROUBLES = ("hangs", "fails", "drips", "unresolvable")
Behaviour = Callable[[str, asyncio.StreamWriter], Awaitable[None]]
DRAWN = {
    "megabytes": "memory (MB)",
    "descriptors": "descriptors",
    "file_megabytes": "file (MB)",
    "pending": "queue",
    "late_ms": "late p99 (ms)",
}
_BARS = "▁▂▃▄▅▆▇█"
_HEAD = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Host:
    """A host and how it behaves."""

    kind: str
    address: str
    targets: int = 1

    @property
    def url(self) -> str:
        return f"http://{self.address}:{PORT}"


def hosts_of(count: int, crowd: int) -> list[Host]:
    """Two thirds are healthy, one third is in trouble, and one that hangs has a crowd of targets."""
    found = []
    for n in range(count):
        kind = TROUBLES[n // 3 % len(TROUBLES)] if n % 3 == 2 else "healthy"
        address = f"h{n}.invalid" if kind == "unresolvable" else f"127.3.{n // 250}.{n % 250 + 1}"
        found.append(Host(kind, address))
    return [*found, Host("hangs", "127.4.0.1", crowd)]


def targets_of(hosts: list[Host]) -> dict[str, Host]:
    return {f"{host.kind}/{n}-{m}": host for n, host in enumerate(hosts) for m in range(host.targets)}


def serve(hosts: list[Host]) -> None:
    """All the hosts' servers, in a process of their own."""

    async def healthy(target: str, writer: asyncio.StreamWriter) -> None:
        asked = parse_qs(urlsplit(target).query)
        body = b'{"from": "%s", "to": "%s", "count": 7}' % (asked["from"][0].encode(), asked["to"][0].encode())
        writer.write(_HEAD % (b"200 OK", len(body)) + body)
        await writer.drain()

    async def fails(target: str, writer: asyncio.StreamWriter) -> None:
        writer.write(_HEAD % (b"503 Service Unavailable", 0))
        await writer.drain()

    async def hangs(target: str, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)

    async def drips(target: str, writer: asyncio.StreamWriter) -> None:
        writer.write(_HEAD % (b"200 OK", 10_000))
        for _ in range(3600):
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(1)

    behaviours = {"healthy": healthy, "fails": fails, "hangs": hangs, "drips": drips}

    async def main() -> None:
        for host in hosts:
            if host.kind in behaviours:
                await asyncio.start_server(_connection(behaviours[host.kind]), host.address, PORT, backlog=1000)
        await asyncio.sleep(1 << 20)

    asyncio.run(main())


def _connection(behave: Behaviour) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await behave(head.split(b" ", 2)[1].decode(), writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    return handle


@dataclass(frozen=True, slots=True)
class Minute:
    """What was seen in one minute."""

    pending: int
    dead: int
    megabytes: float
    descriptors: int
    file_megabytes: float
    late_ms: int
    missed: int
    backfill_seconds: float | None

    def __str__(self) -> str:
        backfill = f"{self.backfill_seconds:.0f}" if self.backfill_seconds is not None else "-"
        numbers = f"{self.pending:>8} {self.dead:>8} {self.megabytes:>9.1f} {self.descriptors:>11}"
        return f"{numbers} {self.file_megabytes:>9.1f} {self.late_ms:>12} {self.missed:>7} {backfill:>14}"


class Watch:
    """Looks at a daemon from outside, as a verb does."""

    def __init__(self, database: Path, pid: int, healthy: list[str]) -> None:
        self._database = database
        self._pid = pid
        self._healthy = healthy
        self._asked: tuple[str, datetime, float] | None = None
        self._next_past = datetime(2026, 1, 1, tzinfo=UTC)

    def ask_for_the_past(self, minute: int) -> None:
        """Ask a healthy target for an hour long ago."""
        metric, start = self._healthy[minute % len(self._healthy)], self._next_past
        self._next_past += timedelta(hours=1)
        queue = BackfillQueue(self._database, SystemClock())
        slots = [start + timedelta(seconds=5 * n) for n in range(BACKFILL_SLOTS)]
        queue.send_backfill(message_for_slot(slot, Target(name=metric, lag_seconds=5)) for slot in slots)
        queue.close()
        self._asked = metric, start, time.monotonic()

    def backfill_seconds(self) -> float | None:
        """How long the past hour took, if it has come in; what has not after a minute counts as that."""
        if self._asked is None:
            return None
        metric, start, asked = self._asked
        with Reader.opened(self._database) as reader:
            stored = reader.stored_count(metric, start, start + timedelta(hours=1))
        if stored == BACKFILL_SLOTS:
            self._asked = None
            return time.monotonic() - asked
        return None

    def minute(self, end: datetime, backfill_seconds: float | None) -> Minute:
        start = end - timedelta(minutes=1)
        late: list[int] = []
        with Reader.opened(self._database) as reader:
            for name in self._healthy:
                late += [row.late_ms for row in reader.stored(name, start, end) if not row.backfilled]
            depth = reader.queue_depth(SystemClock().now())
        late.sort()
        missed = 12 * len(self._healthy) - len(late)
        p99 = late[len(late) * 99 // 100] if late else 0
        pending = depth.waiting + depth.in_flight + depth.planned
        descriptors = len(list(Path(f"/proc/{self._pid}/fd").iterdir()))
        sizes = self._megabytes(), descriptors, self._file_megabytes()
        return Minute(pending, depth.dead, *sizes, p99, missed, backfill_seconds)

    def _file_megabytes(self) -> float:
        """Of the database and its log."""
        return sum(file.stat().st_size for file in self._database.parent.glob("kizami.db*")) / 2**20

    def _megabytes(self) -> float:
        status = Path(f"/proc/{self._pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024


def write_config(directory: Path, targets: dict[str, Host]) -> None:
    tables = (
        f'[[targets]]\nname = "{name}"\nurl = "{host.url}"\npath = "/c?from={{from}}&to={{to}}"\ntimeout = "10s"\n'
        for name, host in targets.items()
    )
    (directory / "kizami.toml").write_text("\n".join(tables))


def run(minutes: int, count: int, crowd: int) -> int:
    hosts = hosts_of(count, crowd)
    targets = targets_of(hosts)
    healthy = [name for name, host in targets.items() if host.kind == "healthy"]
    print(
        f"{len(hosts)} hosts, {len(targets)} targets every 5 s, {len(healthy)} of them healthy; {minutes} minutes"
    )
    servers = multiprocessing.Process(target=serve, args=(hosts,), daemon=True)
    servers.start()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_config(directory, targets)
        with (directory / "log").open("w") as log:
            daemon = subprocess.Popen(
                [sys.executable, "-m", "kizami.cli.main", "up", "--no-rows", "--no-dashboard", "--no-mock"],
                cwd=directory,
                env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
                stderr=log,
            )
        try:
            seen = watch(Watch(directory / "kizami.db", daemon.pid, healthy), minutes)
        finally:
            daemon.send_signal(signal.SIGTERM)
            stopped = time.monotonic()
            code = daemon.wait(30)
            print(f"stopped within {time.monotonic() - stopped:.1f} s, exit code {code}")
            servers.kill()
        lines = (directory / "log").read_text().count("\n")
        print(f"{lines} log lines")
    return judge(seen)


def watch(backend: Watch, minutes: int) -> list[Minute]:
    print("minute  pending     dead  RSS (MB) descriptors file (MB)  late p99 ms  missed  past hour (s)")
    time.sleep(75)
    seen = []
    for number in range(minutes):
        took = None
        backend.ask_for_the_past(number)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            time.sleep(1)
            took = took if took is not None else backend.backfill_seconds()
        seen.append(backend.minute(floor_to_slot(SystemClock().now(), 5) - timedelta(seconds=15), took))
        print(f"{number + 1:>6} {seen[-1]}", flush=True)
    return seen


def draw(seen: list[Minute]) -> None:
    """How each figure went, minute by minute, and what it gains in an hour."""
    for name, label in DRAWN.items():
        values = [float(getattr(minute, name)) for minute in seen]
        low, high = f"{min(values):,.0f}", f"{max(values):,.0f}"
        print(f"{label:>16} {sparkline(values)} {low} to {high}, {60 * slope(values):+,.1f} an hour")


def slope(values: Sequence[float]) -> float:
    """What the straight line nearest to the values gains from one to the next."""
    return linear_regression(range(len(values)), values).slope if len(values) > 1 else 0.0


def sparkline(values: Sequence[float]) -> str:
    """A bar for each value, from the least to the greatest."""
    least, most = min(values), max(values)
    steps = len(_BARS) - 1
    return "".join(_BARS[round(steps * (value - least) / ((most - least) or 1))] for value in values)


def judge(seen: list[Minute]) -> int:
    """Whether the last quarter is like the second, in which everything has filled that fills."""
    draw(seen)
    quarter = len(seen) // 4
    early, late = seen[quarter : 2 * quarter] or seen[:1], seen[-quarter:]
    faults = []
    for name, allowed in (("pending", 1.2), ("megabytes", 1.15), ("descriptors", 1.1), ("late_ms", 3.0)):
        before, after = (median(getattr(minute, name) for minute in part) for part in (early, late))
        print(f"{name}: {before:.0f} in the second quarter, {after:.0f} in the last")
        if after > before * allowed + 5:
            faults.append(name)
    unfilled = sum(minute.backfill_seconds is None for minute in seen)
    missed = sum(minute.missed for minute in seen)
    print(
        f"{missed} live polls of healthy targets not stored; {unfilled} past hours not filled within their minute"
    )
    if missed or unfilled:
        faults.append("healthy targets")
    print(f"not flat: {', '.join(faults)}" if faults else "flat")
    return 5 if faults else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--hosts", type=int, default=120)
    parser.add_argument("--crowd", type=int, default=60, help="targets of the one host that hangs with many")
    options = parser.parse_args()
    sys.exit(run(options.minutes, options.hosts, options.crowd))


if __name__ == "__main__":
    main()
