"""What a delivery could not settle: it goes back alone, with its attempts counted, or becomes a dead letter."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from kizami.aws.bundles.asking import SlotOutcome, SlotResult, reason_of
from kizami.aws.deliveries import ATTEMPTS, NOT_BEFORE, REASON, Delivery
from kizami.aws.invocation import TimeLeft
from kizami.aws.settings import BundleSettings
from kizami.aws.store.sqs_queue import QueueEntry, SqsQueue
from kizami.core import blocking
from kizami.core.collector import LONGEST_WAIT_SECONDS
from kizami.core.errors import (
    ApiError,
    ApiStatusError,
    ConfigurationError,
    InvalidInput,
    QueueError,
    StoreError,
)
from kizami.core.messages import BundleMessage, ScheduleMessage, write_bundle

FIRST_SECONDS, FACTOR, LONGEST_SECONDS = 10, 4, 180
LONGEST_DELAY_SECONDS = 900  # of a message of SQS; a longer wait takes several
MOST_REASON = 1000


@dataclass(frozen=True, slots=True)
class Return:
    """Slots that go back after so many attempts and seconds or, without a delay, are given up."""

    message: BundleMessage
    attempts: int
    reason: str
    delay_seconds: int | None
    not_before: int = 0  # in seconds since 1970


def postponed(delivery: Delivery, message: BundleMessage, now: datetime) -> Return | None:
    """What goes back unasked, because its API asked for a later attempt than SQS can wait for; else None."""
    left = math.ceil(delivery.not_before - now.timestamp())
    if not 0 < left <= LONGEST_WAIT_SECONDS:
        return None
    reason, delay = "its API asked for a later attempt", min(left, LONGEST_DELAY_SECONDS)
    return Return(message, delivery.attempts, reason, delay, delivery.not_before)


def plan_returns(
    delivery: Delivery, outcomes: Iterable[SlotOutcome], limit: int, chance: Callable[[], float], now: datetime
) -> list[Return]:
    """What goes back: a slot whose target failed alone, together what the table or the time did not let pass."""
    returns, refused, unasked = [], [], []
    for outcome in outcomes:
        if outcome.result is SlotResult.POSTPONED:
            unasked.append(outcome.slot)
        elif isinstance(outcome.error, StoreError):
            refused.append(outcome)
        elif outcome.result is SlotResult.FAILED and outcome.error is not None:
            returns.append(_plan([outcome.slot], outcome.error, delivery.attempts + 1, limit, chance(), now))
    if refused:
        slots, error = [outcome.slot for outcome in refused], refused[0].error
        assert error is not None
        returns.append(_plan(slots, error, delivery.attempts + 1, limit, chance(), now))
    if unasked:
        returns.append(Return(_together(unasked), delivery.attempts, "no time was left to ask", 1))
    return returns


def _plan(
    slots: Sequence[ScheduleMessage], error: Exception, made: int, limit: int, chance: float, now: datetime
) -> Return:
    message = _together(slots)
    if is_hopeless(error) or _is_dead(error, made, limit):
        return Return(message, made, reason_of(error), None)
    wait = min(FIRST_SECONDS * FACTOR ** (made - 1), LONGEST_SECONDS) * (1 - chance / 2)
    if isinstance(error, ApiStatusError):
        wait = max(wait, error.retry_after_seconds or 0.0)
    if isinstance(error, ApiError):
        wait = blocking.retry_seconds(error, wait, int(message.window.seconds))
    not_before = math.ceil(now.timestamp() + wait) if wait > LONGEST_DELAY_SECONDS else 0
    return Return(message, made, reason_of(error), min(round(wait), LONGEST_DELAY_SECONDS), not_before)


def _together(slots: Sequence[ScheduleMessage]) -> BundleMessage:
    return BundleMessage(slots[0].window, tuple(slot.metric for slot in slots))


def is_hopeless(error: Exception) -> bool:
    """Whether no other attempt can end otherwise: nobody is asked about what is not a target's slot."""
    return isinstance(error, InvalidInput) or (isinstance(error, ConfigurationError) and error.place == "metric")


def _is_dead(error: Exception, made: int, limit: int) -> bool:
    if isinstance(error, ApiError):
        return blocking.slot_fate(error, made, limit, blocked=False) is blocking.Fate.DEAD
    return made >= limit


class Returner:
    """Sends back what deliveries leave; QueueError if that cannot be done, and then nothing is settled."""

    def __init__(self, settings: BundleSettings, time_left: TimeLeft) -> None:
        self._settings = settings
        self._time_left = time_left

    def send(self, delivery: Delivery, returns: Iterable[Return]) -> None:
        """Send retried slots to the queue they came from, the others to the dead letters."""
        planned = list(returns)
        retried = [each for each in planned if each.delay_seconds is not None]
        self._send(self._settings.queue_of(delivery.source), [_returned(each) for each in retried])
        self.bury([_returned(each) for each in planned if each not in retried])

    def bury(self, entries: list[QueueEntry]) -> None:
        """Send dead letters; where a stack was deployed without a queue for them, their slots are missing."""
        if self._settings.dead_letter_url is not None:
            self._send(self._settings.dead_letter_url, entries)

    def bury_unread(self, delivery: Delivery, reason: str) -> None:
        """Make a message that nobody can read a dead letter."""
        self.bury([QueueEntry(delivery.body, 0, {REASON: _attribute(reason)})])

    def _send(self, url: str, entries: list[QueueEntry]) -> None:
        if not entries:
            return
        queue = SqsQueue(url, self._time_left)
        failed = queue.send_entries(entries)
        if failed:
            failed = queue.send_entries([entries[each.number] for each in failed])
        if failed:
            raise QueueError(f"{len(failed)} of {len(entries)} slots could not be sent back: {failed[0].reason}")


def _returned(planned: Return) -> QueueEntry:
    attributes = {ATTEMPTS: str(planned.attempts), REASON: _attribute(planned.reason)}
    if planned.not_before:
        attributes[NOT_BEFORE] = str(planned.not_before)
    return QueueEntry(write_bundle(planned.message), planned.delay_seconds or 0, attributes)


def _attribute(reason: str) -> str:
    """As SQS takes it: not empty, no control characters, and no longer than somebody reads."""
    return "".join(letter if letter.isprintable() else " " for letter in reason[:MOST_REASON]) or "unknown"
