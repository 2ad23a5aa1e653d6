"""Sealing on AWS: any answers in any order, retries, crashes and sealers at once; values move and never change."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache, partial
from itertools import count
from random import Random
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from aws_here.interleaving import BREAKS, CRASHES_AFTER, CRASHES_BEFORE, GOES_ON, Interleaving
from aws_here.memory_aws import MemoryAws, led_to, memory_aws
from kizami.aws.marks import MARKS, KnownMarks, Marks, read_marks
from kizami.aws.sealed import SPANS, FiguresOfSpan, SealedItems, SpanKey
from kizami.aws.sealing import BundleToSeal, Sealing
from kizami.aws.ticks import PREFIX, TickFacts, Ticks, read_tick
from kizami.core.bundles import Bundle, BundleMember
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.merging import HourFigures, MetricSlots, figures_by_hour, merge, read_figures, write_figures
from kizami.core.messages import BACKFILL, RETRY
from kizami.core.messages import LIVE as LIVE_LANE
from kizami.core.recovery import (
    GIVEN_UP,
    LiveRange,
    begin_mark,
    find_runs,
    fit_runs,
    next_look,
    put_runs,
    read_again,
)
from kizami.core.sealed_spans import HOUR, SlotColumns, pack_slots, unpack_slots
from kizami.core.slots import parse_instant
from kizami.core.summaries import Absence, BundleSummary, read_summary, summarize, write_summary
from kizami.core.ticks import Answered, Tick
from simulation.aws_world.dynamodb import SimulatedDynamoDb, Table

HOUR_10 = datetime(2025, 12, 2, 10, tzinfo=UTC)
HALF_PAST, HOUR_11 = HOUR_10 + timedelta(minutes=30), HOUR_10 + timedelta(hours=1)
SEALABLE = HOUR_11 + timedelta(minutes=125)
STEP = 5


def member(name: str, decimals: int, *values: str) -> BundleMember:
    return BundleMember(name, decimals, tuple(f"{name}/{value}" for value in values) or (name,))


# A deployment at half past ten: the targets stand in another order, and y has other decimals.
EARLIER = Bundle("0a0a0a0a.0", STEP, 5, True, 0, (member("x", 0), member("y", 2, "p", "q")))
LATER = Bundle("0b0b0b0b.0", STEP, 5, True, 0, (member("y", 0, "p", "q"), member("x", 0)))
LIVE = {
    EARLIER.name: [LiveRange(HOUR_10, HALF_PAST)],
    LATER.name: [LiveRange(HALF_PAST, HOUR_11 + timedelta(seconds=10))],
}
BUNDLES = {bundle.name: bundle for bundle in (EARLIER, LATER)}
SLOTS = [
    *((EARLIER, HOUR_10 + timedelta(seconds=seconds)) for seconds in (0, 5, 10, 600, 1790, 1795)),
    *((LATER, HALF_PAST + timedelta(seconds=seconds)) for seconds in (0, 5, 10, 600, 1790, 1795)),
    (LATER, HOUR_11),
    (EARLIER, HOUR_10 - timedelta(seconds=5)),  # backfills of what was before the first plan, and between the two
    (LATER, HALF_PAST - timedelta(seconds=60)),
]
LIVE_SLOTS = len(SLOTS) - 2

Value = tuple[Fraction, int, int, int, int]  # and when it was collected, how late, receives, backfilled
Key = tuple[str, int]  # metric and slot


def values_of(tick: Tick, bundle: Bundle) -> Iterator[tuple[Key, Value]]:
    slot = to_seconds(tick.slot)
    for place, answer in tick.answers.items():
        at = 1000 * (slot + bundle.lag_seconds) + answer.after_ms
        late_ms = (tick.late_ms or 0) // 10 * 10
        for metric, units in zip(bundle.members[place].metrics, answer.values, strict=True):
            exact = Fraction(units, 10**answer.decimals)
            yield (metric, slot), (exact, at, late_ms, answer.attempts, int(answer.backfill))


@lru_cache(maxsize=4096)
def sealed_values(metric: str, data: str, decimals: int) -> dict[Key, Value]:
    columns = unpack_slots(base64.b64decode(data))
    rows = zip(*columns, strict=True)
    return {(metric, row[0]): (Fraction(row[1], 10**decimals), *row[2:]) for row in rows}


@dataclass
class Truth:
    """What DynamoDB was told, write by write: first answers, the newest states, and lateness of live ticks."""

    values: dict[Key, Value] = field(default_factory=dict)
    states: dict[tuple[str, int, int], str] = field(default_factory=dict)
    late: dict[tuple[str, int], int] = field(default_factory=dict)

    def note(self, tick: Tick, bundle: Bundle) -> None:
        for key, value in values_of(tick, bundle):
            self.values.setdefault(key, value)
        slot = to_seconds(tick.slot)
        if any(not answer.backfill for answer in tick.answers.values()):
            self.late.setdefault((bundle.name, slot), tick.late_ms or 0)
        for place in range(len(bundle.members)):
            cell = bundle.name, slot, place
            if place in tick.answers:
                self.states[cell] = "stored"
            elif self.states.get(cell) != "stored" and place not in tick.outstanding:
                if place in tick.dead:
                    self.states[cell] = "dead"
                elif place in tick.held:
                    self.states[cell] = "held"
                elif not tick.is_partial:
                    self.states[cell] = "missing"


class World:
    """A table that writers, the reconciler, sealers and readers use at once, with what it must answer."""

    def __init__(self, chance: Random, fates: Mapping[int, str], refused_share: float) -> None:
        self.now = HOUR_11 + timedelta(seconds=30)
        self.truth = Truth()
        self.aws = MemoryAws(dynamodb=SimulatedDynamoDb(on_change=self._note_change))
        self.aws.dynamodb.tables["Metrics"] = Table("metricName", "slotTime")
        self.aws.dynamodb.refused_share = refused_share
        calls = count()
        self.fates: Mapping[int, str] = {}
        self._at_once = Interleaving(
            self.aws,
            chance,
            lambda: self.fates.get(next(calls), GOES_ON),
        )
        self._later_fates = fates
        self._ticks: dict[tuple[str, datetime], dict[Key, Value]] = {}
        self._sealed: dict[tuple[str, str], dict[Key, Value]] = {}

    # What is there at any moment, to a reader who sees all of it at once

    def _note_change(self, table: str, before: Any, after: Any) -> None:
        self.check()
        partition, sort = ((before or after)[name]["S"] for name in ("metricName", "slotTime"))
        if partition.startswith(PREFIX):
            bundle = BUNDLES[partition.removeprefix(PREFIX)]
            key = bundle.name, parse_instant(sort, "slotTime")
            self._ticks.pop(key, None)
            if after is not None:
                tick = read_tick(after, bundle)
                self.truth.note(tick, bundle)
                self._ticks[key] = dict(values_of(tick, bundle))
            else:
                gone = read_tick(before, bundle)
                assert gone.outstanding <= gone.answers.keys(), "a tick was deleted that awaits an answer"
                assert self._marks().of(bundle.name).may_delete(gone.slot)
        elif partition.startswith(SPANS):
            metric = partition.removeprefix(SPANS)
            self._sealed[partition, sort] = sealed_values(metric, after["d"]["B"], int(after["e"]["N"]))

    def check(self) -> None:
        """Compare what a reader finds: ticks that are not sealed or of late days, then what is sealed."""
        marks = self._marks()
        found: dict[Key, Value] = {}
        for (name, slot), values in self._ticks.items():
            mark = marks.of(name)
            if slot >= mark.sealed_until or slot.date() in mark.late_days:
                found |= values
        for values in self._sealed.values():
            found |= values
        assert found == self.truth.values

    def _marks(self) -> KnownMarks:
        table = self.aws.dynamodb.tables["Metrics"]
        return read_marks(table.items[MARKS, name] for name in table.order.get(MARKS, ()))

    # Who uses it

    def carry_out(self, works: Sequence[Callable[[], None]], *, is_quiet: bool = False) -> None:
        self.fates = {} if is_quiet else self._later_fates
        with self._at_once.in_place():
            self._at_once.carry_out(works)
        self.check()

    def write(self, bundle: Bundle, slot: datetime, facts: TickFacts, late_ms: int, lane: str) -> None:
        """Write as a Collector does: an old tick, or one that a backfill begins, is noted before."""
        if lane != LIVE_LANE and Ticks("Metrics").add(bundle, slot, facts):
            return
        Marks("Metrics").note_if_late(bundle, slot, self.now, is_backfill=lane == BACKFILL)
        Ticks("Metrics").record(bundle, slot, facts, late_ms)

    def fill(self, fill: Fill) -> Callable[[], None]:
        """Answer for a member that lacks a slot at present, rather one that has a tick."""
        lacking = [
            (bundle, slot, place)
            for bundle, slot in SLOTS
            for place, each in enumerate(bundle.members)
            if (each.metrics[0], to_seconds(slot)) not in self.truth.values
        ]
        with_tick = [each for each in lacking if (each[0].name, each[1]) in self._ticks]
        lacking = with_tick if with_tick and fill.number % 3 else lacking
        if not lacking:
            return lambda: None
        bundle, slot, place = lacking[fill.number % len(lacking)]
        lane = BACKFILL if slot < LIVE[bundle.name][0].start else fill.lane
        units = (fill.units,) * len(bundle.members[place].metrics)
        answers = {place: Answered(units, 1, 9, 3, lane == BACKFILL)}
        return lambda: self.write(bundle, slot, TickFacts(answers), 77, lane)

    def ask_again(self, bundle: Bundle, slot: datetime, places: frozenset[int]) -> None:
        """Write as a redrive does."""
        note = partial(Marks("Metrics").note_if_late, bundle, slot, self.now, is_backfill=True)
        Ticks("Metrics").ask_again(bundle, slot, places, self.now, note)

    def look(self) -> None:
        """Do what the reconciler does about ticks: look at new ones, and again at those that are open."""
        marks, known = Marks("Metrics"), Marks("Metrics").all()
        for bundle in BUNDLES.values():
            live, mark = LIVE[bundle.name], known.of(bundle.name)
            if not mark.version:
                begun = marks.begin(begin_mark(bundle.name, live[0].start))
                if begun is None:
                    continue
                mark = begun
            everywhere = dict.fromkeys(range(len(bundle.members)), from_seconds(0))
            for run in mark.open_runs:
                ticks = Ticks("Metrics").read(bundle, run.start, run.end)
                mark = put_runs(mark, run.start, run.end, read_again(run, bundle, ticks, everywhere))
            if span := next_look(mark, bundle, live, self.now):
                ticks = Ticks("Metrics").read(bundle, span.start, span.end)
                runs = find_runs(span, bundle, ticks, everywhere)
                # Nobody asks for the many slots without a tick.
                runs = tuple(
                    replace(run, rounds=GIVEN_UP) if len(run.missing) == len(bundle.members) else run
                    for run in runs
                )
                mark = put_runs(replace(mark, seen_until=span.end), span.start, span.end, runs)
            marks.save(fit_runs(mark))

    def reconcile(self) -> None:
        self.look()
        self.seal()

    def seal_earlier(self) -> None:
        self.seal(EARLIER)

    def seal_later(self) -> None:
        self.seal(LATER)

    def seal(self, *bundles: Bundle) -> None:
        marks = Marks("Metrics")
        known = marks.all()
        works = [BundleToSeal(each, known.of(each.name), LIVE[each.name]) for each in bundles or BUNDLES.values()]
        Sealing("Metrics", marks, {}).run(works, self.now)

    def read(self) -> None:
        """Read as a reader does, one call after the other, while others write."""
        before, marks = dict(self.truth.values), Marks("Metrics").all()
        found: dict[Key, Value] = {}
        for name, bundle in BUNDLES.items():
            mark = marks.of(name)
            days = [datetime(day.year, day.month, day.day, tzinfo=UTC) for day in mark.late_days]
            for start, end in [
                *((day, min(day + timedelta(days=1), mark.sealed_until)) for day in days),
                (max(mark.sealed_until, HOUR_10 - timedelta(hours=1)), HOUR_11 + timedelta(hours=1)),
            ]:
                for tick in Ticks("Metrics").read(bundle, start, end):
                    found |= dict(values_of(tick, bundle))
        items, first = SealedItems("Metrics"), to_seconds(HOUR_10) - HOUR
        for metric in METRICS:
            for span in items.spans(metric, STEP, first, first + 3 * HOUR):
                found |= sealed_values(metric, base64.b64encode(span.data).decode(), span.decimals)
        assert before.items() <= found.items() <= self.truth.values.items()

    # The end

    def come_to_rest(self) -> None:
        """Settle what is open, and let the reconciler and sealing run undisturbed for two days."""
        for (name, slot), item in list(self._items(PREFIX)):
            bundle = BUNDLES[name]
            tick = read_tick(item, bundle)
            places = frozenset(range(len(bundle.members)))
            dead = (tick.missing(places) | tick.outstanding) - tick.answers.keys()
            work = lambda bundle=bundle, slot=slot, dead=dead: self.write(  # noqa: E731
                bundle, slot, TickFacts(dead=dead), 0, BACKFILL
            )
            self.carry_out([work], is_quiet=True)
        for _ in range(4):
            self.now += timedelta(hours=13)
            self.carry_out([self.look], is_quiet=True)
            self.carry_out([self.seal], is_quiet=True)

    def _items(self, prefix: str) -> Iterator[tuple[tuple[str, datetime], Any]]:
        for (partition, sort), item in self.aws.dynamodb.tables["Metrics"].items.items():
            if partition.startswith(prefix):
                yield (partition.removeprefix(prefix), parse_instant(sort[:20], "slotTime")), item

    def require_all_sealed(self) -> None:
        """Compare what sealing made with a recount."""
        assert not list(self._items(PREFIX)), "ticks of sealed spans are left"
        with led_to(self.aws):
            marks, items = Marks("Metrics").all(), SealedItems("Metrics")
            for name, bundle in BUNDLES.items():
                assert not marks.of(name).late_days
                (live,) = LIVE[name]
                assert live.end is not None
                assert marks.of(name).sealed_until >= live.end
                summaries = list(
                    items.summaries(name, STEP, to_seconds(HOUR_10) - HOUR, to_seconds(HOUR_11) + HOUR)
                )
                self._compare_summaries(bundle, summaries)
            for metric in METRICS:
                self._compare_figures(metric, list(items.days(metric, STEP, 0, to_seconds(HOUR_11) + HOUR)))

    def _compare_summaries(self, bundle: Bundle, summaries: Sequence[BundleSummary]) -> None:
        late: dict[int, int] = {}
        told: dict[tuple[int, int], str] = {}
        for summary in summaries:
            late |= summary.late_ms
            for slot in range(summary.begin, summary.end, STEP):
                for place in range(len(bundle.members)):
                    counted = summary.count(place, slot, slot + STEP)
                    (state,) = (state for state, number in counted._asdict().items() if number)
                    told[slot, place] = state
        known = {key[1:]: state for key, state in self.truth.states.items() if key[0] == bundle.name}
        assert known.keys() <= told.keys()
        assert told == {key: known.get(key, "missing") for key in told}
        assert late == {slot: ms for (name, slot), ms in self.truth.late.items() if name == bundle.name}
        (live,) = LIVE[bundle.name]
        assert {slot for slot, _ in told} >= set(range(to_seconds(live.start), to_seconds(live.end), STEP))  # type: ignore[arg-type]

    def _compare_figures(self, metric: str, hours: Sequence[HourFigures]) -> None:
        expected: dict[int, list[Fraction]] = {}
        for (name, slot), value in sorted(self.truth.values.items()):
            if name == metric:
                expected.setdefault(slot - slot % HOUR, []).append(value[0])
        found = {
            hour.start: (hour.stored, *(Fraction(each, 10**hour.decimals) for each in hour[2:5])) for hour in hours
        }
        assert found == {hour: (len(all_), min(all_), max(all_), sum(all_)) for hour, all_ in expected.items()}


METRICS = sorted({metric for bundle in BUNDLES.values() for each in bundle.members for metric in each.metrics})


class Write(NamedTuple):
    """A delivery's facts about a slot."""

    slot: int
    facts: TickFacts
    late_ms: int
    lane: str


