"""What `kizami export` costs beside its peers, on the same rows in one run: rows for each second of CPU.

The peers read the rows from a plain SQLite table that has every cell as it is to be written: SQLite's own shell
(`.mode csv`), and Python's `csv.writer`. kizami has to make its times and numbers of what the file holds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_KIZAMI = (sys.executable, "-m", "kizami.cli.main", "export")
_WRITER = """
import csv, sqlite3, sys
rows = sqlite3.connect(sys.argv[1]).execute("SELECT * FROM records")
csv.writer(sys.stdout, lineterminator="\\n").writerows(rows)
"""
# Each is run once for nothing, which is what its start costs.
_NOTHING = ("--from", "1970-01-01T00:00:00Z", "--to", "1970-01-01T00:00:05Z")


@dataclass(frozen=True, slots=True)
class ExportRun:
    """One way to write the rows: how many of them it wrote for each second of CPU, its start not counted."""

    name: str
    rows: int
    cpu_seconds: float

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.cpu_seconds


def measure_exports(database: Path) -> Iterator[ExportRun]:
    """Every format of kizami and every peer that is here, over all records of `database`."""
    with tempfile.TemporaryDirectory() as directory:
        plain = Path(directory, "plain.db")
        rows = _copy_plain(database, plain)
        for name in ("csv", "jsonl", "parquet"):
            command = [*_KIZAMI, "--database", str(database), "--format", name]
            spent = _cpu_seconds(command) - _cpu_seconds([*command, *_NOTHING])
            yield ExportRun(f"kizami export --format {name}", rows, spent)
        if shell := shutil.which("sqlite3"):
            spent = _cpu_seconds([shell, "-csv", str(plain), "SELECT * FROM records"])
            yield ExportRun("sqlite3 -csv, a plain table", rows, spent)
        spent = _cpu_seconds([sys.executable, "-c", _WRITER, str(plain)])
        yield ExportRun("Python's csv.writer, a plain table", rows, spent)


def _copy_plain(database: Path, plain: Path) -> int:
    """The same rows as text in a table of its own; how many they are."""
    import csv
    import sqlite3

    command = [*_KIZAMI, "--database", str(database)]
    connection = sqlite3.connect(plain)
    connection.execute("CREATE TABLE records (metricName TEXT, slotTime TEXT, count INTEGER, collectedAt TEXT)")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as export:
        assert export.stdout is not None
        lines = csv.reader(export.stdout)
        next(lines)
        connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", lines)
    connection.commit()
    ((rows,),) = connection.execute("SELECT count(*) FROM records")
    connection.close()
    return int(rows)


def _cpu_seconds(command: Sequence[str]) -> float:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"failed: {' '.join(command)}")
    return used.ru_utime + used.ru_stime


def report(runs: Sequence[ExportRun]) -> str:
    """The runs as lines, each beside the first peer."""
    peer = next(run for run in runs if not run.name.startswith("kizami"))
    return "\n".join(
        f"{run.name:36} {run.rows_per_second:>12,.0f} rows/s of CPU  "
        f"{run.rows_per_second / peer.rows_per_second:6.2f} x {peer.name}"
        for run in runs
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("database", type=Path, help="a kizami.db with many records")
    print(report(list(measure_exports(parser.parse_args().database))))
