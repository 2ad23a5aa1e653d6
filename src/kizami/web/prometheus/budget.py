"""What one query may cost: samples read, work done with them, and time; whoever is gone costs nothing more."""

from __future__ import annotations

from time import monotonic

from kizami.backend.chart import TALLIED_SECONDS
from kizami.core.errors import KizamiError

MAX_SAMPLES = 200_000
# In values looked at, at 10 to 50 ns each.
MAX_WORK = 100_000_000
MAX_SECONDS = 10.0

_REMEDY = (
    "ask for a shorter range, a longer step, fewer series, or for *_over_time with range and step in multiples of "
    f"{TALLIED_SECONDS // 60} minutes"
)


class TooCostly(KizamiError):
    """A query that would read or calculate too much."""


class TooSlow(KizamiError):
    """A query whose time is over."""


class Budget:
    """What is left for one query; its time runs from the moment it was asked, also while it waits for its turn."""

    def __init__(self) -> None:
        self._end = monotonic() + MAX_SECONDS
        self._samples = MAX_SAMPLES
        self._work = MAX_WORK

    def read(self, samples: int) -> None:
        """So many samples are about to be read."""
        self._samples -= max(0, samples)
        if self._samples < 0:
            raise TooCostly(f"query: would read more than {MAX_SAMPLES:,} samples; {_REMEDY}")
        self.check()

    def work(self, values: int) -> None:
        """So many values are about to be looked at."""
        self._work -= values
        if self._work < 0:
            raise TooCostly(f"query: would look at more than {MAX_WORK:,} values; {_REMEDY}")
        self.check()

    def check(self) -> None:
        """Go on only if there is time left."""
        if monotonic() > self._end:
            raise TooSlow(f"query: took longer than {MAX_SECONDS:g} s; {_REMEDY}")

    def cancel(self) -> None:
        """Nobody waits for the answer any more."""
        self._end = 0.0
