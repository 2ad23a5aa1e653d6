"""What the functions find where they run: the simulator's clock, chance, threads, network and log."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
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


class MemoryOfContainer(MutableMapping[str, Any]):
    """A dictionary of a module, of which each container has its own."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _found(self) -> dict[str, Any]:
        container = CURRENT.get(None)
        return {} if container is None else getattr(container, self._name)  # a verb remembers nothing

    def __getitem__(self, key: str) -> Any:
        return self._found()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._found()[key] = value

    def __delitem__(self, key: str) -> None:
        del self._found()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())


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
    timeline: Timeline,
    chance: random.Random,
    network: SimulatedNetwork,
    log: LogStream,
    settings: Mapping[str, object],
) -> Iterator[None]:
    """The functions are in the simulator's world as long as this lasts; `settings` are constants to replace."""

    async def exchange_on_loop(client: object, request: HttpRequest) -> Any:
        return await network.exchange_on_loop(request)

    def map_in_threads(call: Callable[[Any], Any], items: Iterable[Any], at_once: int) -> Iterator[Any]:
        container = CURRENT.get(None)
        return map(call, items) if container is None else container.map_in_threads(call, items, at_once)

    def sleep(seconds: float) -> None:
        """Only functions sleep: while a verb runs the world stands still."""
        if container := CURRENT.get(None):
            container.pause(seconds)

    start = timeline.now
    places: dict[str, Any] = {
        "kizami.aws.client.machine.now": lambda: _EPOCH + timedelta(microseconds=timeline.now),
        "kizami.aws.client.machine.monotonic": lambda: (timeline.now - start) / SECOND,
        "kizami.aws.client.machine.sleep": sleep,
        "kizami.aws.client.machine.chance": chance.random,
        "kizami.aws.client.machine.new_id": lambda: f"{chance.getrandbits(128):032x}",
        "kizami.aws.client.machine.lock": lambda: SimulatedMutex(timeline, lambda: 0.0),
        "kizami.aws.client.machine.map_in_threads": map_in_threads,
        "kizami.aws.client.http_client.HttpClient.exchange": lambda client, request: network.exchange(request),
        "kizami.aws.client.loop_client.LoopClient.exchange": exchange_on_loop,
        "kizami.aws.client.secrets._kept": SecretsOfContainer(),
        "kizami.aws.collect._BUNDLES": MemoryOfContainer("bundles"),
        "kizami.aws.bundle_list._PLANS": MemoryOfContainer("plans"),
        "kizami.aws.alerts.failure_notes.noted_at": lambda table: CURRENT.get().noted[table],
        "kizami.aws.incidents.PART_BYTES": 150,  # so that incidents of a few targets have parts, too
        "kizami.aws.ask_many.event_loop": lambda: CURRENT.get().loop,
    }
    with ExitStack() as stack:
        for place, thing in (*places.items(), *settings.items()):
            stack.enter_context(patch(place, thing))
        stack.enter_context(patch.dict(os.environ))
        stack.enter_context(patch.object(sys, "stderr", log))
        yield
