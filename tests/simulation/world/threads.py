"""Signals, locks, conditions and threads that wait in simulated time."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from simulation.world.timeline import SECOND, Task, Timeline


class _Waiting:
    """Those who wait for one thing."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._tasks: list[Task] = []

    def wait_for(self, is_true: Callable[[], bool], seconds: float | None) -> bool:
        deadline = None if seconds is None else self._timeline.now + ceil(seconds * SECOND)
        while not is_true():
            left = None if deadline is None else (deadline - self._timeline.now) / SECOND
            if left is not None and left <= 0:
                return False
            task = self._timeline.current
            self._tasks.append(task)
            self._timeline.pause(left)
            if task in self._tasks:
                self._tasks.remove(task)
        return True

    def wake(self) -> None:
        for task in self._tasks:
            self._timeline.wake(task)
        self._tasks.clear()


class SimulatedSignal:
    def __init__(self, timeline: Timeline) -> None:
        self._is_set = False
        self._waiting = _Waiting(timeline)

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._waiting.wake()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        return self._waiting.wait_for(self.is_set, timeout)


class SimulatedMutex:
    """`slow_seconds` says how long it takes to get it: the writer's is taken for what the disk needs."""

    def __init__(self, timeline: Timeline, slow_seconds: Callable[[], float]) -> None:
        self._is_held = False
        self._timeline = timeline
        self._slow_seconds = slow_seconds
        self._waiting = _Waiting(timeline)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        seconds = None if timeout < 0 else timeout
        if not self._waiting.wait_for(lambda: not self._is_held, seconds if blocking else 0.0):
            return False
        self._is_held = True
        return True

    def release(self) -> None:
        self._is_held = False
        self._waiting.wake()

    def __enter__(self) -> bool:
        taken = self.acquire()
        if slow := self._slow_seconds():
            self._timeline.pause(slow)
        return taken

    def __exit__(self, *_: object) -> None:
        self.release()


class SimulatedCondition:
    def __init__(self, timeline: Timeline) -> None:
        self._waiting = _Waiting(timeline)

    def notify(self) -> None:
        self._waiting.wake()

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        return self._waiting.wait_for(predicate, timeout)

    def __enter__(self) -> bool:
        return True  # one thread runs at a time, and only a wait lets another one run

    def __exit__(self, *_: object) -> None:
        pass


class SimulatedThread:
    def __init__(self, timeline: Timeline, run: Callable[[], None], name: str) -> None:
        self._timeline = timeline
        self._run = run
        self._name = name
        self._task: Task | None = None

    @property
    def ident(self) -> int | None:
        return None if self._task is None else 1

    def start(self) -> None:
        self._task = self._timeline.spawn(self._run, self._name)

    def join(self, timeout: float | None = None) -> None:
        if self._task and not self._task.is_over:
            self._task.joined.append(self._timeline.current)
            self._timeline.pause(timeout)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.is_over
