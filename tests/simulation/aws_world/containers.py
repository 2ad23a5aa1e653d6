"""A container of a function: what it remembers from one invocation to the next, and the threads that run in it."""

from __future__ import annotations

import asyncio
from asyncio import events
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar

from kizami.aws.client.secrets import _Secret
from kizami.core.bundles import Bundle, BundlePlan
from simulation.world.threads import SimulatedCondition, SimulatedSignal
from simulation.world.timeline import SECOND, Killed, Task, Timeline

Item = TypeVar("Item")
Answer = TypeVar("Answer")

CURRENT: ContextVar[Container] = ContextVar("container")


class Container:
    """Where one invocation runs at a time; `deliveries` are the messages that the one at present is about."""

    def __init__(self, timeline: Timeline, name: str, version: int) -> None:
        self.name = name
        self.version = version
        self.deliveries: tuple[str, ...] = ()
        self.secrets: defaultdict[str, _Secret] = defaultdict(_Secret)
        self.bundles: dict[str, Bundle] = {}  # of other deployments
        self.plans: dict[str, BundlePlan] = {}
        self.began = timeline.now  # the invocation that runs in it
        self.received_first: frozenset[str] = frozenset()  # of its messages
        self.noted: defaultdict[str, dict[str, float]] = defaultdict(dict)
        self.is_dead = False
        self._timeline = timeline
        self._tasks: list[Task] = []
        self._loop: SimulatedLoop | None = None

    @property
    def loop(self) -> SimulatedLoop:
        if self._loop is None:
            self._loop = SimulatedLoop(self._timeline, self)
        return self._loop

    def spawn(self, run: Callable[[], None], name: str) -> None:
        """Begin a thread in it."""

        def begin() -> None:
            CURRENT.set(self)
            run()

        self._tasks = [task for task in self._tasks if not task.is_over]
        self._tasks.append(self._timeline.spawn(begin, f"{self.name} {name}"))

    def pause(self, seconds: float) -> None:
        """Have the current thread of it wait."""
        self.require_life()
        self._timeline.pause(seconds)

    def require_life(self) -> None:
        """A dead container's code does nothing any more, also where an error makes it tidy up."""
        if self.is_dead:
            raise Killed

    def kill(self) -> None:
        """End it, in the middle of whatever it does; called from outside of it."""
        self.is_dead = True
        for task in self._tasks:
            task.kill()
        self._tasks.clear()
        if self._loop is not None:
            self._loop.close()

    def map_in_threads(
        self, call: Callable[[Item], Answer], items: Iterable[Item], at_once: int
    ) -> Iterator[Answer]:
        waiting = list(items)
        numbers = iter(range(len(waiting)))
        ended: dict[int, Callable[[], Answer]] = {}
        changed = SimulatedCondition(self._timeline)

        def work() -> None:
            for number in numbers:
                ended[number] = _outcome(call, waiting[number])
                changed.notify()

        for worker in range(min(at_once, len(waiting))):
            self.spawn(work, f"worker {worker}")
        for number in range(len(waiting)):
            changed.wait_for(lambda number=number: number in ended)  # type: ignore[misc]
            yield ended[number]()


def _outcome(call: Callable[[Item], Answer], item: Item) -> Callable[[], Answer]:
    """What a call has come to, for whoever waits for it."""
    try:
        answer = call(item)
    except Exception as error:  # noqa: BLE001 -- raised by who waits

        def fail(error: Exception = error) -> Answer:
            raise error

        return fail
    return lambda: answer


class SimulatedLoop(asyncio.BaseEventLoop):
    """The event loop of a container, on simulated time; its threads are the container's."""

    def __init__(self, timeline: Timeline, container: Container) -> None:
        super().__init__()
        self._timeline = timeline
        self._container = container
        self._woken = SimulatedSignal(timeline)
        self._selector = self
        self._start = timeline.now
        self.set_exception_handler(lambda loop, context: None)  # of tasks that died with their container

    def run_until_complete(self, future: Any) -> Any:
        task = self.create_task(future)
        try:
            return super().run_until_complete(task)
        except Killed:
            for each in asyncio.all_tasks(self):
                with suppress(RuntimeError):  # of code that tidies up, with no loop to do it on
                    each.get_coro().close()
            raise

    def time(self) -> float:
        return (self._timeline.now - self._start) / SECOND

    def select(self, timeout: float | None) -> list[Any]:
        """Wait until something is due: others run meanwhile, and have loops of their own."""
        if timeout is None or timeout > 0:
            events._set_running_loop(None)
            self._woken.wait(timeout)
            self._container.require_life()
            events._set_running_loop(self)
        self._woken.clear()
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        self._woken.set()

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future = self.create_future()

        def run() -> None:
            outcome = _outcome(lambda _: func(*args), None)
            self.call_soon_threadsafe(_settle, future, outcome)

        self._container.spawn(run, "thread")
        return future

    def __del__(self, _warn: Any = None) -> None:
        pass  # a container ends without a word


def _settle(future: asyncio.Future[Any], outcome: Callable[[], Any]) -> None:
    if future.cancelled():
        return
    try:
        future.set_result(outcome())
    except Exception as error:  # noqa: BLE001 -- raised by who waits
        future.set_exception(error)
