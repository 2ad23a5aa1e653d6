"""Records of a delivery on their way into the table: those that arrive together are written together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kizami.aws.client.side_by_side import in_thread
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.record_batches import MOST_AT_ONCE, Outcome, RecordBatches
from kizami.core.errors import StoreError
from kizami.core.messages import MetricRecord
from kizami.core.ports import PutOutcome

GATHER_SECONDS = 0.03  # so long a record waits for others: a slow API keeps no other's answer from the table

_Waiting = tuple[MetricRecord, "asyncio.Future[Outcome]"]


class GatheringWriter:
    """Takes records one by one and writes 25 a call, on the loop of its invocation."""

    def __init__(self, batches: RecordBatches, store: DynamoDbMetricStore) -> None:
        self._batches = batches
        self._store = store
        self._waiting: list[_Waiting] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def put(self, records: list[MetricRecord]) -> PutOutcome:
        """Store the records of one answer; DUPLICATE if all were there. StoreError."""
        if len(records) > 1:  # several values stand or fall together
            outcomes: Sequence[Outcome] = await in_thread(lambda: self._store.put_all_if_absent(records))
        else:
            outcomes = [await self._gather(records[0])]
        for outcome in outcomes:
            if isinstance(outcome, StoreError):
                raise outcome
        return PutOutcome.STORED if PutOutcome.STORED in outcomes else PutOutcome.DUPLICATE

    def _gather(self, record: MetricRecord) -> asyncio.Future[Outcome]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()
        self._waiting.append((record, future))
        if len(self._waiting) == 1:
            loop.call_later(GATHER_SECONDS, self._write_waiting)
        if len(self._waiting) == MOST_AT_ONCE:
            self._write_waiting()
        return future

    def _write_waiting(self) -> None:
        batch, self._waiting = self._waiting, []
        if batch:  # a full batch has left before its time was over
            task = asyncio.get_running_loop().create_task(self._write(batch))
            self._tasks.add(task)  # a loop holds no task that nobody holds
            task.add_done_callback(self._tasks.discard)

    async def _write(self, batch: list[_Waiting]) -> None:
        try:
            outcomes = await in_thread(lambda: self._batches.put([record for record, _ in batch]))
        except Exception as error:  # noqa: BLE001 -- whoever waits raises it
            for _, future in batch:
                future.set_exception(error)
        else:
            for (_, future), outcome in zip(batch, outcomes, strict=True):
                future.set_result(outcome)
