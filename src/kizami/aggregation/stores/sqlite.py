"""The batch's stores on one machine: companies' locks and users' points, in the same SQLite file as all else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import apsw

from kizami.aggregation.lock import Lock
from kizami.aggregation.points import GrantOutcome, PointDay, UserPoints
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.errors import StoreError
from kizami.local.store.database import sqlite_errors, transaction

GRANT = """
INSERT INTO points (company_id, month, user_number, points, updated_at) VALUES (?1, ?2, ?3, 1, ?4)
ON CONFLICT DO UPDATE SET points = points + 1, updated_at = excluded.updated_at WHERE updated_at < ?5
"""

_TOTALS = """
SELECT company_id, max(locked_at), sum(users), sum(points) FROM (
    SELECT company_id, locked_at, 0 AS users, 0 AS points FROM companies
    UNION ALL SELECT company_id, NULL, count(*), sum(points) FROM points WHERE month = ? GROUP BY company_id
) GROUP BY company_id ORDER BY company_id
"""


class SqliteLockStore:
    """`ports.LockStore` on a database file; several, also in several processes, may work at once."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def read(self, company_id: str) -> Lock | None:
        with sqlite_errors(StoreError, self._path):
            return self._read(company_id)

    def acquire(self, company_id: str, seen: Lock | None, lock: Lock) -> Lock | None:
        row = (company_id, to_seconds(lock.locked_at), lock.owner, lock.run)
        with sqlite_errors(StoreError, self._path), transaction(self._connection):
            if self._read(company_id) == seen:
                self._connection.execute("INSERT OR REPLACE INTO companies VALUES (?, ?, ?, ?)", row)
            return self._read(company_id)

    def release(self, company_id: str, lock: Lock) -> Lock | None:
        deletion = "DELETE FROM companies WHERE company_id = ? AND run = ?"
        with sqlite_errors(StoreError, self._path), transaction(self._connection):
            self._connection.execute(deletion, (company_id, lock.run))
            return self._read(company_id)

    def _read(self, company_id: str) -> Lock | None:
        query = "SELECT locked_at, owner, run FROM companies WHERE company_id = ?"
        row = self._connection.execute(query, (company_id,)).fetchone()
        return Lock(from_seconds(row[0]), row[1], row[2]) if row else None


def company_totals(connection: apsw.Connection, month: str) -> dict[str, tuple[datetime | None, int, int]]:
    """Every company with a lock or points in the month: since when it is locked, its users and their points."""
    rows = connection.execute(_TOTALS, (month,))
    return {
        company_id: (None if locked is None else from_seconds(locked), users, points)
        for company_id, locked, users, points in rows
    }


class SqlitePointStore:
    """`ports.PointStore` on a database file; the users given at once are one transaction."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def grant(
        self, company_id: str, user_numbers: Sequence[str], day: PointDay
    ) -> Sequence[GrantOutcome | StoreError]:
        try:
            with sqlite_errors(StoreError, self._path), transaction(self._connection):
                return [self._grant_one(company_id, user_number, day) for user_number in user_numbers]
        except StoreError as error:
            return [error] * len(user_numbers)

    def _grant_one(self, company_id: str, user_number: str, day: PointDay) -> GrantOutcome:
        self._connection.execute(GRANT, (company_id, day.month, user_number, day.now, day.start))
        return GrantOutcome.GRANTED if self._connection.changes() else GrantOutcome.ALREADY_GRANTED

    def points(self, company_id: str, month: str) -> Iterator[UserPoints]:
        query = (
            "SELECT user_number, month, points, updated_at FROM points "
            "WHERE company_id = ? AND month = ? ORDER BY user_number"
        )
        with sqlite_errors(StoreError, self._path):
            for row in self._connection.execute(query, (company_id, month)):
                yield UserPoints(*row)
