"""Several runs of functions at once: one goes on at a time, until its next call of AWS, in an order that is given.

Each runs in a thread of its own and waits before every call for its turn, so a test decides what happens between
any two calls, and repeats it exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from threading import Semaphore, Thread
from unittest.mock import patch

from aws_here.memory_aws import MemoryAws
from kizami.aws.client.json_client import AwsError, Fields, JsonClient
from kizami.core.errors import KizamiError

GOES_ON, CRASHES_BEFORE, CRASHES_AFTER, BREAKS = "goes on", "crashes before", "crashes after", "breaks"
FATES = (GOES_ON, CRASHES_BEFORE, CRASHES_AFTER, BREAKS)  # of a call; one that breaks is carried out and repeated

_WRITES = 6  # of a run, roughly
_READS = {"Query", "GetItem", "BatchGetItem", "Scan"}


class Order:
    """Which run goes on, in one of two ways at random.

    Either a coin is tossed before each call, or one run stands still before one of its writes until all others
    are over: some faults need a pause at a certain call that a coin would hardly ever make long enough.
    """

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def begin(self, runs: int) -> None:
        """Forget the runs before; these are others."""
        self._ranks = self._chance.sample(range(runs), runs)
        self._is_fair = self._chance.random() < 0.5
        self._writes_left = self._chance.randrange(_WRITES)
        self._still: int | None = None

    def next_of(self, waiting: Mapping[int, str]) -> int:
        """Return which of the runs that wait goes on; each is before an operation, or at its start."""
        if self._is_fair:
            return self._chance.choice(list(waiting))
        first = self._first_of(waiting)
        if self._still is None and waiting[first] and waiting[first] not in _READS:
            if not self._writes_left:
                self._still = first
            self._writes_left -= 1
        return self._first_of(waiting)

    def _first_of(self, waiting: Iterable[int]) -> int:
        return min(waiting, key=lambda run: (run == self._still, self._ranks[run]))


class Crashed(BaseException):
    """A function ends at once, as by its timeout: nothing catches this."""


class _Run(Thread):
    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.turn, self.paused = Semaphore(0), Semaphore(0)
        self.is_over = False
        self.operation = ""  # that it waits to call
        self.surprise: BaseException | None = None
        self._work = work

    def run(self) -> None:
        self.turn.acquire()
        try:
            self._work()
        except (KizamiError, Crashed):
            pass  # the next run makes up for it
        except BaseException as error:  # noqa: BLE001 -- of the thread, which has nowhere to raise it
            self.surprise = error
        self.is_over = True
        self.paused.release()

    def wait_for_turn(self, operation: str) -> None:
        self.operation = operation
        self.paused.release()
        self.turn.acquire()

    def go_on(self) -> None:
        self.turn.release()
        self.paused.acquire()


class Interleaving:
    """Carries out runs side by side on one AWS; `fate` decides what becomes of each call."""

    def __init__(self, aws: MemoryAws, chance: Random, fate: Callable[[], str]) -> None:
        self._aws = aws
        self._order = Order(chance)
        self._fate = fate
        self._running: _Run | None = None

    def carry_out(self, works: Sequence[Callable[[], None]]) -> None:
        """Carry out all of them; an error that is not one of kizami's own is raised."""
        runs = [_Run(work) for work in works]
        for run in runs:
            run.start()
        self._order.begin(len(runs))
        while waiting := {number: run.operation for number, run in enumerate(runs) if not run.is_over}:
            self._running = runs[self._order.next_of(waiting)]
            self._running.go_on()
        self._running = None
        for run in runs:
            run.join()
            if run.surprise is not None:
                raise run.surprise

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Calls of AWS go here: those of a run wait for their turn, and others are answered at once."""

        def attempt(client: JsonClient, operation: str, parameters: Fields, seconds: float) -> Fields:
            if (run := self._running) is None:
                return self._aws.answer(operation, parameters)
            run.wait_for_turn(operation)
            fate = self._fate()
            if fate == CRASHES_BEFORE:
                raise Crashed
            answer = self._aws.answer(operation, parameters)
            if fate == CRASHES_AFTER:
                raise Crashed
            if fate == BREAKS:
                raise AwsError(operation, "InternalServerError", "", transient=True)
            return answer

        no_pause = patch("kizami.aws.client.machine.sleep", lambda seconds: None)
        with patch.object(JsonClient, "_attempt", attempt), no_pause:
            yield
