"""Packed ticks and the states of targets: the same on Amazon's own DynamoDB and on the simulator's."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest

from aws_here.local_aws import create_metrics_table, lead_to
from aws_here.memory_aws import led_to, memory_aws
from kizami.aws.blocks import Blocks
from kizami.aws.client.json_client import Fields, JsonClient
from kizami.aws.plans import Plans
from kizami.aws.ticks import TickFacts, Ticks
from kizami.core.blocking import Trouble
from kizami.core.bundles import Bundle, BundleMember, BundlePlan
from kizami.core.holding import TargetState
from kizami.core.slots import shift
from kizami.core.ticks import Answered, Tick

SLOT = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)


@dataclass
class Table:
    """A table, and the units that its calls took since they were last looked at."""

    name: str
    units: float = 0.0

    def taken(self) -> float:
        units, self.units = self.units, 0.0
        return units


@pytest.fixture(params=["dynamodb-local", "memory"])
def table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    """An empty metric table."""
    call = JsonClient.call
    if request.param == "memory":
        made = Table("Metrics")
    else:
        endpoint = request.getfixturevalue("dynamodb_local_endpoint")
        lead_to(endpoint, monkeypatch)
        made = Table(create_metrics_table(endpoint))

    def counting(client: JsonClient, operation: str, parameters: Fields, within_seconds: float = 30.0) -> Fields:
        counted = {"ReturnConsumedCapacity": "TOTAL"} if "TableName" in parameters else {}
        answer = call(client, operation, {**parameters, **counted}, within_seconds)
        made.units += answer.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0)
        return answer

    monkeypatch.setattr(JsonClient, "call", counting)
    if request.param == "memory":
        with led_to(memory_aws()):
            yield made
    else:
        yield made


def bundle_of(size: int, decimals: int = 0, values: int = 1) -> Bundle:
    members = (
        BundleMember(f"t{place}", decimals, tuple(f"t{place}/{number}" for number in range(values)))
        for place in range(size)
    )
    return Bundle("0a1b2c3d.0", 5, 5, True, 0, tuple(members))


BUNDLE = bundle_of(4)


def states(tick: Tick) -> list[frozenset[int]]:
    """Which members are outstanding, given up and held."""
    return [tick.outstanding, tick.dead, tick.held]


def answers(*places: int, value: int = 7, attempts: int = 1) -> dict[int, Answered]:
    return {place: Answered((value + place,), 0, 12, attempts) for place in places}


def test_a_tick_reads_back_with_its_answers_and_states(table: Table) -> None:
    ticks = Ticks(table.name)
    facts = TickFacts(answers(0), frozenset({1}), frozenset({2}), frozenset({3}))
    assert ticks.put(BUNDLE, SLOT, facts, 345) is None
    (tick,) = ticks.read(BUNDLE, SLOT, shift(SLOT, 5))
    assert (tick.slot, tick.late_ms, tick.answers) == (SLOT, 345, answers(0))
    assert states(tick) == [{1}, {2}, {3}]
    assert not tick.is_partial
    assert list(ticks.read(BUNDLE, shift(SLOT, 5), shift(SLOT, 10))) == []


def test_the_second_of_two_puts_gets_what_the_first_has_written(table: Table) -> None:
    ticks = Ticks(table.name)
    assert ticks.put(BUNDLE, SLOT, TickFacts(answers(0, 1), frozenset({2, 3}))) is None
    found = ticks.put(BUNDLE, SLOT, TickFacts(answers(0, 2, value=99), frozenset({1, 3})))
    assert found is not None
    assert found.answers == answers(0, 1)
    ticks.record(BUNDLE, SLOT, TickFacts(answers(0, 2, value=99), frozenset({1, 3})))
    (tick,) = ticks.read(BUNDLE, SLOT, shift(SLOT, 5))
    assert tick.answers == answers(0, 1) | answers(2, value=99)
    assert tick.outstanding == {3}


def test_a_later_answer_takes_its_member_off_those_outstanding_and_never_changes(table: Table) -> None:
    ticks = Ticks(table.name)
    ticks.record(BUNDLE, SLOT, TickFacts(answers(0), frozenset({1, 2, 3})))
    assert ticks.add(BUNDLE, SLOT, TickFacts(answers(1, attempts=2), held=frozenset({2})))
    assert ticks.add(BUNDLE, SLOT, TickFacts(answers(0, 1, value=99, attempts=3), dead=frozenset({3})))
    (tick,) = ticks.read(BUNDLE, SLOT, shift(SLOT, 5))
    assert tick.answers == answers(0) | answers(1, attempts=2)
    assert states(tick) == [set(), {3}, {2}]
    (item,) = ticks.items(BUNDLE, SLOT, shift(SLOT, 5))
    assert "o" not in item


def test_nothing_is_added_to_a_tick_that_is_not_there(table: Table) -> None:
    ticks = Ticks(table.name)
    assert not ticks.add(BUNDLE, SLOT, TickFacts(answers(1)))
    assert not ticks.add(BUNDLE, SLOT, TickFacts(dead=frozenset({1})))
    assert ticks.add(BUNDLE, SLOT, TickFacts(outstanding=frozenset({1}))), "nothing to add"
    assert list(ticks.read(BUNDLE, SLOT, shift(SLOT, 5))) == []


def test_of_deliveries_that_race_each_member_has_one_answer_that_stays(table: Table) -> None:
    bundle, ticks = bundle_of(20), Ticks(table.name)

    def deliver(number: int) -> None:
        facts = TickFacts(answers(0, number, value=100 * number, attempts=1 + number % 2))
        ticks.record(bundle, SLOT, facts)
        ticks.record(bundle, SLOT, facts)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(deliver, range(1, 17)))
    (tick,) = ticks.read(bundle, SLOT, shift(SLOT, 5))
    assert tick.answers.keys() == set(range(17))
    for number in range(1, 17):
        assert tick.answers[number].values == (101 * number,)
    assert tick.answers[0].values[0] in {100 * number for number in range(1, 17)}
    deliver(1)
    (again,) = ticks.read(bundle, SLOT, shift(SLOT, 5))
    assert again == tick


def test_a_hundred_later_answers_are_added_at_once(table: Table) -> None:
    bundle, ticks = bundle_of(100), Ticks(table.name)
    ticks.record(bundle, SLOT, TickFacts({}, frozenset(range(100))))
    late = answers(*range(100), value=2**40, attempts=2)
    assert ticks.add(bundle, SLOT, TickFacts(late, held=frozenset({3}), dead=frozenset({4})))
    (tick,) = ticks.read(bundle, SLOT, shift(SLOT, 5))
    assert tick.answers == late
    assert not tick.outstanding


def test_numbers_are_exact_with_decimals_and_below_zero(table: Table) -> None:
    bundle, ticks = bundle_of(3, decimals=2, values=2), Ticks(table.name)
    first = Answered((-(2**53) + 1, 2**53 - 1), 2, 0)
    later = Answered((0, -1), 2, 100_000, 7, True)
    other = Answered((123, 4), 1, 5)  # of a target that has other decimals by now
    ticks.record(bundle, SLOT, TickFacts({0: first, 2: other}, frozenset({1})))
    ticks.add(bundle, SLOT, TickFacts({1: later}))
    (tick,) = ticks.read(bundle, SLOT, shift(SLOT, 5))
    assert tick.answers == {0: first, 1: later, 2: other}


def test_a_tick_that_was_begun_for_some_members_says_so(table: Table) -> None:
    ticks = Ticks(table.name)
    ticks.record(BUNDLE, SLOT, TickFacts(answers(1, attempts=2)))
    ticks.record(BUNDLE, shift(SLOT, 5), TickFacts(answers(0, 1, 2), held=frozenset({3})))
    partial, whole = ticks.read(BUNDLE, SLOT, shift(SLOT, 10))
    assert (partial.is_partial, whole.is_partial) == (True, False)


def test_a_backfill_makes_members_outstanding_and_dead_no_more(table: Table) -> None:
    ticks, now = Ticks(table.name), shift(SLOT, 1000)
    ticks.record(BUNDLE, SLOT, TickFacts(answers(0), frozenset({1}), frozenset({2, 3})))
    ticks.ask_again(BUNDLE, SLOT, [1, 2], now)
    (tick,) = ticks.read(BUNDLE, SLOT, shift(SLOT, 5))
    assert states(tick) == [{1, 2}, {3}, set()]
    assert (tick.asked, tick.answers) == (now, answers(0))
    ticks.ask_again(BUNDLE, shift(SLOT, 5), [1], now)
    (absent,) = ticks.read(BUNDLE, shift(SLOT, 5), shift(SLOT, 10))
    assert states(absent) == [{1}, set(), set()]
    assert (absent.is_partial, absent.asked) == (True, now)
    ticks.forget_dead(BUNDLE, SLOT, [3])
    (tick,) = ticks.read(BUNDLE, SLOT, shift(SLOT, 5))
    assert not tick.dead


def test_a_tick_is_deleted_only_as_it_was_read(table: Table) -> None:
    ticks = Ticks(table.name)
    for number in range(30):
        ticks.record(BUNDLE, shift(SLOT, 5 * number), TickFacts(answers(0, 1, 2, 3)))
    items = list(ticks.items(BUNDLE, SLOT, shift(SLOT, 150)))
    assert len(items) == 30
    ticks.add(BUNDLE, SLOT, TickFacts(held=frozenset({1})))
    ticks.delete(items[29:])
    ticks.record(BUNDLE, shift(SLOT, 145), TickFacts(answers(0, value=99)))  # deleted, and written anew
    changed = {**items[28], "v": {"M": {"0": {"B": "AA=="}}}}  # as if an answer had come since
    assert ticks.delete([*items[:28], changed, items[29]]) == [False] + [True] * 27 + [False] * 2
    left = [tick.slot for tick in ticks.read(BUNDLE, SLOT, shift(SLOT, 150))]
    assert left == [SLOT, shift(SLOT, 140), shift(SLOT, 145)]
    assert ticks.delete(items[1:3]) == [True, True], "what is gone is gone"


def test_single_ticks_of_many_bundles_and_the_newest_ones_are_read(table: Table) -> None:
    ticks, other = Ticks(table.name), replace(BUNDLE, name="0a1b2c3d.1")
    for number in range(3):
        ticks.record(BUNDLE, shift(SLOT, 5 * number), TickFacts(answers(number)))
    ticks.record(other, SLOT, TickFacts(answers(3)))
    found = ticks.at([(BUNDLE, SLOT), (other, SLOT), (other, shift(SLOT, 5))])
    assert found.keys() == {(BUNDLE.name, SLOT), (other.name, SLOT)}
    newest = ticks.newest(BUNDLE, shift(SLOT, 7), 5)
    assert [tick.slot for tick in newest] == [shift(SLOT, 5), SLOT]


@pytest.mark.parametrize(
    ("value", "units"), [(10**3, 1), (10**9 - 1, 1), (10**12, 1), (10**15 - 1, 2), (2**53 - 1, 2)]
)
def test_a_hundred_values_of_nine_digits_with_their_times_take_one_write_unit(
    table: Table, value: int, units: int
) -> None:
    bundle = bundle_of(100)
    full = {place: Answered((value - place,), 0, 70 + 2 * place) for place in range(100)}
    table.taken()
    Ticks(table.name).put(bundle, SLOT, TickFacts(full), 1234)
    assert table.taken() <= units


def test_a_later_answer_takes_one_write_unit(table: Table) -> None:
    bundle, ticks = bundle_of(100), Ticks(table.name)
    full = {place: Answered((10**6 + place,), 0, 70 + 2 * place) for place in range(97)}
    ticks.put(bundle, SLOT, TickFacts(full, frozenset({97, 98, 99})), 1234)
    table.taken()
    ticks.add(bundle, SLOT, TickFacts(answers(97, 98), held=frozenset({99})))
    assert table.taken() == 1


def test_a_plan_is_registered_once_and_reads_back(table: Table) -> None:
    plans, plan = Plans(table.name), BundlePlan("0a1b2c3d", (bundle_of(100), replace(BUNDLE, name="0a1b2c3d.1")))
    for _ in range(2):
        plans.register(plan)
    assert plans.plan("0a1b2c3d") == plan
    assert plans.bundle("0a1b2c3d.1") == plan.bundles[1]
    assert plans.bundle("0a1b2c3d.2") is None


TROUBLE = Trouble(SLOT, "status 503, expected 200; is url right?", shift(SLOT, 9), 3, 2, shift(SLOT, 60))
HELD = TargetState(TROUBLE, 0, True, 0, SLOT, BUNDLE.name, None, "0123456789abcdef")


def test_a_state_reads_back(table: Table) -> None:
    blocks = Blocks(table.name)
    states = {
        "held": HELD,
        "slow": TargetState(slow=True, quick=1),
        "answers again": replace(HELD, trouble=None, answered_at=shift(SLOT, 99)),
        "in doubt": TargetState(replace(TROUBLE, next_probe=None, probes=0), lasting=1),
        "well": TargetState(),
    }
    for name, state in states.items():
        kept = blocks.save(name, state)
        assert kept is not None
        assert kept.version > 0
        assert blocks.get(name) == kept
        assert replace(kept, version=0) == state
    assert {name: replace(state, version=0) for name, state in blocks.all().items()} == states
    some = blocks.of(["held", "slow", "unknown"])
    assert some.keys() == {"held", "slow"}


def test_a_state_is_written_and_forgotten_only_as_it_was_read(table: Table) -> None:
    blocks = Blocks(table.name)
    first = blocks.save("calls", TargetState(slow=True))
    assert first is not None
    assert blocks.save("calls", TargetState(slow=True)) is None, "it is new no more"
    second = blocks.save("calls", replace(first, quick=1))
    assert second is not None
    assert blocks.save("calls", replace(first, quick=2)) is None
    assert not blocks.forget("calls", first)
    assert blocks.forget("calls", second)
    assert blocks.get("calls") is None
    # One that was forgotten is not mistaken for one that came after it.
    again = blocks.save("calls", TargetState(slow=True))
    assert again is not None
    assert again.version not in (first.version, second.version)
    assert blocks.save("calls", second) is None


def test_a_change_is_made_again_on_what_another_writer_left(table: Table) -> None:
    blocks = Blocks(table.name)
    stale = blocks.save("calls", TargetState(slow=True))
    assert stale is not None

    def one_more(state: TargetState | None) -> TargetState | None:
        return replace(state, quick=state.quick + 1) if state else None

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: blocks.update("calls", one_more, stale), range(4)))
    found = blocks.get("calls")
    assert found is not None
    assert found.quick == 4
    assert blocks.update("calls", lambda state: state) == found, "nothing is written"
    assert blocks.update("unknown", one_more) is None


def test_the_states_of_a_bundle_are_read_for_half_a_unit(table: Table) -> None:
    blocks = Blocks(table.name)
    names = [f"t{number}" for number in range(100)]
    assert blocks.of(names) == {}
    for name in names[:8]:
        blocks.save(name, HELD)
    table.taken()
    assert len(blocks.of(names)) == 8
    assert table.taken() == 0.5
