"""Ctrl-C while libcurl is at work on the main thread: noted, and raised where it can be heard."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LOOK_SECONDS = 0.2  # how long a wait may go on without looking whether there was one


@contextmanager
def noted_interrupts() -> Iterator[list[int]]:
    """The Ctrl-Cs so far, for the length of a `with`, at whose end one becomes KeyboardInterrupt.

    Raised at once it could come up within a callback of libcurl, and what comes out then is a failure of
    libcurl. On another than the main thread none ever arrives.
    """
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)
    if noted:
        raise KeyboardInterrupt
