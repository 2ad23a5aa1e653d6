"""What docs/one-machine.md says holds: its unit is one that systemd takes, and its figures are the source's."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import skip_for_lack_of
from house.tree import ROOT
from kizami.cli.exit_codes import CONFIGURATION, USAGE
from kizami.cli.verbs.up import command
from kizami.core.targets.target import DEFAULT_MAX_BODY_BYTES
from kizami.local.engine.failures.backoff import FACTOR, MAX_SECONDS
from kizami.local.engine.host_limits import LIVE_WAIT_MS, OLD_SHARE
from kizami.local.engine.options import Options
from kizami.local.engine.writer import HELD_LIMIT, LOOK_AHEAD_MS
from kizami.local.store.schema import SCHEMA

DOCUMENT = (ROOT / "docs" / "one-machine.md").read_text("utf-8")
WORDS = " ".join(DOCUMENT.split())


def unit() -> str:
    (found,) = re.findall(r"^```ini\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    return str(found)


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        skip_for_lack_of("systemd-analyze", "install systemd")
    path = tmp_path / "kizami.service"
    path.write_text(unit().replace("/opt/kizami/.venv/bin/kizami", sys.executable))
    verified = subprocess.run([str(tool), "verify", path], capture_output=True, text=True, timeout=60)
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")


def test_the_units_command_line_is_one_that_kizami_takes() -> None:
    (line,) = re.findall(r"^ExecStart=(.*)$", unit(), re.MULTILINE)
    program, verb, *arguments = line.split()
    assert (program, verb) == ("/opt/kizami/.venv/bin/kizami", "up")
    parameters = command.make_context("up", arguments).params
    assert parameters["rows"] is False
    assert str(parameters["config"]) == "/etc/kizami/kizami.toml"
    assert f"RestartPreventExitStatus={USAGE} {CONFIGURATION}\n" in unit()


def test_every_table_of_the_file_is_described() -> None:
    tables = re.findall(r"CREATE TABLE (\w+)", SCHEMA)
    assert len(tables) >= 8
    assert [name for name in tables if f"`{name}`" not in DOCUMENT] == []


@pytest.mark.parametrize(
    "claim",
    [
        f"handed out up to {'seven seconds' if LOOK_AHEAD_MS == 7000 else LOOK_AHEAD_MS} ahead",
        f"after {Options().retry_seconds:g} s, then "
        + ", ".join(f"{Options().retry_seconds * FACTOR**n:g}" for n in (1, 2))
        + f" and {Options().retry_seconds * FACTOR**3:g} s",
        f"up to {MAX_SECONDS / 60:g} minutes",
        f"After {'five' if Options().receive_limit == 5 else Options().receive_limit} attempts",
        f"waited for {LIVE_WAIT_MS // 1000} s",
        f"one in {'eight' if OLD_SHARE == 8 else OLD_SHARE} may",
        f"at most {DEFAULT_MAX_BODY_BYTES // 2**20} MiB",
        f"no more than {Options().backfill_per_second:,} a second",
        f"up to {HELD_LIMIT:,} results",
    ],
)
def test_a_figure_is_the_one_in_the_source(claim: str) -> None:
    assert claim in WORDS
