"""Writes the failed tests of a run to the file that `KIZAMI_TEST_FAILURES` names, for `.ci/rerun_failed.py`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

# Removed from the environment, so that neither the workers nor a pytest within a test write the file, too.
FILE = os.environ.pop("KIZAMI_TEST_FAILURES", "")


class FailedTests:
    """Collects the first failure of each test and of each module that cannot be imported."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._failed: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._file.write_text(json.dumps({"exit": int(exitstatus), "failed": self._failed}))

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed:
            self._failed.setdefault(report.nodeid, _first_line(report))


def _first_line(report: pytest.TestReport | pytest.CollectReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash else str(report.longrepr)).strip().splitlines()
    return lines[0] if lines else "failed without a message"


def register(config: pytest.Config) -> None:
    """Note the failures of this run if its environment asks for them."""
    if FILE:
        config.pluginmanager.register(FailedTests(Path(FILE)))
