"""The table `records`: every stored slot of a backend as a row, read only as far as a statement asks for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apsw

from kizami.backend.columns import RecordColumns, whole_seconds
from kizami.backend.grid import stored_state
from kizami.backend.port import Backend
from kizami.backend.targets import ONE_MACHINE
from kizami.cli.sql.slot_bounds import FIRST, PAST_LAST, Comparison, slot_range
from kizami.core.answers.numbers import to_number
from kizami.core.epoch import InstantTexts, from_seconds

COLUMNS = (
    "metric TEXT",
    "slot TEXT",
    "count NUMERIC",
    "collected_at TEXT",
    "late_ms INTEGER",
    "attempts INTEGER",
    "backfilled INTEGER",
    "state TEXT",
    "units INTEGER HIDDEN",  # not among `*`: the exact count is so many units of so many decimal places
    "decimals INTEGER HIDDEN",
)
_METRIC, _SLOT = 0, 1
_DETAILS = {4, 5, 6, 7}  # the columns that need to know how a record came about

_OF_SLOT = {
    apsw.SQLITE_INDEX_CONSTRAINT_EQ: Comparison.EQUAL,
    apsw.SQLITE_INDEX_CONSTRAINT_GT: Comparison.GREATER,
    apsw.SQLITE_INDEX_CONSTRAINT_GE: Comparison.AT_LEAST,
    apsw.SQLITE_INDEX_CONSTRAINT_LT: Comparison.LESS,
    apsw.SQLITE_INDEX_CONSTRAINT_LE: Comparison.AT_MOST,
}
_OF_METRIC = {
    apsw.SQLITE_INDEX_CONSTRAINT_EQ: "is",
    apsw.SQLITE_INDEX_CONSTRAINT_GLOB: "glob",
    apsw.SQLITE_INDEX_CONSTRAINT_LIKE: "like",
}
_SLOT_BITS = (PAST_LAST - FIRST).bit_length()
_ALL_ROWS = 10_000_000  # a guess for SQLite's plan: what counts is that less is read of one metric or a range


class RecordsModule:
    """Makes the table, for `apsw.Connection.create_module`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def Connect(self, *about: Any) -> tuple[str, RecordsTable]:
        return f"CREATE TABLE records ({', '.join(COLUMNS)})", RecordsTable(self._backend)

    Create = Connect


