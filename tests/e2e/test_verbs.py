"""The verbs as real processes over a real database: exit codes, pipes, sizes, and a daemon at work beside them."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kizami.cli.exit_codes import CHECK_FAILED, CONFIGURATION, FAILURE, INTERRUPTED, OK, USAGE
from kizami.core.slots import floor_to_slot
from kizami.mock_api.server import MockServer
from programs.command import KIZAMI, environment, run_process
from samples.database import bury_slots, make_database

SLOTS = 720
ROWS = 240_000
HOUR = ("--from", "2025-12-02T09:00:00Z", "--to", "2025-12-02T10:00:00Z")


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose kizami.db has an hour of `ai_response_count` without slot 99, and one dead letter."""
    backend = tmp_path_factory.mktemp("verbs")
    stored = [number for number in range(SLOTS) if number not in (99, 100)]
    path = make_database(backend / "kizami.db", {"ai_response_count": stored})
    bury_slots(path, "ai_response_count", [100], "status 500, expected 200", datetime(2025, 12, 2, 10, tzinfo=UTC))
    return backend


JSON_VERBS = [
    ["status", "--json"],
    ["targets", "--json"],
    ["query", "ai_response_count", *HOUR, "--json"],
    ["chart", "ai_response_count", *HOUR, "--json"],
    ["gaps", *HOUR, "--json"],
    ["backfill", "--gaps", *HOUR, "--dry-run", "--json"],
    ["dead-letters", "list", "--json"],
    ["dead-letters", "show", "ai_response_count", "2025-12-02T09:08:20Z", "--json"],
]


@pytest.mark.parametrize("arguments", JSON_VERBS, ids=lambda arguments: " ".join(arguments[:2]))
def test_every_verb_prints_one_json_document_and_nothing_else_on_stdout(
    backend: Path, arguments: list[str]
) -> None:
    found = run_process(*arguments, cwd=backend)
    assert found.code == OK, found.err
    assert isinstance(found.json, dict)


