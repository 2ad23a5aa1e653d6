"""What the functions find where they run: the simulator's clock, chance, threads, network and log."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

from kizami.aws.client.http_client import HttpRequest
from kizami.aws.client.secrets import _Secret
from simulation.aws_world.containers import CURRENT
from simulation.aws_world.network import SimulatedNetwork
from simulation.world.threads import SimulatedMutex
from simulation.world.timeline import SECOND, Timeline
from simulation.world.trace import Trace

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_TRACED = (
    "timestamp",
    "stackTrace",
    "_aws",
    "requestId",
)  # the real clock, places in files, who was last called


class LogStream:
    """Takes each line as the functions write it."""

    def __init__(self, trace: Trace, check: Callable[[str], None]) -> None:
        self._trace = trace
        self._check = check

    def write(self, text: str) -> int:
        if text.strip():
            self._check(text)
            fields = {name: value for name, value in json.loads(text).items() if name not in _NOT_TRACED}
            self._trace.add(f"log:{fields.pop('event', '')}", json.dumps(fields))
        return len(text)

    def flush(self) -> None:
        pass


class SecretsOfContainer:
    """The secrets that are kept, by each container for itself."""

    def __getitem__(self, reference: str) -> _Secret:
        return CURRENT.get().secrets[reference]

    def __contains__(self, reference: str) -> bool:
        return reference in CURRENT.get().secrets

    def pop(self, reference: str, default: Any = None) -> Any:
        return CURRENT.get().secrets.pop(reference, default)


@contextmanager
def surroundings(
    timeline: Timeline, chance: random.Random, network: SimulatedNetwork, log: LogStream
) -> Iterator[None]:
    """The functions are in the simulator's world as long as this lasts."""

    async def exchange_on_loop(client: object, request: HttpRequest) -> Any:
        return await network.exchange_on_loop(request)

    def map_in_threads(call: Callable[[Any], Any], items: Iterable[Any], at_once: int) -> Iterator[Any]:
        container = CURRENT.get(None)
        return map(call, items) if container is None else container.map_in_threads(call, items, at_once)

    start = timeline.now
    places: dict[str, Any] = {
        "kizami.aws.client.machine.now": lambda: _EPOCH + timedelta(microseconds=timeline.now),
        "kizami.aws.client.machine.monotonic": lambda: (timeline.now - start) / SECOND,
        "kizami.aws.client.machine.sleep": lambda seconds: CURRENT.get().pause(seconds),
        "kizami.aws.client.machine.chance": chance.random,
        "kizami.aws.client.machine.new_id": lambda: f"{chance.getrandbits(128):032x}",
        "kizami.aws.client.machine.lock": lambda: SimulatedMutex(timeline, lambda: 0.0),
        "kizami.aws.client.machine.map_in_threads": map_in_threads,
        "kizami.aws.client.http_client.HttpClient.exchange": lambda client, request: network.exchange(request),
        "kizami.aws.client.loop_client.LoopClient.exchange": exchange_on_loop,
        "kizami.aws.client.secrets._kept": SecretsOfContainer(),
        "kizami.aws.store.block_guard.memory_of": lambda table: CURRENT.get().memories[table],
        "kizami.aws.alerts.failure_notes.noted_at": lambda table: CURRENT.get().noted[table],
        "kizami.aws.incidents.PART_BYTES": 150,  # so that incidents of a few targets have parts, too
        "kizami.aws.bundles.collecting.event_loop": lambda: CURRENT.get().loop,
    }
    with ExitStack() as stack:
        for place, thing in places.items():
            stack.enter_context(patch(place, thing))
        stack.enter_context(patch.dict(os.environ))
        stack.enter_context(patch.object(sys, "stderr", log))
        yield
