"""A look: who is well is passed over, and the others are judged as if all were asked about."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from kizami.alerts import looks
from kizami.alerts.looks import DEATHS_SECONDS, take_look
from kizami.alerts.rules.settings import NO_ALERTS
from kizami.alerts.troubles import find_troubles
from kizami.backend.snapshot import find_doubtful, target_statuses
from kizami.core.slots import shift
from kizami.local.backend import LocalBackend
from samples.database import at, bury_slots, make_database, queue_slots

SLOTS = 240
NOW = at(SLOTS) + timedelta(seconds=5)
WELL = [f"well/{number:03}" for number in range(450)]


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[LocalBackend]:
    """Hundreds that are well; of the others each has something else."""
    stored = dict.fromkeys(WELL, range(SLOTS)) | {
        "silent": range(100),
        "late": [number for number in range(SLOTS) if number != SLOTS - 5],
        "failing": range(SLOTS - 20),
        "dead": [number for number in range(SLOTS) if number != 50],
        "paused": range(100),
        "new": [],
    }
    path = make_database(tmp_path / "kizami.db", stored)
    queue_slots(path, "failing", range(SLOTS - 20, SLOTS), NOW, tried=1)
    bury_slots(path, "dead", [50], "status 404, expected 200", NOW - timedelta(seconds=30))
    backend = LocalBackend(path)
    backend.pause("paused")
    yield backend
    backend.close()


def test_only_those_are_asked_about_that_may_not_be_well(backend: LocalBackend) -> None:
    found = find_doubtful(backend, backend.targets(), {"dead", "paused", *backend.troubles()}, NOW)
    assert [target.name for target in found] == ["dead", "failing", "late", "new", "silent"]


def test_what_is_found_is_what_a_look_at_every_target_finds(backend: LocalBackend) -> None:
    deaths = backend.deaths(shift(NOW, -DEATHS_SECONDS))
    for running_since in (None, NOW - timedelta(seconds=30), NOW - timedelta(hours=1)):
        found = take_look(backend, NO_ALERTS, NOW, running_since)
        assert found.findings == find_troubles(target_statuses(backend, NOW), deaths, NOW, running_since)
        assert len(found.targets) == len(WELL) + 6


def test_it_rests_every_few_doubtful_targets_and_finds_the_same(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "_PIECE", 2)
    rests: list[None] = []
    found = take_look(backend, NO_ALERTS, NOW, None, rest=lambda: rests.append(None))
    assert len(rests) == 3
    assert found == take_look(backend, NO_ALERTS, NOW)
