"""The coverage grid: a row a minute, an hour or a day, a cell a slot, each with its one state (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from itertools import dropwhile, groupby

from kizami.backend.targets import KnownTarget
from kizami.backend.values import PendingSlot, SlotDetails, StoredSlot
from kizami.core.answers.numbers import Number
from kizami.core.slots import floor_to_slot, shift, slots_between


class CellState(Enum):
    """What the grid says about a slot; the first four are stored, the last two are nobody's loss."""

    STORED = "stored"
    LATE = "late"
    RETRIED = "retried"
    BACKFILLED = "backfilled"
    PENDING = "pending"
    DEAD = "dead"
    MISSING = "missing"
    AHEAD = "ahead"
    UNKNOWN = "unknown"


# Never colour alone: each state has a glyph of its own.
GLYPHS = {
    CellState.STORED: "●",
    CellState.LATE: "◐",
    CellState.RETRIED: "↻",
    CellState.BACKFILLED: "◆",
    CellState.PENDING: "…",
    CellState.DEAD: "✕",
    CellState.MISSING: "○",
    CellState.AHEAD: "·",
    CellState.UNKNOWN: "",
}

STORED_STATES = frozenset({CellState.STORED, CellState.LATE, CellState.RETRIED, CellState.BACKFILLED})
REPAIRABLE_STATES = frozenset({CellState.MISSING, CellState.DEAD})


@dataclass(frozen=True, slots=True)
class Cell:
    """One slot of the grid; `reason` is its last error, if it has had one."""

    slot: datetime
    state: CellState
    count: Number | None = None
    late_ms: int | None = None
    tries: int = 0
    reason: str | None = None

    @property
    def glyph(self) -> str:
        return GLYPHS[self.state]

    @property
    def is_repairable(self) -> bool:
        """Whether a backfill or a redrive would ask for it again."""
        return self.state in REPAIRABLE_STATES


@dataclass(frozen=True, slots=True)
class Row:
    """A minute, an hour or a day and its cells."""

    start: datetime
    cells: tuple[Cell, ...]


class RowLength(Enum):
    """How much a row shows, in seconds."""

    MINUTE = 60
    HOUR = 3600
    DAY = 86_400


def row_length(interval_seconds: int) -> RowLength:
    """What a row of that interval's slots is: whole slots, and some of them where it can have some."""
    if interval_seconds <= RowLength.MINUTE.value:
        return RowLength.MINUTE
    is_hour = interval_seconds <= 900 and RowLength.HOUR.value % interval_seconds == 0
    return RowLength.HOUR if is_hour else RowLength.DAY


def grid_window(until: datetime, rows: int, length: RowLength = RowLength.MINUTE) -> tuple[datetime, datetime]:
    """The whole rows that the grid shows: the one that `until` falls in and those before it."""
    step = timedelta(seconds=length.value)
    end = floor_to_slot(until, length.value) + step
    return end - rows * step, end


def newest_shown(target: KnownTarget, now: datetime) -> datetime:
    """Where a grid ends that follows the clock: at now, or with a long lag at the newest slot that is due."""
    is_long = target.lag_seconds > row_length(target.interval_seconds).value
    return shift(now, -target.lag_seconds) if is_long else now


def cells_between(
    target: KnownTarget, start: datetime, end: datetime, details: SlotDetails, now: datetime
) -> Iterator[Cell]:
    """The cells of [start, end), oldest first.

    A slot that is not due yet is AHEAD even if it waits on the queue already; one that is not expected, because
    the target was not yet known or is not polled any more, is UNKNOWN unless it is stored all the same.
    """
    due = target.due(now)
    stored = {entry.slot: entry for entry in details.stored}
    pending = {entry.slot: entry for entry in details.pending}
    dead = {letter.slot: letter for letter in details.dead}
    for slot in slots_between(start, end, target.interval_seconds):
        if slot in stored:
            yield _stored_cell(stored[slot], target.pace.late_after_ms)
        elif slot in dead:
            yield Cell(slot, CellState.DEAD, tries=dead[slot].receives, reason=dead[slot].reason)
        elif slot >= due.end:
            yield Cell(slot, CellState.AHEAD if target.is_on else CellState.UNKNOWN)
        elif slot in pending:
            yield _pending_cell(pending[slot], now)
        else:
            yield Cell(slot, CellState.MISSING if slot >= due.start else CellState.UNKNOWN)


def stored_state(
    late_ms: int | None, receives: int | None, backfilled: int | None, late_after_ms: int
) -> CellState:
    """The state of a slot that has a record, by how that came about; what is not known is not held against it."""
    if backfilled:
        return CellState.BACKFILLED
    if (receives or 0) > 1:
        return CellState.RETRIED
    return CellState.LATE if (late_ms or 0) > late_after_ms else CellState.STORED


def _stored_cell(entry: StoredSlot, late_after_ms: int) -> Cell:
    state = stored_state(entry.late_ms, entry.receives, entry.backfilled, late_after_ms)
    return Cell(entry.slot, state, entry.count, entry.late_ms, entry.receives)


def _pending_cell(entry: PendingSlot, now: datetime) -> Cell:
    # Polls are spread over the interval: until its own moment comes, nothing is late.
    is_ahead = entry.due_at > now and not entry.receives
    state = CellState.AHEAD if is_ahead else CellState.PENDING
    return Cell(entry.slot, state, tries=entry.receives, reason=entry.last_error)


def rows_of(cells: Iterable[Cell], length: RowLength = RowLength.MINUTE) -> list[Row]:
    """The rows of ascending cells, newest first: what has just happened stands on top.

    Rows from before the target was known say nothing and are left out.
    """
    starts = groupby(cells, lambda cell: floor_to_slot(cell.slot, length.value))
    rows = dropwhile(_says_nothing, (Row(start, tuple(group)) for start, group in starts))
    return list(rows)[::-1]


def _says_nothing(row: Row) -> bool:
    return all(cell.state is CellState.UNKNOWN for cell in row.cells)
