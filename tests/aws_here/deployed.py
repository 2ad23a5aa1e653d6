"""A deployment as the command line and the page find it: the table, its queues, and what is put into them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from aws_here.local_aws import create_metrics_table, create_queue, put_items, sqs_at
from kizami.aws.store.metric_table import typed_record
from kizami.core.messages import MetricRecord, ScheduleMessage, write_message


@dataclass(frozen=True, slots=True)
class GivenPlaces:
    """The places, as somebody knows them."""

    table: str
    queue: str
    backfill_queue: str
    dead_letter_queue: str | None = None
    ledger: str | None = None


class Deployment:
    """An empty table and three empty queues on the AWS at `endpoint`."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.table = create_metrics_table(endpoint)
        self.queue, self.backfill, self.dead = (create_queue(endpoint) for _ in range(3))
        self.sqs = sqs_at(endpoint)

    @property
    def places(self) -> GivenPlaces:
        """Where its parts are."""
        return GivenPlaces(self.table, self.queue, self.backfill, self.dead)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead the command line to it."""
        return {
            "AI_METRICS_TABLE_NAME": self.table,
            "QUEUE_URL": self.queue,
            "KIZAMI_BACKFILL_QUEUE_URL": self.backfill,
            "KIZAMI_DEAD_LETTER_QUEUE_URL": self.dead,
        }

    def store(self, records: Iterable[MetricRecord]) -> None:
        """Put records into the table, many at once."""
        store_records(self.endpoint, self.table, records)

    def bury(self, messages: Iterable[ScheduleMessage]) -> None:
        """Make messages dead letters."""
        for message in messages:
            self.sqs.send_message(QueueUrl=self.dead, MessageBody=write_message(message))

    def bodies(self, url: str) -> list[str]:
        """What is on a queue; it is hidden from then on."""
        found = []
        while messages := self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            found += [message["Body"] for message in messages]
        return found


def store_records(endpoint: str, table: str, records: Iterable[MetricRecord]) -> None:
    """Put records into a table, many at once."""
    put_items(endpoint, table, map(typed_record, records))
