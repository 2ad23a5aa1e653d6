"""The machine as the daemon sees it: its clocks, threads, chance and network, all of them the simulator's."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kizami.local.engine.machine import Alarm, Condition, Machine, Mutex, Signal, Thread
from kizami.local.http.requester import Requester
from simulation.world.disk import SimulatedDisk
from simulation.world.network import SimulatedFetcher
from simulation.world.threads import SimulatedCondition, SimulatedMutex, SimulatedSignal, SimulatedThread
from simulation.world.timeline import SECOND, Timeline

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MUCH_ROOM = 2**40
_STEP_SECONDS = 0.3  # how long a step of a copy takes at most


class SimulatedClock:
    """The wall clock: it may be set, and drift, by so many millionths."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._ahead = 0
        self._drift = 0
        self._since = now()

    @property
    def ahead_seconds(self) -> float:
        return self._ahead_now() / SECOND

    def turn(self, seconds: float) -> None:
        self._ahead += round(seconds * SECOND)

    def drift(self, millionths: int) -> None:
        self._ahead, self._since, self._drift = self._ahead_now(), self._now(), millionths

    def set_right(self) -> None:
        self._ahead, self._since, self._drift = 0, self._now(), 0

    def now(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self._now() + self._ahead_now())

    def milliseconds(self) -> float:
        return (self._now() + self._ahead_now()) / 1000

    def _ahead_now(self) -> int:
        return self._ahead + (self._now() - self._since) * self._drift // 1_000_000


class SimulatedMachine(Machine):
    def __init__(
        self,
        timeline: Timeline,
        chance: random.Random,
        fetcher: SimulatedFetcher,
        disk: SimulatedDisk,
    ) -> None:
        self._timeline = timeline
        self._chance = chance
        self._fetcher = fetcher
        self._disk = disk

    def monotonic(self) -> float:
        return self._timeline.now / SECOND

    def chance(self) -> float:
        return self._chance.random()

    def signal(self) -> Signal:
        return SimulatedSignal(self._timeline)

    def mutex(self) -> Mutex:
        return SimulatedMutex(self._timeline, lambda: self._disk.slow_seconds)

    def condition(self) -> Condition:
        return SimulatedCondition(self._timeline)

    def thread(self, run: Callable[[], None], name: str) -> Thread:
        return SimulatedThread(self._timeline, run, name)

    def yield_to_others(self) -> None:
        pass

    def free_bytes(self, directory: Path) -> int:
        return 0 if self._disk.is_full else _MUCH_ROOM

    def network(self) -> tuple[Requester, Alarm]:
        return Requester(self._fetcher, self.monotonic), self._fetcher.alarm


class BusyMachine(SimulatedMachine):
    """As who copies a large file sees it: from one look at the clock to the next some time has gone by."""

    _spent = 0.0

    def monotonic(self) -> float:
        self._spent += self._chance.random() * _STEP_SECONDS
        return super().monotonic() + self._spent
