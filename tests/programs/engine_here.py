"""The engine in this process, with a clock that can be turned."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fakes.fault_server import FaultServer
from kizami.core.blocking import Trouble
from kizami.core.config import Config
from kizami.core.coverage import Span, find_gaps
from kizami.core.slots import floor_to_slot, parse_instant
from kizami.core.targets.hosts import RequestLimit
from kizami.core.targets.target import Target
from kizami.local.engine.loop import Engine, StoredRecord
from kizami.local.engine.options import Options
from kizami.local.http.target_access import TargetAccess
from kizami.local.store.reader import Reader
from kizami.platform.clock import SystemClock


class TurnableClock:
    """The machine's clock, and what somebody has turned it by."""

    def __init__(self) -> None:
        self._turned = timedelta(0)
        self._to_be_turned: tuple[str, timedelta] | None = None

    def turn(self, by: timedelta) -> None:
        self._turned += by

    def turn_for(self, thread: str, by: timedelta) -> None:
        """Turn it in the moment in which that thread looks."""
        self._to_be_turned = thread, by

    def now(self) -> datetime:
        return datetime.now(UTC) + self._turned

    def milliseconds(self) -> float:
        if self._to_be_turned and self._to_be_turned[0] == threading.current_thread().name:
            self.turn(self._to_be_turned[1])
            self._to_be_turned = None
        return SystemClock().milliseconds() + self._turned.total_seconds() * 1000


def turn_to_before_a_tick(clock: TurnableClock) -> None:
    """Let the next slot of ten seconds begin in a second; who starts too late for it waits for another."""
    now = clock.now()
    clock.turn(timedelta(seconds=9) - timedelta(seconds=now.second % 10, microseconds=now.microsecond))


@contextmanager
def running(
    path: Path,
    *targets: Target,
    options: Options | None = None,
    clock: TurnableClock | None = None,
    new_config: Callable[[], Config | None] = lambda: None,
    limits: tuple[RequestLimit, ...] = (),
) -> Iterator[list[StoredRecord]]:
    """An engine at work on these targets; gives the records that it says are stored."""
    shown: list[StoredRecord] = []
    engine = Engine(path, options or Options(), clock or TurnableClock(), shown.extend, new_config)
    failures: list[BaseException] = []
    early = note_early_requests(engine)

    def run() -> None:
        try:
            engine.run(Config(targets, hosts=limits))
        except BaseException as error:  # noqa: BLE001  it is raised again below
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield shown
    finally:
        engine.stop()
        thread.join()
    assert not failures, failures
    assert not early, early


def note_early_requests(engine: Engine) -> list[str]:
    """The requests that leave before their slot's moment, by the engine's clock: in no test may there be one."""
    early: list[str] = []
    start = engine._requester.start

    def watched(url: str, access: TargetAccess, poll: Any, body: bytes | None) -> None:
        begins = parse_instant(parse_qs(urlsplit(url).query)["from"][0])
        moment = begins + timedelta(seconds=poll.active.target.lag_seconds)
        if poll.asked_ms < moment.timestamp() * 1000:
            early.append(url)
        start(url, access, poll, body)

    engine._requester.start = watched  # type: ignore[method-assign,assignment]
    return early


def every_second(server: FaultServer | str, name: str = "calls", **settings: object) -> Target:
    url = server if isinstance(server, str) else server.url
    given = {"interval_seconds": 1, "lag_seconds": 1, "timeout_seconds": 60.0} | settings
    return Target(name=name, url=url, **given)  # type: ignore[arg-type]


def asked(server: FaultServer) -> Counter[datetime]:
    return Counter(parse_instant(request.query["from"][0]) for request in server.requests)


def blocks(path: Path) -> dict[str, Trouble]:
    with Reader.opened(path) as reader:
        return reader.blocked()


def complete(path: Path, start: datetime, end: datetime, interval: int = 1, name: str = "calls") -> bool:
    first = floor_to_slot(start, interval)
    with Reader.opened(path) as reader:
        stored = (record.slot for record in reader.records(name, first, end))
        return not list(find_gaps(Span(first, end, interval), stored))
