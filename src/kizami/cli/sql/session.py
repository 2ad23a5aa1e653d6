"""A connection on which a backend is asked in SQL: to no file, with tables that only read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import apsw

from kizami.backend.port import Backend
from kizami.backend.times.durations import read_duration
from kizami.cli.sql.list_tables import (
    DEAD_LETTERS,
    METRICS,
    QUEUE,
    ListModule,
    dead_letter_rows,
    metric_rows,
    queue_rows,
)
from kizami.cli.sql.records_table import COLUMNS, RecordsModule
from kizami.core.errors import InvalidInput
from kizami.core.ports import Clock
from kizami.core.slots import format_second, shift, shorten
from kizami.local.store.database import open_nowhere

TABLES = {"records": COLUMNS, "metrics": METRICS, "queue": QUEUE, "dead_letters": DEAD_LETTERS}
_PLACE = "SQL"
_LONGEST_PROBLEM = 200
_INSTRUCTIONS = 10_000  # of SQLite's, between two looks at whether Ctrl-C was pressed
_ALLOWED = {
    apsw.SQLITE_SELECT,
    apsw.SQLITE_READ,
    apsw.SQLITE_FUNCTION,
    apsw.SQLITE_RECURSIVE,
}
_ONLY_READS = "kizami sql only reads; write a SELECT"


@dataclass(frozen=True, slots=True)
class ResultSet:
    """What a statement gives: the names of its columns, and its rows as they are asked for."""

    columns: Sequence[str]
    rows: Iterator[tuple[Any, ...]]


class SqlSession:
    """Asks a backend in SQL. InvalidInput for whatever is wrong with a statement, with the place in it."""

    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._connection = open_nowhere()
        # What apsw calls a table has many methods that may be left out, which a protocol cannot say.
        make: Any = partial(
            self._connection.create_module,
            use_bestindex_object=True,
            eponymous=True,
            eponymous_only=True,
            read_only=True,
        )
        make("records", RecordsModule(backend))
        make("metrics", ListModule(METRICS, lambda: metric_rows(backend)))
        make("queue", ListModule(QUEUE, lambda: queue_rows(backend)))
        make("dead_letters", ListModule(DEAD_LETTERS, lambda: dead_letter_rows(backend)))
        # Deterministic, as far as one statement goes: it is then computed once and not for each row.
        ago: Any = partial(_ago, clock)
        self._connection.create_scalar_function("ago", ago, 1, deterministic=True)
        for table in TABLES:  # which makes them known; from then on nothing may be made
            self._connection.execute(f"SELECT 1 FROM {table} WHERE 0").fetchall()
        self._connection.authorizer = _authorize
        self._connection.set_progress_handler(lambda: False, _INSTRUCTIONS)

    def ask(self, statement: str) -> ResultSet:
        """What one statement gives."""
        _require_text(statement)
        cursor = self._connection.cursor()
        cursor.exec_trace = _OneStatement()
        with _explained(statement):
            cursor.execute(statement)
            with suppress(apsw.ExecutionCompleteError):  # that is: no row
                names = [name for name, _ in cursor.get_description()]
                return ResultSet(names, _explained_rows(cursor, statement))
        return ResultSet(self._columns_of(statement), iter(()))

    def _columns_of(self, statement: str) -> list[str]:
        """The names of the columns of a statement that gives no row."""
        found: list[str] = []

        def look(cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
            found.extend(name for name, _ in cursor.get_description())
            return False

        cursor = self._connection.cursor()
        cursor.exec_trace = look
        with suppress(apsw.ExecTraceAbort):
            cursor.execute(statement)
        return found

    def close(self) -> None:
        self._connection.close()


class _OneStatement:
    """Stops at the second statement: of several, it would not be clear what is shown."""

    def __init__(self) -> None:
        self._seen = 0

    def __call__(self, cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        self._seen += 1
        if self._seen > 1:
            raise InvalidInput(_PLACE, f"one statement at a time; leave out {shorten(sql.strip())}")
        return True


def _require_text(statement: str) -> None:
    """An argument of the command may be any bytes, a line of a file too."""
    if "\0" in statement or any("\ud800" <= character <= "\udfff" for character in statement):
        raise InvalidInput(_PLACE, "has bytes that are no text in UTF-8")


def _authorize(kind: int, *about: str | None) -> int:
    return apsw.SQLITE_OK if kind in _ALLOWED else apsw.SQLITE_DENY


def _ago(clock: Clock, text: object) -> str:
    """The moment so long ago, as slots are written."""
    return format_second(shift(clock.now(), -read_duration(str(text), "ago")))


def _explained_rows(cursor: apsw.Cursor, statement: str) -> Iterator[tuple[Any, ...]]:
    with _explained(statement):
        yield from cursor


@contextmanager
def _explained(statement: str) -> Iterator[None]:
    try:
        yield
    except apsw.AuthError:
        raise InvalidInput(_PLACE, _ONLY_READS) from None
    except apsw.BindingsError:
        raise InvalidInput(_PLACE, "has a ? or :name; write the value in its place") from None
    except apsw.Error as error:
        raise InvalidInput(_PLACE, _words(error, statement)) from None


def _words(error: apsw.Error, statement: str) -> str:
    """What SQLite says, and at which character; it counts bytes."""
    offset, problem = getattr(error, "error_offset", -1), _line(str(error))
    if problem.endswith("may not be modified"):
        return _ONLY_READS
    if offset < 0:
        return problem
    at = len(statement.encode()[:offset].decode("utf-8", "replace"))
    return f"{problem}, at character {at + 1}: {shorten(statement[at : at + 40])}"


def _line(problem: str) -> str:
    """What SQLite says on one line: it quotes what it does not understand, however long that is."""
    words = " ".join(problem.split())
    return words if len(words) <= _LONGEST_PROBLEM else words[: _LONGEST_PROBLEM - 1] + "…"
