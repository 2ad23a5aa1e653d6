"""What a delivery could not settle: messages for the retry and backfill queues, and dead letters with a reason."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kizami.aws.deliveries import ATTEMPTS, REASON, Delivery
from kizami.aws.invocation import TimeLeft
from kizami.aws.settings import QueueUrls
from kizami.aws.store.sqs_queue import QueueEntry, SqsQueue
from kizami.core.collector import LONGEST_WAIT_SECONDS
from kizami.core.errors import QueueError
from kizami.core.messages import BACKFILL, LIVE, RETRY, BundleMessage, write_bundle
from kizami.core.retries import LONGEST_DELAY_SECONDS, LONGEST_SECONDS, Retry

MOST_REASON = 1000


@dataclass(frozen=True, slots=True)
class Failed:
    """A member of a message whose slot failed: when it is tried again, if it is, and why it failed."""

    name: str
    retry: Retry
    reason: str
    is_known: bool = True  # the configuration has such a target


def plan_messages(message: BundleMessage, failures: Iterable[Failed]) -> list[tuple[BundleMessage, int]]:
    """Return what is tried again, with its delay: one message, whose delay is the longest of its members'.

    A pause that an API asked for is longer than ours; it has a message of its own.
    """
    groups: dict[tuple[int, int], list[Failed]] = {}
    for each in failures:
        if (delay := each.retry.delay_seconds) is not None:
            asked_for = delay if delay > LONGEST_SECONDS else 0
            groups.setdefault((asked_for, each.retry.not_before), []).append(each)
    lane = BACKFILL if message.lane == BACKFILL else RETRY
    found = []
    for (_, not_before), group in groups.items():
        names, attempts = tuple(each.name for each in group), tuple(each.retry.attempts for each in group)
        delay = max(each.retry.delay_seconds or 0 for each in group)
        found.append((BundleMessage(message.window, names, message.bundle, lane, attempts, not_before), delay))
    return found


def postponed(message: BundleMessage, now: datetime) -> int:
    """Return for how many seconds a message waits on because its API asked for a long pause, 0 for none."""
    left = math.ceil(message.not_before - now.timestamp())
    return min(left, LONGEST_DELAY_SECONDS) if 0 < left <= LONGEST_WAIT_SECONDS else 0


class Returns:
    """Sends what deliveries leave. QueueError if that cannot be done: then the delivery is not settled."""

    def __init__(self, urls: QueueUrls, time_left: TimeLeft) -> None:
        self._urls = urls
        self._time_left = time_left

    def send(self, messages: Iterable[tuple[BundleMessage, int]]) -> None:
        """Send messages to the queues of their lanes, each with its delay."""
        by_queue: dict[str, list[QueueEntry]] = {}
        for message, delay in messages:
            by_queue.setdefault(self._url_of(message.lane), []).append(QueueEntry(write_bundle(message), delay))
        for url, entries in by_queue.items():
            self._send(url, entries)

    def bury(self, message: BundleMessage, failures: Sequence[Failed]) -> None:
        """Send dead letters, one for each reason; without a queue for them their slots are just given up."""
        reasons: dict[tuple[str, int], list[str]] = {}
        for each in failures:
            reasons.setdefault((each.reason, each.retry.attempts), []).append(each.name)
        entries = [
            _letter(replace(message, metrics=tuple(names), attempts=(), not_before=0), reason, attempts)
            for (reason, attempts), names in reasons.items()
        ]
        self._bury(entries)

    def bury_unread(self, delivery: Delivery, reason: str) -> None:
        """Make a message that cannot be read a dead letter as it is."""
        self._bury([QueueEntry(delivery.body, 0, {REASON: _attribute(reason)})])

    def _url_of(self, lane: str) -> str:
        urls: Mapping[str, str] = {LIVE: self._urls.live, BACKFILL: self._urls.backfill}
        return urls.get(lane, self._urls.retry)

    def _bury(self, entries: list[QueueEntry]) -> None:
        if self._urls.dead_letters is not None and entries:
            self._send(self._urls.dead_letters, entries)

    def _send(self, url: str, entries: list[QueueEntry]) -> None:
        queue = SqsQueue(url, self._time_left)
        not_taken = queue.send_entries(entries)
        if not_taken:
            not_taken = queue.send_entries([entries[each.number] for each in not_taken])
        if not_taken:
            problem = f"{len(not_taken)} of {len(entries)} messages could not be sent: {not_taken[0].reason}"
            raise QueueError(problem)


def _letter(message: BundleMessage, reason: str, attempts: int) -> QueueEntry:
    return QueueEntry(write_bundle(message), 0, {ATTEMPTS: str(attempts), REASON: _attribute(reason)})


def _attribute(reason: str) -> str:
    """Write a text as SQS takes it: not empty, and without control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in reason[:MOST_REASON]) or "unknown"
