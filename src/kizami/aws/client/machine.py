"""What a function takes from the machine that it runs on besides its calls: clocks, chance, waiting, threads.

Whoever needs one asks for it here, as `machine.now()`: the simulator in tests/simulation/ puts its own in
these places, and then owns all that two runs of a function could differ in.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from threading import Lock
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


def monotonic() -> float:
    """Seconds, which no clock's setting moves."""
    return time.monotonic()


def sleep(seconds: float) -> None:
    """Wait so long."""
    time.sleep(seconds)


def chance() -> float:
    """From 0 up to, but not, 1."""
    from random import random  # imported by the first retry, not by every cold start

    return random()


def new_id() -> str:
    """32 hexadecimal digits that nobody else has."""
    return os.urandom(16).hex()


def lock() -> Lock:
    """One for the threads of a function."""
    return Lock()


def map_in_threads(call: Callable[[Item], Answer], items: Iterable[Item], at_once: int) -> Iterator[Answer]:
    """What the call gives for each item, in their order, each as soon as it is there."""
    from concurrent.futures import ThreadPoolExecutor  # batch size 1 never needs it

    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(call, items)
