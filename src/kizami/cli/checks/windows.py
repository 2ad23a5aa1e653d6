"""Whether an answer depends on the window: `try` and `doctor` ask for up to two more windows and compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil

from kizami.core.answers.numbers import plain_text
from kizami.core.errors import ApiError
from kizami.core.messages import MetricRecord, ScheduleMessage
from kizami.core.sender import message_for_slot
from kizami.core.slots import floor_to_slot, shift
from kizami.core.targets.target import Target

REMEDY = "check the filter's parameter names: compare those with {from} and {to} with the documents of the API"

_DAY_SECONDS = 86_400
_YEAR_SECONDS = 365 * _DAY_SECONDS
# The past window lies at another minute of the hour, too: counts of the mock API depend on that alone.
_MINUTES_SECONDS = 7 * 60

Outcome = Sequence[MetricRecord] | ApiError


@dataclass(slots=True)
class WindowCheck:
    """The answers about several windows of a target, the first of which was asked for anyway.

    The second lies a year ahead, where nothing can be counted: a target that is right needs one more request. Only
    if its answer is the same, a window in the past is asked for, more than a day before the first.
    No other window is asked for if the first answer is 0, another one fails, or the API can only say "now".
    """

    target: Target
    message: ScheduleMessage
    records: Sequence[MetricRecord]
    now: datetime
    others: list[tuple[ScheduleMessage, Outcome]] = field(default_factory=list)

    def next_message(self) -> ScheduleMessage | None:
        """The window to ask for next; None if enough is known."""
        if not self.target.backfill or not self._all_same() or len(self.others) == 2:
            return None
        interval = self.target.interval_seconds
        if not self.others:
            return message_for_slot(shift(floor_to_slot(self.now, interval), _YEAR_SECONDS), self.target)
        back = _DAY_SECONDS + ceil(_MINUTES_SECONDS / interval) * interval
        return message_for_slot(shift(self.message.window.start, -back), self.target)

    def add(self, message: ScheduleMessage, outcome: Outcome) -> None:
        self.others.append((message, outcome))

    @property
    def problem(self) -> str | None:
        """What is wrong if no answer depends on its window."""
        if len(self.others) < 2 or not self._all_same():
            return None
        found = values_text(self.target, self.records)
        return f"{found} in this window, a year ahead and over a day earlier: the API seems to ignore the window"

    @property
    def warning(self) -> str | None:
        """The same in one line with the target and the remedy."""
        return f"{self.target.name}: {self.problem}; {REMEDY}" if self.problem else None

    def _all_same(self) -> bool:
        """Whether each answer so far is the same, and not 0."""
        first = [record.count for record in self.records]
        return any(first) and all(
            not isinstance(outcome, ApiError) and [record.count for record in outcome] == first
            for _, outcome in self.others
        )


def values_text(target: Target, records: Sequence[MetricRecord]) -> str:
    """The values with their names."""
    names = [name for name, _ in target.answer.values] or ["count"]
    found = zip(names, records, strict=True)
    return ", ".join(f"{name} {plain_text(record.count)}" for name, record in found)
