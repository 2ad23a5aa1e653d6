"""The companies of a deployed aggregation batch: their locks and their points of the month, read now and then."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, tzinfo
from threading import Lock

from kizami.aggregation.points import point_day
from kizami.aggregation.stores.company_table import DynamoDbLockStore, list_companies
from kizami.aggregation.stores.points_table import DynamoDbPointStore
from kizami.backend.values import CompanyState

LOOK_SECONDS = 60.0
# Points are read user by user, which may take a while and is paid for: a fiftieth of the time at most.
REST_FOR_WORK = 50
_AT_ONCE = 8


class CompanyTables:
    """The tables `Company` and `Points`, and what they said last. For several threads."""

    def __init__(self, companies: str, points: str, zone: tzinfo) -> None:
        self._companies = companies
        self._locks = DynamoDbLockStore(companies)
        self._points = DynamoDbPointStore(points)
        self._zone = zone
        self._guard = Lock()
        self._states: list[CompanyState] = []
        self._next_look = 0.0

    def states(self, now: datetime) -> list[CompanyState]:
        """Every company, by id; as of the last look, a minute ago or more. StoreError."""
        with self._guard:
            began = time.monotonic()
            if began >= self._next_look:
                self._states = self._look(now)
                ended = time.monotonic()
                self._next_look = ended + max(LOOK_SECONDS, REST_FOR_WORK * (ended - began))
            return self._states

    def _look(self, now: datetime) -> list[CompanyState]:
        month = point_day(now, self._zone).month
        names = sorted(str(name) for name, _ in list_companies(self._companies))
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            return list(threads.map(lambda name: self._state(name, month), names))

    def _state(self, company_id: str, month: str) -> CompanyState:
        lock = self._locks.read(company_id)
        points = [user.points for user in self._points.points(company_id, month)]
        locked_since = lock.locked_at if lock else None
        return CompanyState(company_id, locked_since, f"{month[:4]}-{month[4:]}", len(points), sum(points))
