"""`kizami query --every` and `kizami chart --every`: sums and means by the hour or day, over a known database."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from pathlib import Path

import pytest

from kizami.cli.exit_codes import OK, USAGE
from kizami.platform.clock import SystemClock
from programs.command import Command
from samples.database import at, make_database

SLOTS = 720
NOW = at(SLOTS) + timedelta(seconds=30)
HOUR = ("--from", "2025-12-02T09:00:00Z", "--to", "2025-12-02T10:00:00Z")
MINUTES = ("--from", "2025-12-02T09:24:00Z", "--to", "2025-12-02T09:27:00Z", "--every", "1m")
GONE = {99, *range(300, 310)}


def counts(first: int, last: int) -> list[int]:
    return [number % 11 for number in range(first, last) if number not in GONE]


@pytest.fixture
def kizami(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Half a minute after an hour of slots, of which `calls` lacks 99 and 300 to 309."""
    monkeypatch.chdir(tmp_path)
    for name in ("KIZAMI_CONFIG", "KIZAMI_DATABASE", "KIZAMI_TZ"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(SystemClock, "now", lambda self: NOW)
    kept = [number for number in range(SLOTS) if number not in GONE]
    make_database(
        tmp_path / "kizami.db", {"calls": kept, "chat/asked": range(SLOTS), "chat/failed": range(0, SLOTS, 2)}
    )
    return Command(capsys)


def starts(text: str) -> list[str]:
    """The first words of the rows below the heading."""
    return [line.split()[0] for line in text.splitlines()[1:]]


class TestTable:
    def test_each_stretch_has_four_figures_and_its_completeness(self, kizami: Command) -> None:
        found = kizami("query", "calls", *MINUTES)
        assert found.code == OK
        assert found.out.splitlines() == [
            "from                  sum      mean  min  max  stored",
            "2025-12-02T09:24:00Z   57      4.75    0   10   12/12",
            "2025-12-02T09:25:00Z    5       2.5    2    3    2/12",
            "2025-12-02T09:26:00Z   59  4.916667    0   10   12/12",
        ]
        assert found.err == "kizami: 26/36 (72.2%) slots stored\n"
        assert [sum(counts(first, first + 12)) for first in (288, 300, 312)] == [57, 5, 59]

    def test_only_the_figures_that_are_asked_for_are_shown(self, kizami: Command) -> None:
        found = kizami("query", "calls", *MINUTES, "--max", "--sum").out.splitlines()
        assert found[0].split() == ["from", "sum", "max", "stored"]

    def test_without_stretches_the_range_is_one(self, kizami: Command) -> None:
        row = kizami("query", "calls", *HOUR, "--sum").out.splitlines()[1]
        assert row.split() == ["2025-12-02T09:00:00Z", str(sum(counts(0, SLOTS))), "709/720"]

    def test_where_nothing_is_stored_there_are_no_figures(self, kizami: Command) -> None:
        day = "--from", "2025-12-01T00:00:00Z", "--to", "2025-12-02T00:00:00Z"
        row = kizami("query", "calls", *day, "--every", "1d").out.splitlines()[1]
        assert row.split() == ["2025-12-01T00:00:00Z", "-", "-", "-", "-", "-"]

    def test_several_metrics_and_patterns_are_told_one_after_the_other(self, kizami: Command) -> None:
        found = kizami("query", "calls", "chat/*", *HOUR, "--every", "30m", "--max").out
        assert starts(found) == ["calls", "calls", "chat/asked", "chat/asked", "chat/failed", "chat/failed"]
        assert starts(kizami("query", "chat", *HOUR, "--sum").out) == ["chat/asked", "chat/failed"]

    def test_days_and_hours_are_those_of_the_zone(self, kizami: Command) -> None:
        row = kizami("query", "calls", "--last", "1h", "--every", "1d", "--tz", "Asia/Tokyo").out.splitlines()[1]
        assert row.split()[:2] == ["2025-12-02T00:00:00+09:00", str(sum(counts(0, SLOTS)))]
        hours = starts(kizami("query", "calls", *HOUR, "--every", "1h", "--tz", "Asia/Kathmandu").out)
        assert hours == ["2025-12-02T14:45:00+05:45", "2025-12-02T15:00:00+05:45"]

    def test_the_last_so_long_begins_with_a_whole_stretch(self, kizami: Command) -> None:
        found = starts(kizami("query", "calls", "--last", "3min", "--every", "1m").out)
        assert [each[11:16] for each in found] == ["09:57", "09:58", "09:59", "10:00"]

    def test_without_a_range_there_are_two_dozen_stretches(self, kizami: Command) -> None:
        assert len(starts(kizami("query", "calls", "--every", "1m").out)) == 24 + 1

    def test_the_same_time_before_stands_beside_it(self, kizami: Command) -> None:
        assert kizami("query", "calls", *MINUTES, "--compare", "1m").out.splitlines() == [
            "from                  sum  1m before          change  stored  1m before",
            "2025-12-02T09:24:00Z   57         56      +1 (+1.8%)   12/12      12/12",
            "2025-12-02T09:25:00Z    5         57    -52 (-91.2%)    2/12      12/12",
            "2025-12-02T09:26:00Z   59          5  +54 (+1080.0%)   12/12       2/12",
        ]

    def test_before_there_was_anything_there_is_nothing_to_compare_with(self, kizami: Command) -> None:
        row = kizami("query", "calls", *HOUR, "--compare", "1w", "--mean").out.splitlines()[1]
        assert row.split() == ["2025-12-02T09:00:00Z", "4.981664", "-", "-", "709/720", "-"]


class TestData:
    def test_json_has_all_figures_and_its_times_are_utc(self, kizami: Command) -> None:
        found = kizami("query", "calls", *MINUTES, "--tz", "Asia/Tokyo", "--compare", "1m", "--json").json
        (metric,) = found.pop("metrics")
        assert found == {
            "from": "2025-12-02T09:24:00Z",
            "to": "2025-12-02T09:27:00Z",
            "every": "1m",
            "timeZone": "Asia/Tokyo",
            "compare": "1m",
        }
        assert {name: metric[name] for name in ("metricName", "intervalSeconds", "stored", "expected")} == {
            "metricName": "calls",
            "intervalSeconds": 5,
            "stored": 26,
            "expected": 36,
        }
        assert metric["buckets"][1] == {
            "from": "2025-12-02T09:25:00Z",
            "to": "2025-12-02T09:26:00Z",
            "stored": 2,
            "expected": 12,
            "sum": 5,
            "mean": 2.5,
            "min": 2,
            "max": 3,
            "before": {
                "from": "2025-12-02T09:24:00Z",
                "to": "2025-12-02T09:25:00Z",
                "stored": 12,
                "expected": 12,
                "sum": 57,
                "mean": 4.75,
                "min": 0,
                "max": 10,
            },
            "change": {"sum": -52, "mean": -2.25, "min": 2, "max": -7},
        }

    def test_csv_has_a_line_for_each_stretch_of_each_metric(self, kizami: Command) -> None:
        found = kizami("query", "chat/*", *MINUTES, "--sum", "--csv").out
        rows = list(csv.DictReader(io.StringIO(found)))
        assert [row["metricName"] for row in rows] == ["chat/asked"] * 3 + ["chat/failed"] * 3
        assert rows[0] == {
            "metricName": "chat/asked",
            "from": "2025-12-02T09:24:00Z",
            "to": "2025-12-02T09:25:00Z",
            "stored": "12",
            "expected": "12",
            "sum": "57",
        }
        compared = kizami("query", "calls", *MINUTES, "--sum", "--compare", "1m", "--csv").out.splitlines()[2]
        assert compared.endswith(",2,12,5,2025-12-02T09:24:00Z,2025-12-02T09:25:00Z,12,12,57,-52")

    def test_records_of_several_metrics_are_one_document_or_one_file(self, kizami: Command) -> None:
        slot = "--from", "2025-12-02T09:24:00Z", "--to", "2025-12-02T09:24:10Z"
        found = kizami("query", "chat/*", *slot, "--json").json["metrics"]
        assert [(each["metricName"], each["stored"], each["expected"]) for each in found] == [
            ("chat/asked", 2, 2),
            ("chat/failed", 1, 2),
        ]
        lines = kizami("query", "chat/*", *slot, "--csv").out.splitlines()
        assert [line.partition(",")[0] for line in lines] == [
            "metricName",
            "chat/asked",
            "chat/asked",
            "chat/failed",
        ]
        assert "chat/failed\nslotTime" in kizami("query", "chat/*", *slot).out


class TestChart:
    def test_columns_can_be_minutes_at_their_sum(self, kizami: Command) -> None:
        found = kizami("chart", "calls", *MINUTES, "--sum", "--json").json
        assert [(column["from"][11:16], column["sum"]) for column in found["columns"]] == [
            ("09:24", 57),
            ("09:25", 5),
            ("09:26", 59),
        ]
        drawn = kizami("chart", "calls", *MINUTES, "--sum", "--width", "38", "--height", "4", "--tz", "Asia/Tokyo")
        assert drawn.out.splitlines()[1].startswith("    59 │")
        assert drawn.out.splitlines()[-1].split() == ["18:24:00", "18:27:00"]

    def test_several_metrics_are_drawn_one_below_the_other(self, kizami: Command) -> None:
        assert kizami("chart", "chat/*", *HOUR).out.count("└") == 2
        assert len(kizami("chart", "chat/*", *HOUR, "--json").json["metrics"]) == 2


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["query", "calls", "--every", "7s"],
            "--every: '7s' does not divide a day; use one that divides a minute, an hour or a day, "
            "such as 30s, 5m or 1h, or 1w or 1mo",
        ),
        (["query", "calls", "--every", "1s"], "--every: 1s is no multiple of the interval of calls, 5 s"),
        (
            ["query", "nobody/*", "--sum"],
            "METRIC: 'nobody/*' is not known here; known: calls, chat/asked, chat/failed",
        ),
        (["query", "calls", "--compare", "0s"], "--compare: 0s is not some time before, such as 1d or 1w"),
        (
            ["query", "calls", "--compare", "soon"],
            "--compare: 'soon' is not a duration like 30s, 5min, 1h30m or 7d (units: s, min, h, d, w, y)",
        ),
        (
            ["query", "calls", "--from", "2000-01-01T00:00:00Z", "--every", "5s"],
            "--every: 5s divides the range into more than 100,000; ask for longer stretches or a shorter range",
        ),
        (
            ["query", "calls", "--from", "0001-01-01T00:00:00Z", "--sum", "--compare", "1w"],
            "--compare: 1w reaches back before year 0001",
        ),
        (
            ["chart", "calls", *HOUR, "--every", "5s", "--width", "40"],
            "--every: 720 columns do not fit, only 64; use a longer one, a shorter range or a greater --width",
        ),
        (
            ["chart", "calls", "--sum", "--max"],
            "Draw one of --sum, --mean, --min and --max at a time (see kizami chart --help)",
        ),
    ],
)
def test_a_mistake_is_one_line(kizami: Command, arguments: list[str], line: str) -> None:
    found = kizami(*arguments)
    assert (found.code, found.out, found.err) == (USAGE, "", f"kizami: {line}\n")
