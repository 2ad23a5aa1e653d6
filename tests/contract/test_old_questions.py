"""The old questions have the same answers when they are asked as the one question about slots."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kizami.backend.slots import EARLIEST, LATEST
from kizami.backend.values import SlotCounts
from kizami.core.coverage import Completeness, Span
from kizami.core.epoch import to_ms, to_seconds
from kizami.local.backend import LocalBackend
from kizami.local.store import statements
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import known_metrics
from kizami.local.store.rows import FailedRow, SentRow, TakenMessage
from kizami.local.store.statements import BACKFILL, LIVE
from samples.installation import CALLS, START, TARGETS
from samples.installations import LONG_AFTER
from samples.old_answers import OverSlots, old_answers
from samples.one_machine import OneMachine, one_machine

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOW = LONG_AFTER + timedelta(minutes=20)
UNKNOWN = "nobody"


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneMachine]:
    """Three hours of every target that are sealed, slots that came late, and twenty minutes ten days after.

    Slots are missing, dead, redriven, retried, in flight and pending in either of the two, and one value of
    `usage` is stored where the other is dead or pending.
    """
    folder = tmp_path_factory.mktemp("old_questions")
    with one_machine(folder) as found:
        found.move_to(START + 3 * HOUR)
        for target in TARGETS:
            _fill(found, target.name, START, 3 * HOUR, target.interval_seconds)
        found.move_to(LONG_AFTER)
        found.seal()
        found.store("calls", _slot("calls", 13), 4096, late_ms=7000, attempts=2)
        found.move_to(NOW)
        for target in TARGETS:
            _fill(found, target.name, LONG_AFTER, NOW - LONG_AFTER, target.interval_seconds)
        _give_up_and_ask(found, folder / "kizami.db")
        yield found


def _slot(name: str, number: int, start: datetime = START) -> datetime:
    (interval,) = (target.interval_seconds for target in TARGETS if target.name == name)
    return start + number * timedelta(seconds=interval)


def _fill(found: OneMachine, name: str, start: datetime, length: timedelta, interval: int) -> None:
    for number in range(int(length.total_seconds()) // interval):
        if number % 13 and not 100 <= number < 140:
            value = -number / 8 if name == "price" else number * 7 % 101
            values = (value, number / 4) if name == "usage" else (value,)
            late_ms, backfill = number % 5 * 100, number % 17 == 0
            slot = _slot(name, number, start)
            found.store(name, slot, *values, late_ms=late_ms, attempts=1 + number % 3, backfill=backfill)


def _give_up_and_ask(found: OneMachine, path: Path) -> None:
    for start in (START, LONG_AFTER):
        for name in ("calls", "orders", "usage", "price"):
            slots = [_slot(name, number, start) for number in (0, 26, 39, 104, 105, 106)]
            found.kill(name, slots[0], "status 500")
            found.kill(name, slots[1], "status 503")
            found.ask(name, [slots[2], *slots[3:]])
            found.kill(name, slots[5])
        for number in (104, 106):  # pending and dead
            found.store("usage/cost", _slot("usage", number, start), 0.25)
    found.backend.redrive(found.backend.dead_letters("orders", 1))
    connection = open_database(path)
    calls = known_metrics(connection)["calls"]
    with transaction(connection):
        retried, held = (to_seconds(_slot("calls", number, LONG_AFTER)) for number in (105, 39))
        statements.fail(connection, [FailedRow(retried, calls.id, to_ms(NOW) + 9000, 3, "status 500")])
        statements.hand_out(connection, [TakenMessage(held, calls.id, 5, BACKFILL, 0, 0)], to_ms(NOW))
        live = [to_seconds(NOW + timedelta(seconds=5 * number)) for number in range(3)]
        rows = [SentRow(slot, calls.id, 5, 1000 * (slot + 5)) for slot in live]
        statements.send(connection, rows, LIVE, to_ms(NOW))
    connection.close()


@pytest.fixture
def backend(installation: OneMachine) -> LocalBackend:
    return installation.backend


@pytest.fixture
def over_slots(backend: LocalBackend) -> OverSlots:
    return OverSlots(backend)


RANGES = {
    "all": (START - HOUR, NOW + HOUR),
    "sealed hours": (START, START + 3 * HOUR),
    "a part of an hour": (START + timedelta(minutes=7, seconds=5), START + timedelta(minutes=53, seconds=20)),
    "across hours": (START + timedelta(minutes=50), START + timedelta(minutes=130)),
    "open": (LONG_AFTER, NOW),
    "a minute": (NOW - timedelta(seconds=60), NOW),
    "half seconds": (START + timedelta(seconds=59.5), START + timedelta(seconds=777.25)),
    "before all": (START - DAY, START),
    "between": (START + DAY, START + 2 * DAY),
    "nothing": (START + HOUR, START + HOUR),
}


@pytest.mark.parametrize(("start", "end"), RANGES.values(), ids=RANGES)
def test_every_answer_is_the_same(
    backend: LocalBackend, over_slots: OverSlots, start: datetime, end: datetime
) -> None:
    targets = [target for target in backend.targets() if target.name != "usage"]
    found, expected = (old_answers(each, targets, start, end) for each in (over_slots, backend))
    for question, answer in expected.items():
        assert found[question] == answer, question


def test_there_is_something_of_everything(backend: LocalBackend) -> None:
    """Or the answers would be the same because they are empty."""
    span = Span(START, START + 3 * HOUR, 5)
    names = "calls", "usage/cost", "usage/requests"
    assert backend.slot_counts(dict.fromkeys(names, span)) == {
        "calls": SlotCounts(1957, 3, 3),
        "usage/cost": SlotCounts(1958, 2, 2),
        "usage/requests": SlotCounts(1956, 3, 3),
    }
    assert len(backend.missing({"calls": span})["calls"]) == 162
    details = backend.slot_details("calls", LONG_AFTER, NOW + HOUR)
    assert [(each.receives, each.in_flight, each.last_error, each.backfill) for each in details.pending] == [
        *[(0, True, None, True), (0, False, None, True), (3, False, "status 500", True)],
        *[(0, False, None, False)] * 3,
    ]
    assert backend.lateness(START, NOW).polls > 5000


def test_a_stored_slot_is_not_listed_as_dead_or_pending_besides(
    backend: LocalBackend, over_slots: OverSlots
) -> None:
    """`usage/cost` is stored where the request for both values is dead or pending."""
    pending, dead = (_slot("usage", number) for number in (104, 106))
    bounds = pending, dead + timedelta(seconds=5)
    before, now = (each.slot_details("usage/cost", *bounds) for each in (backend, over_slots))
    assert now.stored == before.stored
    assert [each.slot for each in before.pending] == [pending, _slot("usage", 105)]
    assert [each.slot for each in now.pending] == [_slot("usage", 105)]
    assert [each.slot for each in before.dead] == [dead]
    assert now.dead == []


def test_of_an_unknown_metric_there_is_nothing(backend: LocalBackend, over_slots: OverSlots) -> None:
    span = Span(START, START + HOUR, 5)
    for each in (backend, over_slots):
        assert each.completeness({UNKNOWN: span}) == {UNKNOWN: Completeness(0, 720)}
        assert each.slot_counts({UNKNOWN: span}) == {UNKNOWN: SlotCounts()}
        assert each.counts_at(UNKNOWN, [START, START]) == [None, None]
        assert each.buckets_of([UNKNOWN], START, NOW, 60) == {UNKNOWN: []}
        assert each.figures(UNKNOWN, [START, NOW])[0].stored == 0
        assert each.stored_between(UNKNOWN, [START, START, NOW]) == [0, 0]
        assert not [*each.records(UNKNOWN, START, NOW), *each.record_columns(UNKNOWN, START, NOW)]
        assert not each.totals({UNKNOWN: span})
        assert not each.newest_slots([UNKNOWN])
        assert each.newest_counts({UNKNOWN: START}) == {}
        assert each.slot_details(UNKNOWN, START, NOW).stored == []
    assert over_slots.missing({UNKNOWN: span}) == {}


def test_nothing_asked_is_nothing_answered(backend: LocalBackend, over_slots: OverSlots) -> None:
    for each in (backend, over_slots):
        assert not any((each.completeness({}), each.slot_counts({}), each.missing({}), each.totals({})))
        assert not any((each.newest_counts({}), each.newest_slots([]), each.buckets_of([], START, NOW, 60)))
        assert not any((each.counts_at("calls", []), each.figures("calls", [START]), each.figures("calls", [])))
        assert each.stored_between("calls", [START]) == []


def test_ranges_that_end_before_they_begin_are_empty(backend: LocalBackend, over_slots: OverSlots) -> None:
    end, start = START, START + HOUR
    span = Span(start, end, CALLS.interval_seconds)
    for each in (backend, over_slots):
        assert not any((each.missing({"calls": span}), each.totals({"calls": span})))
        assert each.slot_counts({"calls": span}) == {"calls": SlotCounts()}
        assert not any(([*each.records("calls", start, end)], each.buckets("calls", start, end, 60)))
        assert each.slot_details("calls", start, end).stored == []
        assert each.lateness(start, end).polls == 0


def test_the_ends_of_time_may_be_asked_for(backend: LocalBackend, over_slots: OverSlots) -> None:
    for each in (backend, over_slots):
        assert each.counts_at("calls", [EARLIEST, LATEST, datetime.max.replace(tzinfo=UTC)]) == [None] * 3
        assert sum(bucket.stored for bucket in each.buckets("calls", EARLIEST, LATEST, 7 * 86_400)) == 2141
        assert each.stored_between("calls", [EARLIEST, START, LATEST]) == [0, 2141]
        assert len(each.slot_details("calls", EARLIEST, LATEST).stored) == 2141
