"""Known targets are rebuilt only when something about them has changed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from kizami.backend.targets import KnownTarget, Polling
from kizami.core.config import Config
from kizami.core.targets.target import Target
from kizami.local.backend import LocalBackend
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import MetricCatalogue, expect_from, register_targets
from kizami.platform.config_file import LoadedConfig
from samples.database import FixedClock, at, make_database

NOW = at(100)


class Listing:
    """A configuration file that is changed at will."""

    def __init__(self, *targets: Target) -> None:
        self.config = LoadedConfig(Config(targets), Path("kizami.toml"))

    def __call__(self) -> LoadedConfig:
        return self.config

    def list(self, *targets: Target) -> None:
        self.config = LoadedConfig(Config(targets), Path("kizami.toml"))


def named(*names: str, **settings: object) -> list[Target]:
    return [Target(name=name, lag_seconds=5, **settings) for name in names]  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_database(tmp_path / "kizami.db", {"a": range(100), "b": range(50)})


@pytest.fixture
def listing() -> Listing:
    return Listing(*named("a", "b"))


@pytest.fixture
def backend(path: Path, listing: Listing) -> Iterator[LocalBackend]:
    backend = LocalBackend(path, listing, clock=FixedClock(NOW))
    yield backend
    backend.close()


def told(backend: LocalBackend) -> dict[str, KnownTarget]:
    return {target.name: target for target in backend.targets()}


def test_they_are_the_same_ones_as_long_as_nothing_changes(backend: LocalBackend) -> None:
    first, second = backend.targets(), backend.targets()
    assert [id(target) for target in first] == [id(target) for target in second]
    second.clear()
    assert len(backend.targets()) == 2, "who has them may do with the list as he likes"


def test_a_pause_is_told_and_so_is_its_end(backend: LocalBackend, path: Path) -> None:
    assert told(backend)["b"].polling is Polling.ON
    other = LocalBackend(path, clock=FixedClock(NOW))
    other.pause("b")
    assert (told(backend)["b"].polling, told(backend)["b"].paused_since) == (Polling.PAUSED, NOW)
    other.resume("b")
    assert told(backend)["b"].polling is Polling.ON
    other.close()


def test_what_the_file_lists_no_more_ends_with_its_newest_slot(backend: LocalBackend, listing: Listing) -> None:
    backend.targets()
    listing.list(*named("a"))
    assert (told(backend)["b"].polling, told(backend)["b"].expected_until) == (Polling.REMOVED, at(50))
    listing.list(*named("a"), *named("b", enabled=False))
    assert told(backend)["b"].polling is Polling.DISABLED
    listing.list(*named("a", "b", backfill=False))
    assert [target.backfill for target in backend.targets()] == [False, False]


def test_a_new_target_is_told_before_and_after_it_is_known(
    backend: LocalBackend, listing: Listing, path: Path
) -> None:
    backend.targets()
    listing.list(*named("a", "b", "c"))
    assert told(backend)["c"].first_slot == NOW
    connection = open_database(path)
    with transaction(connection):
        register_targets(connection, named("c"), at(20))
    connection.close()
    assert told(backend)["c"].first_slot == at(20)


def test_slots_that_are_expected_from_earlier_on_are_told(backend: LocalBackend) -> None:
    before = told(backend)["a"].first_slot
    backend.expect_from("a", before - timedelta(hours=1))
    assert told(backend)["a"].first_slot == before - timedelta(hours=1)


def test_what_is_kept_for_a_while_begins_later_as_time_goes_by(path: Path, listing: Listing) -> None:
    keep = timedelta(days=2)
    targets = named("a", "b", keep_seconds=int(keep.total_seconds()))
    connection = open_database(path)
    with transaction(connection):
        register_targets(connection, targets, at(0))
    connection.close()
    listing.list(*targets)
    clock = FixedClock(at(0) + 2 * keep)
    backend = LocalBackend(path, listing, clock=clock)
    assert told(backend)["a"].first_slot == clock.moment - keep
    clock.moment += timedelta(seconds=30)
    assert told(backend)["a"].first_slot == clock.moment - keep
    backend.close()


class TestTheCatalogueOfMetrics:
    def test_commits_that_change_no_metric_make_nothing_anew(self, path: Path) -> None:
        reading, writing, catalogue = open_database(path), open_database(path), MetricCatalogue()
        first = catalogue.read(reading)
        with transaction(writing):
            writing.execute("DELETE FROM slots")
        assert catalogue.read(reading) is first

    def test_what_another_connection_changes_is_read(self, path: Path) -> None:
        reading, writing, catalogue = open_database(path), open_database(path), MetricCatalogue()
        catalogue.read(reading)
        with transaction(writing):
            expect_from(writing, "a", at(-50))
        assert catalogue.read(reading)["a"].first_slot == at(-50)
        writing.execute("DELETE FROM metrics WHERE name = 'a'")
        assert list(catalogue.read(reading)) == list(catalogue.read_recorded(reading)) == ["b"]

    def test_a_change_that_is_rolled_back_is_not_taken_for_the_next_one(self, path: Path) -> None:
        connection, catalogue = open_database(path), MetricCatalogue()

        def first_slot() -> datetime:
            return catalogue.read(connection)["a"].first_slot

        connection.execute("BEGIN")
        expect_from(connection, "a", at(-50))
        assert first_slot() == at(-50)
        connection.execute("ROLLBACK")
        with transaction(connection):
            expect_from(connection, "a", at(-20))
        assert first_slot() == at(-20)