class RecordsTable:
    """Tells SQLite which conditions it can use: on the metric, and on the slot."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._ordinals: dict[str, int] = {}

    def BestIndexObject(self, info: apsw.IndexInfo) -> bool:
        used = [*self._used(info)]
        for number, (constraint, _) in enumerate(used, 1):
            info.set_aConstraintUsage_argvIndex(constraint, number)
        conditions = [condition for _, condition in used]
        info.idxNum = int(bool(info.colUsed & _DETAILS))
        info.idxStr = json.dumps(conditions)
        info.estimatedRows = info.estimatedCost = _guess(conditions)
        info.orderByConsumed = _is_in_order(info, ["metric", "is"] in conditions)
        return True

    def _used(self, info: apsw.IndexInfo) -> Iterator[tuple[int, list[str]]]:
        for number in range(info.nConstraint):
            column, kind = info.get_aConstraint_iColumn(number), info.get_aConstraint_op(number)
            if not info.get_aConstraint_usable(number) or info.get_aConstraint_collation(number) != "BINARY":
                continue
            if column == _METRIC and kind in _OF_METRIC:
                yield number, ["metric", _OF_METRIC[kind]]
            elif column == _SLOT and kind in _OF_SLOT:
                yield number, ["slot", _OF_SLOT[kind].value]

    def Open(self) -> RecordsCursor:
        return RecordsCursor(self._backend, self._ordinals)

    def Disconnect(self) -> None:
        """Nothing is held."""

    Destroy = Disconnect


def _guess(conditions: Sequence[Sequence[str]]) -> int:
    rows = _ALL_ROWS
    for column, kind in conditions:
        rows //= 100 if (column, kind) == ("metric", "is") else 10
    return max(1, rows)


def _is_in_order(info: apsw.IndexInfo, is_of_one_metric: bool) -> bool:
    """Rows come metric by metric in the order of their names, and the oldest slot first."""
    wanted = [(info.get_aOrderBy_iColumn(n), info.get_aOrderBy_desc(n)) for n in range(info.nOrderBy)]
    in_order = [(_METRIC, False), (_SLOT, False)]
    return wanted == in_order[: len(wanted)] or (is_of_one_metric and wanted == in_order[1:])


class RecordsCursor:
    """Goes through the records, a piece at a time; of a piece only those columns are made that are asked for."""

    def __init__(self, backend: Backend, ordinals: dict[str, int]) -> None:
        self._backend = backend
        self._ordinals = ordinals
        self._texts = InstantTexts()
        self._makers: tuple[Callable[[RecordColumns], Sequence[Any]], ...] = (
            lambda piece: [piece.metric] * len(piece),
            self._slots,
            _counts,
            self._collected,
            lambda piece: piece.late_ms,
            lambda piece: piece.receives,
            lambda piece: piece.backfilled,
            self._states,
            lambda piece: piece.units,
            lambda piece: [piece.decimals] * len(piece),
        )

    def Filter(self, with_details: int, conditions: str, values: Sequence[Any]) -> None:
        found = [*zip(json.loads(conditions), values, strict=True)]
        bounds = slot_range((Comparison(kind), value) for (column, kind), value in found if column == "slot")
        chosen = [(kind, value) for (column, kind), value in found if column == "metric"]
        names = [name for name in sorted(self._backend.names()) if all(_may_be(name, *each) for each in chosen)]
        paces = {target.name: target.pace for target in self._backend.targets(names)} if with_details else {}
        self._late_after = {name: pace.late_after_ms for name, pace in paces.items()}
        self._pieces = self._read(names, *bounds, details=bool(with_details))
        self._load()

    def _read(self, names: list[str], first: int, past: int, *, details: bool) -> Iterator[RecordColumns]:
        if first < past:
            start, end = from_seconds(max(first, FIRST)), from_seconds(min(past, PAST_LAST - 1))
            for name in names:
                yield from self._backend.record_columns(name, start, end, details=details)

    def _load(self) -> None:
        self._piece = next(self._pieces, None)
        self._columns: dict[int, Sequence[Any]] = {}
        self._at = 0
        self._size = len(self._piece) if self._piece else 0

    def Eof(self) -> bool:
        return self._piece is None

    def Next(self) -> None:
        self._at += 1
        if self._at == self._size:
            self._load()

    def Column(self, number: int) -> Any:
        column = self._columns.get(number)
        if column is None:
            assert self._piece is not None
            column = self._columns[number] = self._makers[number](self._piece)
        return column[self._at]

    def Rowid(self) -> int:
        """The same for a record in every statement: where conditions are joined by OR, SQLite goes by it."""
        assert self._piece is not None
        ordinal = self._ordinals.setdefault(self._piece.metric, len(self._ordinals))
        return (ordinal << _SLOT_BITS) + self._piece.slots[self._at] - FIRST

    def Close(self) -> None:
        self._pieces = iter(())

    def _slots(self, piece: RecordColumns) -> list[str]:
        return [text.decode() for text in self._texts.of(piece.slots)]

    def _collected(self, piece: RecordColumns) -> list[str]:
        texts = self._texts.of(whole_seconds(piece.collected_ms))
        return [
            f"{text[:-1].decode()}.{ms % 1000:03}Z" for text, ms in zip(texts, piece.collected_ms, strict=True)
        ]

    def _states(self, piece: RecordColumns) -> list[str]:
        late_after = self._late_after.get(piece.metric, ONE_MACHINE.late_after_ms)
        rows = zip(piece.late_ms, piece.receives, piece.backfilled, strict=True)
        return [stored_state(*row, late_after).value for row in rows]


def _counts(piece: RecordColumns) -> Sequence[int | float]:
    return [to_number(units, piece.decimals) for units in piece.units] if piece.decimals else piece.units


def _may_be(name: str, kind: str, value: object) -> bool:
    """Whether a name may satisfy the condition; of a pattern only its beginning is looked at here."""
    if not isinstance(value, str):  # SQLite has its own rules for these
        return True
    if kind == "is":
        return name == value
    stop = next((n for n, character in enumerate(value) if character in ("*?[" if kind == "glob" else "%_")), None)
    beginning = value if stop is None else value[:stop]
    return name.startswith(beginning) if kind == "glob" else name.casefold().startswith(beginning.casefold())
