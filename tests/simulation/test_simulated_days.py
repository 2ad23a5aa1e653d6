"""The daemon in a world that the simulator owns: seeds of faults, each watched by an oracle."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from kizami.core.targets.target import SEED_TARGET
from kizami.local.alerts.outbox import OutgoingMessage
from kizami.local.copies.copying import Progress, RowCounts, copy_pages
from kizami.local.copies.rotation import dated
from simulation.elsewhere import runs_elsewhere
from simulation.world.oracle import Oracle, Violation
from simulation.world.oracles.alerts import AlertOracle
from simulation.world.simulation import Length, Report, fails, run_seed, shrink

SHORT = Length(days=0.007, faults_a_day=1200, quiet_seconds=300, many=100)
SEEDS, TWICE = range(100), 10
# What must come up in a hundred of them, or they would try less than they say.
HAPPENS = (
    "slots.sealed",
    "clock.jumped",
    "database.unwritable",
    "target.blocked",
    "catch_up.queued",
    "config.applied",
    "slots.expired",
    "backup.made",
    "incident.opened",
    "incident.over",
    "alert.delivered",
)


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    """What each of the seeds has come to."""
    return [run_seed(seed, SHORT) for seed in SEEDS]


@pytest.mark.timeout(900)
def test_a_hundred_seeds_break_no_promise(reports: Sequence[Report]) -> None:
    assert sum(report.lives for report in reports) > 2 * len(SEEDS)
    assert len({report.digest for report in reports}) == len(SEEDS)
    happened = sum((report.kinds for report in reports), Counter())
    assert all(happened[f"log:{event}"] for event in HAPPENS), happened


@pytest.mark.timeout(900)
def test_the_same_seed_gives_the_same_trace(reports: Sequence[Report]) -> None:
    """In another process, whatever order Python's sets have there."""
    assert runs_elsewhere("machine", SEEDS[:TWICE], SHORT) == [f"{report}" for report in reports[:TWICE]]


class TestTheOracle:
    """It would notice: each of these is a daemon, or a disk, that breaks a promise."""

    def test_a_disk_that_loses_what_it_has_synced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("simulation.world.disk.SimulatedDisk.sync", lambda self, name: None)
        assert_noticed()

    def test_a_record_that_changes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            "kizami.local.store.statements._STORE",
            """INSERT OR REPLACE INTO slots SELECT value ->> 0, value ->> 1, (value ->> 2) + 1, value ->> 3,
            value ->> 4, value ->> 5, value ->> 6 FROM json_each(?1)""",
        )
        assert_noticed()

    def test_rows_shown_before_they_are_written(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.local.store.statements._STORE", "SELECT 1 FROM json_each(?1)")
        assert_noticed()

    def test_a_window_asked_for_before_its_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.local.engine.active_targets.offset_ms", lambda target, number: -1500)
        monkeypatch.setattr("kizami.local.engine.collector.Poll.moment_ms", 0)
        assert_noticed()

    def test_a_message_that_is_told_again_and_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.local.alerts.delivery.note_delivered", lambda *noted: None)
        assert_noticed("is told .* again, though it had answered", seeds=(1,))

    def test_incidents_that_nobody_is_told_of(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.local.alerts.watch.put_messages", lambda *messages: None)
        monkeypatch.setattr("kizami.alerts.decision.next_state", lambda *seen: None)
        assert_noticed("goes on, and .* is not told", seeds=(3,))

    def test_a_backup_that_lacks_records(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def copy_part(source: apsw.Connection, place: Path, target: Path, progress: Progress) -> RowCounts:
            counts = copy_pages(source, place, target, progress)
            with closing(apsw.Connection(str(target))) as made:
                made.execute("DELETE FROM slots WHERE slot % 7 = 0")
            return counts

        monkeypatch.setattr("kizami.local.copies.backup.copy_pages", copy_part)
        monkeypatch.setattr("kizami.local.copies.backup.require_sound", lambda *copy: None)
        assert_noticed("was stored as .*, and now is None", seeds=(4,))

    def test_a_backup_that_goes_when_it_is_made(self, monkeypatch: pytest.MonkeyPatch) -> None:
        superfluous = "kizami.local.copies.scheduled_backups.superfluous"
        monkeypatch.setattr(superfluous, lambda names, *kept: [name for _, name in dated(names)])
        assert_noticed("was made, and is gone")

    def test_an_end_without_a_beginning(self) -> None:
        oracle = AlertOracle()
        with pytest.raises(Violation, match="told 3-1 recovered after None"):
            oracle.heard("ops", outgoing("3-1", "recovered"), True)

    def test_two_beginnings(self) -> None:
        oracle = AlertOracle()
        oracle.heard("ops", outgoing("3-1", "opened"), True)
        with pytest.raises(Violation, match="told 3-2 opened after opened"):
            oracle.heard("ops", outgoing("3-2", "opened"), True)

    def test_records_that_are_given_up_too_early(self) -> None:
        oracle = Oracle(lambda: 10_000_000.0, lambda host: True)
        oracle.note_keep([replace(SEED_TARGET, keep_seconds=100_000)])
        with pytest.raises(Violation, match="was stored as 5"):
            oracle.require_all({(SEED_TARGET.name, 10_000): 5}, {})

    def test_a_secret_in_the_log(self) -> None:
        oracle = Oracle(lambda: 0.0, lambda host: True)
        with pytest.raises(Violation, match="secret"):
            oracle.logged("key s1mulated-s3cret-7f3a9c", 0)


def outgoing(key: str, state: str) -> OutgoingMessage:
    return OutgoingMessage(1, key, {"id": key, "state": state}, datetime(2025, 12, 4, tzinfo=UTC), 0)


def assert_noticed(words: str = "", seeds: Iterable[int] = range(5)) -> None:
    """One of a few seeds must fail."""
    for seed in seeds:
        try:
            run_seed(seed, SHORT)
        except Violation as error:
            assert f"make simulate SEED={seed}" in str(error)  # noqa: PT017
            assert re.search(words, str(error)), error  # noqa: PT017
            return
    pytest.fail("no seed has noticed it")


def test_a_failing_seed_is_shrunk_to_the_faults_that_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.world.disk.SimulatedDisk.sync", lambda self, name: None)
    length = Length(days=0.002, faults_a_day=2000, quiet_seconds=60, many=10)
    none: frozenset[int] = frozenset()
    seed = next(seed for seed in range(20) if fails(seed, length) and not fails(seed, length, none))
    assert 1 <= len(shrink(seed, length)) <= 3
