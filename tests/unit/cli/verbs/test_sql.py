"""`kizami sql` as a verb: its formats, the shell, and Ctrl-C."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from kizami.cli.exit_codes import INTERRUPTED, OK, USAGE
from programs.command import KIZAMI, Command, environment
from programs.daemon import PATIENCE_SECONDS, SOURCES, wait_for
from samples.database import make_database

TWO = "SELECT metric, slot, count, 0.1 + 0.2 AS sum FROM records ORDER BY metric, slot LIMIT 2"
ENDLESS = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"


@pytest.fixture
def kizami(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    make_database(tmp_path / "kizami.db", {"応答数": range(1500)}, counts=2000)
    return Command(capsys)


def test_a_person_gets_a_table(kizami: Command) -> None:
    found = kizami("sql", TWO)
    assert (found.code, found.err) == (OK, "kizami: 2 rows\n")
    assert found.out.splitlines() == [
        "metric  slot                  count  sum",
        "応答数  2025-12-02T09:00:00Z      0  0.3",
        "応答数  2025-12-02T09:00:05Z      1  0.3",
    ]


def test_a_program_gets_json_or_csv(kizami: Command) -> None:
    found = kizami("sql", "SELECT 1 AS a, 'x' AS a, NULL AS b, x'00ff' AS c, 0.1 + 0.2 AS d", "--json")
    assert found.json == [{"a": 1, "a_2": "x", "b": None, "c": "00ff", "d": 0.3}]
    assert kizami("sql", "SELECT 1 WHERE 0", "--json").json == []
    rows = [*csv.reader(io.StringIO(kizami("sql", TWO, "--csv").out))]
    assert rows[:2] == [["metric", "slot", "count", "sum"], ["応答数", "2025-12-02T09:00:00Z", "0", "0.3"]]
    assert len(json.loads(kizami("sql", "SELECT * FROM records", "--json").out)) == 1500


def test_a_cell_stays_on_its_line_and_null_is_a_dash(kizami: Command) -> None:
    assert kizami("sql", "SELECT 'a' || char(10) || 'b' AS text, NULL AS none").out == "text  none\na b      -\n"


def test_more_rows_than_are_measured_are_all_there(kizami: Command) -> None:
    assert len(kizami("sql", "SELECT slot FROM records").out.splitlines()) == 1501


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["SELECT"], "kizami: SQL: incomplete input"),
        (["DELETE FROM records"], "kizami: SQL: kizami sql only reads; write a SELECT"),
        (["SELECT 1", "--csv", "--json"], "kizami: --csv and --json exclude each other"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(kizami: Command, arguments: list[str], words: str) -> None:
    found = kizami("sql", *arguments)
    assert (found.code, found.out, found.err.count("\n")) == (USAGE, "", 1)
    assert found.err.startswith(words)


def run(*arguments: str, **options: object) -> subprocess.Popen[bytes]:
    env = environment(PYTHONPATH=str(SOURCES), TERM="dumb")
    return subprocess.Popen([*KIZAMI, "sql", *arguments], env=env, **options)  # type: ignore[call-overload, no-any-return]


@pytest.mark.usefixtures("kizami")
def test_a_statement_may_come_from_stdin_and_ctrl_c_ends_a_long_one() -> None:
    with run("--csv", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, _ = process.communicate(b"SELECT count(*) FROM records", timeout=PATIENCE_SECONDS)
    assert out == b"count(*)\n1500\n"
    with run(
        ENDLESS.replace("SELECT max", "SELECT 'begun' UNION ALL SELECT max"), stdout=subprocess.PIPE
    ) as process:
        os.set_blocking(process.stdout.fileno(), False)  # type: ignore[union-attr]
        _wait_until_busy(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == INTERRUPTED


def _wait_until_busy(pid: int) -> None:
    """Until it has used more time than its start takes."""

    def used() -> bool:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") > 1.5

    wait_for(used, "a busy process")


@pytest.mark.usefixtures("kizami")
def test_on_a_terminal_one_statement_after_another_is_asked_for() -> None:
    mine, its = pty.openpty()
    typed = "SELECT count(*) AS n\nFROM records;\nSELECT foo;\n.mode json\n.tables\nSELECT 7 AS n;\n.quit\n"
    with run(stdin=its, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        os.write(mine, typed.encode())
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    os.close(its)
    os.close(mine)
    assert process.returncode == OK
    answers = out.decode().replace("kizami> ", "").replace("   ...> ", "")
    assert answers == '   n\n1500\n[\n{"n": 7}\n]\n'
    told = err.decode()
    assert "kizami: SQL: no such column: foo, at character 8" in told
    assert "kizami: records (metric, slot, count, collected_at" in told
