"""Targets whose records are not kept for ever, with an hour of each that is closed, on an AWS in memory."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from sys import intern
from typing import Any
from unittest.mock import patch

from aws_here.bundled import write_pieces
from aws_here.healing import PERIOD, QUEUES, RECONCILER_SECONDS, Healing
from aws_here.memory_aws import Invocation, MemoryAws, MemoryTable, led_to
from kizami.aws import reconciler
from kizami.aws.bundles.files import packaged_bundles
from kizami.aws.client.json_client import Fields
from kizami.aws.history.hour_totals import PARTITIONS
from kizami.aws.history.keeping import HOUR, SPARE_SECONDS, hour_of
from kizami.core.slots import floor_to_slot, format_instant, parse_instant, slots_between

KEEP_DAYS = 2
LONG_AGO = datetime(2025, 12, 2, tzinfo=UTC)


@dataclass
class EvenRecords(MemoryTable):
    """A metric table in which every metric counts 7 in every slot since the first; what else is put is kept."""

    first: datetime = LONG_AGO
    interval: int = 5

    def query(self, request: Fields) -> Fields:
        values = request["ExpressionAttributeValues"]
        metric = values.get(":metric", values.get(":partition"))["S"]
        if metric.startswith("#"):
            return super().query(request)
        since = parse_instant(values[":first"]["S"]) if ":first" in values else self.first
        if request.get("Limit") == 1:
            return {"Items": [self._record(metric, max(since, self.first))]}
        answer: Fields = json.loads(self._page(values[":first"]["S"], values[":last"]["S"]))
        return answer

    def _record(self, metric: str, slot: datetime) -> Fields:
        at, kept = {"S": format_instant(slot)}, HOUR + KEEP_DAYS * 86_400 + SPARE_SECONDS
        expires = {"N": str(int(hour_of(slot).timestamp()) + kept)}
        return {
            "metricName": {"S": metric},
            "slotTime": at,
            "count": {"N": "7"},
            "collectedAt": at,
            "expiresAt": expires,
        }

    @lru_cache(maxsize=64)  # noqa: B019 -- one table lives as long as its test
    def _page(self, first: str, last: str) -> bytes:
        """The slots of an hour, as DynamoDB sends them: what is read of them is the function's own work."""
        slots = slots_between(parse_instant(first), parse_instant(last) + timedelta(seconds=1), self.interval)
        items = [{"slotTime": {"S": format_instant(slot)}, "count": {"N": "7"}} for slot in slots]
        return json.dumps({"Items": items, "Count": len(items)}).encode()

    def __hash__(self) -> int:
        return id(self)


class ClosedHours:
    """A deployment of so many targets in which so many hours of each can be totalled, and nothing is missing."""

    def __init__(self, targets: int, folder: Path, interval: int = 5, hours: int = 1) -> None:
        table = f'[[targets]]\nname = "{{0}}"\nurl = "http://api.example/{{0}}"\ninterval = "{interval}s"\n'
        table += 'path = "/response_count?from={{from}}&to={{to}}"\n'
        text = f'keep = "{KEEP_DAYS}d"\n' + "\n".join(map(table.format, Healing.names_of(targets)))
        write_pieces(text, folder)
        self._environment = {
            "LAMBDA_TASK_ROOT": str(folder),
            "KIZAMI_BUNDLES": "bundles",
            "AI_METRICS_TABLE_NAME": "Metrics",
            "KIZAMI_LEDGER_TABLE_NAME": "Ticks",
            "QUEUE_URL": f"{QUEUES}/backfill",
        }
        self.now = floor_to_slot(datetime.now(UTC), HOUR) + timedelta(minutes=5)
        self.seconds: list[float] = []  # of CPU, for each run
        self.in_time: list[bool] = []
        first = hour_of(self.now) - timedelta(days=KEEP_DAYS, hours=1 + hours)
        records = EvenRecords("metricName", "slotTime", first=first, interval=interval)
        self.aws = MemoryAws(
            {"Metrics": records, "Ticks": MemoryTable("bundle", "tick", self._whole(folder, interval))}
        )

    def _whole(self, folder: Path, interval: int) -> dict[str, dict[str, Any]]:
        since, until = self.now - timedelta(hours=4), self.now + timedelta(hours=1)
        ticks = [intern(format_instant(slot)) for slot in slots_between(since, until, interval)]
        nobody: Fields = {}  # is lacking
        return {
            bundle.name: dict.fromkeys(ticks, nobody) for bundle in packaged_bundles(str(folder / "bundles")).all()
        }

    @property
    def totals(self) -> dict[str, int]:
        """How many hours of each metric have totals."""
        items = self.aws.tables["Metrics"].items
        return {
            name.removeprefix(PARTITIONS): len(held) for name, held in items.items() if name.startswith(PARTITIONS)
        }

    def run(self) -> int:
        """Let the rule fire once; how many totals that made."""
        before = sum(self.totals.values())
        packaged_bundles.cache_clear()
        now = self.now + len(self.seconds) * PERIOD
        started, invocation = time.process_time(), Invocation(RECONCILER_SECONDS)
        at_that_time = patch("kizami.aws.client.machine.now", lambda: now)
        with patch.dict(os.environ, self._environment), led_to(self.aws), at_that_time:
            reconciler.handler({}, invocation)
        self.seconds.append(time.process_time() - started)
        self.in_time.append(invocation.get_remaining_time_in_millis() > 0)
        return sum(self.totals.values()) - before
