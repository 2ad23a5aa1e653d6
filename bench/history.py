"""`make bench-history`: what a week of history takes, and how quickly it is read, beside VictoriaMetrics.

The same samples go to both in one run: a noisy daily wave, 20 metrics every five seconds for 7 days, and one more
for 30 days. kizami is measured twice, with its slots as rows and with them sealed. Of VictoriaMetrics, which keeps
values and times alone, nothing is told where it is not on the PATH.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import apsw

from kizami.core.epoch import from_seconds
from kizami.core.slots import format_second
from kizami.core.targets.target import Target
from kizami.local.store import statements
from kizami.local.store.database import open_database, transaction
from kizami.local.store.history.free_space import give_back
from kizami.local.store.history.sealing import seal_closed
from kizami.local.store.metrics import register_targets
from kizami.local.store.reader import Reader
from kizami.local.store.rows import StoredRow

DAY, HOUR, INTERVAL = 86_400, 3600, 5
LONG = "month"
CHANCE = random.Random(12)
# How much there is of so many: with ten thousand an hour has 7.2 million slots, which is enough to write and seal.
_HOURS_OF_METRICS = {1: 240, 100: 12, 1000: 2, 10_000: 1}


def wave(slot: int) -> tuple[int, int, int]:
    """The count of a slot, and how late it was asked for and answered (ms)."""
    mean = 300 + 200 * math.sin(2 * math.pi * slot / DAY)
    count = max(0, round(CHANCE.gauss(mean, math.sqrt(mean))))
    return count, int(CHANCE.expovariate(0.7)), int(CHANCE.lognormvariate(2.2, 0.35))


def fill(path: Path, names: dict[str, int], end: int) -> dict[str, list[tuple[int, int]]]:
    """Store so many days of each metric, as the daemon does; what was stored of each."""
    connection = open_database(path, create=True)
    connection.execute("PRAGMA synchronous = OFF")
    first = from_seconds(end - max(names.values()) * DAY)
    with transaction(connection):
        targets = [Target(name=name, lag_seconds=INTERVAL) for name in names]
        known = register_targets(connection, targets, first)
    stored: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    for hour in range(end - max(names.values()) * DAY, end, HOUR):
        rows = []
        for slot in range(hour, hour + HOUR, INTERVAL):
            for name, days in names.items():
                if slot >= end - days * DAY:
                    count, late, took = wave(slot)
                    moment = (slot + INTERVAL) * 1000 + late + took
                    rows.append(StoredRow(slot, known[name].id, count, moment, late, 1, False))
                    stored[name].append((slot, count))
        with transaction(connection):
            statements.store(connection, rows)
    connection.close()
    return stored


def size_of(path: Path) -> int:
    """The bytes of the file, without what is free in it."""
    connection = open_database(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    pages, free = (int(connection.execute(f"PRAGMA {name}").get) for name in ("page_count", "freelist_count"))
    connection.close()
    return (pages - free) * 4096


def seal(path: Path, end: int) -> tuple[float, int]:
    """Seal all of it; how many seconds of CPU that took, and for how many slots."""
    connection = open_database(path)
    began, slots = time.process_time(), 0
    for told in seal_closed(connection, end + 2 * HOUR, HOUR):
        slots += told
    spent = time.process_time() - began
    for _ in give_back(connection):
        pass
    connection.close()
    return spent, slots


@contextmanager
def served(command: list[str], url: str) -> Iterator[None]:
    """A program that serves there, for the length of a `with`."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(url, timeout=5).close()
                break
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise
                time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def get(url: str, **parameters: object) -> bytes:
    query = urllib.parse.urlencode({name: str(value) for name, value in parameters.items()})
    with urllib.request.urlopen(f"{url}?{query}", timeout=300) as answer:
        return bytes(answer.read())


def best_ms(ask: Callable[[], object], times: int = 5) -> float:
    """How long it takes at best, after a first time that warms up."""
    ask()
    took = []
    for _ in range(times):
        began = time.perf_counter()
        ask()
        took.append(time.perf_counter() - began)
    return min(took) * 1000


