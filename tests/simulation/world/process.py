"""One life of the daemon: from its start until it ends, is stopped or killed."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import apsw

from kizami.backend.port import Backend
from kizami.core.config import Config
from kizami.core.errors import KizamiError
from kizami.local.alerts.watch import AlertWatch
from kizami.local.backend import LocalBackend
from kizami.local.copies.scheduled_backups import ScheduledBackups
from kizami.local.engine.loop import Engine, StoredRecord
from kizami.local.engine.options import Options
from kizami.local.store.pauses import PauseWatch
from kizami.platform.config_file import LoadedConfig
from simulation.world.apis import Asked, SimulatedApis
from simulation.world.disk import SimulatedDisk
from simulation.world.machine import BusyMachine, SimulatedClock, SimulatedMachine
from simulation.world.network import SimulatedFetcher
from simulation.world.receivers import SimulatedReceivers
from simulation.world.timeline import Timeline


class Watchers:
    """Who is told what the process does, as long as it lives."""

    def __init__(
        self,
        asked: Callable[[Asked, object], None],
        answered: Callable[[Asked, int], None],
        acknowledged: Callable[[list[StoredRecord]], None],
    ) -> None:
        self.asked, self.answered, self.acknowledged = asked, answered, acknowledged


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a process finds when it starts."""

    timeline: Timeline
    chance: random.Random
    disk: SimulatedDisk
    clock: SimulatedClock
    apis: SimulatedApis
    receivers: SimulatedReceivers

    def open_backend(self, config: Callable[[], Config]) -> Backend:
        """As a verb or the watch opens it, which go by the file of settings as it is by then."""
        return LocalBackend(self.disk.path, lambda: LoadedConfig(config(), self.disk.path), clock=self.clock)


class SimulatedProcess:
    """`kizami up`, on the simulated machine; `ended` says why it is over, if it is."""

    def __init__(self, around: Surroundings, watchers: Watchers, config: Config, options: Options) -> None:
        self._around = around
        self._timeline = around.timeline
        self._watchers = watchers
        self._next_config: Config | None = None
        fetcher = SimulatedFetcher(around.timeline, around.apis, self._asked, self._answered)
        machine = around.timeline, around.chance, fetcher, around.disk
        self._machine, self._busy_machine = SimulatedMachine(*machine), BusyMachine(*machine)
        self._config = config
        self._options = options
        self._engine: Engine | None = None
        self._alerts: AlertWatch | None = None
        self.ended: str | None = None
        self._main = self._timeline.spawn(self._run, "main")

    @property
    def is_over(self) -> bool:
        return self._main.is_over

    def reload(self, config: Config) -> None:
        self._next_config = config

    @property
    def held(self) -> int:
        """How much it has in memory that comes and goes: results, plans, messages, requests."""
        if self._engine is None:
            return 0
        engine = self._engine
        return engine._writer.backlog + len(engine._held) + engine._requester.in_flight

    def stop(self) -> None:
        if self._engine:
            self._engine.stop()

    def kill(self) -> None:
        """Let go of all it had; called from outside of it."""
        self._timeline.kill()
        self._stop_listening()
        self._timeline.bury()
        self._engine = None

    def _run(self) -> None:
        try:
            with ExitStack() as stack:
                self._live(stack)
            self.ended = "stopped"
        except KizamiError as error:
            self.ended = str(error)

    def _live(self, stack: ExitStack) -> None:
        """As `kizami up` puts it together."""
        around, path = self._around, self._around.disk.path
        self._alerts = alerts = AlertWatch(
            path,
            lambda: around.open_backend(lambda: self._config),
            around.clock,
            self._machine,
            lambda rule, outgoing: around.receivers.deliver(self._timeline, rule, outgoing),
        )
        logging.getLogger("kizami").addHandler(alerts.events)
        stack.callback(alerts.close)
        stack.callback(self._stop_listening)
        backups = ScheduledBackups(path, around.clock, self._busy_machine)
        stack.callback(backups.close)

        def use(config: Config) -> None:
            alerts.use(config.alerts)
            backups.use(config.backup)

        pauses = PauseWatch(path, self._config, self._new_config)
        stack.callback(_close, pauses)

        def new_config() -> Config | None:
            config = pauses.new_config()
            if config is not None:
                use(config)
            return config

        clock, options = around.clock, self._options
        engine = Engine(path, options, clock, self._acknowledged, new_config, machine=self._machine)
        self._engine = engine
        use(self._config)
        alerts.unwritable = lambda: engine.unwritable
        alerts.start()
        engine.run(pauses.config)

    def _stop_listening(self) -> None:
        if self._alerts:
            logging.getLogger("kizami").removeHandler(self._alerts.events)
        self._alerts = None

    def _new_config(self) -> Config | None:
        config, self._next_config = self._next_config, None
        self._config = config or self._config
        return config

    def _asked(self, asked: Asked, tag: object) -> None:
        if not self._timeline.is_dead:
            self._watchers.asked(asked, tag)

    def _answered(self, asked: Asked, value: int) -> None:
        if not self._timeline.is_dead:
            self._watchers.answered(asked, value)

    def _acknowledged(self, records: list[StoredRecord]) -> None:
        if not self._timeline.is_dead:
            self._watchers.acknowledged(records)


def _close(pauses: PauseWatch) -> None:
    with suppress(apsw.Error):  # what SQLite does at the end, and a real disk's refusal never reaches us
        pauses.close()
