"""`make bench`: kizami beside its peers, N targets every five seconds, on this machine.

    python -m bench.run [--runs own:100,own:10000,shared:10000] [--seconds 60] [--only kizami] [--skip-backfill]

A run is where the targets live (layout.py) and how many they are. One in a hundred fails and one in two hundred
hangs; due, made, stored and lateness are those of the others. Lateness is arrival at the server against the
planned moment. CPU, by the polls that were due, and memory are the poller's alone. Read the ratios: absolute
numbers are this machine's.
"""

from __future__ import annotations

import argparse
import os
import resource
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

from bench.contenders import CONTENDERS, INTERVAL_MS, ROOT, Arrival, Contender, Kizami
from bench.layout import KINDS, NAMED, Layout, is_healthy, write_certificate
from bench.name_server import ADDRESS
from bench.name_server import available as names_available
from kizami.core.targets.target import Target
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import register_targets
from kizami.local.store.reader import Reader

WARM_UP_SECONDS = 25
DAY_SLOTS = 17_280
_CONNECTIONS_A_SERVER = 9_000
_RUNS = "own:100,own:1000,own:10000,own:19000,shared:10000,closing:2000,names:2000,tls:2000"


@dataclass(frozen=True, slots=True)
class Result:
    """What one contender did in the measured time."""

    name: str
    kind: str
    count: int
    due: int
    made: int
    once: int | None
    p50_ms: float
    p99_ms: float
    max_ms: float
    cpu_ms: float
    peak_mb: float


class Servers:
    """bench/server.py, as many processes as there are descriptors needed, and the name server where names are."""

    def __init__(self, directory: Path, kind: str, count: int, certificate: Path | None = None) -> None:
        self._files = [directory / f"arrivals-{n}" for n in range(1 + count // _CONNECTIONS_A_SERVER)]
        self._processes: list[subprocess.Popen[str]] = []
        port = "0"
        for file in self._files:
            port = self._start("server", kind, port, file, *filter(None, [certificate]))[1]
        if kind in NAMED:
            self._start("name_server", ADDRESS)
        self.layout = Layout(kind, int(port))

    def stop(self) -> list[Arrival]:
        """End them; what they have seen, in the order of arrival."""
        for process in self._processes:
            process.terminate()
            process.wait()
        arrivals = []
        for file in self._files:
            with file.open() as lines:
                parts = (line.rstrip("\n").split(" ") for line in lines)
                arrivals += [Arrival(target, slot, float(moment)) for target, slot, moment in parts]
        return sorted(arrivals, key=lambda each: each.moment_ms)

    def _start(self, module: str, *arguments: str | Path) -> list[str]:
        """Its first words, once it is ready."""
        command = [sys.executable, "-m", f"bench.{module}", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self._processes.append(process)
        assert process.stdout
        return process.stdout.readline().split()


def measure(contestant: type[Contender], kind: str, count: int, seconds: float) -> Result:
    with tempfile.TemporaryDirectory(prefix="kizami-bench-") as name:
        directory = Path(name)
        certificate = write_certificate(directory) if kind == "tls" else None
        server = Servers(directory, kind, count, certificate)
        contender = contestant(directory, server.layout, count, certificate)
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
    arrivals = [each for each in arrivals if is_healthy(each.target)]
    lateness = contender.lateness_ms(arrivals)
    planned = [each.moment_ms - late for each, late in zip(arrivals, lateness, strict=True)]
    measured = [n for n, moment in enumerate(planned) if since_ms <= moment < until_ms]
    late = sorted(lateness[n] for n in measured) or [float("nan")]
    twice = sum(times > 1 for times in Counter((arrivals[n].target, arrivals[n].slot) for n in measured).values())
    stored = contender.stored(since_ms, until_ms)
    made = len(measured)
    rounds = (until_ms - since_ms) / INTERVAL_MS
    return Result(
        name=contender.name,
        kind=contender.layout.kind,
        count=contender.count,
        due=round(sum(is_healthy(f"t{n}") for n in range(contender.count)) * rounds),
        made=made,
        once=None if stored is None else stored - (twice if arrivals and arrivals[0].slot else 0),
        p50_ms=late[len(late) // 2],
        p99_ms=late[min(len(late) - 1, int(len(late) * 0.99))],
        max_ms=late[-1],
        cpu_ms=cpu * 1000 / (contender.count * rounds),
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
        server = Servers(directory, "shared", 1)
        contender = Kizami(directory, server.layout, 1)
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


HEADINGS = "targets | host | poller | due | made | stored once | late p50 | p99 | max ms | CPU ms a poll | peak MB"


def line_of(result: Result, own: Result | None) -> str:
    once = "–" if result.once is None else f"{result.once} ({result.once / max(1, result.due):.2%})"
    cpu, memory = f"{result.cpu_ms:.3f}", f"{result.peak_mb:.0f}"
    if own is not None and own is not result:
        cpu += f" ({result.cpu_ms / own.cpu_ms:.1f} x)"
        memory += f" ({result.peak_mb / own.peak_mb:.1f} x)"
    late = " | ".join(f"{value:.1f}" for value in (result.p50_ms, result.p99_ms, result.max_ms))
    polls = f"{result.due} | {result.made} | {once} | {late}"
    return f"| {result.count} | {result.kind} | {result.name} | {polls} | {cpu} | {memory} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", default=_RUNS, help="KIND:TARGETS with commas; kinds are " + ", ".join(KINDS))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", default="", help="the names of contenders, with commas")
    parser.add_argument("--skip-backfill", action="store_true")
    options = parser.parse_args()
    wanted = [name.lower() for name in options.only.split(",") if name]
    installed = [each for each in CONTENDERS if each.installed()]
    contestants = [each for each in installed if not wanted or each.__name__.lower() in wanted]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {options.seconds:g} s each; ", end="")
    print(f"this machine's timers are up to {timer_noise_ms():.1f} ms late (p99).\n")
    print(f"| {HEADINGS} |\n|{' --- |' * (HEADINGS.count('|') + 1)}", flush=True)
    for kind, _, count in (run.partition(":") for run in options.runs.split(",")):
        if kind in NAMED and not names_available():
            print(f"| {count} | {kind} | needs root, for a name server of its own |", flush=True)
            continue
        own: Result | None = None
        for contestant in contestants:
            result = measure(contestant, kind, int(count), options.seconds)
            own = result if contestant is Kizami else own
            print(line_of(result, own), flush=True)
    if not options.skip_backfill:
        print("\n" + backfill_a_day())


if __name__ == "__main__":
    main()
