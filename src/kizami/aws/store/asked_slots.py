"""The slots that were asked for again from here: SQS does not tell that it has them, so this remembers it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.messages import ScheduleMessage


class AskedSlots:
    """When each slot was asked for; forgotten when no message about it can be on its way any more."""

    def __init__(self, grace_seconds: float) -> None:
        self._grace_seconds = grace_seconds
        self._asked: dict[tuple[str, int], float] = {}

    def add(self, messages: Iterable[ScheduleMessage], now: datetime) -> None:
        """They are on their way again from `now` on."""
        moment = now.timestamp()
        kept = {key: at for key, at in self._asked.items() if moment - at < self._grace_seconds}
        asked = {(each.metric, to_seconds(each.window.start)): moment for each in messages}
        self._asked = kept | asked

    def __contains__(self, slot: tuple[str, datetime]) -> bool:
        metric, start = slot
        return (metric, to_seconds(start)) in self._asked

    def is_on_its_way(self, metric: str, slot: datetime, planned: datetime, now: datetime) -> bool:
        """Whether a message about the slot, which was planned for then, may still be on a queue."""
        asked = self._asked.get((metric, to_seconds(slot)), 0.0)
        return now.timestamp() - max(planned.timestamp(), asked) < self._grace_seconds

    def of(self, metric: str) -> list[datetime]:
        """The metric's slots that were asked for."""
        return [from_seconds(slot) for name, slot in list(self._asked) if name == metric]
