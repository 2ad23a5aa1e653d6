"""query, chart, gaps, status and export: their words and formats over a database of known content."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow.parquet
import pytest

from kizami.cli.exit_codes import CHECK_FAILED, CONFIGURATION, FAILURE, OK, USAGE
from kizami.cli.terminal.tables import cell_width
from kizami.local.daemon_lock import UP, sole_daemon
from kizami.platform.clock import SystemClock
from programs.command import Command
from samples.database import T0, at, bury_slots, make_database, queue_slots

SLOTS = 720
NOW = at(SLOTS) + timedelta(seconds=30)
HOUR = ("--from", "2025-12-02T09:00:00Z", "--to", "2025-12-02T10:00:00Z")
WIDE = "応答数"


@pytest.fixture
def kizami(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """The command line half a minute after an hour of slots; `calls` lacks slots 99 and 300 to 309."""
    monkeypatch.chdir(tmp_path)
    for name in ("KIZAMI_CONFIG", "KIZAMI_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(SystemClock, "now", lambda self: NOW)
    gone = {99, *range(300, 310)}
    make_database(
        tmp_path / "kizami.db",
        {"calls": [n for n in range(SLOTS) if n not in gone], WIDE: range(SLOTS), "silent": []},
    )
    return Command(capsys)


class TestQuery:
    def test_the_table_shows_records_and_where_there_are_none(self, kizami: Command) -> None:
        found = kizami("query", "calls", "--from", "2025-12-02T09:08:10Z", "--to", "2025-12-02T09:08:25Z")
        assert found.code == OK
        assert found.out.splitlines() == [
            "slotTime                   count  collectedAt",
            "2025-12-02T09:08:10Z          10  2025-12-02T09:08:15Z",
            "2025-12-02T09:08:15Z           -  1 slot not stored",
            "2025-12-02T09:08:20Z           1  2025-12-02T09:08:25Z",
        ]
        assert found.err == "kizami: 2/3 (66.6%) slots stored\n"

    def test_completeness_of_an_hour_with_one_slot_missing_is_719_of_720(self, kizami: Command) -> None:
        found = kizami("query", "calls", "--from", "2025-12-02T08:30:00Z", "--to", "2025-12-02T09:25:00Z")
        assert found.err == "kizami: 299/300 (99.6%) slots stored\n"
        assert kizami("query", WIDE, *HOUR).err == "kizami: 720/720 (100%) slots stored\n"

    def test_json_is_one_document_with_completeness_and_gaps(self, kizami: Command) -> None:
        found = kizami("query", "calls", *HOUR, "--json")
        document = found.json
        assert (document["stored"], document["expected"], len(document["records"])) == (709, 720, 709)
        assert document["gaps"] == [
            {"from": "2025-12-02T09:08:15Z", "to": "2025-12-02T09:08:20Z", "slots": 1},
            {"from": "2025-12-02T09:25:00Z", "to": "2025-12-02T09:25:50Z", "slots": 10},
        ]
        assert document["records"][0] == {
            "metricName": "calls",
            "slotTime": "2025-12-02T09:00:00Z",
            "count": 0,
            "collectedAt": "2025-12-02T09:00:05Z",
        }
        assert (document["metricName"], document["intervalSeconds"]) == ("calls", 5)
        assert (document["from"], document["to"]) == ("2025-12-02T09:00:00Z", "2025-12-02T10:00:00Z")

    def test_csv_reads_back(self, kizami: Command) -> None:
        rows = list(csv.DictReader(io.StringIO(kizami("query", WIDE, *HOUR, "--csv").out)))
        assert len(rows) == SLOTS
        assert rows[-1]["metricName"] == WIDE

    def test_the_default_is_the_last_ten_minutes_and_the_newest_slots_are_not_missed_yet(
        self, kizami: Command
    ) -> None:
        # It is half a minute after the last stored slot: four slots have been due for more than ten seconds.
        assert kizami("query", WIDE).err == "kizami: 114/118 (96.6%) slots stored\n"

    def test_an_empty_range_is_no_error(self, kizami: Command) -> None:
        day = ("--from", "2024-01-01T00:00:00Z", "--to", "2024-01-02T00:00:00Z")
        found = kizami("query", "calls", *day, "--json")
        assert found.code == OK
        assert (found.json["records"], found.json["expected"]) == ([], 0)

    @pytest.mark.parametrize(
        ("arguments", "line"),
        [
            (["query", "cals"], "METRIC: 'cals' is not known here; did you mean calls?"),
            (["query", "x"], f"METRIC: 'x' is not known here; known: calls, silent, {WIDE}"),
            (["query"], "Missing argument 'METRIC...' (see kizami query --help)"),
            (
                ["query", "calls", "--from", "2025-12-02T10:00:00"],
                "--from: '2025-12-02T10:00:00' has no time zone; add Z or an offset such as +09:00, or say --tz",
            ),
            (
                ["query", "calls", "--csv", "--json"],
                "--csv and --json exclude each other (see kizami query --help)",
            ),
        ],
    )
    def test_a_mistake_is_one_line(self, kizami: Command, arguments: list[str], line: str) -> None:
        found = kizami(*arguments)
        assert (found.code, found.out, found.err) == (USAGE, "", f"kizami: {line}\n")


class TestChart:
    def test_a_gap_is_a_hole_in_the_drawing(self, kizami: Command) -> None:
        window = ("--from", "2025-12-02T09:24:10Z", "--to", "2025-12-02T09:26:40Z")  # slots 290 to 319
        found = kizami("chart", "calls", *window, "--width", "38", "--height", "4")
        heading, *plane, axis, times = found.out.splitlines()
        assert (found.code, heading) == (OK, "calls")
        # Thirty slots on thirty characters: the ten missing ones are blank in every line, the others are not.
        columns = ["".join(line.ljust(38)[8 + x] for line in plane) for x in range(30)]
        assert [column.isspace() for column in columns] == [10 <= x < 20 for x in range(30)]
        assert axis[8:] == "─" * 10 + "█" * 10 + "─" * 10
        assert times.split() == ["09:24:10", "09:26:40"]
        assert found.err == "kizami: 20/30 (66.6%) slots stored; on the axis ░ some and █ all slots missing\n"

    def test_its_data_as_json(self, kizami: Command) -> None:
        document = kizami("chart", "calls", *HOUR, "--width", "68", "--json").json
        assert len(document["columns"]) == 120
        assert sum(column["stored"] for column in document["columns"]) == 709
        assert sum(column["expected"] for column in document["columns"]) == 720
        hole = [column for column in document["columns"] if column["stored"] == 0]
        assert [(column["from"], column["min"], column["max"]) for column in hole] == [
            ("2025-12-02T09:25:00Z", None, None)
        ]

    def test_without_gaps_nothing_is_said_about_them(self, kizami: Command) -> None:
        found = kizami("chart", WIDE, *HOUR)
        assert found.err == "kizami: 720/720 (100%) slots stored\n"
        assert "█" not in found.out


class TestGaps:
    def test_runs_of_missing_slots_are_listed(self, kizami: Command) -> None:
        found = kizami("gaps", "calls", *HOUR)
        assert found.code == OK
        assert found.out.splitlines() == [
            "metric  from                  to                    slots  length",
            "calls   2025-12-02T09:08:15Z  2025-12-02T09:08:20Z      1      5s",
            "calls   2025-12-02T09:25:00Z  2025-12-02T09:25:50Z     10     50s",
        ]
        assert found.err == "kizami: 11 slots of 720 missing in 1 metric\n"

    def test_what_is_queued_or_dead_is_no_gap(self, kizami: Command) -> None:
        queue_slots(Path("kizami.db"), "calls", [99], NOW)
        bury_slots(Path("kizami.db"), "calls", range(300, 305), "status 500, expected 200", NOW)
        document = kizami("gaps", "calls", *HOUR, "--json").json
        assert document["missing"] == 5
        assert [gap["from"] for gap in document["gaps"]] == ["2025-12-02T09:25:25Z"]

    def test_without_a_name_it_is_about_everything_that_is_polled(self, kizami: Command) -> None:
        document = kizami("gaps", *HOUR, "--json").json
        assert {gap["metricName"] for gap in document["gaps"]} == {"calls", "silent"}
        assert document["missing"] == 11 + SLOTS

    def test_check_has_an_exit_code(self, kizami: Command) -> None:
        assert kizami("gaps", "calls", *HOUR, "--check").code == CHECK_FAILED
        assert kizami("gaps", WIDE, *HOUR, "--check").code == OK
        assert kizami("gaps", WIDE, *HOUR, "--check", "--json").json["gaps"] == []


class TestStatus:
    @pytest.fixture(autouse=True)
    def daemon(self, kizami: Command) -> Iterator[None]:
        """As if one were running on the database."""
        with sole_daemon(Path("kizami.db"), UP):
            yield

    def test_a_person_sees_metrics_then_what_they_share(self, kizami: Command) -> None:
        bury_slots(Path("kizami.db"), "calls", [99], "status 500, expected 200", NOW)
        found = kizami("status")
        assert found.code == OK
        assert found.out.splitlines() == [
            "metric  state   newest slot           age        last hour         last day  missing",
            "silent  silent  -                       -     0/720 (0.0%)     0/724 (0.0%)      724",
            "calls   late    2025-12-02T09:59:55Z  35s  705/720 (97.9%)  709/724 (97.9%)       14",
            "応答数  late    2025-12-02T09:59:55Z  35s  716/720 (99.4%)  720/724 (99.4%)        4",
            "",
            "verdict   silent: silent since 2025-12-02T09:00:00Z. 16 of 36 slots of the last minute are stored "
            "(20 missing); coverage 24 h 65.79%, 4 gaps, 1 dead letter.",
            f"daemon    running (pid {os.getpid()})",
            "coverage  1421/2160 (65.7%) of the last hour, 1429/2172 (65.7%) of the last day",
            "missing   742 slots of the last day",
            "lateness  p50 7 ms, p99 7 ms, 228 polls in the last 10 minutes",
            "queue     0 waiting, 0 planned, 0 in flight, the oldest for 0.0 s",
            "dead      1 dead letter",
            "failing   silent: silent since 2025-12-02T09:00:00Z",
            "failing   calls, 応答数: late",
        ]

    def test_a_narrow_terminal_has_whole_rows_and_colours_unless_they_are_not_wanted(
        self, kizami: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "72")
        monkeypatch.delenv("NO_COLOR", raising=False)
        coloured = kizami("status").out
        monkeypatch.setenv("NO_COLOR", "1")
        lines = kizami("status").out.splitlines()
        assert lines[:4] == [
            "metric  state   newest slot            hour    day  missing",
            "silent  silent  -                      0.0%   0.0%      724",
            "calls   late    2025-12-02T09:59:55Z  97.9%  97.9%       15",
            "応答数  late    2025-12-02T09:59:55Z  99.4%  99.4%        4",
        ]
        assert lines[5:8] == [
            "verdict   silent: silent since 2025-12-02T09:00:00Z. 16 of 36 slots of",
            "          the last minute are stored (20 missing); coverage 24 h 65.79%,",
            "          5 gaps.",
        ]
        assert all(cell_width(line) <= 72 for line in lines)
        assert re.sub(r"\x1b\[\d*m", "", coloured).splitlines() == lines
        assert "\x1b[31msilent" in coloured
        assert "\x1b[33mcalls" in coloured
        assert "\x1b[31mverdict" in coloured

    def test_a_program_gets_all_of_it(self, kizami: Command) -> None:
        document = kizami("status", "--json").json
        assert [each["metricName"] for each in document["metrics"]] == ["silent", "calls", WIDE]
        assert document["metrics"][1]["newestSlot"] == "2025-12-02T09:59:55Z"
        assert document["metrics"][1]["ageSeconds"] == 35.0
        assert document["coverage"]["hour"]["expected"] == 3 * SLOTS
        assert document["lateness"]["p99Ms"] == 7
        worst = {"condition": "silent", "metricName": "silent", "since": "2025-12-02T09:00:00Z", "cause": None}
        assert document["verdict"] == {"level": "bad", "finding": "some_stored", **worst}
        assert (
            document["metrics"][0].items()
            >= {"condition": "silent", "level": "bad", "since": worst["since"]}.items()
        )
        running = {"running": True, "pid": os.getpid(), "trouble": None, "difference": None, "backups": None}
        assert document["daemon"] == running
        assert document["queue"] == {"waiting": 0, "planned": 0, "inFlight": 0, "oldestAgeSeconds": 0.0}

    def test_what_is_paused_or_no_longer_configured_is_not_expected(self, kizami: Command) -> None:
        Path("kizami.toml").write_text(
            '[[targets]]\nname = "calls"\nurl = "http://127.0.0.1:1"\nenabled = false\n'
            '[[targets]]\nname = "new"\nurl = "http://127.0.0.1:1"\n'
        )
        states = {each["metricName"]: each for each in kizami("status", "--json").json["metrics"]}
        assert {name: each["polling"] for name, each in states.items()} == {
            "calls": "disabled",
            WIDE: "removed",
            "silent": "removed",
            "new": "on",
        }
        assert all(each["hour"]["expected"] == 0 for each in states.values())
        assert re.search("^calls +disabled ", kizami("status").out, re.MULTILINE)
        assert kizami("gaps", "--check").code == OK

    def test_of_many_metrics_the_least_complete_are_shown(self, kizami: Command, tmp_path: Path) -> None:
        many = {f"metric_{n:02}": range(SLOTS - n) for n in range(30)}
        path = make_database(tmp_path / "many.db", many)
        lines = kizami("status", "--database", path).out.splitlines()
        assert lines[1].startswith("metric_29")
        assert "… and 10 more, no less complete (--all lists them)" in lines
        assert len(kizami("status", "--database", path, "--all").out.splitlines()) == 30 + 9

    def test_watching_prints_again_and_again(self, kizami: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        pauses = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:
                raise KeyboardInterrupt

        monkeypatch.setattr("kizami.cli.verbs.status.time.sleep", pause)
        found = kizami("status", "--watch", "--every", "0.5", "--json")
        assert (found.code, pauses) == (130, [0.5] * 3)
        assert [json.loads(line)["now"] for line in found.out.splitlines()] == ["2025-12-02T10:00:30Z"] * 3


@pytest.mark.parametrize(
    "verb",
    [
        ["query", "calls"],
        ["chart", "calls"],
        ["gaps"],
        ["export"],
        ["backfill"],
        ["backfill", "--gaps"],
        ["dead-letters", "list"],
    ],
)
def test_of_the_future_every_verb_says_that_nothing_is_due(kizami: Command, verb: list[str]) -> None:
    found = kizami(*verb, "--from", "2030-01-01T00:00:00Z", "--to", "2030-01-02T00:00:00Z")
    line = "kizami: --from: nothing is due yet from 2030-01-01T00:00:00Z on; it is 2025-12-02T10:00:30Z\n"
    assert (found.code, found.out, found.err) == (USAGE, "", line)


@pytest.mark.parametrize("verb", ["query", "chart", "gaps"])
def test_of_the_time_before_the_first_poll_it_is_not_said_to_be_complete(kizami: Command, verb: str) -> None:
    found = kizami(verb, "calls", "--from", "2020-01-01T00:00:00Z", "--to", "2020-01-02T00:00:00Z")
    hint = "" if verb == "gaps" else "; `kizami status` says how the collection is doing"
    assert (found.code, found.err) == (OK, f"kizami: no slot is due in this range{hint}\n")


class TestExport:
    def test_all_metrics_are_written_metric_by_metric(self, kizami: Command) -> None:
        found = kizami("export", "--format", "jsonl")
        names = [json.loads(line)["metricName"] for line in found.out.splitlines()]
        assert names == ["calls"] * 709 + [WIDE] * SLOTS
        assert found.err == "kizami: 1,429 records of 3 metrics written to stdout\n"
        assert kizami("export", "--json").out == found.out

    def test_a_range_of_one_metric_goes_to_a_file(self, kizami: Command, tmp_path: Path) -> None:
        path = tmp_path / "out.csv"
        found = kizami("export", WIDE, *HOUR, "--output", path)
        assert (found.code, found.out) == (OK, "")
        assert len(path.read_text("utf-8").splitlines()) == SLOTS + 1
        assert sorted(tmp_path.glob(".*part")) == []

    def test_figures_of_each_stretch_go_to_every_format(self, kizami: Command, tmp_path: Path) -> None:
        found = kizami("export", "calls", WIDE, *HOUR, "--every", "30m")
        assert found.err == "kizami: 4 rows of 2 metrics written to stdout\n"
        assert found.out == kizami("query", "calls", WIDE, *HOUR, "--every", "30m", "--csv").out
        lines = kizami("export", "calls", *HOUR, "--every", "30m", "--sum", "--json").out.splitlines()
        (metric,) = kizami("query", "calls", *HOUR, "--every", "30m", "--sum", "--json").json["metrics"]
        assert [json.loads(line) for line in lines] == [
            {"metricName": "calls", **row} for row in metric["buckets"]
        ]
        kizami("export", "calls", *HOUR, "--every", "30m", "--format", "parquet", "-o", tmp_path / "f.parquet")
        rows = pyarrow.parquet.read_table(tmp_path / "f.parquet").to_pylist()
        assert [(row["stored"], int(row["sum"])) for row in rows] == [
            (json.loads(line)["stored"], json.loads(line)["sum"]) for line in lines
        ]
        excel = kizami("export", "calls", *HOUR, "--every", "1h", "--max", "--excel").out
        assert excel.splitlines()[1].startswith("calls,2025-12-02 09:00:00,2025-12-02 10:00:00,709,720,10")

    def test_figures_without_a_range_begin_with_the_oldest_record(self, kizami: Command) -> None:
        rows = [line.split(",") for line in kizami("export", "calls", "--every", "1h").out.splitlines()[1:]]
        assert [row[1:3] for row in rows] == [
            ["2025-12-02T09:00:00Z", "2025-12-02T10:00:00Z"],
            ["2025-12-02T10:00:00Z", "2025-12-02T10:00:30Z"],
        ]

    def test_more_stretches_than_are_read_at_once_are_all_there(
        self, kizami: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole = kizami("export", "--every", "1m", "--tz", "Asia/Tokyo").out
        monkeypatch.setattr("kizami.cli.verbs.export._STRETCHES", 7)
        assert kizami("export", "--every", "1m", "--tz", "Asia/Tokyo").out == whole
        assert len(whole.splitlines()) == 1 + 2 * 61

    def test_a_link_is_followed_and_a_device_is_written_to(self, kizami: Command, tmp_path: Path) -> None:
        (tmp_path / "link.csv").symlink_to(tmp_path / "target.csv")
        assert kizami("export", WIDE, "-o", tmp_path / "link.csv").code == OK
        assert (tmp_path / "link.csv").is_symlink()
        assert len((tmp_path / "target.csv").read_text("utf-8").splitlines()) == SLOTS + 1
        assert kizami("export", WIDE, "-o", "/dev/null").code == OK
        assert Path("/dev/null").is_char_device()

    def test_an_old_file_stays_if_the_new_one_cannot_be_finished(
        self, kizami: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "out.csv"
        path.write_text("old")

        def fail(*arguments: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("kizami.cli.verbs.export.os.fsync", fail)
        found = kizami("export", WIDE, "-o", path)
        assert (found.code, found.err) == (
            FAILURE,
            f"kizami: {path}: cannot be written: No space left on device\n",
        )
        assert path.read_text() == "old"
        assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []

    def test_a_directory_that_is_not_there_is_one_line(self, kizami: Command, tmp_path: Path) -> None:
        found = kizami("export", WIDE, "-o", tmp_path / "none" / "out.csv")
        assert (found.code, found.out) == (FAILURE, "")
        assert found.err == (
            f"kizami: {tmp_path / 'none' / 'out.csv'}: there is no directory {tmp_path / 'none'}; make it first\n"
        )


@pytest.mark.parametrize("verb", [["status"], ["query", "calls"], ["chart", "calls"], ["gaps"], ["export"]])
def test_where_there_is_no_database_one_line_says_how_to_get_one(kizami: Command, verb: list[str]) -> None:
    found = kizami(*verb, "--database", "none.db")
    line = "kizami: none.db: there is no database yet; `kizami up` makes one\n"
    assert (found.code, found.out, found.err) == (FAILURE, "", line)
    assert not Path("none.db").exists()


def test_a_broken_configuration_is_one_line(kizami: Command) -> None:
    Path("kizami.toml").write_text("[[targets]]\nname = 1\n")
    found = kizami("status")
    assert (found.code, found.out) == (CONFIGURATION, "")
    assert re.fullmatch(r"kizami: kizami\.toml: targets\[0\]\.name: .*\n", found.err)


def test_the_clock_of_these_tests_is_the_one_that_the_verbs_read(kizami: Command) -> None:
    assert SystemClock().now() == NOW
    assert datetime.fromisoformat(kizami("status", "--json").json["now"]) == NOW
    assert T0 < NOW


class TestZones:
    TOKYO = ("--tz", "Asia/Tokyo")

    def test_times_are_shown_and_read_in_the_zone_asked_for(self, kizami: Command) -> None:
        found = kizami(
            "query", "calls", "--from", "2025-12-02T18:08:10", "--to", "2025-12-02 18:08:20", *self.TOKYO
        )
        assert found.out.splitlines()[1:] == [
            "2025-12-02T18:08:10+09:00          10  2025-12-02T18:08:15+09:00",
            "2025-12-02T18:08:15+09:00           -  1 slot not stored",
        ]
        gap = kizami("gaps", "calls", *self.TOKYO).out.splitlines()[1]
        assert gap.split()[1:3] == ["2025-12-02T18:08:15+09:00", "2025-12-02T18:08:20+09:00"]
        assert "2025-12-02T18:59:55+09:00" in kizami("status", *self.TOKYO).out
        assert "2025-12-02T18:00:00+09:00" in kizami("chart", "calls", *HOUR, "--width", "100", *self.TOKYO).out

    def test_the_environment_names_the_zone_unless_the_option_does(
        self, kizami: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KIZAMI_TZ", "Asia/Kathmandu")
        assert "+05:45" in kizami("status").out
        assert "+09:00" in kizami("status", *self.TOKYO).out
        monkeypatch.setenv("KIZAMI_TZ", "Nowhere")
        found = kizami("status")
        assert (found.code, found.err.splitlines()) == (
            USAGE,
            ["kizami: KIZAMI_TZ: 'Nowhere' is not a time zone like Asia/Tokyo, Europe/Berlin or UTC"],
        )

    def test_what_programs_read_stays_utc(self, kizami: Command) -> None:
        for verb in (
            ["query", "calls", "--json"],
            ["query", "calls", "--csv"],
            ["status", "--json"],
            ["gaps", "--json"],
        ):
            assert "+09:00" not in kizami(*verb, *self.TOKYO).out
        assert kizami("query", "calls", *HOUR, "--json", *self.TOKYO).json["from"] == "2025-12-02T09:00:00Z"

    @pytest.mark.parametrize(
        ("arguments", "start", "end"),
        [
            (["--last", "1h30m"], "2025-12-02T08:30:30Z", "2025-12-02T10:00:30Z"),
            (["--last", "5min"], "2025-12-02T09:55:30Z", "2025-12-02T10:00:30Z"),
            (["--last", "today"], "2025-12-02T00:00:00Z", "2025-12-02T10:00:30Z"),
            (["--from", "yesterday", "--to", "today"], "2025-12-01T00:00:00Z", "2025-12-02T00:00:00Z"),
            (["--last", "yesterday", *TOKYO], "2025-11-30T15:00:00Z", "2025-12-01T15:00:00Z"),
        ],
    )
    def test_ranges_in_peoples_words(self, kizami: Command, arguments: list[str], start: str, end: str) -> None:
        found = kizami("query", "calls", "--json", *arguments).json
        assert (found["from"], found["to"]) == (start, end)
