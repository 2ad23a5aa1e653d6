"""The batch's stores in memory, a users API that answers as it is told, and a capture of the coded log."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from kizami.aggregation.batch import Batch, RunContext
from kizami.aggregation.lock import Lock
from kizami.aggregation.messages import AggregationMessage
from kizami.aggregation.points import GrantOutcome, PointDay, UserPoints
from kizami.aggregation.signing import ApiKey
from kizami.core.collector import Request, Response
from kizami.core.errors import StoreError
from kizami.core.logs import JsonFormatter

TOKYO = ZoneInfo("Asia/Tokyo")
NOON = datetime(2025, 12, 2, 3, 0, 0, tzinfo=UTC)  # noon in Tokyo
TODAY = int(NOON.timestamp()) - 60
YESTERDAY = TODAY - 86_400


class MemoryLockStore:
    """The LockStore contract on a dictionary; `trap` is called before each operation and may raise."""

    def __init__(self) -> None:
        self.locks: dict[str, Lock] = {}
        self.trap: Callable[[str], None] = lambda operation: None
        self._mutex = threading.Lock()

    def read(self, company_id: str) -> Lock | None:
        self.trap("read")
        return self.locks.get(company_id)

    def acquire(self, company_id: str, seen: Lock | None, lock: Lock) -> Lock | None:
        self.trap("acquire")
        with self._mutex:
            if self.locks.get(company_id) == seen:
                self.locks[company_id] = lock
            return self.locks.get(company_id)

    def release(self, company_id: str, lock: Lock) -> Lock | None:
        self.trap("release")
        with self._mutex:
            standing = self.locks.get(company_id)
            if standing is not None and standing.run == lock.run:
                del self.locks[company_id]
            return self.locks.get(company_id)


class MemoryPointStore:
    """The PointStore contract on a dictionary; the users in `failing` get a StoreError each."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, str, str], tuple[int, int]] = {}
        self.failing: set[str] = set()
        self.trap: Callable[[], None] = lambda: None
        self._mutex = threading.Lock()

    def grant(
        self, company_id: str, user_numbers: Sequence[str], day: PointDay
    ) -> list[GrantOutcome | StoreError]:
        self.trap()
        return [self._grant((company_id, user, day.month), day) for user in user_numbers]

    def _grant(self, key: tuple[str, str, str], day: PointDay) -> GrantOutcome | StoreError:
        if key[1] in self.failing:
            return StoreError("UpdateItem: the table is out of reach")
        with self._mutex:
            points, updated_at = self.items.get(key, (0, -1))
            if updated_at >= day.start:
                return GrantOutcome.ALREADY_GRANTED
            self.items[key] = (points + 1, day.now)
            return GrantOutcome.GRANTED

    def points(self, company_id: str, month: str) -> Iterator[UserPoints]:
        for (company, user, item_month), (points, updated_at) in sorted(self.items.items()):
            if (company, item_month) == (company_id, month):
                yield UserPoints(user, month, points, updated_at)


class ScriptedUsersApi:
    """Answers `users`, unless `answer` is replaced; keeps what it was asked."""

    def __init__(self, *users: Any) -> None:
        self.requests: list[Request] = []
        self.answer: Callable[[Request], Response] = lambda request: Response(
            200, json.dumps({"users": list(users)}).encode()
        )

    def get(self, request: Request) -> Response:
        self.requests.append(request)
        return self.answer(request)


def user(number: object, event_timestamp: object) -> dict[str, Any]:
    """A user as the API lists it."""
    return {"user_number": number, "event_timestamp": event_timestamp}


@dataclass(frozen=True, slots=True)
class FakedBatch(Batch):
    """A batch whose stores and API a test can set and look into."""

    locks: MemoryLockStore
    points: MemoryPointStore
    api: ScriptedUsersApi


def make_batch(*users: Any, **parts: Any) -> FakedBatch:
    """A batch on stores in memory, for noon in Tokyo; `parts` replaces any of them."""
    given: dict[str, Any] = {
        "locks": MemoryLockStore(),
        "points": MemoryPointStore(),
        "api": ScriptedUsersApi(*users),
        "look_up_key": lambda reference: ApiKey(f"key-kept-at-{reference.name}"),
        "base_url": "https://users.example.com/v1",
        "zone": TOKYO,
    }
    return FakedBatch(**(given | parts))


def message(company_id: str = "acme", key: str = "a-plain-key-value") -> AggregationMessage:
    return AggregationMessage(company_id, ApiKey(key))


def delivery(message_id: str = "m1", run_id: str = "r1", now: datetime = NOON, **rest: Any) -> RunContext:
    return RunContext(message_id, run_id, now, **rest)


class CodedLines(logging.Handler):
    """The lines of the batch's log, as records and as the JSON that is written."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Any] = []  # with what each line carries beside its words

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def messages(self) -> list[str]:
        return [record.getMessage() for record in self.records]

    @property
    def codes(self) -> list[str]:
        return [message.split(" ")[0].removeprefix("AGGREGATION-") for message in self.messages]

    @property
    def text(self) -> str:
        """Everything that would be written: as JSON lines, and by a plain formatter with its stack traces."""
        formatters = (JsonFormatter(), logging.Formatter("%(message)s %(args)s %(code)s"))
        return "\n".join(formatter.format(record) for record in self.records for formatter in formatters)

    def of(self, code: str) -> Any:
        """The one line with that code."""
        (record,) = [record for record in self.records if record.getMessage().startswith(f"AGGREGATION-{code} ")]
        return record


@contextmanager
def coded_lines() -> Iterator[CodedLines]:
    """Capture the batch's log, whatever other tests did to the loggers above it."""
    logger = logging.getLogger("kizami.aggregation.batch")
    lines, level = CodedLines(), logger.level
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.removeHandler(lines)
        logger.setLevel(level)
