"""The backend on AWS over ticks and rows: what it answers and repairs, also for another process that looks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from aws_here.memory_aws import led_to, memory_aws
from aws_here.stack_here import KEPT, NOW, SLOTS, QueuesHere, StackHere, at, messages, stack_here
from kizami.aws.incidents import AwsIncidentLog
from kizami.aws.ticks_backend import TicksBackend
from kizami.backend.grid import CellState, cells_between
from kizami.backend.port import Backend
from kizami.backend.snapshot import find_gaps_in, take_snapshot
from kizami.backend.targets import Polling
from kizami.backend.values import Bucket, SlotCounts
from kizami.core.coverage import Completeness, Gap, Span
from kizami.core.epoch import EPOCH, from_seconds, to_seconds
from kizami.core.slots import Window
from samples.installation import CALLS, ORDERS, START, TARGETS
from samples.old_answers import old_answers
from samples.page_database import FixedClock

HOUR = timedelta(hours=1)
COST, REQUESTS = "usage/cost", "usage/requests"
SPAN = {"calls": Span(at(0), at(SLOTS), 5)}


@pytest.fixture
def stack() -> Iterator[StackHere]:
    with stack_here(TARGETS) as found:
        found.fill()
        yield found


@pytest.fixture
def rows() -> Iterator[StackHere]:
    with stack_here([CALLS], CALLS) as found:
        found.fill()
        yield found


@pytest.fixture(params=["stack", "rows"])
def either(request: pytest.FixtureRequest) -> StackHere:
    found: StackHere = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def backend(either: StackHere) -> Backend:
    return either.backend()


def figures_of(start: datetime, counts: Sequence[int]) -> Bucket:
    return Bucket(start, len(counts), min(counts, default=0), max(counts, default=0), sum(counts))


def state_at(backend: Backend, slot: datetime, now: datetime, name: str = "calls") -> CellState:
    (target,) = backend.targets([name])
    end = slot + timedelta(seconds=target.interval_seconds)
    (cell,) = cells_between(target, slot, end, backend.slot_details(name, slot, end), now)
    return cell.state


class TestReading:
    def test_the_target_is_known_from_its_first_slot_on(self, backend: Backend, either: StackHere) -> None:
        assert "calls" in backend.names()
        (target,) = backend.targets(["calls"])
        assert (target.name, target.interval_seconds, target.lag_seconds) == ("calls", 5, 5)
        # In ticks from the first slot that was sent, in rows from the first row on.
        assert target.first_slot == (at(0) if either.is_original else at(-1))
        assert (target.is_on, target.expected_until) == (True, None)
        assert backend.targets(["nobody"]) == []
        assert [each.name for each in backend.targets()] == sorted(each.name for each in backend.targets())

    def test_records_come_in_columns_too(self, backend: Backend, either: StackHere) -> None:
        records = list(backend.records("calls", at(90), at(110)))
        assert [(each.slot, each.count) for each in records] == [
            (at(number), number % 11) for number in range(90, 110) if number != 99
        ]
        for details in (False, True):
            pieces = list(backend.record_columns("calls", at(90), at(110), details=details))
            slots = [from_seconds(slot) for piece in pieces for slot in piece.slots]
            counts = [units for piece in pieces for units in piece.units]
            assert list(zip(slots, counts, strict=True)) == [(each.slot, each.count) for each in records]
            seconds = [ms // 1000 for piece in pieces for ms in piece.collected_ms]
            assert seconds == [to_seconds(each.collected_at) for each in records]
            attempts = {number for piece in pieces for number in piece.receives}
            assert attempts == ({None if either.is_original else 1} if details else set())
        assert list(backend.record_columns("nobody", at(0), at(9), details=True)) == []

    def test_how_much_is_stored_and_what_is_missing(self, backend: Backend) -> None:
        assert backend.newest_slots(["calls"]) == {"calls": at(SLOTS - 1)}
        assert backend.newest_counts({"calls": at(SLOTS - 1), "nobody": at(0)}) == {"calls": (SLOTS - 1) % 11}
        assert backend.newest_counts({"calls": at(99)}) == {}
        assert backend.completeness(SPAN) == {"calls": Completeness(229, SLOTS)}
        gaps = [Gap(at(99), at(100), 1), Gap(at(200), at(210), 10)]
        assert backend.missing(SPAN) == {"calls": gaps}
        assert backend.missing({"calls": Span(at(0), at(99), 5)}) == {}
        found = find_gaps_in(backend, backend.targets(["calls"]), Window(at(0), at(SLOTS)), NOW)
        assert [entry.gap for entry in found] == gaps[::-1]

    def test_single_slots_and_their_states(self, backend: Backend) -> None:
        assert backend.counts_at("calls", [at(98), at(99), at(100), at(5000)]) == [10, None, 1, None]
        assert backend.slot_counts({"calls": Span(at(90), at(102), 5)}) == {"calls": SlotCounts(stored=11)}
        assert state_at(backend, at(0), NOW) is CellState.STORED
        assert state_at(backend, at(99), NOW) is CellState.MISSING
        assert state_at(backend, NOW - timedelta(seconds=900), NOW) is CellState.PENDING
        assert state_at(backend, NOW - timedelta(seconds=1200), NOW) is CellState.MISSING

    @pytest.mark.parametrize("seconds", [5, 60, 600, 7200])
    def test_buckets_are_whole_stretches(self, backend: Backend, seconds: int) -> None:
        def stretch(number: int) -> datetime:
            second = to_seconds(at(number))
            return datetime.fromtimestamp(second - second % seconds, UTC)

        counts: dict[datetime, list[int]] = {}
        for number in KEPT:
            if stretch(7) <= stretch(number) <= stretch(229):
                counts.setdefault(stretch(number), []).append(number % 11)
        expected = [figures_of(start, each) for start, each in counts.items()]
        assert backend.buckets("calls", at(7), at(230), seconds) == expected

    @pytest.mark.parametrize(
        "numbers",
        [(0, 240), (0, 12, 24, 240), (7, 8, 12, 131, 132, 240), (60, 180), (200, 205, 300), (-9, 3.5, 9.1)],
    )
    def test_figures_are_those_of_the_records_between_each_two_edges(
        self, backend: Backend, numbers: tuple[float, ...]
    ) -> None:
        edges = [at(number) for number in numbers]
        assert backend.figures("calls", edges) == [
            figures_of(start, [number % 11 for number in KEPT if start <= at(number) < end])
            for start, end in pairwise(edges)
        ]

    def test_of_an_unknown_metric_there_is_nothing(self, backend: Backend) -> None:
        assert list(backend.records("nobody", at(0), at(9))) == []
        assert (backend.buckets("nobody", at(0), at(9), 5), backend.counts_at("nobody", [at(0)])) == ([], [None])
        assert backend.figures("nobody", [at(0), at(9)]) == [figures_of(at(0), [])]
        assert (backend.settings("nobody"), backend.dead_letters("nobody")) == ({}, [])

    def test_lateness_is_that_of_the_polls_of_a_range(self, backend: Backend, either: StackHere) -> None:
        found = backend.lateness(at(0), at(9))
        assert (found.polls, found.p50_ms, found.max_ms) == (9, 1000, 2000)
        assert backend.lateness(at(200), at(205)).polls == 0

    def test_what_other_backends_have_is_none_or_nothing(self, backend: Backend) -> None:
        assert (backend.daemon(), backend.counted_since(NOW), backend.companies(NOW)) == (None, None, [])
        assert (backend.count_damaged(SPAN), backend.forget_damaged(SPAN), backend.queued(SPAN)) == (0, 0, 0)
        assert backend.keeps_dead_letters
        assert backend.settings("calls")["interval"] == "5"
        assert isinstance(backend.incident_log, AwsIncidentLog)
        assert backend.incident_log.incidents() == []
        backend.close()
        assert backend.names()

    def test_the_questions_of_a_look_have_the_same_answers(self, either: StackHere) -> None:
        either.give_up(200, 201)
        backend = either.backend()
        backend.backfill(messages(202))
        targets = backend.targets()
        bounds = at(0) - HOUR, NOW + HOUR
        expected = old_answers(backend, targets, *bounds)
        with backend.look() as one:
            for _ in range(2):  # once as they are read, once as they were read before
                assert old_answers(one, targets, *bounds) == expected
                assert one.deaths(NOW) == backend.deaths(NOW)

    def test_a_look_is_one_moment(self, either: StackHere) -> None:
        backend = either.backend()
        span = {"calls": Span(at(205), at(206), 5)}
        with backend.look() as one:
            assert one.completeness(span)["calls"].stored == 0
            either.store("calls", at(205), 1)
            assert one.completeness(span)["calls"].stored == 0
            assert backend.completeness(span)["calls"].stored == 1


class TestTargets:
    def test_several_values_are_metrics_of_one_target(self, stack: StackHere) -> None:
        backend = stack.backend()
        assert {"usage", COST, REQUESTS} <= set(backend.names())
        assert [each.name for each in backend.targets([COST, REQUESTS, "usage"])] == [COST, REQUESTS]
        assert backend.settings(COST) != {}

    def test_a_past_that_was_asked_for_is_expected_and_never_less(self, stack: StackHere) -> None:
        def first_slot() -> datetime:
            (target,) = stack.backend().targets(["calls"])
            return target.first_slot

        for number, expected in ((-12, -12), (-3, -12), (-20, -20)):
            stack.backend().expect_from("calls", at(number))
            assert first_slot() == at(expected)

    def test_of_rows_the_first_one_is_the_first_slot(self, rows: StackHere) -> None:
        rows.backend().expect_from("calls", at(-12))
        (target,) = rows.backend().targets()
        assert target.first_slot == at(0)

    def test_a_disabled_target_is_expected_until_its_newest_slot(self, stack: StackHere) -> None:
        stack.reconfigure(*(target for target in TARGETS if target is not CALLS))
        backend = stack.backend([replace(CALLS, enabled=False), ORDERS])
        calls, orders = backend.targets()
        assert (calls.polling, calls.expected_until) == (Polling.DISABLED, at(SLOTS))
        assert (orders.polling, orders.expected_until) == (Polling.ON, None)
        unstored = stack.backend([replace(ORDERS, enabled=False)]).targets()[0]
        assert unstored.expected_until == unstored.first_slot

    def test_what_is_kept_no_more_is_not_expected(self, stack: StackHere) -> None:
        stack.move_to(START + timedelta(days=5))
        (brief,) = stack.backend().targets(["brief"])
        assert brief.first_slot == brief.kept_from == START + timedelta(days=3)

    def test_bundles_have_their_places_within_the_interval(self, stack: StackHere, rows: StackHere) -> None:
        calls, orders = stack.backend().targets(["calls", "orders"])
        assert [each.pace.settling_seconds for each in (calls, orders)] == [79, 134]
        assert rows.backend().targets()[0].pace.settling_seconds == 75

    @pytest.mark.parametrize("is_original", [True, False])
    def test_a_deployment_that_never_worked_does_not_look_complete(self, is_original: bool) -> None:
        with led_to(memory_aws()):
            backend = TicksBackend(QueuesHere(), [CALLS], FixedClock(NOW), is_original=is_original)
            assert backend.targets()[0].first_slot == EPOCH
            overview = take_snapshot(backend, NOW).overview
        assert (overview.newest_slot, overview.day.stored, overview.day.expected) == (None, 0, 17_280)
        assert (overview.gaps, overview.queue.dead) == (1, 0)
