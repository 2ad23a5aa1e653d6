"""The engine in simulated time, for tests of one thing: nothing happens but what the test says, and nobody waits.

with SimulatedEngine(target) as engine:
    engine.run(60)          # a minute goes by
    engine.clock.turn(-30)  # the clock is set back
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kizami.core.config import Config
from kizami.core.errors import KizamiError
from kizami.core.targets.target import Target
from kizami.local.engine.collector import Poll
from kizami.local.engine.loop import Engine, StoredRecord
from kizami.local.engine.options import Options
from kizami.local.store.database import open_database
from simulation.world.apis import Asked, SimulatedApis
from simulation.world.disk import SimulatedDisk
from simulation.world.machine import SimulatedClock, SimulatedMachine
from simulation.world.network import SimulatedFetcher
from simulation.world.simulation import START
from simulation.world.timeline import SECOND, Timeline

HOST = "api.example"


def polled(name: str = "calls", seconds: int = 1, host: str = HOST, **settings: Any) -> Target:
    """A target of a simulated API."""
    given = {"interval_seconds": seconds, "lag_seconds": seconds, "timeout_seconds": 10.0} | settings
    return Target(name=name, url=f"http://{host}/", path=f"/?name={name}&from={{from}}&to={{to}}", **given)


class SimulatedEngine:
    """`kizami up` on a machine of its own; `asked` and `shown` are what it does, `failure` is what ended it."""

    def __init__(self, *targets: Target, options: Options | None = None) -> None:
        self.chance = random.Random(1)
        self.timeline = Timeline(START, self.chance)
        self.disk = SimulatedDisk(random.Random(1))
        self.clock = SimulatedClock(lambda: self.timeline.now)
        self.apis = SimulatedApis(random.Random(1))
        self.targets = targets
        self.options = options or Options(spread=False)
        self.asked: list[tuple[Asked, Poll]] = []
        self.shown: list[StoredRecord] = []
        self.failure: KizamiError | None = None
        self.engine: Engine | None = None
        self._next_config: Config | None = None
        open_database(self.path, create=True).close()
        self.disk.adopt()

    @property
    def path(self) -> Path:
        return self.disk.path

    @property
    def now_ms(self) -> int:
        return int(self.clock.milliseconds())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.timeline.kill()
        self.timeline.bury()
        self.disk.close()

    def start(self, *, live: bool = True) -> Self:
        fetcher = SimulatedFetcher(self.timeline, self.apis, self._note, lambda asked, value: None)
        machine = SimulatedMachine(self.timeline, self.chance, fetcher, self.disk)
        self.engine = Engine(
            self.path, self.options, self.clock, self.shown.extend, self._new_config, live=live, machine=machine
        )
        self.timeline.spawn(self._run, "main")
        return self

    def run(self, seconds: float) -> Self:
        """Let time go by."""
        if self.engine is None:
            self.start()
        self.timeline.run(self.timeline.now + round(seconds * SECOND))
        return self

    def reload(self, *targets: Target) -> None:
        self._next_config = Config(targets)

    def stand_still(self, seconds: float) -> None:
        """The whole process does nothing for so long, as under SIGSTOP."""
        self.timeline.now += round(seconds * SECOND)

    def stop(self) -> None:
        """As by SIGTERM, and wait for the end."""
        assert self.engine is not None
        self.engine.stop()
        self.run(30)

    def crash(self) -> None:
        """As by kill -9, and all that it had is gone; `run` starts another."""
        self.disk.crash(power=False)
        self.timeline.kill()
        self.timeline.bury()
        self.disk.restart()
        self.timeline = Timeline(self.timeline.now, self.chance)
        self.engine = None

    def times_asked(self) -> Counter[tuple[str, int]]:
        return Counter((asked.name, asked.slot) for asked, _ in self.asked)

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self.connection() as connection:
            return list(connection.execute(sql, values))

    @contextmanager
    def connection(self) -> Iterator[Any]:
        connection = open_database(self.path)
        try:
            yield connection
        finally:
            connection.close()

    def at(self, seconds: float, call: Callable[[], None]) -> None:
        """Call it so long from now, while everything runs."""
        self.timeline.at(self.timeline.now + round(seconds * SECOND), call)

    def _run(self) -> None:
        assert self.engine is not None
        try:
            self.engine.run(Config(self.targets))
        except KizamiError as error:
            self.failure = error

    def _new_config(self) -> Config | None:
        config, self._next_config = self._next_config, None
        return config

    def _note(self, asked: Asked, tag: object) -> None:
        assert isinstance(tag, Poll)
        self.asked.append((asked, tag))
