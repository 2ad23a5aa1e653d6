"""Pauses: kept in the database, seen by the engine as targets that are not enabled, gone when resumed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from kizami.core.config import Config
from kizami.core.errors import InvalidInput
from kizami.core.targets.target import Target
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import register_targets
from kizami.local.store.pauses import PAUSED, PauseWatch, pause_metric, paused_metrics, resume_metric

NOW = datetime(2025, 12, 2, 10, 0, 0, 123_000, tzinfo=UTC)
CONFIG = Config((Target(name="calls"), Target(name="orders"), Target(name="off", enabled=False)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kizami.db"


@pytest.fixture
def connection(path: Path) -> Iterator[apsw.Connection]:
    connection = open_database(path, create=True)
    with transaction(connection):
        register_targets(connection, CONFIG.targets, NOW)
    yield connection
    connection.close()


def enabled(config: Config | None) -> list[str]:
    assert config is not None
    return [target.name for target in config.enabled_targets]


def test_a_pause_is_kept_with_its_beginning(connection: apsw.Connection, path: Path) -> None:
    pause_metric(connection, "calls", NOW)
    pause_metric(connection, "calls", NOW + timedelta(hours=1))
    other = open_database(path)
    assert paused_metrics(other) == {"calls": NOW}
    other.close()


def test_a_resumed_metric_is_not_paused_and_resuming_twice_changes_nothing(connection: apsw.Connection) -> None:
    pause_metric(connection, "calls", NOW)
    pause_metric(connection, "orders", NOW)
    resume_metric(connection, "calls")
    resume_metric(connection, "calls")
    assert paused_metrics(connection) == {"orders": NOW}


def test_what_was_never_polled_cannot_be_paused(connection: apsw.Connection) -> None:
    with pytest.raises(InvalidInput, match="nobody"):
        pause_metric(connection, "nobody", NOW)
    with pytest.raises(InvalidInput, match="nobody"):
        resume_metric(connection, "nobody")


def test_the_engine_is_told_of_a_pause_once_and_of_its_end_once(connection: apsw.Connection, path: Path) -> None:
    watch = PauseWatch(path, CONFIG, lambda: None)
    assert enabled(watch.config) == ["calls", "orders"]
    assert watch.new_config() is None
    pause_metric(connection, "calls", NOW)
    assert enabled(watch.new_config()) == ["orders"]
    assert watch.new_config() is None
    resume_metric(connection, "calls")
    assert enabled(watch.new_config()) == ["calls", "orders"]
    watch.close()


def test_a_pause_outlives_a_restart_and_a_new_configuration(connection: apsw.Connection, path: Path) -> None:
    pause_metric(connection, "calls", NOW)
    news = [None, Config((Target(name="calls"), Target(name="more")))]
    watch = PauseWatch(path, CONFIG, lambda: news.pop(0))
    assert enabled(watch.config) == ["orders"]
    assert watch.new_config() is None
    assert enabled(watch.new_config()) == ["more"]
    watch.close()


def test_without_a_database_nothing_is_paused_and_it_is_looked_for_again(tmp_path: Path) -> None:
    path = tmp_path / "later.db"
    watch = PauseWatch(path, CONFIG, lambda: None)
    assert enabled(watch.config) == ["calls", "orders"]
    connection = open_database(path, create=True)
    with transaction(connection):
        register_targets(connection, CONFIG.targets, NOW)
    pause_metric(connection, "orders", NOW)
    assert enabled(watch.new_config()) == ["calls"]
    connection.close()
    watch.close()


def test_where_nothing_is_paused_no_metric_is_looked_at(connection: apsw.Connection) -> None:
    """It is asked every second, of thousands of metrics."""
    steps = [detail for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {PAUSED}")]
    assert steps[0] == "SCAN pauses"