def day_through_api(url: str, name: str, end: int) -> int:
    """All records of the last day, page by page; how many."""
    cursor, found = "", 0
    while True:
        more = {"cursor": cursor} if cursor else {}
        bounds = {"from": format_second(from_seconds(end - DAY)), "to": format_second(from_seconds(end))}
        page = get(f"{url}/api/v1/records", metric=name, limit=20_000, **bounds, **more)
        found += page.count(b'"slotTime"')
        cursor = json.loads(page.rpartition(b'"next":')[2].removesuffix(b"}"))
        if not cursor:
            assert found == DAY // INTERVAL
            return found


def run_quietly(command: list[str], bytecode: Path) -> None:
    """As whoever has installed it does: compiled before, and its output buffered."""
    unusual = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
    environment = {name: value for name, value in os.environ.items() if name not in unusual}
    environment["PYTHONPYCACHEPREFIX"] = str(bytecode)
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, env=environment)


def of_kizami(path: Path, end: int) -> dict[str, float]:
    """How long kizami takes for each question, in milliseconds."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "kizami.cli.main"]
    with served([*command, "dashboard", "--database", str(path), "--port", str(port)], f"{url}/healthz"):
        week = {"start": end - 7 * DAY + HOUR, "end": end, "step": HOUR}
        month = {"from": format_second(from_seconds(end - 30 * DAY)), "to": format_second(from_seconds(end))}
        found = {
            "a day at full grain": best_ms(lambda: day_through_api(url, "m0", end)),
            "sum_over_time(m[1h]), a week": best_ms(
                lambda: get(f"{url}/prometheus/api/v1/query_range", query="sum_over_time(m0[1h])", **week)
            ),
            "the chart of 30 days": best_ms(lambda: get(f"{url}/api/v1/chart", metric=LONG, **month)),
        }
    query = [*command, "query", LONG, "--database", str(path), "--from", month["from"], "--to", month["to"]]
    bytecode = path.with_name("bytecode")
    for options in ("", "--csv", "--every 1h --sum"):
        called = [*query, *options.split()]
        found[f"query of 30 days {options}".strip()] = best_ms(partial(run_quietly, called, bytecode), 3)
    export = [*command, "export", "--database", str(path), "--output"]
    for form in ("csv", "parquet"):
        file = path.with_suffix(f".{form}")
        found[f"export of all as {form}"] = best_ms(
            partial(run_quietly, [*export, str(file), "--format", form], bytecode), 1
        )
    return found


def of_victoria(
    directory: Path, stored: dict[str, list[tuple[int, int]]], end: int
) -> tuple[float, dict[str, float]]:
    """What VictoriaMetrics takes for a sample, in bytes, and for the questions that it is asked too."""
    port = free_port()
    url, data = f"http://127.0.0.1:{port}", directory / "victoria"
    options = ["-retentionPeriod=100y", f"-storageDataPath={data}", f"-httpListenAddr=127.0.0.1:{port}"]
    with served(["victoria-metrics", *options], f"{url}/health"):
        for name, samples in stored.items():
            for at in range(0, len(samples), 50_000):
                part = samples[at : at + 50_000]
                line = {"metric": {"__name__": name}, "values": [each[1] for each in part]}
                line["timestamps"] = [each[0] * 1000 for each in part]
                urllib.request.urlopen(f"{url}/api/v1/import", json.dumps(line).encode(), timeout=300).close()
        for path in ("force_flush", "force_merge"):
            get(f"{url}/internal/{path}")
        time.sleep(5)
        week = {"start": end - 7 * DAY + HOUR, "end": end, "step": HOUR, "nocache": 1}
        bounds = {"start": end - DAY, "end": end}
        found = {
            "a day at full grain": best_ms(lambda: get(f"{url}/api/v1/export", **{"match[]": "m0"}, **bounds)),
            "sum_over_time(m[1h]), a week": best_ms(
                lambda: get(f"{url}/api/v1/query_range", query="sum_over_time(m0[1h])", **week)
            ),
        }
    taken = sum(each.stat().st_size for each in data.rglob("*") if each.is_file())
    return taken / sum(map(len, stored.values())), found


def at_any_number(directory: Path, end: int) -> None:
    """Sealing and reading cost as much a slot however many metrics there are."""
    print("\nmetrics  hours  sealing, CPU us a slot  reading, CPU us a slot  bytes a slot")
    for count, hours in _HOURS_OF_METRICS.items():
        path = directory / f"{count}.db"
        connection = open_database(path, create=True)
        connection.execute("PRAGMA synchronous = OFF")
        first = end - hours * HOUR
        targets = [Target(name=f"m{n}", lag_seconds=INTERVAL) for n in range(count)]
        with transaction(connection):
            known = register_targets(connection, targets, from_seconds(first))
        for slot in range(first, end, INTERVAL):
            rows = [
                StoredRow(slot, metric.id, CHANCE.getrandbits(6), (slot + INTERVAL) * 1000, 0, 1, False)
                for metric in known.values()
            ]
            with transaction(connection):
                statements.store(connection, rows)
        connection.close()
        empty = open_database(directory / "empty.db", create=True)
        empty.close()
        spent, slots = seal(path, end)
        taken = (size_of(path) - size_of(directory / "empty.db")) / slots
        reading = reading_us(path, count, first, hours)
        print(f"{count:7}  {hours:5}  {spent / slots * 1e6:22.2f}  {reading:22.2f}  {taken:12.2f}", flush=True)
        path.unlink()


def reading_us(path: Path, count: int, first: int, hours: int) -> float:
    """What a slot costs its reader, in hours of metrics here and there: the same question of any number."""
    with Reader.opened(path) as reader:
        began, slots = time.process_time(), 0
        while slots < 100_000:
            name, hour = f"m{CHANCE.randrange(count)}", first + HOUR * CHANCE.randrange(hours)
            bounds = from_seconds(hour), from_seconds(hour + HOUR)
            slots += sum(len(each) for each in reader.columns(name, *bounds))
        return (time.process_time() - began) / slots * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--metrics", type=int, default=20)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--long", type=int, default=30, help="days of the one metric that has more")
    arguments = parser.parse_args()
    print(f"SQLite {apsw.sqlite_lib_version()}, Python {sys.version.split()[0]}")
    end = int(time.time()) // DAY * DAY - DAY
    names = {f"m{n}": arguments.days for n in range(arguments.metrics)} | {LONG: arguments.long}
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        path = directory / "kizami.db"
        stored = fill(path, names, end)
        slots = sum(map(len, stored.values()))
        before, as_rows = size_of(path) / slots, of_kizami(path, end)
        spent, sealed = seal(path, end)
        assert sealed == slots
        after, as_spans = size_of(path) / slots, of_kizami(path, end)
        has_victoria = shutil.which("victoria-metrics") is not None
        peer, of_peer = of_victoria(directory, stored, end) if has_victoria else (math.nan, {})
        print(f"{slots:,} slots; sealing takes {spent / slots * 1e6:.2f} us of CPU a slot\n")
        print(f"{'':40}  {'rows':>9}  {'sealed':>9}  {'rows/sealed':>11}  {'VictoriaMetrics':>15}  {'ratio':>6}")
        print(_line("bytes a slot", before, after, peer))
        for question, took in as_spans.items():
            print(_line(f"{question}, ms", as_rows[question], took, of_peer.get(question, math.nan)))
        for form in ("csv", "parquet"):
            print(f"{form}: {slots / as_spans[f'export of all as {form}'] * 1000:,.0f} rows a second")
        at_any_number(directory, end)


def _line(name: str, rows: float, sealed: float, peer: float) -> str:
    beside = f"{peer:15.2f}  {sealed / peer:5.1f}x" if peer == peer else f"{'–':>15}  {'–':>6}"
    return f"{name:40}  {rows:9.2f}  {sealed:9.2f}  {rows / sealed:10.1f}x  {beside}"


if __name__ == "__main__":
    main()
