"""What the daemon takes from the machine besides its wall clock: steady time, chance, threads, the network.

The simulator in tests/simulation/ gives its own, and then owns all that two runs of the daemon could differ in.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol

from kizami.local.http.fetcher import Fetcher
from kizami.local.http.requester import Requester
from kizami.local.http.wakeup import WakeUp

_NICENESS = 10


class Signal(Protocol):
    """`threading.Event`."""

    def is_set(self) -> bool: ...
    def set(self) -> None: ...
    def clear(self) -> None: ...
    def wait(self, timeout: float | None = None) -> bool: ...


class Mutex(Protocol):
    """`threading.Lock`."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...
    def __enter__(self) -> bool: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Condition(Protocol):
    """`threading.Condition`."""

    def notify(self) -> None: ...
    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool: ...
    def __enter__(self) -> bool: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Thread(Protocol):
    """`threading.Thread`."""

    @property
    def ident(self) -> int | None: ...
    def start(self) -> None: ...
    def join(self, timeout: float | None = None) -> None: ...
    def is_alive(self) -> bool: ...


class Alarm(Protocol):
    """What ends the loop's wait; `WakeUp`."""

    def wake(self) -> None: ...
    def close(self) -> None: ...


class Machine:
    """This machine."""

    def monotonic(self) -> float:
        """Seconds, which no clock's setting moves."""
        return time.monotonic()

    def chance(self) -> float:
        """From 0 up to, but not, 1."""
        return random.random()

    def signal(self) -> Signal:
        return threading.Event()

    def mutex(self) -> Mutex:
        return threading.Lock()

    def condition(self) -> Condition:
        return threading.Condition()

    def thread(self, run: Callable[[], None], name: str) -> Thread:
        """One that does not keep the process from ending."""
        return threading.Thread(target=run, name=name, daemon=True)

    def yield_to_others(self) -> None:
        """Have the calling thread come after the others where the cores are busy."""
        if sys.platform == "linux":  # where a thread has a niceness of its own
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)

    def free_bytes(self, directory: Path) -> int:
        """How much room there is for files."""
        return shutil.disk_usage(directory).free

    def network(self) -> tuple[Requester, Alarm]:
        """Who sends requests, and what ends its wait from another thread."""
        wakeup = WakeUp()
        return Requester(Fetcher(wakeup)), wakeup
