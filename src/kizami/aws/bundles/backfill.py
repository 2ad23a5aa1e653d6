"""Where a run of the reconciler puts what it asks for again: onto the backfill queue, as it is found."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from kizami.aws.store.sqs_queue import QueueEntry, SqsQueue
from kizami.core.errors import QueueError
from kizami.core.messages import BundleMessage, ScheduleMessage, read_bundle, write_bundle, write_message

SENT_AT_ONCE = 500

log = logging.getLogger(__name__)


class BackfillSender:
    """Puts messages onto the backfill queue as they are found, up to a limit that counts what waits there."""

    def __init__(self, queue: SqsQueue, limit: int) -> None:
        self.slots = 0
        self.failed = 0
        self._queue = queue
        self._limit = limit
        self._room: int | None = None
        self._waiting: list[QueueEntry] = []

    @property
    def waiting(self) -> int:
        """How much of the limit is used up."""
        return self._limit - self._left()

    def add(self, messages: Iterable[BundleMessage]) -> None:
        """Send them, or keep them until there are more."""
        for message in messages:
            if self._left() <= 0:
                return
            self._room = self._left() - 1
            self._waiting.append(QueueEntry(write_bundle(message)))
            if len(self._waiting) == SENT_AT_ONCE:
                self.flush()

    def flush(self) -> None:
        """Send what was kept."""
        entries, self._waiting = self._waiting, []
        if entries:
            self._send(entries)

    def send_now(self, messages: Sequence[ScheduleMessage]) -> set[ScheduleMessage]:
        """Send these at once; which of them were taken."""
        if not messages:
            return set()
        self._room = self._left() - len(messages)
        not_taken = self._send([QueueEntry(write_message(message)) for message in messages])
        return {message for number, message in enumerate(messages) if number not in not_taken}

    def _send(self, entries: Sequence[QueueEntry]) -> set[int]:
        try:
            not_taken = {each.number: each.reason for each in self._queue.send_entries(entries)}
        except QueueError as error:
            not_taken = dict.fromkeys(range(len(entries)), str(error))
        if not_taken:
            detail = next(iter(not_taken.values()))
            log.error(
                "slots not sent", extra={"event": "backfill.failed", "failed": len(not_taken), "detail": detail}
            )
        slots = [len(read_bundle(entry.body).metrics) for entry in entries]
        self.failed += sum(slots[number] for number in not_taken)
        self.slots += sum(count for number, count in enumerate(slots) if number not in not_taken)
        return set(not_taken)

    def _left(self) -> int:
        """Asked of the queue when there is something to send: nearly always there is nothing."""
        if self._room is None:
            self._room = self._limit - self._queue.waiting()
        return self._room
