"""The live view of `kizami up`: what it says, and that it fits the terminal it is on."""

from __future__ import annotations

import logging
from contextlib import closing
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kizami.backend.snapshot import read_health
from kizami.backend.values import Lateness, QueueDepth
from kizami.cli.terminal.live_view import Facts, Numbers, _ConsoleHandler, picture, read_numbers
from kizami.core.coverage import Completeness
from kizami.core.messages import MetricRecord
from kizami.core.targets.target import Target
from kizami.local.backend import LocalBackend
from kizami.local.engine.loop import StoredRecord
from samples.page_database import build_targets, store_slots

T0 = datetime(2025, 12, 2, 10, 0, tzinfo=UTC)


def test_a_log_line_above_the_picture_keeps_its_brackets() -> None:
    file = StringIO()
    handler = _ConsoleHandler(Console(file=file, width=80, force_terminal=True))
    handler.handle(logging.makeLogRecord({"msg": "pip install 'kizami[alerts]'", "levelno": logging.INFO}))
    assert "pip install 'kizami[alerts]'" in file.getvalue()


def record(number: int, metric: str = "calls", **how: Any) -> StoredRecord:
    slot = T0 + timedelta(seconds=5 * number)
    settings = {"late_ms": 3, "receives": 1, "backfilled": False} | how
    return StoredRecord(MetricRecord(metric, slot, number, slot), **settings)


def shown(width: int = 80, height: int = 24, *, styled: bool = False, **changes: Any) -> list[str]:
    """The picture's lines."""
    settings: dict[str, Any] = {
        "database": Path("kizami.db"),
        "targets": 1,
        "failing": 0,
        "up_seconds": 21,
        "lateness": Lateness(18, 0, 8, 9),
        "numbers": Numbers(Completeness(18, 18), QueueDepth(0, 12, 0, 0, None)),
        "records": [record(number) for number in range(12)],
    }
    console = Console(file=StringIO(), width=width, height=height, force_terminal=styled)
    console.print(picture(Facts(**settings | changes), height, styled=styled))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return [line.rstrip() for line in text.splitlines()]


def test_it_tells_of_targets_coverage_lateness_the_queue_and_the_newest_rows() -> None:
    lines = shown()
    assert lines[:5] == [
        "kizami · 1 target · up 0:00:21 · kizami.db",
        "coverage of the last hour 18/18 (100%) · lateness p50 0 ms, p99 8 ms",
        "queue: 0 waiting, 12 planned, 0 in flight · dead letters: 0",
        "slot time             metric  count  late  how",
        "2025-12-02T10:00:55Z  calls      11  3 ms  live",
    ]
    assert len(lines) == 4 + 12


def test_before_anything_is_due_it_claims_no_percentage() -> None:
    empty = Numbers(Completeness(0, 0), QueueDepth(0, 12, 0, 0, None))
    lines = shown(numbers=empty, lateness=Lateness(0, 0, 0, 0), records=[])
    assert lines[1] == "coverage of the last hour nothing due yet · lateness no polls yet"


def test_from_the_first_row_on_it_tells_the_coverage_that_status_tells(tmp_path: Path) -> None:
    calls, started = Target(name="calls", lag_seconds=5), T0 + timedelta(seconds=2)
    path = build_targets(tmp_path / "kizami.db", started, {calls: ()}, slots=0)
    with closing(LocalBackend(path)) as backend:
        assert read_numbers(backend, ["calls"], started).coverage == Completeness(0, 0)
        store_slots(path, calls, [T0])
        now = T0 + timedelta(seconds=6)  # its grace is not over
        numbers = read_numbers(backend, ["calls"], now)
        assert numbers.coverage == Completeness(1, 1) == read_health(backend, now).overview.hour
    assert shown(numbers=numbers)[1].startswith("coverage of the last hour 1/1 (100%)")


def test_what_is_not_whole_is_never_a_hundred_percent() -> None:
    nearly = Numbers(Completeness(99_999, 100_000), QueueDepth(0, 0, 0, 0, None))
    assert "99999/100000 (99.9%)" in shown(numbers=nearly)[1]


def test_targets_that_fail_have_a_line_of_their_own() -> None:
    assert not any("failing" in line for line in shown())
    assert shown(targets=1200, failing=2)[3] == (
        "failing: 2 targets; the log and `kizami dead-letters list` say why"
    )


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"receives": 3}, "3 ms  retried, attempt 3"),
        ({"backfilled": True, "late_ms": 7_500_000}, "2h 5m  backfilled"),
        ({"late_ms": 9_999}, "9999 ms  live"),
    ],
)
def test_a_row_says_how_it_came_about_and_how_late(how: dict[str, Any], words: str) -> None:
    assert shown(records=[record(0, **how)])[4].endswith(words)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (40, 10), (60, 4)])
def test_it_fits_the_terminal_also_with_long_and_wide_names(width: int, height: int) -> None:
    from rich.cells import cell_len

    records = [record(number, "応答数" * 20, receives=2) for number in range(12)]
    lines = shown(width, height, database=Path("deep/" * 40 + "kizami.db"), records=records, failing=1)
    assert len(lines) <= max(height, 6)
    assert all(cell_len(line) <= width for line in lines)
    assert lines[0].startswith("kizami · 1 target · up 0:00:21")


def test_a_name_is_text_and_no_markup() -> None:
    assert "[red]" in shown(records=[record(0, "[red]")])[4]


def test_colours_only_where_they_are_wanted() -> None:
    dead = Numbers(Completeness(17, 18), QueueDepth(0, 0, 0, 1, None))
    assert "\x1b[33m" in shown(styled=True, numbers=dead)[1]
    assert "\x1b[31m" in shown(styled=True, numbers=dead)[2]
    assert not any("\x1b" in line for line in shown(numbers=dead))