class AskAgain(NamedTuple):
    """A redrive of some members of a slot."""

    slot: int
    places: frozenset[int]


class Fill(NamedTuple):
    """A delivery that answers what a slot lacks, one of those that lack a member."""

    number: int
    units: int
    lane: str


UNITS = st.integers(0, 3) | st.integers(-(2**53), 2**53)


@st.composite
def writes(draw: st.DrawFn) -> Write:
    slot = draw(st.integers(0, len(SLOTS) - 1))
    bundle, _ = SLOTS[slot]
    answers: dict[int, Answered] = {}
    states: dict[str, set[int]] = {"outstanding": set(), "dead": set(), "held": set()}
    lane = BACKFILL if slot >= LIVE_SLOTS else draw(st.sampled_from([LIVE_LANE, LIVE_LANE, RETRY, BACKFILL]))
    attempts = 2 if lane == RETRY else 1
    kinds = st.sampled_from(draw(st.sampled_from([["answer"], ["answer", "nothing", *states]])))
    for place, each in enumerate(bundle.members):
        kind = draw(kinds)
        if kind == "answer":
            units = draw(st.lists(UNITS, min_size=len(each.metrics), max_size=len(each.metrics)))
            decimals = each.decimals if lane == LIVE_LANE else draw(st.integers(0, 9))
            steps = draw(st.integers(-5, 900))
            answers[place] = Answered(tuple(units), decimals, steps, attempts, lane == BACKFILL)
        elif kind in states:
            states[kind].add(place)
    facts = TickFacts(answers, *map(frozenset, states.values()))
    return Write(slot, facts, draw(st.integers(-20, 5000)), lane)