def test_doctor_prints_its_checks_as_json(backend: Path, tmp_path: Path) -> None:
    with MockServer(port=0) as server:
        (tmp_path / "kizami.toml").write_text(f'[[targets]]\nname = "calls"\nurl = "{server.url}"\n')
        found = run_process("doctor", "--database", backend / "kizami.db", "--json", cwd=tmp_path)
    assert found.code == OK, found.out
    assert {check["health"] for check in found.json["checks"]} == {"ok"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["query", "ai_response_count", *HOUR], OK, "718/720 (99.7%) slots stored"),
        (["gaps", *HOUR, "--check"], CHECK_FAILED, "1 slot of 720 missing in 1 metric"),
        (["query", "nope"], USAGE, "METRIC: 'nope' is not known here; known: ai_response_count"),
        (["query", "x", "--from", "2025-12-02T10:00:00"], USAGE, "has no time zone; add Z or an offset"),
        (["query", "x", "--last", "soon"], USAGE, "--last: 'soon' is not a duration"),
        (["status", "--config", "none.toml"], CONFIGURATION, "none.toml: there is no such file"),
        (["status", "--database", "none.db"], FAILURE, "none.db: there is no database yet; `kizami up` makes one"),
        (["export", "--format", "xml"], USAGE, "'xml' is not one of 'csv', 'jsonl', 'parquet'"),
        (["dead-letters", "purge"], USAGE, "add --yes"),
        (["dead-letters", "show", "ai_response_count", "2025-12-02T09:00:00Z"], FAILURE, "is not a dead letter"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_an_outcome_has_its_exit_code_and_one_line(
    backend: Path, arguments: list[str], code: int, words: str
) -> None:
    found = run_process(*arguments, cwd=backend)
    assert found.code == code
    assert len(found.err.splitlines()) == 1
    assert found.err.startswith("kizami: ")
    assert words in found.err


def test_one_slot_missing_of_720_is_719_of_720(tmp_path: Path) -> None:
    make_database(tmp_path / "kizami.db", {"calls": [number for number in range(SLOTS) if number != 99]})
    found = run_process("query", "calls", *HOUR, cwd=tmp_path)
    assert found.err == "kizami: 719/720 (99.8%) slots stored\n"


def test_a_chart_shows_a_hole_also_without_unicode(backend: Path) -> None:
    window = ("--from", "2025-12-02T09:08:00Z", "--to", "2025-12-02T09:08:50Z")  # slots 96 to 105
    env = environment(PYTHONIOENCODING="ascii")
    found = run_process("chart", "ai_response_count", *window, "--width", "28", cwd=backend, env=env)
    assert found.out.isascii()
    *plane, axis, _ = (line.ljust(28)[8:] for line in found.out.splitlines()[1:])
    # Twenty characters for ten slots: the fourth and the fifth are blank.
    assert axis == "------####----------"
    assert all(line[6:10] == "    " for line in plane)
    assert all(any(line[x] != " " for line in plane) for x in (*range(6), *range(10, 20)))


class TestFilesThatAreNoDatabase:
    @pytest.mark.parametrize("verb", [["status"], ["gaps"], ["export"], ["dead-letters", "list"]])
    def test_a_stranger_s_file_is_refused_and_left_as_it_is(self, tmp_path: Path, verb: list[str]) -> None:
        path = tmp_path / "kizami.db"
        path.write_bytes(b"not a database" * 50)
        found = run_process(*verb, cwd=tmp_path)
        line = "kizami: kizami.db: is not an SQLite database; it is left untouched, use another --database\n"
        assert (found.code, found.out, found.err) == (FAILURE, "", line)
        assert path.read_bytes() == b"not a database" * 50

    def test_a_damaged_one_is_one_line(self, tmp_path: Path) -> None:
        path = make_database(tmp_path / "kizami.db", {"ai_response_count": range(5000)})
        with path.open("r+b") as file:
            file.seek(4096 * 2)
            file.write(os.urandom(os.path.getsize(path) - 4096 * 2))
        found = run_process("export", cwd=tmp_path)
        assert found.code == FAILURE
        assert found.err.startswith("kizami: kizami.db: is damaged")
        assert len(found.err.splitlines()) == 1


class TestPipes:
    def test_a_reader_that_has_had_enough_is_no_failure(self, backend: Path) -> None:
        with subprocess.Popen(
            [*KIZAMI, "query", "ai_response_count", *HOUR],
            cwd=backend,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            words = process.stderr.read()
        assert process.returncode == OK
        assert b"Traceback" not in words
        assert b"Broken" not in words

    def test_a_full_disk_at_the_other_end_is_one_line(self, backend: Path) -> None:
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [*KIZAMI, "export"],
                cwd=backend,
                env=environment(),
                stdout=full,
                stderr=subprocess.PIPE,
                timeout=120,
            )
        assert done.returncode == FAILURE
        assert done.stderr.decode().endswith("No space left on device\n")
        assert len(done.stderr.splitlines()) == 1

    def test_without_a_stdout_it_still_works(self, backend: Path) -> None:
        command = " ".join([*KIZAMI, "status", ">&-"])
        assert subprocess.run(command, shell=True, cwd=backend, env=environment(), timeout=120).returncode == OK


def test_a_terminal_gets_bold_headings_unless_it_asks_for_plain_text(backend: Path) -> None:
    assert "\x1b[1m" in _on_terminal(["targets"], backend, TERM="xterm")
    assert "\x1b" not in _on_terminal(["targets"], backend, TERM="xterm", NO_COLOR="1")
    assert "\x1b" not in _on_terminal(["targets"], backend, TERM="dumb")


def _on_terminal(arguments: list[str], cwd: Path, **changes: str) -> str:
    """What the command writes to a terminal."""
    leader, follower = pty.openpty()
    env = {name: value for name, value in environment().items() if name not in ("NO_COLOR", "TERM")}
    with subprocess.Popen(
        [*KIZAMI, *arguments], cwd=cwd, env={**env, **changes}, stdout=follower, stderr=subprocess.DEVNULL
    ):
        os.close(follower)
        output = b""
        try:
            while chunk := os.read(leader, 4096):
                output += chunk
        except OSError:  # Linux says so when the other side has closed it
            pass
        finally:
            os.close(leader)
    return output.decode()


@pytest.fixture(scope="module")
def two_weeks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose kizami.db has 240,000 slots of `calls` up to now."""
    backend = tmp_path_factory.mktemp("weeks")
    start = floor_to_slot(datetime.now(UTC) - timedelta(seconds=5 * ROWS))
    make_database(backend / "kizami.db", {"calls": range(ROWS)}, start)
    return backend


@pytest.mark.parametrize("format_name", ["csv", "parquet"])
def test_an_export_of_two_weeks_streams_in_constant_memory(two_weeks: Path, format_name: str) -> None:
    export = ["export", "--format", format_name]
    small = _peak_kilobytes([*export, "--last", "30h"], two_weeks)
    large = _peak_kilobytes(export, two_weeks)
    # The records alone, held in memory, would take more than 100 MB.
    assert large < small + 40_000


def test_the_verbs_answer_over_two_weeks(two_weeks: Path) -> None:
    status = run_process("status", "--json", cwd=two_weeks).json
    assert status["coverage"]["day"]["expected"] == 17_280
    gaps = run_process("gaps", "--last", "14d", "--json", cwd=two_weeks).json
    assert gaps["missing"] < 120  # only what has become due since the database was made
    rows = run_process("query", "calls", "--last", "1h", "--csv", cwd=two_weeks).out.splitlines()
    assert 600 < len(rows) <= 721


def test_the_verbs_answer_over_a_thousand_targets(tmp_path: Path) -> None:
    names = [f"t{number:03}" for number in range(1000)]
    start = floor_to_slot(datetime.now(UTC) - timedelta(hours=1))  # so that no slot may still be on its way
    make_database(tmp_path / "kizami.db", {name: range(240 - (name == "t500")) for name in names}, start)
    targets = (f'[[targets]]\nname = "{name}"\nurl = "http://127.0.0.1:9"\n' for name in names)
    (tmp_path / "kizami.toml").write_text("".join(targets))
    status = run_process("status", "--json", cwd=tmp_path).json
    assert len(status["metrics"]) == 1000
    assert status["coverage"]["day"]["stored"] == 239_999
    until = (start + timedelta(seconds=5 * 240)).isoformat()
    (gap,) = run_process("gaps", "--from", "-2h", "--to", until, "--json", cwd=tmp_path).json["gaps"]
    assert (gap["metricName"], gap["slots"]) == ("t500", 1)
    found = run_process("query", "t500", "--from", start.isoformat(), "--to", until, cwd=tmp_path)
    assert "239/240" in found.err


def _peak_kilobytes(arguments: list[str], cwd: Path) -> int:
    """The most memory that a run has had, as a process of its own measures it."""
    code = (
        "import resource, subprocess, sys;"
        "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *KIZAMI, *arguments],
        cwd=cwd, env=environment(), capture_output=True, text=True, check=True, timeout=240,
    )  # fmt: skip
    return int(done.stdout)


def test_watched_on_a_terminal_it_is_shown_in_place_until_ctrl_c(backend: Path) -> None:
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*KIZAMI, "status", "--watch", "--every", "0.2"],
        cwd=backend,
        env=environment(TERM="xterm", COLUMNS="120", LINES="30"),
        stdin=follower,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    try:
        screen = _read_until(leader, b"dead letter")
        process.send_signal(signal.SIGINT)
        screen += _read_until(leader, b"\x1b[?1049l")  # the screen from before is back
        assert process.wait(timeout=60) == INTERRUPTED
    finally:
        process.kill()
        os.close(leader)
    assert b"\x1b[?1049h" in screen
    assert b"Traceback" not in screen


def _read_until(leader: int, end: bytes) -> bytes:
    output = b""
    while end not in output:
        output += os.read(leader, 65_536)
    return output
