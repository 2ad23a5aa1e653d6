"""A backend with targets of hours and days, of 31 days ago and of "now" alone: what everybody is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kizami.backend.chart import choose_grain, default_range, draw, live_window
from kizami.backend.grid import RowLength, cells_between, grid_window, newest_shown, row_length, rows_of
from kizami.backend.health import HOUR, Level, MinuteFinding, TargetCondition, TileKind, judge, tile_levels
from kizami.backend.snapshot import read_coverage, read_health, take_snapshot
from kizami.backend.targets import KnownTarget
from kizami.core.config import Config
from kizami.core.coverage import due_span
from kizami.core.epoch import to_ms, to_seconds
from kizami.core.errors import InvalidInput
from kizami.core.targets.target import Target
from kizami.local.backend import LocalBackend
from kizami.local.daemon_lock import UP, sole_daemon
from kizami.local.store import statements
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import register_targets
from kizami.local.store.rows import StoredRow
from kizami.platform.clock import SystemClock
from kizami.platform.config_file import LoadedConfig
from kizami.web.actions import backfill
from kizami.web.prometheus.budget import Budget
from kizami.web.prometheus.samples import Samples
from kizami.web.view.address import View
from kizami.web.view.render import render_parts
from kizami.web.view.screen import look
from kizami.web.view.words import words_in

NOW = datetime(2025, 12, 2, 10, 23, 30, tzinfo=UTC)
SINCE = NOW - timedelta(days=40)
INTERVALS = {"calls": 5, "fives": 300, "eights": 480, "hours": 3600, "days": 86_400, "late": 86_400, "new": 3600}
TARGETS = [
    Target(
        name,
        interval_seconds=interval,
        lag_seconds=31 * interval if name == "late" else interval,
        catch_up_seconds=0,
    )
    for name, interval in INTERVALS.items()
]
NOW_ONLY = Target("now", interval_seconds=60, lag_seconds=60, backfill=False)


def due_slots(target: Target, count: int) -> list[datetime]:
    return list(due_span(target, SINCE, NOW).slots())[-count:]


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """Thirty slots of each that is older than now, without the newest but one; `new` was first seen just now."""
    path = tmp_path / "kizami.db"
    connection = open_database(path, create=True)
    with transaction(connection):
        old = [each for each in (*TARGETS, NOW_ONLY) if each.name != "new"]
        known = register_targets(connection, old, SINCE) | register_targets(connection, TARGETS, NOW)
        for target in old:
            slots = due_slots(target, 31)
            connection.execute(
                "UPDATE metrics SET first_slot = ? WHERE name = ?", (to_seconds(slots[0]), target.name)
            )
            kept = [slot for slot in slots if slot != slots[-3]]
            collected = [to_ms(slot + timedelta(seconds=target.lag_seconds, milliseconds=40)) for slot in kept]
            statements.store(
                connection,
                [
                    StoredRow(to_seconds(slot), known[target.name].id, n, at, 5, 1, False)
                    for n, (slot, at) in enumerate(zip(kept, collected, strict=True))
                ],
            )
    connection.close()
    with sole_daemon(path, UP):
        yield path


@pytest.fixture
def backend(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBackend]:
    monkeypatch.setattr(SystemClock, "now", lambda self: NOW)
    config = LoadedConfig(Config((*TARGETS, NOW_ONLY)), Path("kizami.toml"))
    with closing(LocalBackend(path, lambda: config)) as backend:
        yield backend


def target(backend: LocalBackend, name: str) -> KnownTarget:
    (found,) = backend.targets([name])
    return found


def test_each_target_is_judged_by_what_it_should_have(backend: LocalBackend) -> None:
    health = read_health(backend, NOW)
    told = {name: status.condition for name, status in health.targets.items()}
    assert told.pop("new") is TargetCondition.WAITING  # its first hour is not over
    assert told.pop("calls") is TargetCondition.LATE  # of twelve slots it lacks one
    lacking = {name for name, condition in told.items() if condition is TargetCondition.INCOMPLETE}
    assert lacking == {"fives", "eights", "hours", "now"}  # an older slot of the day
    assert {told[name] for name in told.keys() - lacking} == {TargetCondition.COLLECTING}
    assert all(status.seconds_behind == 0 for status in health.targets.values())
    assert health.targets["days"].newest_slot == datetime(2025, 12, 1, tzinfo=UTC)
    assert health.targets["late"].newest_slot == datetime(2025, 11, 1, tzinfo=UTC)


def test_every_gap_of_the_last_day_is_found_once(backend: LocalBackend) -> None:
    health = read_health(backend, NOW)
    assert dict(health.missing_slots()) == {"calls": 1, "fives": 1, "eights": 1, "hours": 1, "now": 1}
    day = {name: str(status.day) for name, status in health.targets.items()}
    assert day["hours"] == "23/24"
    assert (day["days"], day["late"], day["new"]) == ("1/1", "1/1", "0/0")


def test_a_backend_of_slow_targets_says_in_words_that_all_is_well_or_not(path: Path) -> None:
    config = LoadedConfig(Config(tuple(each for each in TARGETS if each.name == "days")), Path("kizami.toml"))
    with closing(LocalBackend(path, lambda: config)) as backend:
        overview = read_health(backend, NOW).overview
        assert judge(overview).finding is MinuteFinding.ALL_STORED
        assert judge(overview).level is Level.GOOD
        assert tile_levels(overview)[TileKind.AGE] is Level.GOOD
        page = render_parts(look(backend, View(metric="days"), take_snapshot(backend, NOW)), words_in("en"))
        assert "The newest slot is stored" in page.parts["verdict"].replace("</span>", "")
        later = NOW + timedelta(days=1)
        missed = read_health(backend, later).overview
        assert judge(missed).level is Level.BAD
        assert tile_levels(missed)[TileKind.AGE] is Level.NOTICE  # by one slot


def test_a_new_hourly_target_alone_is_starting_and_not_missing(path: Path) -> None:
    config = LoadedConfig(Config(tuple(each for each in TARGETS if each.name == "new")), Path("kizami.toml"))
    with closing(LocalBackend(path, lambda: config)) as backend:
        overview = read_health(backend, NOW + timedelta(minutes=30)).overview
        assert judge(overview).finding is MinuteFinding.STARTING
        assert overview.first_tick == datetime(2025, 12, 2, 11, tzinfo=UTC)


def test_the_coverage_of_an_hour_is_that_of_the_targets_that_have_slots_in_it(backend: LocalBackend) -> None:
    assert read_coverage(backend, [target(backend, "days")], HOUR, NOW).expected == 0
    assert str(read_coverage(backend, [target(backend, "hours")], HOUR, NOW)) == "1/1"


@pytest.mark.parametrize(
    ("name", "length", "columns", "cells"),
    [("calls", 60, 12, 12), ("fives", 3600, 12, 12), ("hours", 86_400, 24, 24), ("days", 86_400, 1, 1)],
)
def test_a_row_of_the_grid_is_a_minute_an_hour_or_a_day(
    backend: LocalBackend, name: str, length: int, columns: int, cells: int
) -> None:
    screen = look(backend, View(metric=name), take_snapshot(backend, NOW))
    assert screen.row_length is RowLength(length)
    assert len(screen.columns) == columns
    assert len(screen.rows[1].cells) == cells
    assert all((row.start - screen.rows[-1].start).total_seconds() % length == 0 for row in screen.rows)
    states = [cell.state.value for row in screen.rows for cell in row.cells]
    assert states.count("missing") == 1
    render_parts(screen, words_in("ja"))


def test_with_a_long_lag_the_grid_and_the_chart_show_what_is_due(backend: LocalBackend) -> None:
    late = target(backend, "late")
    assert newest_shown(late, NOW) == NOW - timedelta(days=31)
    start, end = grid_window(newest_shown(late, NOW), 15, row_length(86_400))
    details = backend.slot_details("late", start, end)
    rows = rows_of(cells_between(late, start, end, details, NOW), row_length(86_400))
    assert [cell.state.value for row in rows[:3] for cell in row.cells] == ["stored", "stored", "missing"]
    window = live_window(late, 7 * 86_400, NOW)
    grain = choose_grain(window.start, window.end, 86_400)
    chart = draw(late, window, grain, backend.buckets("late", window.start, window.end, grain), NOW)
    assert [point.stored for point in chart.points] == [1, 1, 1, 1, 1, 0, 1, 1]
    assert [point.expected for point in chart.points] == [1] * 8


@pytest.mark.parametrize(
    ("interval", "name"), [(5, "15m"), (60, "15m"), (120, "1h"), (300, "6h"), (3600, "24h"), (86_400, "30d")]
)
def test_a_chart_shows_some_slots_unless_somebody_says(interval: int, name: str) -> None:
    assert default_range(interval) == name


def test_a_long_interval_is_a_step_in_prometheus_and_no_hole_after_five_minutes(backend: LocalBackend) -> None:
    samples = Samples(backend, Budget())
    ten, hours = datetime(2025, 12, 2, 10, tzinfo=UTC), target(backend, "hours")
    times = [to_ms(ten + timedelta(minutes=minutes)) for minutes in (-120, -61, -60, 0, 59)]
    assert samples.at(hours, times) == [None, None, 28.0, 29.0, 29.0]
    # At 10:30 the last hour has the sample that stands at 10:00, though 10:30 is on a boundary of ten minutes.
    half = to_ms(ten + timedelta(minutes=30))
    assert samples.over(hours, [half], 3_600_000, "sum", 0) == [29.0]
    assert samples.over(hours, [to_ms(ten)], 7_200_000, "count", 0) == [2.0]
    eights = target(backend, "eights")
    assert samples.over(eights, [to_ms(ten)], 2_400_000, "count", 0) == [4.0]  # that of 9:52 is missing


def test_what_can_only_be_asked_for_live_is_left_out_of_every_repair_and_said(backend: LocalBackend) -> None:
    plan = backfill(backend, {"allGaps": True, "dryRun": True}, NOW)
    assert (plan["leftOut"], plan["missing"]) == (["now"], 4)
    assert "now" not in plan["metrics"]
    wanted = {"metric": "now", "from": "2025-12-02T10:00:00Z", "to": "2025-12-02T10:20:00Z"}
    with pytest.raises(InvalidInput, match="left out: now; with backfill = false what was missed stays missing"):
        backfill(backend, wanted, NOW)
    (cell,) = [
        cell
        for row in look(backend, View(metric="now"), take_snapshot(backend, NOW)).rows
        for cell in row.cells
        if cell.state.value == "missing"
    ]
    assert cell.slot == due_slots(NOW_ONLY, 3)[0]


def test_its_dead_letters_can_be_forgotten_and_not_redriven(path: Path, backend: LocalBackend) -> None:
    connection = open_database(path)
    slot = to_seconds(due_slots(NOW_ONLY, 3)[0])
    connection.execute(
        "INSERT INTO dead_letters SELECT ?, id, 60, 0, 0, 0, 0, 5, 'status 500' FROM metrics WHERE name = 'now'",
        (slot,),
    )
    connection.close()
    letters = backend.dead_letters("now")
    assert (backend.redrive(letters), backend.purge(letters)) == (0, 1)
