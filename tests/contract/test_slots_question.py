"""The question about slots, view by view, on every kind of installation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from kizami.backend.figures.edges import edges_between, parse_every
from kizami.backend.slots import (
    EARLIEST,
    LATEST,
    Answer,
    Buckets,
    Each,
    Edges,
    Newest,
    PollLateness,
    Records,
    Runs,
    Slot,
    SlotBucket,
    SlotRun,
    SlotView,
    State,
)
from kizami.backend.values import Lateness
from kizami.core.answers.numbers import to_number
from kizami.core.epoch import from_ms, from_seconds, to_seconds
from kizami.core.errors import InvalidInput
from kizami.core.slots import slots_between
from kizami.core.targets.target import Target
from samples.installation import BRIEF, CALLS, DISTANT, ORDERS, PRICE, START, USAGE, Ability, Installation, Kind
from samples.installations import LATER, LONG_AFTER, Layout, on_kinds, on_layouts

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
SECOND = timedelta(seconds=1)
EVER = (EARLIEST, LATEST)
EVERY_VALUE = Buckets(values=True)
DEAD, PENDING, MISSING, STORED = State.DEAD, State.PENDING, State.MISSING, State.STORED
COST, REQUESTS = "usage/cost", "usage/requests"


@pytest.fixture
def installation(kind: Kind, tmp_path: Path) -> Iterator[Installation]:
    with kind.open(tmp_path) as found:
        yield found


def at(number: float, target: Target = CALLS) -> datetime:
    """The slot of that number, counted from START."""
    return START + number * timedelta(seconds=target.interval_seconds)


def ask(
    installation: Installation, edges: Edges, view: SlotView[dict[str, Answer]], name: str = "calls"
) -> Answer:
    """Ask about one metric."""
    return installation.slots({name: edges}, view)[name]


def counts_of(buckets: list[SlotBucket]) -> list[tuple[int, int, int]]:
    return [(each.stored, each.pending, each.dead) for each in buckets]


def ranges_of(runs: list[SlotRun]) -> list[tuple[datetime, datetime, int]]:
    return [(each.start, each.end, each.slots) for each in runs]


def states_of(slots: list[Slot]) -> dict[datetime, State]:
    assert [each.slot for each in slots] == sorted({each.slot for each in slots})
    return {each.slot: each.state for each in slots}


def slots_of_records(installation: Installation, edges: Edges, *names: str) -> list[tuple[str, datetime]]:
    pieces = installation.slots(dict.fromkeys(names or ("calls",), edges), Records())
    return [(piece.metric, from_seconds(slot)) for piece in pieces for slot in piece.slots]


class TestBuckets:
    @on_layouts()
    def test_a_slot_counts_where_it_begins(self, installation: Installation, layout: Layout) -> None:
        layout.fill(installation, [("calls", at(number), number) for number in range(10)])
        edges = [at(0), at(2.4), at(3), at(6) + timedelta(microseconds=1), at(9), at(20)]
        assert ask(installation, edges, EVERY_VALUE) == [
            SlotBucket(edges[0], 3, 0, 0, 0, 2, 3),
            SlotBucket(edges[1]),
            SlotBucket(edges[2], 4, 0, 0, 3, 6, 18),
            SlotBucket(edges[3], 2, 0, 0, 7, 8, 15),
            SlotBucket(edges[4], 1, 0, 0, 9, 9, 9),
        ]

    @on_layouts()
    def test_values_and_states_come_only_if_they_are_asked_for(
        self, installation: Installation, layout: Layout
    ) -> None:
        layout.fill(installation, [("calls", at(number), 7) for number in range(10)])
        assert ask(installation, (at(0), at(10)), Buckets()) == [SlotBucket(at(0), 10)]

    @on_layouts()
    def test_equal_edges_and_empty_stretches_have_their_buckets(
        self, installation: Installation, layout: Layout
    ) -> None:
        layout.fill(installation, [("calls", at(number), 1) for number in (3, 4)])
        edges = [at(0), at(3), at(3), at(5), at(5), at(9)]
        found = ask(installation, edges, Buckets(states=True, values=True))
        assert [(each.start, each.stored) for each in found] == [*zip(edges, (0, 0, 2, 0, 0), strict=False)]
        assert found[0] == SlotBucket(at(0))

    @on_kinds()
    def test_an_unknown_metric_is_empty(self, installation: Installation) -> None:
        installation.move_to(LATER)
        found = installation.slots({"nobody": (at(0), at(3), at(5))}, Buckets(states=True, values=True))
        assert found == {"nobody": [SlotBucket(at(0)), SlotBucket(at(3))]}

    @on_layouts(ORDERS)
    def test_edges_differ_by_metric(self, installation: Installation, layout: Layout) -> None:
        answers = [("calls", at(number), 1) for number in range(24)]
        layout.fill(installation, [*answers, *(("orders", at(number, ORDERS), 5) for number in range(4))])
        found = installation.slots(
            {"orders": (at(1, ORDERS), LATEST), "calls": (EARLIEST, at(12), at(20))}, Buckets()
        )
        assert list(found) == ["orders", "calls"]
        assert [each.stored for each in found["orders"]] == [3]
        assert [each.stored for each in found["calls"]] == [12, 8]

    @on_layouts(Ability.KILL, Ability.ASK)
    def test_states_and_missing_slots_add_up(self, installation: Installation, layout: Layout) -> None:
        layout.fill(installation, [("calls", at(number), 1) for number in range(60) if number % 10 < 7])
        for number in (7, 17, 18):
            installation.kill("calls", at(number))
        installation.ask("calls", [at(number) for number in (8, 27, 28, 29)])
        edges = [at(0), at(10), at(20), at(30), at(60)]
        found = ask(installation, edges, Buckets(states=True))
        assert counts_of(found) == [(7, 1, 1), (7, 0, 2), (7, 3, 0), (21, 0, 0)]
        missing = [run for run in ask(installation, edges, Runs()) if run.state is MISSING]
        in_all = sum(sum(counts) for counts in counts_of(found)) + sum(run.slots for run in missing)
        assert in_all == 60

    @on_layouts(USAGE, Ability.KILL, Ability.ASK)
    def test_the_request_for_several_values_decides_for_each_of_them(
        self, installation: Installation, layout: Layout
    ) -> None:
        layout.fill(installation, [])
        installation.store("usage", at(0), 3, 2.25)
        installation.kill("usage", at(1))
        installation.ask("usage", [at(2), at(3)])
        edges = (at(0), at(5))
        found = installation.slots({REQUESTS: edges, COST: edges}, Buckets(states=True, values=True))
        assert found[REQUESTS] == [SlotBucket(at(0), 1, 2, 1, 3, 3, 3)]
        assert found[COST] == [SlotBucket(at(0), 1, 2, 1, 2.25, 2.25, Decimal("2.25"))]

    @on_layouts(PRICE)
    def test_decimals_are_exact(self, installation: Installation, layout: Layout) -> None:
        values = [0.1, 0.2, -0.3, 1000000.001, -0.001, 2]
        layout.fill(installation, [("price", at(number), value) for number, value in enumerate(values)])
        first, second = ask(installation, (at(0), at(3), at(6)), EVERY_VALUE, "price")
        assert first == SlotBucket(at(0), 3, 0, 0, -0.3, 0.2, 0)
        assert second == SlotBucket(at(3), 3, 0, 0, -0.001, 1000000.001, Decimal("1000002.000"))

    @on_layouts()
    def test_sums_are_exact_beyond_64_bits(self, installation: Installation, layout: Layout) -> None:
        most, slots = 2**53 - 1, 1100
        layout.fill(installation, [("calls", at(number), most) for number in range(slots)])
        found = ask(installation, (at(0), at(slots)), EVERY_VALUE)
        assert found == [SlotBucket(at(0), slots, 0, 0, most, most, slots * most)]

    @on_kinds(ORDERS)
    def test_days_have_23_to_25_hours(self, installation: Installation) -> None:
        berlin = ZoneInfo("Europe/Berlin")
        installation.move_to(datetime(2026, 11, 1, tzinfo=UTC))
        for month, day in ((3, 28), (10, 24)):
            first = datetime(2026, month, day, tzinfo=berlin)
            edges = edges_between(parse_every("1d"), berlin, first, datetime(2026, month, day + 3, tzinfo=berlin))
            for slot in slots_between(edges[0], edges[-1], 3600):
                installation.store("orders", slot, 1)
            hours = [each.stored for each in ask(installation, edges, Buckets(), "orders")]
            assert hours == [24, 23 if month == 3 else 25, 24]

    @on_kinds(BRIEF, Ability.SEAL, Ability.EXPIRE)
    def test_where_only_totals_are_left_whole_hours_count(self, installation: Installation) -> None:
        fill_brief_and_expire(installation)
        edges = [START, START + HOUR, START + 3 * HOUR, START + 3.5 * HOUR, START + 5 * HOUR, START + 6 * HOUR]
        found = ask(installation, edges, EVERY_VALUE, "brief")
        assert [each.stored for each in found] == [60, 120, 0, 60, 0]
        assert found[1] == SlotBucket(edges[1], 120, 0, 0, 1, 2, 180)

    @on_kinds()
    def test_what_is_too_large_is_refused_before_anything_is_read(self, installation: Installation) -> None:
        installation.move_to(LATER)
        edges, before = [START + number * SECOND for number in range(1001)], installation.reads()
        with pytest.raises(InvalidInput, match=r"edges: more than 1,000,000 stretches"):
            installation.slots({f"metric{number}": edges for number in range(1001)}, Buckets())
        assert installation.reads() == before

    @on_kinds()
    @pytest.mark.parametrize("edges", [(), (at(0),), (at(1), at(0)), (at(0), at(3), at(2))])
    def test_edges_that_bound_nothing_are_refused(self, installation: Installation, edges: Edges) -> None:
        for view in (Buckets(), Runs(), Each(), Records(), Newest(), PollLateness()):
            with pytest.raises(InvalidInput, match="edges: must be two or more ascending instants"):
                installation.slots({"calls": edges}, view)


def fill_brief_and_expire(installation: Installation) -> None:
    """Five hours of `brief`, of whose slots only totals are left; hour n counts n."""
    for number in range(300):
        installation.move_to(max(installation.now(), at(number + 2, BRIEF)))
        installation.store("brief", at(number, BRIEF), number // 60)
    installation.move_to(START + timedelta(days=2))
    installation.seal()
    installation.move_to(START + timedelta(days=20))
    installation.expire()


class TestRuns:
    @on_layouts(Ability.KILL, Ability.ASK)
    def test_what_is_pending_or_dead_is_not_missing(self, installation: Installation, layout: Layout) -> None:
        layout.fill(
            installation, [("calls", at(number), 1) for number in range(40) if number not in range(10, 20)]
        )
        installation.kill("calls", at(12))
        installation.ask("calls", [at(15), at(16)])
        edges = (at(0), at(40))
        assert ask(installation, edges, Runs()) == [
            SlotRun(at(10), at(12), 2, MISSING),
            SlotRun(at(13), at(15), 2, MISSING),
            SlotRun(at(17), at(20), 3, MISSING),
        ]
        assert ask(installation, edges, Runs(frozenset({DEAD, PENDING}))) == [
            SlotRun(at(12), at(13), 1, DEAD),
            SlotRun(at(15), at(17), 2, PENDING),
        ]
        assert [run.state for run in ask(installation, edges, Runs(frozenset(State)))] == [
            *(STORED, MISSING, DEAD, MISSING, PENDING, MISSING, STORED),
        ]

    @on_layouts()
    def test_runs_that_touch_are_one(self, installation: Installation, layout: Layout) -> None:
        """Also where buckets, hours and ticks end; nothing is stored from 0:10 to 2:20."""
        layout.fill(installation, [("calls", at(number), 1) for number in (*range(120), *range(1680, 1700))])
        assert ask(installation, (at(0), at(1700)), Runs()) == [SlotRun(at(120), at(1680), 1560, MISSING)]
        assert ranges_of(ask(installation, (at(0), at(1700)), Runs(frozenset({STORED})))) == [
            (at(0), at(120), 120),
            (at(1680), at(1700), 20),
        ]

    @on_layouts(ORDERS)
    def test_runs_are_cut_at_edges(self, installation: Installation, layout: Layout) -> None:
        layout.fill(installation, [("orders", at(number, ORDERS), 1) for number in range(5)])
        edges = [at(3, ORDERS), at(4.5, ORDERS), at(7, ORDERS), at(7, ORDERS), at(7.1, ORDERS), at(9.5, ORDERS)]
        minutes = [at(number, ORDERS) for number in range(12)]
        assert ask(installation, edges, Runs(frozenset(State)), "orders") == [
            SlotRun(minutes[3], minutes[5], 2, STORED),
            SlotRun(minutes[5], minutes[7], 2, MISSING),
            SlotRun(minutes[7], minutes[8], 1, MISSING),
            SlotRun(minutes[8], minutes[10], 2, MISSING),
        ]

    @on_layouts(ORDERS)
    def test_metrics_without_runs_are_left_out(self, installation: Installation, layout: Layout) -> None:
        layout.fill(installation, [("calls", at(number), 1) for number in range(12)])
        edges = (at(0), at(12))
        found = installation.slots({"nobody": edges, "orders": edges, "calls": edges}, Runs())
        assert found == {"orders": [SlotRun(at(0), at(12), 1, MISSING)]}

    @on_kinds(BRIEF, Ability.SEAL, Ability.EXPIRE)
    def test_what_is_kept_no_more_is_not_missing(self, installation: Installation) -> None:
        fill_brief_and_expire(installation)
        edges = (START, START + 5 * HOUR)
        assert installation.slots({"brief": edges}, Runs()) == {}
        assert installation.slots({"brief": edges}, Each()) == {}
        assert list(installation.slots({"brief": edges}, Records())) == []
        installation.move_to(START + timedelta(days=200))  # totals are kept no more, too
        installation.expire()
        assert installation.slots({"brief": edges}, Runs()) == {}
        assert ask(installation, edges, EVERY_VALUE, "brief") == [SlotBucket(START)]

    @on_kinds(Ability.RECONFIGURE)
    def test_slots_of_a_former_interval_are_passed_over(self, installation: Installation) -> None:
        """An hour every 5 s, then every 15 s: of the first hour every third slot stands on the present grid."""
        installation.move_to(START + HOUR)
        gone = {100, 120}  # the first of which only the former grid has
        for number in range(720):
            if number not in gone:
                installation.store("calls", at(number), 1)
        slower = replace(CALLS, interval_seconds=15, lag_seconds=15)
        installation.reconfigure(slower)
        installation.move_to(START + 6 * HOUR)
        start = START + HOUR + 15 * MINUTE
        for number in range(20):
            installation.store("calls", start + number * 15 * SECOND, 1)
        assert ask(installation, (start, start + 6 * MINUTE), Runs()) == [
            SlotRun(start + 5 * MINUTE, start + 6 * MINUTE, 4, MISSING)
        ]
        quarter_minutes = [SlotRun(at(0), at(120), 40, STORED), SlotRun(at(123), at(720), 199, STORED)]
        assert ask(installation, (at(0), at(720)), Runs(frozenset({STORED}))) == quarter_minutes
        assert ask(installation, (at(0), at(720)), Buckets()) == [SlotBucket(at(0), 718)]
        assert len(ask(installation, (at(0), at(720)), Each())) == 718
        assert len(slots_of_records(installation, (at(0), start + 6 * MINUTE))) == 738

    @on_kinds()
    def test_missing_slots_without_end_are_refused(self, installation: Installation) -> None:
        installation.move_to(LATER)
        for edges in ((EARLIEST, at(3)), (at(0), LATEST)):
            with pytest.raises(InvalidInput, match="edges: must begin and end at a definite time"):
                installation.slots({"calls": edges}, Runs())


def tell(found: Slot, **expected: object) -> bool:
    """Return True if the slot is so, as far as the installation can tell."""
    told = found._asdict()
    return all(told[name] in (None, value) for name, value in expected.items())


class TestEach:
    @on_layouts(Ability.KILL, Ability.ASK)
    def test_each_slot_has_one_state(self, installation: Installation, layout: Layout) -> None:
        layout.fill(installation, [("calls", at(number), number) for number in range(6)])
        installation.kill("calls", at(7), "status 503")
        installation.ask("calls", [at(8), at(9)])
        installation.kill("calls", at(9))
        found = ask(installation, (at(0), at(12)), Each())
        assert states_of(found) == {
            **{at(number): STORED for number in range(6)},
            at(7): DEAD,
            at(8): PENDING,
            at(9): DEAD,
        }
        assert [each.value for each in found] == [0, 1, 2, 3, 4, 5, None, None, None]
        dead, pending, _ = found[6:]
        assert tell(dead, attempts=5, error="status 503", at=installation.now(), in_flight=False)
        assert tell(pending, attempts=0, error=None, backfill=True, due_at=at(9), in_flight=False)

    @on_kinds(Ability.KILL, Ability.ASK)
    def test_a_value_counts_more_than_a_state(self, installation: Installation) -> None:
        installation.move_to(LATER)
        installation.ask("calls", [at(0)])
        installation.kill("calls", at(1))
        for number in (0, 1):
            installation.store("calls", at(number), 4)
        assert states_of(ask(installation, (at(0), at(2)), Each())) == {at(0): STORED, at(1): STORED}
        assert ask(installation, (at(0), at(2)), Buckets(states=True)) == [SlotBucket(at(0), 2)]

    @on_layouts(USAGE, Ability.STORE_ONE_VALUE, Ability.KILL, Ability.ASK)
    def test_a_value_is_stored_while_another_is_pending_or_dead(
        self, installation: Installation, layout: Layout
    ) -> None:
        layout.fill(installation, [(COST, at(number), 1.5) for number in range(4)])
        installation.ask("usage", [at(1)])
        installation.kill("usage", at(2))
        edges = (at(0), at(4))
        found = installation.slots({REQUESTS: edges, COST: edges}, Each())
        assert states_of(found[COST]) == dict.fromkeys(map(at, range(4)), STORED)
        assert states_of(found[REQUESTS]) == {at(1): PENDING, at(2): DEAD}
        counted = installation.slots({REQUESTS: edges, COST: edges}, Buckets(states=True))
        assert [counts_of(counted[name]) for name in (REQUESTS, COST)] == [[(0, 1, 1)], [(4, 0, 0)]]
        missing = installation.slots({REQUESTS: edges, COST: edges}, Runs())
        assert {name: ranges_of(runs) for name, runs in missing.items()} == {
            REQUESTS: [(at(0), at(1), 1), (at(3), at(4), 1)]
        }

    @on_kinds(ORDERS, Ability.ASK)
    def test_open_ranges_have_everything(self, installation: Installation) -> None:
        installation.move_to(LATER)
        installation.store("calls", at(3), 1)
        installation.ask("calls", [at(1)])
        installation.ask("orders", [at(2, ORDERS)])
        since_ever = EARLIEST, START + 5 * HOUR  # live messages about later slots may be on their way
        asked = dict.fromkeys(("calls", "orders", "nobody"), since_ever)
        found = installation.slots(asked, Each(frozenset({PENDING})))
        assert {name: states_of(slots) for name, slots in found.items()} == {
            "calls": {at(1): PENDING},
            "orders": {at(2, ORDERS): PENDING},
        }
        assert states_of(ask(installation, since_ever, Each())) == {at(1): PENDING, at(3): STORED}
        assert ask(installation, since_ever, Buckets(states=True)) == [SlotBucket(EARLIEST, 1, 1, 0)]
        assert states_of(ask(installation, EVER, Each(frozenset({STORED})))) == {at(3): STORED}
        assert slots_of_records(installation, EVER) == [("calls", at(3))]

    @on_layouts(ORDERS, Ability.KILL, Ability.ASK)
    def test_ranges_differ_by_metric(self, installation: Installation, layout: Layout) -> None:
        layout.fill(installation, [(each.name, at(0, each), 1) for each in (CALLS, ORDERS)])
        for each in (CALLS, ORDERS):
            installation.kill(each.name, at(2, each))
            installation.ask(each.name, [at(3, each)])
        ranges = {"orders": (at(0, ORDERS), at(3, ORDERS)), "calls": (at(3), at(90))}
        found = installation.slots(ranges, Each())
        assert {name: states_of(slots) for name, slots in found.items()} == {
            "orders": {at(0, ORDERS): STORED, at(2, ORDERS): DEAD},
            "calls": {at(3): PENDING},
        }

    @on_layouts(Ability.DETAILS)
    def test_a_stored_slot_tells_how_it_came_about(self, installation: Installation, layout: Layout) -> None:
        installation.move_to(LATER)
        installation.store("calls", at(0), 1, late_ms=2000)
        installation.store("calls", at(1), 2, late_ms=0, attempts=3, at=at(100))
        installation.store("calls", at(2), 3, late_ms=0, attempts=2, backfill=True, at=at(4000))
        layout.fill(installation, [("calls", at(number), 1) for number in range(3, 9)])
        live, retried, backfilled, *_ = ask(installation, (at(0), at(9)), Each())
        assert live == Slot(at(0), STORED, 1, at(1.4), 2000, 1, False)
        assert (retried.at, retried.attempts, retried.backfill) == (at(100), 3, False)
        assert (backfilled.at, backfilled.attempts, backfilled.backfill) == (at(4000), 2, True)

    @on_kinds()
    def test_missing_slots_are_no_entries(self, installation: Installation) -> None:
        with pytest.raises(InvalidInput, match="of: missing slots have no entries; ask for Runs"):
            installation.slots({"calls": (at(0), at(1))}, Each(frozenset(State)))


class TestRecords:
    @on_layouts(ORDERS, PRICE)
    def test_metrics_come_as_asked_and_slots_ascend(self, installation: Installation, layout: Layout) -> None:
        answers = [("calls", at(number), 1) for number in (5, 3, 900, 4)]
        layout.fill(installation, [*answers, ("orders", at(1, ORDERS), 2), ("price", at(7), 0.5)])
        asked = "price", "nobody", "calls", "orders"
        assert slots_of_records(installation, (at(0), at(1000)), *asked) == [
            ("price", at(7)),
            *(("calls", at(number)) for number in (3, 4, 5, 900)),
            ("orders", at(1, ORDERS)),
        ]
        assert slots_of_records(installation, (at(4), at(5), at(900))) == [("calls", at(4)), ("calls", at(5))]

    @on_layouts(PRICE)
    @pytest.mark.parametrize("details", [False, True])
    def test_columns_equal_each(self, installation: Installation, layout: Layout, details: bool) -> None:
        layout.fill(installation, [("price", at(number), number / 8) for number in range(0, 1500, 7)])
        edges = (at(20), at(1400))
        found = []
        for piece in installation.slots({"price": edges}, Records(details)):
            blank = [None] * len(piece)
            assert bool(piece.late_ms) is bool(piece.receives) is bool(piece.backfilled) is details
            columns = (
                piece.slots,
                piece.units,
                piece.collected_ms,
                *((piece.late_ms, piece.receives, piece.backfilled) if details else (blank, blank, blank)),
            )
            for slot, units, collected, late_ms, attempts, backfilled in zip(*columns, strict=True):
                flag = None if backfilled is None else bool(backfilled)
                value = to_number(units, piece.decimals)
                found.append(Slot(from_seconds(slot), STORED, value, from_ms(collected), late_ms, attempts, flag))
        expected = ask(installation, edges, Each(), "price")
        if not details:
            expected = [each._replace(late_ms=None, attempts=None, backfill=None) for each in expected]
        assert found == expected
        assert len(found) == 197

    @on_kinds(Ability.SEAL)
    def test_nothing_is_lost_or_repeated_while_hours_are_sealed(self, installation: Installation) -> None:
        installation.move_to(LATER)
        numbers = range(0, 2400, 3)
        for number in numbers:
            installation.store("calls", at(number), number)
        pieces = installation.slots({"calls": (at(0), at(2400))}, Records())
        found = [*next(pieces).slots]
        installation.move_to(LONG_AFTER)
        installation.seal()
        for piece in pieces:
            found += piece.slots
        assert [*map(from_seconds, found)] == [at(number) for number in numbers]

    @on_kinds()
    def test_nothing_is_read_before_the_first_piece_is_taken(self, installation: Installation) -> None:
        installation.move_to(LATER)
        installation.store("calls", at(1), 1)
        before = installation.reads()
        pieces = installation.slots({"calls": (at(0), at(1000))}, Records())
        assert installation.reads() == before
        installation.store("calls", at(2), 1)
        assert [slot for piece in pieces for slot in piece.slots] == [to_seconds(at(1)), to_seconds(at(2))]


class TestNewest:
    @on_layouts(ORDERS, PRICE)
    def test_some_have_the_same_as_among_all(self, installation: Installation, layout: Layout) -> None:
        answers = [("calls", at(number), number) for number in range(900)]
        layout.fill(installation, [*answers, ("orders", at(1, ORDERS), 2), ("price", at(7), -0.5)])
        every = installation.slots(dict.fromkeys(("price", "nobody", "calls", "orders", "gauge"), EVER), Newest())
        assert {name: (each.slot, each.state, each.value) for name, each in every.items()} == {
            "price": (at(7), STORED, -0.5),
            "calls": (at(899), STORED, 899),
            "orders": (at(1, ORDERS), STORED, 2),
        }
        for name, each in every.items():
            assert installation.slots({name: EVER}, Newest()) == {name: each}

    @on_layouts()
    def test_it_is_the_last_one_of_the_range(self, installation: Installation, layout: Layout) -> None:
        layout.fill(
            installation, [("calls", at(number), number) for number in (*range(10), 700, *range(1500, 1510))]
        )
        ranges = {(0, 5): 4, (0, 5.5): 5, (5, 1500): 700, (701, 1500): None, (701, 1501): 1500, (1505, 9000): 1509}
        for (first, end), expected in ranges.items():
            found = installation.slots({"calls": (at(first), at(end))}, Newest())
            assert [each.slot for each in found.values()] == ([] if expected is None else [at(expected)])
        assert ask(installation, (EARLIEST, at(6)), Newest()).value == 5

    @on_layouts(ORDERS)
    def test_one_that_was_silent_for_a_month_has_its_own(self, installation: Installation, layout: Layout) -> None:
        layout.fill(installation, [("orders", at(number, ORDERS), 1) for number in range(6)])
        month_later = START + timedelta(days=31)
        installation.move_to(month_later + HOUR)
        installation.store("calls", month_later, 3)
        found = installation.slots({"calls": EVER, "orders": EVER}, Newest())
        assert [each.slot for each in found.values()] == [month_later, at(5, ORDERS)]

    @on_layouts()
    def test_there_is_none_before_the_first(self, installation: Installation, layout: Layout) -> None:
        layout.fill(installation, [("calls", at(number), 1) for number in range(10, 20)])
        assert installation.slots({"calls": (EARLIEST, at(10))}, Newest()) == {}
        assert installation.slots({"calls": (at(20), LATEST)}, Newest()) == {}


class TestPollLateness:
    @on_layouts(Ability.DETAILS)
    def test_only_live_polls_count(self, installation: Installation, layout: Layout) -> None:
        installation.move_to(LATER)
        for number in range(20):
            late_ms = 1000 if number < 10 else 3000
            installation.store("calls", at(number), 1, late_ms=late_ms, backfill=number % 10 == 9, attempts=1)
        layout.fill(installation, [])
        edges = [at(0), at(10), at(15), at(15), at(40), at(50)]
        found = installation.slots({"calls": edges, "nobody": edges}, PollLateness())
        assert found == [
            Lateness(9, 1000, 1000, 1000),
            Lateness(5, 3000, 3000, 3000),
            Lateness(0, 0, 0, 0),
            Lateness(4, 3000, 3000, 3000),
            Lateness(0, 0, 0, 0),
        ]
        assert installation.slots({"calls": (at(0), at(20))}, PollLateness()) == [Lateness(18, 1000, 3000, 3000)]

    @on_layouts(ORDERS, Ability.DETAILS)
    def test_all_asked_metrics_count_together(self, installation: Installation, layout: Layout) -> None:
        installation.move_to(LATER)
        installation.store("calls", at(0), 1, late_ms=1000)
        for number in range(2):
            installation.store("orders", at(number, ORDERS), 1, late_ms=5000)
        layout.fill(installation, [])
        edges = (at(0), at(100))
        asked = {"calls": edges, "orders": edges}
        assert installation.slots(asked, PollLateness()) == [Lateness(3, 5000, 5000, 5000)]
        assert installation.slots({"calls": edges}, PollLateness()) == [Lateness(1, 1000, 1000, 1000)]

    @on_layouts(DISTANT, Ability.DETAILS)
    def test_with_a_long_lag_those_count_that_were_due(self, installation: Installation, layout: Layout) -> None:
        installation.move_to(LATER)
        for number in range(0, 720, 60):
            installation.store("distant", at(number), 1, late_ms=2000)
        layout.fill(installation, [])
        due = START + timedelta(seconds=DISTANT.lag_seconds)
        edges = [due, due + 10 * MINUTE, due + 30 * MINUTE]
        assert [each.polls for each in installation.slots({"distant": edges}, PollLateness())] == [2, 4]

    @on_kinds(ORDERS)
    def test_different_edges_are_refused(self, installation: Installation) -> None:
        asked = {"calls": (at(0), at(10)), "orders": (at(0), at(11))}
        with pytest.raises(InvalidInput, match="edges: must be the same for all metrics"):
            installation.slots(asked, PollLateness())


@on_layouts()
def test_the_views_agree(installation: Installation, layout: Layout) -> None:
    layout.fill(installation, [("calls", at(number), number % 97) for number in range(1500) if number % 13])
    edges = [at(number) for number in (0, 100, 333, 720, 721, 1440, 1500)]
    buckets = ask(installation, edges, EVERY_VALUE)
    each = ask(installation, edges, Each())
    runs = ask(installation, edges, Runs(frozenset({STORED, MISSING})))
    for bucket, (start, end) in zip(buckets, pairwise(edges), strict=True):
        values = [int(slot.value or 0) for slot in each if start <= slot.slot < end]
        assert bucket == SlotBucket(start, len(values), 0, 0, min(values), max(values), sum(values))
        within = [run for run in runs if start <= run.start < end]
        assert sum(run.slots for run in within if run.state is STORED) == bucket.stored
        assert sum(run.slots for run in within) == (end - start) / (5 * SECOND)
