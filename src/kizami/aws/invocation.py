"""What Lambda hands to a function beside the event: how much of the invocation's time is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

TimeLeft = Callable[[], float]


class Context(Protocol):
    """The part of Lambda's context object that we use."""

    def get_remaining_time_in_millis(self) -> int:
        """Until Lambda ends the invocation by force."""


def time_left(context: Context) -> TimeLeft:
    """Tells, whenever it is asked, the seconds that are left of the invocation."""
    return lambda: context.get_remaining_time_in_millis() / 1000
