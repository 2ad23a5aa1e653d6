"""Where the event loop puts its questions: a few threads that ask a backend, each with one of its own."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import TypeVar

from kizami.backend.port import Backend
from kizami.core.errors import KizamiError

Answer = TypeVar("Answer")

THREADS = 3
MAX_WAITING = 100


class Busy(KizamiError):
    """So many questions wait already that one more would not be answered in time."""

    headers = MappingProxyType({"Retry-After": "1"})


class BackendThreads:
    """Asks at most `threads` questions at once; the others wait in turn, and so never weigh on the backend."""

    def __init__(self, open_backend: Callable[[], Backend], threads: int = THREADS) -> None:
        self._open_backend = open_backend
        self._idle: deque[Backend] = deque()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="dashboard")
        self._asked = 0

    async def ask(self, question: Callable[[Backend], Answer]) -> Answer:
        """The answer of a backend to the question; Busy if too many others wait for theirs."""
        if self._asked >= MAX_WAITING:
            raise Busy(f"{MAX_WAITING} questions are waiting already; ask again in a moment")
        self._asked += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._answer, question)
        finally:
            self._asked -= 1

    def close(self) -> None:
        """Answer what has been asked, then let go of every backend."""
        self._threads.shutdown()
        while self._idle:
            self._idle.pop().close()

    def _answer(self, question: Callable[[Backend], Answer]) -> Answer:
        try:
            backend = self._idle.pop()
        except IndexError:
            backend = self._open_backend()
        try:
            answer = question(backend)
        except KizamiError:
            # Its backend may be gone or damaged: the next question opens it anew and finds out.
            backend.close()
            raise
        except BaseException:
            self._idle.append(backend)
            raise
        self._idle.append(backend)
        return answer
