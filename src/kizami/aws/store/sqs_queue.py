"""The queue on AWS: planned messages out to SQS in the fewest calls; Lambda itself hands them to the functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf

from kizami.aws.client import machine
from kizami.aws.client.json_client import UNREACHABLE, AwsError, Fields, JsonClient
from kizami.aws.invocation import TimeLeft
from kizami.core.errors import QueueError, QueueUnreachable
from kizami.core.messages import write_bundle, write_message
from kizami.core.ports import FailedSend
from kizami.core.sender import Planned, PlannedBundle

MAX_BATCH = 10  # SQS's limits
MAX_BATCH_BYTES = 240_000  # of 256 KB, which some still have
# A batch may take so much of the time that is left. The next one, and the repetition of what failed, get as much
# of the rest: a slow queue has seconds, and a dead one never uses up the invocation.
SHARE_OF_TIME_LEFT = 0.4
SENDS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A message as the queue takes it; `attributes` travel beside the body."""

    body: str
    delay_seconds: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotTaken:
    """An entry that the queue did not take, by its place among those sent, and why."""

    number: int
    reason: str


Batch = list[tuple[int, QueueEntry]]


class QueueNotFound(QueueError):
    """There is no queue at the URL: the setting is wrong, trying again is of no use."""


@lru_cache(maxsize=1)
def sqs_client() -> JsonClient:
    """The one client, with its connections kept from one invocation to the next."""
    return JsonClient("sqs", "AmazonSQS")


class SqsQueue:
    """The MessageSender port on one SQS queue; visibility, redrive limit and dead letters are the queue's own."""

    def __init__(self, url: str, time_left: TimeLeft = lambda: inf) -> None:
        self._url = url
        self._time_left = time_left

    def send(self, entries: Sequence[Planned]) -> list[FailedSend]:
        """Send all, in the fewest calls; the answer lists those not taken. QueueError when no call got through."""
        written = [QueueEntry(_body(entry), entry.delay_seconds) for entry in entries]
        return [FailedSend(entries[each.number], each.reason) for each in self.send_entries(written)]

    def send_entries(self, entries: Sequence[QueueEntry]) -> list[NotTaken]:
        """The same of messages that are written already."""
        batches = list(_batches(entries))
        results = self._send_all(batches)
        errors = [result for result in results if isinstance(result, QueueError)]
        if errors and len(errors) == len(batches):
            raise errors[0]
        return [
            failed
            for batch, result in zip(batches, results, strict=True)
            for failed in (_all_failed(batch, result) if isinstance(result, QueueError) else result)
        ]

    def _send_all(self, batches: list[Batch]) -> list[list[NotTaken] | QueueError]:
        if len(batches) <= 2:  # a minute of the seeds' one target
            return list(map(self._send_batch, batches))
        return list(machine.map_in_threads(self._send_batch, batches, min(SENDS_AT_ONCE, len(batches))))

    def _send_batch(self, batch: Batch) -> list[NotTaken] | QueueError:
        entries = [_written(number, entry) for number, entry in batch]
        try:
            seconds = self._time_left() * SHARE_OF_TIME_LEFT
            answer = self.call("SendMessageBatch", {"Entries": entries}, seconds)
        except QueueError as error:
            return error
        return _not_taken(batch, answer)

    def hide(self, receipt: str, seconds: int) -> None:
        """Let a received message come back after so long, instead of the queue's visibility timeout."""
        self.call("ChangeMessageVisibility", {"ReceiptHandle": receipt, "VisibilityTimeout": seconds})

    def waiting(self) -> int:
        """About how many messages are on the queue: due, delayed or handed out."""
        return sum(self.depth())

    def depth(self) -> tuple[int, int, int]:
        """About how many messages are due, delayed, and handed out."""
        names = [f"ApproximateNumberOfMessages{state}" for state in ("", "Delayed", "NotVisible")]
        attributes = self.call("GetQueueAttributes", {"AttributeNames": names}).get("Attributes", {})
        due, delayed, in_flight = (int(attributes.get(name, 0)) for name in names)
        return due, delayed, in_flight

    def call(self, operation: str, parameters: Fields, seconds: float = inf) -> Fields:
        """One operation of SQS on this queue; QueueError for whatever goes wrong."""
        try:
            within = min(seconds, self._time_left() * 0.9)
            return sqs_client().call(operation, {"QueueUrl": self._url, **parameters}, within)
        except AwsError as error:
            if error.code in ("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "InvalidAddress"):
                raise QueueNotFound(str(error)) from None
            kind = QueueUnreachable if error.code == UNREACHABLE else QueueError
            raise kind(str(error)) from None


def _body(entry: Planned) -> str:
    return write_bundle(entry.message) if isinstance(entry, PlannedBundle) else write_message(entry.message)


def _batches(entries: Sequence[QueueEntry]) -> Iterator[Batch]:
    """As many as a call takes, by number and by bytes."""
    batch: Batch = []
    size = 0
    for number, entry in enumerate(entries):
        length = _bytes_of(entry)
        if batch and (len(batch) == MAX_BATCH or size + length > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((number, entry))
        size += length
    if batch:
        yield batch


def _bytes_of(entry: QueueEntry) -> int:
    """What SQS counts at most: body, names, types and values."""
    texts = (entry.body, *(f"{name}String{value}" for name, value in entry.attributes.items()))
    return sum(len(text) if text.isascii() else 4 * len(text) for text in texts)


def _written(number: int, entry: QueueEntry) -> Fields:
    fields = {"Id": str(number), "MessageBody": entry.body, "DelaySeconds": entry.delay_seconds}
    if not entry.attributes:
        return fields
    typed = {name: {"DataType": "String", "StringValue": value} for name, value in entry.attributes.items()}
    return {**fields, "MessageAttributes": typed}


def _all_failed(batch: Batch, error: QueueError) -> list[NotTaken]:
    return [NotTaken(number, str(error)) for number, _ in batch]


def _not_taken(batch: Batch, answer: Fields) -> list[NotTaken]:
    """Those that the answer does not say were taken: an entry it forgets is a failed one, not a lost one."""
    taken = {entry["Id"] for entry in answer.get("Successful", ())}
    reasons = {entry["Id"]: f"{entry['Code']}: {entry.get('Message', '')}" for entry in answer.get("Failed", ())}
    return [
        NotTaken(number, reasons.get(str(number), "the answer does not mention it"))
        for number, _ in batch
        if str(number) not in taken
    ]