@st.composite
def redrives(draw: st.DrawFn) -> AskAgain:
    slot = draw(st.integers(0, len(SLOTS) - 1))
    places = st.integers(0, len(SLOTS[slot][0].members) - 1)
    return AskAgain(slot, frozenset(draw(st.sets(places, min_size=1))))


RUNS = st.sampled_from(["reconcile", "seal", *2 * ["seal_earlier", "seal_later"], "read"])
FILLS = st.builds(Fill, st.integers(0, 100), st.integers(0, 3), st.sampled_from([RETRY, BACKFILL]))
MOSTLY_WRITES = st.lists(st.one_of(writes(), FILLS, FILLS, redrives(), RUNS), min_size=2, max_size=5)
MOSTLY_RUNS = st.lists(st.one_of(RUNS, RUNS, FILLS, writes()), min_size=3, max_size=5)
PAUSES = st.sampled_from([0, 16, 125, 1500]), st.sampled_from([16, 16, 16, 125, 1500])
ROUNDS = st.lists(st.tuples(PAUSES[0], MOSTLY_WRITES, PAUSES[1], MOSTLY_RUNS), min_size=3, max_size=6)
FATES = st.dictionaries(
    st.integers(0, 250), st.sampled_from([CRASHES_BEFORE, CRASHES_AFTER, CRASHES_AFTER, BREAKS]), max_size=8
)


