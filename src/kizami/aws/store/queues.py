"""The queues of a deployed system together: how full they are, and how past slots are asked for again."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from kizami.aws.store.sqs_queue import SqsQueue
from kizami.backend.values import QueueDepth
from kizami.core.backfill import spread
from kizami.core.errors import QueueError
from kizami.core.messages import ScheduleMessage

_PIECE = 1000


def read_depth(live_url: str, backfill_url: str, dead_letter_url: str | None) -> QueueDepth:
    """The live and the backfill queue as one; SQS counts approximately and does not tell any ages. QueueError."""
    depths = [SqsQueue(url).depth() for url in dict.fromkeys((live_url, backfill_url))]
    waiting, delayed, in_flight = (sum(counts) for counts in zip(*depths, strict=True))
    dead = SqsQueue(dead_letter_url).waiting() if dead_letter_url else 0
    return QueueDepth(waiting, delayed, in_flight, dead, oldest_age_seconds=None)


def send_backfill(queue: SqsQueue, messages: Iterable[ScheduleMessage], spread_seconds: int = 0) -> int:
    """Ask for past slots again; how many were taken. It may be repeated after any QueueError."""
    remaining = iter(messages)
    sent = 0
    while piece := spread(list(islice(remaining, _PIECE)), spread_seconds):
        failed = queue.send(piece)
        if failed:
            raise QueueError(f"{len(failed)} slots were not taken: {failed[0].reason}; try again")
        sent += len(piece)
    return sent
