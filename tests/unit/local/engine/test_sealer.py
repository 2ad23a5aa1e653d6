"""The Sealer's thread: it rests between its steps, goes on after a fault, and stops where it is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from fakes.ports import ManualClock
from kizami.core.errors import StoreError
from kizami.local.engine import sealer as module
from kizami.local.engine.machine import Machine
from kizami.local.engine.sealer import Sealer
from kizami.local.store.database import open_database

NOW = datetime(2025, 12, 2, 10, tzinfo=UTC)
STEP_SECONDS = 0.05


class Waits(Machine):
    """A machine on which nobody waits: every wait is noted, time goes by with each step that is taken."""

    def __init__(self, stop_after: int) -> None:
        self.time = 0.0
        self.rests: list[float | None] = []
        self.stop_after = stop_after

    def monotonic(self) -> float:
        return self.time

    def condition(self) -> Any:
        return self

    def thread(self, run: Any, name: str) -> Any:
        return None

    def notify(self) -> None:
        raise AssertionError("nobody stops it")

    def wait_for(self, predicate: Any, timeout: float | None = None) -> bool:
        self.rests.append(timeout)
        return False

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_: object) -> None:
        pass


class WallClock(ManualClock):
    def milliseconds(self) -> float:
        return self.now().timestamp() * 1000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    open_database(tmp_path / "kizami.db", create=True).close()
    return tmp_path / "kizami.db"


def sealer(path: Path, machine: Waits, monkeypatch: pytest.MonkeyPatch) -> Sealer:
    """One that stops itself after so many rests."""
    made = Sealer(path, WallClock(NOW), machine, 3600)
    rest = made._rest

    def rest_and_count(seconds: float) -> bool:
        rest(seconds)
        made._stopping = len(machine.rests) >= machine.stop_after
        return made._stopping

    monkeypatch.setattr(made, "_rest", rest_and_count)
    return made


def test_it_rests_nine_times_as_long_as_it_works_and_stops_after_the_step_it_is_at(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, asked = Waits(stop_after=4), []

    def steps(connection: apsw.Connection, now: int, after_seconds: int) -> Iterator[int]:
        asked.append((now, after_seconds))
        for _ in range(10):
            machine.time += STEP_SECONDS
            yield 100

    monkeypatch.setattr(module, "seal_closed", steps)
    sealer(path, machine, monkeypatch)._run()
    assert asked == [(int(NOW.timestamp()), 3600)]
    assert machine.rests == pytest.approx([1.0, 0.45, 0.45, 0.45, 600.0])


@pytest.mark.parametrize("fault", [StoreError("locked"), ValueError("other rows")])
def test_a_fault_is_told_and_it_looks_again_later(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: Exception
) -> None:
    def refuse(*_: object) -> Iterator[int]:
        raise fault

    monkeypatch.setattr(module, "seal_closed", refuse)
    machine = Waits(stop_after=3)
    sealer(path, machine, monkeypatch)._run()
    assert machine.rests == [1.0, 600.0, 600.0]
    assert [vars(record)["event"] for record in caplog.records] == ["sealing.postponed"] * 2
