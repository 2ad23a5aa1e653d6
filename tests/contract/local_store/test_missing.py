"""Missing slots found by tallies, against the plain way: every slot that is accounted for, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.core.coverage import Span, find_gaps
from kizami.core.epoch import from_seconds, to_ms, to_seconds
from kizami.core.sender import message_for_slot
from kizami.core.targets.target import Target
from kizami.local.store import statements
from kizami.local.store.backfill_queue import BackfillQueue
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import register_targets
from kizami.local.store.missing import count_pending, find_missing
from kizami.local.store.reader import Reader
from kizami.local.store.rows import SlotKey, StoredRow

T0 = datetime(2025, 12, 2, 9, 55, tzinfo=UTC)
SLOTS = 720
DAYS_LATER = 2 * 17_280
CALLS = Target(name="calls", lag_seconds=5)


class FixedClock:
    def now(self) -> datetime:
        return T0 + timedelta(days=3)


def at(index: int) -> datetime:
    return T0 + timedelta(seconds=5 * index)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An hour of `calls` with small and large holes, then two days of nothing, then ten slots.

    Of the holes, slot 105 is on the queue and slots 400 to 403 are dead. `silent` has nothing at all.
    """
    path = tmp_path_factory.mktemp("missing") / "kizami.db"
    connection = open_database(path, create=True)
    with transaction(connection):
        known = register_targets(connection, [CALLS, Target(name="silent")], T0)
        gone = {0, *range(100, 110), *range(250, 430), 500, SLOTS - 1}
        indices = [n for n in range(SLOTS) if n not in gone] + list(range(DAYS_LATER, DAYS_LATER + 10))
        calls = known["calls"].id
        rows = [StoredRow(to_seconds(at(n)), calls, n % 11, to_ms(at(n)) + 5123, 0, 1, False) for n in indices]
        statements.store(connection, rows)
    connection.close()
    queue = BackfillQueue(path, FixedClock())
    queue.send_backfill(message_for_slot(at(n), CALLS) for n in (105, *range(400, 404)))
    queue.close()
    connection = open_database(path)
    with transaction(connection):
        statements.bury(connection, [SlotKey(to_seconds(at(n)), calls) for n in range(400, 404)], 0)
    connection.close()
    return path


@pytest.fixture
def reader(path: Path) -> Iterator[Reader]:
    with Reader.opened(path) as reader:
        yield reader


_ACCOUNTED = """
SELECT slot FROM (SELECT slot, metric_id FROM slots UNION SELECT slot, metric_id FROM messages
                  UNION SELECT slot, metric_id FROM dead_letters)
JOIN metrics ON id = metric_id WHERE name = 'calls' AND slot >= ? AND slot < ? ORDER BY slot
"""


def accounted_slots(reader: Reader, span: Span) -> list[datetime]:
    """The slots of `calls` that are stored, pending or dead."""
    bounds = (to_seconds(span.start), to_seconds(span.end))
    return [from_seconds(slot) for (slot,) in reader.rows(_ACCOUNTED, bounds)]


def test_what_is_pending_or_dead_is_not_missing(reader: Reader) -> None:
    found = find_missing(reader, {"calls": Span(at(0), at(SLOTS), 5)})
    runs = [(gap.start, gap.slots) for gap in found["calls"]]
    assert runs == [
        (at(0), 1),
        (at(100), 5),
        (at(106), 4),
        (at(250), 150),
        (at(404), 26),
        (at(500), 1),
        (at(719), 1),
    ]


def test_a_metric_with_nothing_missing_is_left_out_and_one_with_nothing_at_all_is_one_gap(reader: Reader) -> None:
    spans = {"calls": Span(at(1), at(100), 5), "silent": Span(at(0), at(SLOTS), 5)}
    found = find_missing(reader, spans)
    assert list(found) == ["silent"]
    assert [(gap.start, gap.end, gap.slots) for gap in found["silent"]] == [(at(0), at(SLOTS), SLOTS)]


def test_a_metric_of_which_nothing_is_due_yet_has_no_gap_beside_others(reader: Reader) -> None:
    # The first slots of a new target: one that is missing, and one in a bucket where nothing is known of it.
    for metric in ("calls", "silent"):
        beside = {"silent": Span(at(0), at(3), 5)} if metric == "calls" else {"calls": Span(at(1), at(3), 5)}
        assert metric not in find_missing(reader, {metric: Span(at(101), at(101), 5), **beside})


def test_a_gap_of_days_is_one_gap(reader: Reader) -> None:
    found = find_missing(reader, {"calls": Span(at(600), at(DAYS_LATER + 10), 5)})
    assert [(gap.start, gap.end) for gap in found["calls"]] == [(at(719), at(DAYS_LATER))]


def test_records_of_a_former_interval_do_not_stand_for_those_of_the_present_one(reader: Reader) -> None:
    # Slots of 10 s in a bucket that has more than enough rows of 5 s for all of them.
    span = Span(at(96), at(120), 10)
    plain = list(find_gaps(span, accounted_slots(reader, span)))
    assert [(gap.start, gap.slots) for gap in plain] == [(at(100), 5)]
    assert find_missing(reader, {"calls": span})["calls"] == plain


@given(st.integers(-200, SLOTS + 200), st.integers(-200, SLOTS + 200))
def test_over_any_span_it_finds_what_the_plain_way_finds(path: Path, first: int, last: int) -> None:
    span = Span(at(first), at(max(first, last)), 5)
    with Reader.opened(path) as reader:
        plain = list(find_gaps(span, accounted_slots(reader, span)))
        assert find_missing(reader, {"calls": span}).get("calls", []) == plain


def test_what_is_on_the_queue_is_counted_within_the_span_only(reader: Reader) -> None:
    assert count_pending(reader, {"calls": Span(at(0), at(SLOTS), 5)}) == {"calls": 1}
    assert count_pending(reader, {"calls": Span(at(0), at(105), 5)}) == {}
    assert count_pending(reader, {"silent": Span(at(0), at(SLOTS), 5)}) == {}
