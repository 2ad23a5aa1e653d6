"""`make bench`: kizami beside its peers, N targets every five seconds, on this machine.

    python bench/run.py [--targets 1,100,1000,5000,10000] [--seconds 60] [--only kizami] [--skip-backfill]

Lateness is arrival at the server against the planned moment. CPU and memory are the poller's alone. Read the
ratios: absolute numbers are this machine's.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from contenders import CONTENDERS, INTERVAL_MS, Arrival, Contender, Kizami

from kizami.core.targets.target import Target
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import register_targets
from kizami.local.store.reader import Reader

WARM_UP_SECONDS = 25
DAY_SLOTS = 17_280


@dataclass(frozen=True, slots=True)
class Result:
    """What one contender did in the measured time."""

    name: str
    count: int
    due: int
    made: int
    once: int | None
    p50_ms: float
    p99_ms: float
    max_ms: float
    cpu_ms: float
    peak_mb: float


class Server:
    """bench/server.py as a process of its own."""

    def __init__(self, directory: Path) -> None:
        self._arrivals = directory / "arrivals"
        script = Path(__file__).with_name("server.py")
        self._process = subprocess.Popen(
            [sys.executable, script, "0", self._arrivals], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout
        self.url = f"http://127.0.0.1:{self._process.stdout.readline().split()[1]}"

    def stop(self) -> list[Arrival]:
        """End it; what it has seen, in the order of arrival."""
        self._process.terminate()
        self._process.wait()
        with self._arrivals.open() as lines:
            parts = (line.rstrip("\n").split(" ") for line in lines)
            return [Arrival(target, slot, float(moment)) for target, slot, moment in parts]


def measure(kind: type[Contender], count: int, seconds: float) -> Result:
    with tempfile.TemporaryDirectory(prefix="kizami-bench-") as name:
        directory = Path(name)
        server = Server(directory)
        contender = kind(directory, server.url, count)
        contender.start()
        try:
            time.sleep(WARM_UP_SECONDS)
            since_ms, cpu_before = time.time() * 1000, cpu_seconds(contender.process.pid)
            time.sleep(seconds)
            until_ms, cpu_after = time.time() * 1000, cpu_seconds(contender.process.pid)
            time.sleep(1.5)  # the last ones are written
            peak_mb = peak_rss_mb(contender.process.pid)
        finally:
            contender.process.send_signal(signal.SIGTERM)
            contender.process.wait()
            arrivals = server.stop()
        return result_of(contender, arrivals, since_ms, until_ms, cpu_after - cpu_before, peak_mb)


def result_of(
    contender: Contender, arrivals: list[Arrival], since_ms: float, until_ms: float, cpu: float, peak_mb: float
) -> Result:
    lateness = contender.lateness_ms(arrivals)
    planned = [each.moment_ms - late for each, late in zip(arrivals, lateness, strict=True)]
    measured = [n for n, moment in enumerate(planned) if since_ms <= moment < until_ms]
    late = sorted(lateness[n] for n in measured) or [float("nan")]
    twice = sum(times > 1 for times in Counter((arrivals[n].target, arrivals[n].slot) for n in measured).values())
    stored = contender.stored(since_ms, until_ms)
    made = len(measured)
    return Result(
        name=contender.name,
        count=contender.count,
        due=round(contender.count * (until_ms - since_ms) / INTERVAL_MS),
        made=made,
        once=None if stored is None else stored - (twice if arrivals and arrivals[0].slot else 0),
        p50_ms=late[len(late) // 2],
        p99_ms=late[min(len(late) - 1, int(len(late) * 0.99))],
        max_ms=late[-1],
        cpu_ms=cpu * 1000 / max(1, made),
        peak_mb=peak_mb,
    )


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_rss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def timer_noise_ms() -> float:
    """The 99th percentile of how much later than asked this machine wakes a sleeper."""
    poller = select.poll()
    late = []
    for _ in range(400):
        began = time.monotonic()
        poller.poll(10)
        late.append((time.monotonic() - began) * 1000 - 10)
    return sorted(late)[int(len(late) * 0.99)]


def backfill_a_day() -> str:
    """A day's gap of one target, filled while it is polled live."""
    with tempfile.TemporaryDirectory(prefix="kizami-bench-") as name:
        directory = Path(name)
        connection = open_database(directory / "kizami.db", create=True)
        now = datetime.now(UTC)
        with transaction(connection):
            target = Target(name="t0", interval_seconds=5, lag_seconds=5)
            register_targets(connection, [target], now - timedelta(hours=25))
        connection.close()
        server = Server(directory)
        contender = Kizami(directory, server.url, 1)
        began = time.time()
        contender.start()
        with Reader.opened(directory / "kizami.db") as reader:
            start, end = now - timedelta(hours=24) + timedelta(seconds=30), now
            while reader.stored_count("t0", start, end) < DAY_SLOTS - 8 and time.time() < began + 120:
                time.sleep(0.1)
            took = time.time() - began
            stored = reader.stored_count("t0", start, end)
            live = reader.lateness(now, now + timedelta(minutes=5))
        contender.process.terminate()
        contender.process.wait()
        asked = Counter(each.slot for each in server.stop())
    return (
        f"A day of one target ({stored} slots) was filled in {took:.1f} s, start-up included, "
        f"{sum(times > 1 for times in asked.values())} of them asked for twice; "
        f"{live.polls} live polls meanwhile were at most {live.max_ms} ms late."
    )


HEADINGS = "targets | poller | due | made | stored once | late p50 | p99 | max ms | CPU ms a poll | peak MB"


def line_of(result: Result, own: Result | None) -> str:
    once = "–" if result.once is None else f"{result.once} ({result.once / max(1, result.due):.2%})"
    cpu, memory = f"{result.cpu_ms:.3f}", f"{result.peak_mb:.0f}"
    if own is not None and own is not result:
        cpu += f" ({result.cpu_ms / own.cpu_ms:.1f} x)"
        memory += f" ({result.peak_mb / own.peak_mb:.1f} x)"
    late = " | ".join(f"{value:.1f}" for value in (result.p50_ms, result.p99_ms, result.max_ms))
    return (
        f"| {result.count} | {result.name} | {result.due} | {result.made} | {once} | {late} | {cpu} | {memory} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", default="1,100,1000,5000,10000")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", default="", help="the names of contenders, with commas")
    parser.add_argument("--skip-backfill", action="store_true")
    options = parser.parse_args()
    wanted = [name.lower() for name in options.only.split(",") if name]
    kinds = [kind for kind in CONTENDERS if kind.installed() and (not wanted or kind.__name__.lower() in wanted)]
    print(f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {options.seconds:g} s each; ", end="")
    print(f"this machine's timers are up to {timer_noise_ms():.1f} ms late (p99).\n")
    print(f"| {HEADINGS} |\n|{' --- |' * (HEADINGS.count('|') + 1)}", flush=True)
    for count in map(int, options.targets.split(",")):
        own: Result | None = None
        for kind in kinds:
            result = measure(kind, count, options.seconds)
            own = result if kind is Kizami else own
            print(line_of(result, own), flush=True)
    if not options.skip_backfill:
        print("\n" + backfill_a_day())


if __name__ == "__main__":
    main()