Work = str | Write | AskAgain | Fill


def work_of(world: World, work: Work) -> Callable[[], None]:
    if isinstance(work, str):
        found: Callable[[], None] = getattr(world, work)
        return found
    if isinstance(work, Fill):
        return world.fill(work)
    bundle, slot = SLOTS[work.slot]
    if isinstance(work, Write):
        return lambda: world.write(bundle, slot, work.facts, work.late_ms, work.lane)
    return lambda: world.ask_again(bundle, slot, work.places)


# **Feature: data-collection-scheduler, Property 72: First answers read back at every moment of their sealing**
@given(
    first=st.lists(writes(), min_size=3, max_size=12),
    is_sealed=st.booleans(),
    rounds=ROUNDS,
    seed=st.integers(0, 2**32 - 1),
    fates=FATES,
    refused_share=st.sampled_from([0.0, 0.0, 0.1]),
)
@settings(max_examples=300, deadline=None)
def test_first_answers_read_back_at_every_moment(
    first: list[Write],
    is_sealed: bool,
    rounds: list[tuple[int, list[Work], int, list[Work]]],
    seed: int,
    fates: dict[int, str],
    refused_share: float,
) -> None:
    world = World(Random(seed), fates, refused_share)
    for write in first:
        world.carry_out([work_of(world, write)], is_quiet=True)
    world.now = SEALABLE
    world.carry_out([world.reconcile if is_sealed else world.look], is_quiet=True)
    for before, late, between, works in rounds:
        for minutes, each in ((before, late), (between, works)):
            world.now += timedelta(minutes=minutes)
            world.carry_out([work_of(world, work) for work in each])
    world.come_to_rest()
    world.require_all_sealed()


