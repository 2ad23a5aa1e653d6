"""Where the event loop puts its questions: a few threads that ask a home, each with one of its own."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import TypeVar

from kizami.core.errors import KizamiError
from kizami.home.port import Home

Answer = TypeVar("Answer")

THREADS = 3
MAX_WAITING = 100


class Busy(KizamiError):
    """So many questions wait already that one more would not be answered in time."""

    headers = MappingProxyType({"Retry-After": "1"})


class HomeThreads:
    """Asks at most `threads` questions at once; the others wait in turn, and so never weigh on the home."""

    def __init__(self, open_home: Callable[[], Home], threads: int = THREADS) -> None:
        self._open_home = open_home
        self._idle: deque[Home] = deque()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="dashboard")
        self._asked = 0

    async def ask(self, question: Callable[[Home], Answer]) -> Answer:
        """The answer of a home to the question; Busy if too many others wait for theirs."""
        if self._asked >= MAX_WAITING:
            raise Busy(f"{MAX_WAITING} questions are waiting already; ask again in a moment")
        self._asked += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._answer, question)
        finally:
            self._asked -= 1

    def close(self) -> None:
        """Answer what has been asked, then let go of every home."""
        self._threads.shutdown()
        while self._idle:
            self._idle.pop().close()

    def _answer(self, question: Callable[[Home], Answer]) -> Answer:
        try:
            home = self._idle.pop()
        except IndexError:
            home = self._open_home()
        try:
            answer = question(home)
        except KizamiError:
            # Its home may be gone or damaged: the next question opens it anew and finds out.
            home.close()
            raise
        except BaseException:
            self._idle.append(home)
            raise
        self._idle.append(home)
        return answer
