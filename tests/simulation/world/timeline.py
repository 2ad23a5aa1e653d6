"""Simulated time: who waits, waits for a moment of it, and one runs at a time, in an order that the seed draws."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from itertools import count

from greenlet import getcurrent, greenlet

SECOND = 1_000_000  # it is counted in microseconds
_SWITCH = 200  # how long it takes at most until somebody who was woken runs


class Killed(BaseException):
    """The process is dead: none of its threads goes on."""


class Task:
    """A thread of the simulated process."""

    def __init__(self, timeline: Timeline, run: Callable[[], None], name: str) -> None:
        self.name = name
        self.is_over = False
        self.failure: BaseException | None = None
        self.waits = 0  # how often it has begun to wait: an alarm for an earlier wait is for nobody
        self.joined: list[Task] = []
        self._timeline = timeline
        self._run = run
        self._greenlet = greenlet(self._whole, parent=timeline.hub)  # who goes on when it is over

    def _whole(self) -> None:
        try:
            self._run()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001  whoever runs the simulation raises it again
            self.failure = error
        finally:
            self.is_over = True
            self._timeline.forget(self)
            for task in self.joined:
                self._timeline.wake(task)

    def go_on(self) -> None:
        if not self.is_over:
            self._greenlet.switch()

    def kill(self) -> None:
        if not self.is_over and self._greenlet:  # else it has not begun
            self._greenlet.throw(Killed)
        self.is_over = True


class Timeline:
    """The moments at which something happens, in their order; `now` is when the last of them was."""

    def __init__(self, start: int, chance: random.Random) -> None:
        self.now = start
        self._chance = chance
        self._moments: list[tuple[int, int, Callable[[], object]]] = []
        self._number = count()
        self._tasks: dict[Task, None] = {}
        self.hub = getcurrent()
        self._current: Task | None = None
        self.is_dead = False

    def at(self, moment: int, call: Callable[[], object]) -> None:
        """Call it then."""
        heapq.heappush(self._moments, (max(moment, self.now), next(self._number), call))

    def run(self, until: int) -> None:
        """Let everything happen up to that moment, or until the process dies."""
        while self._moments and self._moments[0][0] <= until and not self.is_dead:
            moment, _, call = heapq.heappop(self._moments)
            self.now = max(self.now, moment)  # who stood still meanwhile is late for it
            call()
        if not self.is_dead:
            self.now = max(self.now, until)

    def spawn(self, run: Callable[[], None], name: str) -> Task:
        """Begin a thread."""
        task = Task(self, run, name)
        self._tasks[task] = None
        self.wake(task)
        return task

    def forget(self, task: Task) -> None:
        """It is over."""
        self._tasks.pop(task, None)

    def wake(self, task: Task) -> None:
        """Let it go on, soon."""
        waits = task.waits
        self.at(self.now + self._chance.randrange(_SWITCH), lambda: self._resume(task, waits))

    def _resume(self, task: Task, waits: int) -> None:
        if task.is_over or task.waits != waits:
            return
        task.waits += 1
        before, self._current = self._current, task
        try:
            task.go_on()
        finally:
            self._current = before
        if task.failure is not None:
            failure, task.failure = task.failure, None
            raise failure

    @property
    def current(self) -> Task:
        """Whose code is running."""
        if self.is_dead:
            raise Killed
        assert self._current is not None, "nobody's code is running"
        return self._current

    def pause(self, seconds: float | None) -> None:
        """Have the current thread wait so long, or until it is woken; as long as that takes without `seconds`."""
        task = self.current
        if seconds is not None:
            waits = task.waits
            self.at(self.now + max(1, math.ceil(seconds * SECOND)), lambda: self._resume(task, waits))
        self.hub.switch()
        if self.is_dead:
            raise Killed

    def kill(self) -> None:
        """The process is gone, in the middle of whatever it does."""
        self.is_dead = True

    def bury(self) -> None:
        """Let go of what the dead process had; called from outside of it."""
        for task in list(self._tasks):
            task.kill()
        self._tasks.clear()
        self._moments.clear()