# Parts of it


@st.composite
def batches(draw: st.DrawFn) -> list[list[Tick]]:
    """Ticks as several sealings find them: of any slots around an hour, some again."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        slots = draw(st.sets(st.integers(-3, 12), max_size=8))
        found.append([draw(ticks_at(HOUR_10 + timedelta(seconds=STEP * slot))) for slot in sorted(slots)])
    return found


@st.composite
def ticks_at(draw: st.DrawFn, slot: datetime) -> Tick:
    kinds = draw(st.lists(st.sampled_from(["answer", "backfill", "o", "d", "h", ""]), min_size=2, max_size=2))
    places = {kind: frozenset(place for place, each in enumerate(kinds) if each == kind) for kind in kinds}
    answers = {
        place: Answered((0,) * EARLIER.widths[place], 0, 7, backfill=kind == "backfill")
        for place, kind in enumerate(kinds)
        if kind in ("answer", "backfill")
    }
    outstanding, dead, held = (places.get(name, frozenset()) for name in "odh")
    late_ms, is_partial = draw(st.integers(-2000, 10**6)), draw(st.booleans())
    return Tick(slot, answers, late_ms, outstanding, dead, held, is_partial=is_partial)


# **Feature: data-collection-scheduler, Property 73: Summaries merged step by step tell what ticks told**
@given(several=batches(), live=st.tuples(st.integers(-2, 10), st.integers(0, 8)))
@settings(max_examples=300)
def test_summaries_tell_what_ticks_told(several: list[list[Tick]], live: tuple[int, int]) -> None:
    begin = to_seconds(HOUR_10) + STEP * live[0]
    end, truth = begin + STEP * live[1], Truth()
    summary: BundleSummary | None = None
    for ticks in several:
        for tick in ticks:
            truth.note(tick, EARLIER)
        summary = summarize(EARLIER, begin, end, ticks, summary)
        assert read_summary(write_summary(summary)) == summary
    assert summary is not None
    assert summary.late_ms == {slot: late_ms for (_, slot), late_ms in truth.late.items()}
    slots = {to_seconds(tick.slot) for ticks in several for tick in ticks}
    for place in range(2):
        told = []
        for slot in range(summary.begin, summary.end, STEP):
            (state,) = (
                state for state, number in summary.count(place, slot, slot + 1)._asdict().items() if number
            )
            assert state == truth.states.get((EARLIER.name, slot, place), "missing")
            told.append(state)
            slots.discard(slot)
        whole = summary.count(place, summary.begin - 7, summary.end + 7)
        assert whole == tuple(told.count(state) for state in ("stored", "missing", "held", "dead"))
        runs = [run for run in summary.runs(place, summary.begin + 1, summary.end) if run.state is Absence.DEAD]
        assert sum((run.end - run.start) // STEP for run in runs) == told[1:].count("dead")
    assert not slots, "a slot with a tick lies outside of the summary"
    assert not live[1] or (summary.begin <= begin and end <= summary.end)


@st.composite
def metric_slots(draw: st.DrawFn) -> MetricSlots:
    slots = sorted(draw(st.sets(st.integers(0, 3000), min_size=1, max_size=30)))
    units = st.integers(-(2**53), 2**53)
    counts = draw(st.lists(units, min_size=len(slots), max_size=len(slots)))
    rest = ([1000 * slot for slot in slots], [0] * len(slots), [1] * len(slots), [0] * len(slots))
    return MetricSlots(SlotColumns(slots, counts, *rest), draw(st.integers(0, 9)))


def exact(slots: MetricSlots) -> dict[int, Fraction]:
    columns = zip(slots.columns[0], slots.columns[1], strict=True)
    return {slot: Fraction(count, 10**slots.decimals) for slot, count in columns}


# **Feature: data-collection-scheduler, Property 74: Merging and adding up is exact, and what is sealed stays**
@given(parts=st.lists(metric_slots(), min_size=1, max_size=4))
@settings(max_examples=200)
def test_merging_and_adding_up_is_exact(parts: list[MetricSlots]) -> None:
    sealed: MetricSlots | None = None
    expected: dict[int, Fraction] = {}
    for part in parts:
        merged = merge(sealed, part)
        expected = exact(part) | expected
        assert (merged is sealed) is (sealed is not None and exact(part).keys() <= exact(sealed).keys())
        sealed = MetricSlots(unpack_slots(pack_slots(merged.columns)), merged.decimals)
        assert exact(sealed) == expected
    assert sealed is not None
    assert list(sealed.columns.slot) == sorted(expected)
    (hour, *others) = read_figures(write_figures(3, 0, figures_by_hour(sealed)), 0)
    assert not others
    drawn = (Fraction(each, 10**hour.decimals) for each in hour[2:5])
    values = expected.values()
    assert (hour.stored, *drawn) == (len(values), min(values), max(values), sum(values))


# **Feature: data-collection-scheduler, Property 75: Figures of days are those of the highest version**
@given(
    writes=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=8),
    fates=FATES,
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=150, deadline=None)
def test_figures_are_those_of_the_highest_version(
    writes: list[tuple[int, int, int]], fates: dict[int, str], seed: int
) -> None:
    aws, calls = memory_aws(), count()
    at_once = Interleaving(aws, Random(seed), lambda: fates.get(next(calls), GOES_ON))
    first = to_seconds(HOUR_10)
    done: dict[tuple[str, int], set[int]] = {}

    def write(number: int, version: int, hour: int) -> None:
        key = SpanKey(f"m{number % 2}", first + hour * HOUR, STEP)
        figures = HourFigures(key.start, 1, version, version, version, 0)
        SealedItems("Metrics").write_figures([FiguresOfSpan(key, version, [figures])], {})
        done.setdefault((key.metric, key.start), set()).add(version)

    with at_once.in_place():
        at_once.carry_out([lambda each=each: write(*each) for each in writes])  # type: ignore[misc]
        items = SealedItems("Metrics")
        for metric in ("m0", "m1"):
            hours = {hour.start: hour for hour in items.days(metric, STEP, first, first + 4 * HOUR)}
            for (name, start), versions in done.items():
                if name == metric:
                    assert hours[start].total >= max(versions)
                    assert hours[start].total == max(versions) or fates
