"""The coverage grid: each slot has its one state, in rows of a minute, newest first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from kizami.backend.grid import GLYPHS, CellState, cells_between, grid_window, rows_of
from kizami.backend.targets import ONE_MACHINE, KnownTarget, Polling
from kizami.backend.values import DeadLetter, PendingSlot, SlotDetails, StoredSlot

T0 = datetime(2025, 12, 2, 10, 0, tzinfo=UTC)
TARGET = KnownTarget("calls", 5, 5, T0)


def at(index: int) -> datetime:
    return T0 + timedelta(seconds=5 * index)


def stored(index: int, late_ms: int = 3, receives: int = 1, backfilled: bool = False) -> StoredSlot:
    return StoredSlot(at(index), 7, at(index + 1), late_ms, receives, backfilled)


def pending(index: int, due_at: datetime, receives: int = 0, error: str | None = None) -> PendingSlot:
    return PendingSlot("calls", at(index), due_at, due_at, receives, False, False, error)


def dead(index: int) -> DeadLetter:
    return DeadLetter(at(index), "calls", 5, 5, at(index), at(index + 12), "status 500, expected 200", False)


def states(details: SlotDetails, now: datetime, slots: int = 12, target: KnownTarget = TARGET) -> list[str]:
    return [cell.state.value for cell in cells_between(target, T0, at(slots), details, now)]


def test_a_stored_slot_says_how_it_came_about_what_is_most_telling_first() -> None:
    details = SlotDetails(
        stored=[
            stored(0),
            stored(1, late_ms=ONE_MACHINE.late_after_ms + 1),
            stored(2, late_ms=9000, receives=2),
            stored(3, late_ms=900_000, receives=2, backfilled=True),
        ]
    )
    assert states(details, at(12), 4) == ["stored", "late", "retried", "backfilled"]


def test_a_slot_that_nobody_has_is_missing_once_it_is_due() -> None:
    assert states(SlotDetails(), at(3), 5) == ["missing", "missing", "missing", "ahead", "ahead"]


def test_a_slot_on_the_queue_is_pending_from_its_own_moment_on() -> None:
    now = at(3)
    waiting = [
        pending(0, at(1)),
        pending(1, now + timedelta(seconds=1)),
        pending(2, now + timedelta(1), 1, "reset"),
    ]
    cells = list(cells_between(TARGET, T0, at(3), SlotDetails(pending=waiting), now))
    assert [cell.state for cell in cells] == [CellState.PENDING, CellState.AHEAD, CellState.PENDING]
    assert (cells[2].tries, cells[2].reason) == (1, "reset")


def test_a_dead_slot_has_its_reason_and_can_be_repaired() -> None:
    (cell,) = cells_between(TARGET, T0, at(1), SlotDetails(dead=[dead(0)]), at(9))
    assert (cell.state, cell.tries, cell.reason) == (CellState.DEAD, 5, "status 500, expected 200")
    assert cell.is_repairable


def test_a_record_outranks_whatever_the_queue_still_holds() -> None:
    details = SlotDetails(stored=[stored(0), stored(1)], pending=[pending(0, T0)], dead=[dead(1)])
    assert states(details, at(12), 2) == ["stored", "stored"]


def test_slots_from_before_the_target_was_known_are_not_missing_but_may_have_been_backfilled() -> None:
    late_comer = KnownTarget("calls", 5, 5, at(2))
    details = SlotDetails(stored=[stored(1, backfilled=True)])
    assert states(details, at(12), 3, late_comer) == ["unknown", "backfilled", "missing"]


def test_of_a_paused_target_nothing_is_expected_from_its_pause_on() -> None:
    paused = KnownTarget("calls", 5, 5, T0, Polling.PAUSED, paused_since=at(3), expected_until=at(2))
    assert states(SlotDetails(stored=[stored(0)]), at(9), 4, paused) == ["stored", "missing", "unknown", "unknown"]


def test_rows_are_minutes_newest_first_without_those_that_say_nothing() -> None:
    late_comer = KnownTarget("calls", 5, 5, T0 + timedelta(minutes=2))
    start, end = grid_window(T0 + timedelta(minutes=3, seconds=20), 4)
    assert (start, end) == (T0, T0 + timedelta(minutes=4))
    rows = rows_of(cells_between(late_comer, start, end, SlotDetails(), end))
    assert [row.start for row in rows] == [T0 + timedelta(minutes=3), T0 + timedelta(minutes=2)]
    assert all(len(row.cells) == 12 for row in rows)


def test_every_state_has_a_glyph_of_its_own() -> None:
    assert set(GLYPHS) == set(CellState)
    assert len(set(GLYPHS.values())) == len(CellState)


@given(st.sets(st.integers(0, 99)), st.sets(st.integers(0, 99)), st.sets(st.integers(0, 99)), st.integers(0, 120))
def test_every_slot_has_exactly_one_cell(have: set[int], wait: set[int], died: set[int], now: int) -> None:
    details = SlotDetails(
        [stored(i) for i in have], [pending(i, at(i + 1)) for i in wait], [dead(i) for i in died]
    )
    cells = list(cells_between(TARGET, T0, at(100), details, at(now)))
    assert [cell.slot for cell in cells] == [at(index) for index in range(100)]
    assert {cell.slot for cell in cells if cell.count is not None} == {at(index) for index in have}
    missing = {cell.slot for cell in cells if cell.state is CellState.MISSING}
    assert missing == {at(i) for i in range(100) if i < now and i not in have | wait | died}
