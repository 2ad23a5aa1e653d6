"""The command line run by tests: in this process, or as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kizami.cli.main import main

KIZAMI = [sys.executable, "-m", "kizami.cli.main"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run has left: its exit code, its data and its words."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


class Command:
    """Runs verbs in this process, in a directory of its own."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> Outcome:
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        code = ended.value.code
        assert isinstance(code, int)
        return Outcome(code, *self._capsys.readouterr())


def environment(**changes: str) -> dict[str, str]:
    """Ours without what would lead a verb elsewhere or colour its words."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KIZAMI_", "AWS_"))}
    return {**kept, **changes}


def run_process(
    *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None, program: Sequence[str] = KIZAMI
) -> Outcome:
    """Run the real command to its end."""
    done = subprocess.run(
        [*program, *map(str, arguments)],
        cwd=cwd,
        env=dict(env or environment()),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)
