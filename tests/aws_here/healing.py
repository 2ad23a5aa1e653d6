"""Targets whose ledger lacks a minute, and the functions that fill it in, on an AWS in memory."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from sys import intern
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit

from aws_here.bundled import write_pieces
from aws_here.memory_aws import Invocation, MemoryAws, MemoryTable, led_to, work_off
from kizami.aws import collector, reconciler
from kizami.aws.bundles.files import packaged_bundles
from kizami.aws.client.json_client import Fields
from kizami.aws.store.block_guard import memory_of
from kizami.core.collector import Request, Response
from kizami.core.errors import KizamiError
from kizami.core.slots import floor_to_slot, format_instant, slots_between
from kizami.core.targets.target import Target

COLLECTOR_SECONDS, RECONCILER_SECONDS = 30, 120  # as the stack gives them
PERIOD = timedelta(minutes=5)
QUEUES = "https://sqs.us-east-1.amazonaws.com/123456789012"


class Healing:
    """A deployment of so many targets that missed the minute of forty minutes ago, and no other for four hours."""

    def __init__(self, targets: int, folder: Path, interval: int = 5, limit: int = 1000) -> None:
        self.names = self.names_of(targets)
        table = f'[[targets]]\nname = "{{0}}"\nurl = "http://api.example/{{0}}"\ninterval = "{interval}s"\n'
        table += 'path = "/response_count?from={{from}}&to={{to}}"\n'
        write_pieces("\n".join(map(table.format, self.names)), folder)
        self._environment = {
            "LAMBDA_TASK_ROOT": str(folder),
            "KIZAMI_BUNDLES": "bundles",
            "AI_METRICS_TABLE_NAME": "Metrics",
            "KIZAMI_LEDGER_TABLE_NAME": "Ticks",
            "QUEUE_URL": f"{QUEUES}/backfill",
            "KIZAMI_BACKFILL_QUEUE_URL": f"{QUEUES}/backfill",
            "KIZAMI_DEAD_LETTER_QUEUE_URL": f"{QUEUES}/dead",
            "KIZAMI_RECONCILE_LIMIT": str(limit),
        }
        self.now = datetime.now(UTC)
        self.reconciler_seconds: list[float] = []  # of CPU
        missed = floor_to_slot(self.now - timedelta(minutes=40), 60)
        self._missed = [
            format_instant(slot) for slot in slots_between(missed, missed + timedelta(minutes=1), interval)
        ]
        since, until = (floor_to_slot(self.now + timedelta(hours=hours), 60) for hours in (-4, 2))
        ticks = [intern(format_instant(slot)) for slot in slots_between(since, until, interval)]
        noted = [tick for tick in ticks if tick not in self._missed]
        bundles = packaged_bundles(str(folder / "bundles")).all()
        nobody: Fields = {}  # is lacking; one for all, for nobody changes it
        whole = {bundle.name: dict.fromkeys(noted, nobody) for bundle in bundles}
        self._records = MemoryTable("metricName", "slotTime", is_lean=True)
        self.aws = MemoryAws({"Metrics": self._records, "Ticks": MemoryTable("bundle", "tick", whole)})

    @staticmethod
    def names_of(targets: int) -> list[str]:
        return [f"m{number:06d}" for number in range(targets)]

    def wanted(self) -> set[tuple[str, str]]:
        return {(name, slot) for slot in self._missed for name in self.names}

    def stored(self) -> set[tuple[str, str]]:
        return {(name, slot) for name, held in self._records.items.items() for slot in held}

    def heal(self, most_runs: int) -> int:
        """Let the rule fire until the ledger is whole; how many runs that took."""
        memory_of.cache_clear()
        packaged_bundles.cache_clear()
        with patch.dict(os.environ, self._environment), led_to(self.aws), answering():
            for run in range(most_runs):
                self._reconcile(run)
                work_off(self.aws, "backfill", collector.handler, COLLECTOR_SECONDS)
                if self._is_whole():
                    return run + 1
        return most_runs

    def _reconcile(self, run: int) -> None:
        started, invocation = time.process_time(), Invocation(RECONCILER_SECONDS)
        now = self.now + run * PERIOD
        with patch("kizami.aws.client.machine.now", lambda: now), suppress(KizamiError):
            reconciler.handler({}, invocation)  # one that fails leaves it to the next
        self.reconciler_seconds.append(time.process_time() - started)
        assert invocation.get_remaining_time_in_millis() > 0, "the reconciler took too long"

    def _is_whole(self) -> bool:
        ticks = self.aws.tables["Ticks"].items.values()
        return all("lacking" not in held.get(slot, {"lacking": ""}) for held in ticks for slot in self._missed)


@contextmanager
def answering() -> Iterator[None]:
    """An API that counts 7 in every window."""

    async def fetch(request: Request, seconds_left: float, target: Target) -> Response:
        await asyncio.sleep(0)
        asked = parse_qs(urlsplit(request.url).query)
        body = f'{{"from": "{asked["from"][0]}", "to": "{asked["to"][0]}", "count": 7}}'
        return Response(200, body.encode())

    with patch("kizami.aws.bundles.asking.fetch_beside", fetch):
        yield
