"""Figures that are kept for a while: the more it costs to read one, the longer.

Each kind has its share of the time: what took 200 ms to read is read again after ten seconds. So a backend of six
targets is always told as it is, and one of thousands costs no more than a small part of a core.

Who asks waits only for what is read in no time. The rest is renewed beside that, while somebody looks.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from threading import Lock
from time import monotonic
from typing import Generic, TypeVar

Figure = TypeVar("Figure")

REST_FOR_WORK = 50  # it is read again after so many times what reading it took
SOON_SECONDS = 0.02  # who asks may wait so long for it
# So much longer it is told as it was, for somebody to renew it; then it is old, and whoever asks waits for it.
OVERDUE_SECONDS = 75.0


class Kept(Generic[Figure]):
    """A figure, and until when it is good; any thread may ask."""

    def __init__(self) -> None:
        self._figure: Figure | None = None
        self._good_until = -inf
        self._took = 0.0
        self._times_forgotten = 0
        self._lock = Lock()

    def get(self, read: Callable[[], Figure]) -> Figure:
        """As it was found; found anew if it is due and that takes no time, or if it is overdue."""
        patience = 0.0 if self._took <= SOON_SECONDS else OVERDUE_SECONDS
        return self._found(read, patience)

    def renew(self, read: Callable[[], Figure]) -> None:
        """Find it anew if it is due."""
        self._found(read, 0.0)

    def _found(self, read: Callable[[], Figure], patience: float) -> Figure:
        began, times_forgotten = monotonic(), self._times_forgotten
        if self._figure is not None and began < self._good_until + patience:
            return self._figure
        figure = read()
        ended = monotonic()
        with self._lock:
            self._figure, self._took = figure, ended - began
            # What was read before somebody's action does not tell of it.
            if times_forgotten == self._times_forgotten:
                self._good_until = ended + REST_FOR_WORK * self._took
        return figure

    def forget(self) -> None:
        """Somebody has changed what it speaks of."""
        with self._lock:
            self._times_forgotten += 1
            self._good_until = -inf
