"""What the loop knows of each target: its place within the interval, and how much may wait for its host."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from kizami.core.config import Config
from kizami.core.targets.target import Target
from kizami.local.daemon_lock import UP, find_daemon, sole_daemon
from kizami.local.engine import active_targets
from kizami.local.engine.active_targets import (
    LEAST_WAITING,
    ActiveTarget,
    TargetLoader,
    offset_ms,
    over_after_seconds,
    waiting_limits,
)
from kizami.local.engine.machine import Machine
from kizami.local.engine.options import Options
from kizami.local.http.target_access import TargetAccess
from kizami.local.store.database import open_database
from kizami.local.store.metrics import ID_SPACE
from kizami.platform.clock import SystemClock
from programs.daemon import wait_for


def active(number: int = 1, host: str = "host", **settings: Any) -> ActiveTarget:
    given = {"interval_seconds": 10, "lag_seconds": 10} | settings
    return ActiveTarget(Target(name=f"t{number}", **given), number, 0, host, cast(TargetAccess, None))


@pytest.mark.parametrize(
    ("settings", "offset"),
    [({}, 5000), ({"lag_seconds": 0}, 0), ({"backfill": False}, 0), ({"lag_seconds": 20}, 5000)],
)
def test_only_a_window_that_has_ended_and_can_be_asked_for_later_is_spread(
    settings: dict[str, Any], offset: int
) -> None:
    assert offset_ms(active(**settings).target, ID_SPACE // 2) == offset


def test_a_host_may_have_as_much_waiting_as_its_attempts_take() -> None:
    options = Options(receive_limit=5, retry_seconds=2.0)
    quick, slow = (
        active(1, interval_seconds=1, lag_seconds=1),
        active(2, "slow", interval_seconds=3600, lag_seconds=3600),
    )
    assert waiting_limits([quick, slow], options) == {"host": 300, "slow": LEAST_WAITING}
    patient = active(1, interval_seconds=1, lag_seconds=1, timeout_seconds=100.0)
    assert waiting_limits([patient], options) == {"host": round((170 + 500) * 1.25 + 0.49)}
    assert waiting_limits([quick, active(3, interval_seconds=1, lag_seconds=1)], options) == {"host": 600}


def test_a_slot_that_can_only_be_asked_for_live_is_over_with_the_interval_after_it() -> None:
    assert over_after_seconds([active(1), active(2, backfill=False)]) == {2: 20}


class TestLoading:
    @pytest.fixture
    def database(self, tmp_path: Path) -> Path:
        path = tmp_path / "kizami.db"
        open_database(path, create=True).close()
        return path

    @contextmanager
    def loader(
        self,
        database: Path,
        new_config: Callable[[], Config | None] = lambda: None,
        settled: Callable[[str | None], None] = lambda refusal: None,
    ) -> Iterator[TargetLoader]:
        machine = Machine()
        requester, alarm = machine.network()
        loader = TargetLoader(
            database, SystemClock(), machine, requester, alarm, new_config, settled, spread=False
        )
        try:
            yield loader
        finally:
            loader.close()
            requester.close()
            alarm.close()

    def test_what_nobody_expects_of_the_first_load_ends_the_wait(
        self, database: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(active_targets, "open_database", fail)
        with self.loader(database) as loader:
            loader.start(Config((Target(),)))
            with pytest.raises(RuntimeError, match="can't start new thread"):
                loader.wait(10)

    def test_what_nobody_expects_of_a_later_one_has_it_tried_again(
        self, database: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(active_targets, "_LOOK_SECONDS", 0.01)
        news, settled = [Config((Target(name="new"),))], list[str | None]()
        attempts = 0

        def open_after_two(path: Path) -> Any:
            nonlocal attempts
            attempts += 1
            return open_database(path) if attempts > 2 else fail(path)

        with self.loader(database, lambda: news.pop() if news else None, settled.append) as loader:
            held, news = news, []
            loader.start(Config((Target(name="old"),)))
            assert loader.wait(10)
            monkeypatch.setattr(active_targets, "open_database", open_after_two)
            news = held
            loaded = wait_for(loader.take, "the new configuration")
            assert [active.target.name for active in loaded.active.values()] == ["new"]
        assert (attempts, settled) == (3, [None])

    def test_what_is_read_while_it_ends_is_not_put_in_force(self, database: Path) -> None:
        asked, go_on, settled = threading.Event(), threading.Event(), list[str | None]()

        def new_config() -> Config:
            asked.set()
            go_on.wait(10)
            return Config((Target(name="new"),))

        with self.loader(database, new_config, settled.append) as loader:
            loader.start(Config((Target(name="old"),)))
            assert loader.wait(10)
            assert asked.wait(10)
            loader.close()
            go_on.set()
            wait_for(lambda: not is_running("kizami-config"), "the thread to end")
            assert (loader.take(), settled) == (None, [])


def test_nothing_is_told_once_the_lock_is_given_back(tmp_path: Path) -> None:
    database = tmp_path / "kizami.db"
    with sole_daemon(database, UP) as lock:
        lock.tell({"path": "a"})
        found = find_daemon(database)
        assert found is not None
        assert found.about == {"path": "a"}
    other = os.open(tmp_path / "another file", os.O_RDWR | os.O_CREAT)  # it has the same number
    try:
        lock.tell({"path": "b"})
        assert os.fstat(other).st_size == 0
    finally:
        os.close(other)


def fail(path: Path) -> Any:
    raise RuntimeError("can't start new thread")


def is_running(name: str) -> bool:
    return any(thread.name == name for thread in threading.enumerate())
