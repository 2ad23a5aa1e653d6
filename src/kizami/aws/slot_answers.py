"""The question about slots on AWS: its views over ticks and sealed items, without a cache of slots.

Every view has a plan of what to read, so that the number of its requests is known before the first one: by the
configuration at hand, and once more when the marks are known. States come from summaries, marks and ticks, values
from figures of days, sealed spans and ticks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby, pairwise
from math import inf
from typing import Any, NamedTuple, Protocol, cast

from kizami.aws.history.keeping import kept_from, kept_metrics
from kizami.aws.invocation import TimeLeft
from kizami.aws.looks import (
    FIRST_SECOND,
    Share,
    SlotLook,
    SlotQuestion,
    TickRange,
    Wanted,
    Wants,
    require_few,
    want_summaries,
)
from kizami.aws.newest_slots import NewestReading
from kizami.aws.ownership import Ownership
from kizami.aws.reading import Sealed, SlotReader
from kizami.aws.record_pieces import RecordReading
from kizami.aws.slot_sources import BundleStates, Scope, Tallies, Ticks, ValuePlan, ValueReading
from kizami.backend.slots import (
    Answer,
    Asked,
    Buckets,
    Each,
    Newest,
    PollLateness,
    Records,
    Runs,
    Slot,
    SlotBucket,
    SlotRun,
    SlotView,
    State,
    require_answerable,
)
from kizami.backend.values import Lateness, lateness_of
from kizami.core.answers.numbers import to_number
from kizami.core.bundles import Bundle
from kizami.core.epoch import EPOCH, from_ms, from_seconds, to_seconds
from kizami.core.merging import MetricSlots
from kizami.core.ports import Clock
from kizami.core.slot_states import Grid, StateCounts, StateRun, count_states, states_of_summary
from kizami.core.slots import shift
from kizami.core.summaries import BundleSummary
from kizami.core.targets.target import Target
from kizami.core.tick_columns import TickColumns
from kizami.core.ticks import places_of


class AwsSlotAnswers:
    """Answers the question about slots from a table. StoreError; InvalidInput if that takes too many requests."""

    def __init__(
        self,
        table: str,
        ownership: Ownership,
        targets: Iterable[Target],
        clock: Clock,
        time_left: TimeLeft = lambda: inf,
    ) -> None:
        self._targets = {part.name: part for target in targets for part in target.of_each_metric()}
        self._reader = SlotReader(table, ownership, time_left)
        self._clock = clock

    def slots(self, asked: Asked, view: SlotView[Answer]) -> Answer:
        """Answer one question about slots."""
        require_answerable(asked, view)
        question = self._question(asked)
        answer: object
        if isinstance(view, Records):
            answer = RecordReading(self._reader, question, view.details, self._now).pieces()
        elif isinstance(view, Newest):
            answer = NewestReading(self._reader, question).slots()
        else:
            answer = self._planned(question, _PLANS[type(view)], view)
        return cast(Answer, answer)

    def _planned(self, question: SlotQuestion, make: ViewPlanOf, view: SlotView[Any]) -> object:
        is_buckets, is_polls = isinstance(view, Buckets), isinstance(view, PollLateness)
        ranges = question.ranges_of_polls() if is_polls else question.ranges(with_totals=is_buckets)
        foreseen = self._reader.foresee(ranges, question.kept, question.now)
        self._require_few(make(question, view, foreseen), foreseen)
        look = self._reader.look(ranges, question.kept, question.now)
        plan = make(question, view, look)
        self._require_few(plan, look)
        ticks = self._reader.ticks(plan.ticks(), consistent=not (is_buckets or is_polls))
        sealed = self._reader.sealed(plan.sealed(ticks), look)
        return plan.answer(ticks, sealed)

    def _now(self) -> int:
        return to_seconds(self._clock.now())

    def _require_few(self, plan: ViewPlan, look: SlotLook) -> None:
        require_few(1 + replace(plan.sealed({}), ticks=plan.ticks()).requests(look))

    def _question(self, asked: Asked) -> SlotQuestion:
        now = self._clock.now()
        seconds = {id(edges): [*map(to_seconds, edges)] for edges in asked.values()}
        kept, totals = {}, {}
        for name in asked:
            target = self._targets.get(name)
            if target is None or target.keep_seconds is None:
                continue
            since = kept_from(target, now)
            assert since is not None
            kept[name] = totals[name] = to_seconds(since)
            (metric,) = kept_metrics([target])
            if metric.has_totals:
                expired = metric.totals_expire_at(EPOCH)
                totals[name] = FIRST_SECOND if expired is None else to_seconds(now) - expired + 1
        edges = {name: seconds[id(edges)] for name, edges in asked.items()}
        known = {name: self._targets[name] for name in asked if name in self._targets}
        intervals = {name: target.interval_seconds for name, target in known.items()}
        lags = {name: target.lag_seconds for name, target in known.items()}
        return SlotQuestion(asked, to_seconds(now), edges, kept, totals, intervals, lags)


class ViewPlan(Protocol):
    """What a view reads, and what it makes of that."""

    def ticks(self) -> Sequence[TickRange]:
        """Return the ticks to read."""

    def sealed(self, ticks: Ticks) -> Wants:
        """Return the sealed items to read when these ticks are there; some that are open may have left them."""

    def answer(self, ticks: Ticks, sealed: Sealed) -> object:
        """Make the answer of the view."""


class BucketsPlan:
    """`Buckets`: without values slots are counted by their states, with values as they are added up."""

    def __init__(self, question: SlotQuestion, view: Buckets, look: SlotLook) -> None:
        self._question = question
        self._view = view
        self._look = look
        self._states = BundleStates(look) if view.states or not view.values else None
        self._values = ValueReading(look, self._value_plans())

    def _value_plans(self) -> Iterator[ValuePlan]:
        scope = Scope.FIGURES if self._view.values else Scope.TOTALS
        for name, shares in self._look.shares.items():
            edges, kept = self._question.edges[name], self._question.kept_from(name)
            if scope is Scope.FIGURES or edges[0] < kept:
                yield from _plans(scope, shares, self._look, edges, kept)

    def ticks(self) -> list[TickRange]:
        return self._values.ticks(self._states.ticks() if self._states else ())

    def sealed(self, ticks: Ticks) -> Wants:
        self._values.note(ticks)
        summaries = self._states.summaries() if self._states else ()
        return Wants(summaries=summaries, spans=self._values.spans(), days=self._values.days())

    def answer(self, ticks: Ticks, sealed: Sealed) -> dict[str, list[SlotBucket]]:
        empty: dict[int, list[SlotBucket]] = {}
        found = {}
        for name, edges in self._question.asked.items():
            if id(edges) not in empty:
                empty[id(edges)] = [SlotBucket(edge) for edge in edges[:-1]]
            found[name] = list(empty[id(edges)])
        if self._states:
            self._states.read(self.ticks(), ticks, sealed)
            self._count(self._states, found)
        self._values.note_sealed(sealed)
        for name, plans in groupby(self._values.plans, lambda plan: plan.metric):
            tallies = Tallies(self._question.edges[name])
            for plan in plans:
                figures = sealed.figures.get((name, plan.interval_seconds), ())
                kept = (each for each in figures if each.start >= self._question.totals_from.get(name, each.start))
                self._values.add_up(plan, tallies, kept)
            tallies.put_into(found[name], values=self._view.values)
        return found

    def _count(self, states: BundleStates, found: dict[str, list[SlotBucket]]) -> None:
        counted: dict[tuple[object, ...], list[StateCounts]] = {}
        for name, shares in self._look.shares.items():
            edges = self._question.edges[name]
            for share in shares:
                start = max(share.start, self._question.kept_from(name))
                key = share.bundle.name, id(edges), start, share.end
                if key not in counted:
                    inside = [min(max(edge, start), max(start, share.end)) for edge in edges]
                    counted[key] = count_states(states.runs(share.bundle.name), inside, Grid.of(share.bundle))
                self._add(found[name], counted[key], share.place)

    def _add(self, buckets: list[SlotBucket], counts: Sequence[StateCounts], place: int) -> None:
        for number, each in enumerate(counts):
            if not each.slots:
                continue
            start, stored, pending, dead, *_ = buckets[number]
            if not self._view.values:
                stored += each.stored(place)
            if self._view.states:
                pending, dead = pending + each.pending.get(place, 0), dead + each.dead.get(place, 0)
            buckets[number] = SlotBucket(start, stored, pending, dead)


class RunsPlan:
    """`Runs`: states slot by slot on the present grid."""

    def __init__(self, question: SlotQuestion, view: Runs, look: SlotLook) -> None:
        self._question = question
        self._of = view.of
        self._look = look
        self._states = BundleStates(look)

    def ticks(self) -> list[TickRange]:
        return self._states.ticks()

    def sealed(self, ticks: Ticks) -> Wants:
        return Wants(summaries=self._states.summaries())

    def answer(self, ticks: Ticks, sealed: Sealed) -> dict[str, list[SlotRun]]:
        self._states.read(self.ticks(), ticks, sealed)
        found = {}
        for name, bounds in self._question.ranges().items():
            shares = self._look.shares.get(name, ())
            interval = self._question.intervals.get(name) or (
                shares[-1].bundle.interval_seconds if shares else None
            )
            if interval is None:
                continue
            pieces = self._pieces(shares, interval, *(-(-bound // interval) * interval for bound in bounds))
            runs = [
                part
                for run in _joined(pieces)
                if run.state in self._of
                for part in _cut(run, interval, self._question.edges[name])
            ]
            if runs:
                found[name] = runs
        return found

    def _pieces(self, shares: Iterable[Share], interval: int, start: int, end: int) -> Iterator[_Piece]:
        """Return the states of slots of an interval in [start, end), oldest first; unowned ones are missing."""
        at = start
        for share in shares:
            first, last = (-(-bound // interval) * interval for bound in (share.start, share.end))
            first, last = max(first, at), min(last, end)
            if first >= last:
                continue
            yield _Piece(at, first, State.MISSING)
            yield from _on_grid(
                _states_of(self._states.runs(share.bundle.name), share), share, interval, first, last
            )
            at = last
        yield _Piece(at, end, State.MISSING)


class _Piece(NamedTuple):
    start: int
    end: int
    state: State


def _states_of(runs: Iterable[StateRun], share: Share) -> Iterator[_Piece]:
    """Return the states of one member."""
    for run in runs:
        if run.start < share.end and run.end > share.start:
            yield _Piece(max(run.start, share.start), min(run.end, share.end), _state(run, share.place))


def _state(run: StateRun, place: int) -> State:
    if run.stored >> place & 1:
        return State.STORED
    if run.dead >> place & 1:
        return State.DEAD
    return State.PENDING if run.pending >> place & 1 else State.MISSING


def _on_grid(pieces: Iterable[_Piece], share: Share, interval: int, start: int, end: int) -> Iterator[_Piece]:
    """Return states of a bundle's slots as those of the slots of an interval; it lacks those between its own."""
    own = share.bundle.interval_seconds
    for piece in pieces:
        first, last = (-(-bound // interval) * interval for bound in (piece.start, piece.end))
        first, last = max(first, start), min(last, end)
        if first >= last:
            continue
        if interval % own == 0 or piece.state is State.MISSING:
            yield _Piece(first, last, piece.state)
            continue
        for slot in range(first, last, interval):
            yield _Piece(slot, slot + interval, State.MISSING if slot % own else piece.state)


def _joined(pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """Join neighbours of one state; the pieces touch."""
    last: _Piece | None = None
    for piece in pieces:
        if piece.start >= piece.end:
            continue
        if last and last.state is piece.state:
            last = last._replace(end=piece.end)
            continue
        if last:
            yield last
        last = piece
    if last:
        yield last


def _cut(run: _Piece, interval: int, edges: Sequence[int]) -> Iterator[SlotRun]:
    """Cut a run where its slots on either side of an edge meet."""
    bounds = [run.start]
    for edge in edges[bisect_right(edges, run.start) : bisect_left(edges, run.end)]:
        at = -(-edge // interval) * interval
        if bounds[-1] < at < run.end:
            bounds.append(at)
    for start, end in pairwise([*bounds, run.end]):
        yield SlotRun(from_seconds(start), from_seconds(end), (end - start) // interval, run.state)


class EachPlan:
    """`Each`: stored slots with all that is known of them, the others by their states."""

    def __init__(self, question: SlotQuestion, view: Each, look: SlotLook) -> None:
        self._question = question
        self._of = view.of
        self._look = look
        self._states = BundleStates(look) if view.of - {State.STORED} else None
        self._values = ValueReading(look, self._value_plans() if State.STORED in view.of else ())

    def _value_plans(self) -> Iterator[ValuePlan]:
        for name, shares in self._look.shares.items():
            kept = self._question.kept_from(name)
            yield from _plans(Scope.SLOTS, shares, self._look, self._question.edges[name], kept)

    def ticks(self) -> list[TickRange]:
        return self._values.ticks(self._states.ticks() if self._states else ())

    def sealed(self, ticks: Ticks) -> Wants:
        self._values.note(ticks)
        summaries: Sequence[Wanted] = ()
        if self._states:
            # What is pending in a sealed span has a tick there.
            only_pending = State.DEAD not in self._of
            summaries = self._states.summaries_beside(ticks) if only_pending else self._states.summaries()
        return Wants(summaries=summaries, spans=self._values.spans())

    def answer(self, ticks: Ticks, sealed: Sealed) -> dict[str, list[Slot]]:
        found: dict[str, list[Slot]] = {}
        self._values.note_sealed(sealed)
        for plan in self._values.plans:
            for detail, piece in self._values.pieces(plan):
                is_row = detail.share.bundle.is_rows
                found.setdefault(plan.metric, []).extend(_stored_slots(piece, is_row))
        if self._states:
            self._states.read(self.ticks(), ticks, sealed)
            for name, shares in self._look.shares.items():
                if slots := [each for share in shares for each in self._unstored(self._states, share)]:
                    found.setdefault(name, []).extend(slots)
        return {name: sorted(found[name], key=_slot) for name in self._question.edges if name in found}

    def _unstored(self, states: BundleStates, share: Share) -> Iterator[Slot]:
        bundle, step = share.bundle, share.bundle.interval_seconds
        for piece in _states_of(states.runs(bundle.name), share):
            if piece.state is State.STORED or piece.state not in self._of:
                continue
            for second in range(-(-piece.start // step) * step, piece.end, step):
                slot = from_seconds(second)
                due_at = shift(bundle.due(slot), bundle.offset_seconds)
                yield Slot(slot, piece.state, due_at=due_at if piece.state is State.PENDING else None)


def _slot(found: Slot) -> datetime:
    return found.slot


def _stored_slots(piece: MetricSlots, is_row: bool) -> Iterator[Slot]:
    for slot, units, collected, *details in zip(*piece.columns, strict=True):
        late_ms, attempts, backfill = (None, None, None) if is_row else details
        yield Slot(
            from_seconds(slot),
            State.STORED,
            to_number(units, piece.decimals),
            from_ms(collected),
            late_ms,
            attempts,
            None if backfill is None else bool(backfill),
        )


class LatenessPlan:
    """`PollLateness`: the lateness of a live tick counts for each asked metric that it stored."""

    def __init__(self, question: SlotQuestion, view: PollLateness, look: SlotLook) -> None:
        self._question = question
        self._look = look

    def ticks(self) -> list[TickRange]:
        found = []
        for part in self._look.parts.values():
            rows = [TickRange(part.bundle, part.start, part.end)]
            found += rows if part.bundle.is_rows else part.tick_ranges(values=True)
        return found

    def sealed(self, ticks: Ticks) -> Wants:
        parts = [part for part in self._look.parts.values() if not part.bundle.is_rows]
        wanted = (want_summaries(part, part.sealable_until(self._look.now)) for part in parts)
        return Wants(summaries=[each for each in wanted if each is not None])

    def answer(self, ticks: Ticks, sealed: Sealed) -> list[Lateness]:
        asked: dict[str, dict[tuple[int, int], Counter[int]]] = {}  # metrics by bundle, range and place
        for shares in self._look.shares.values():
            for share in shares:
                ranges = asked.setdefault(share.bundle.name, {})
                ranges.setdefault((share.start, share.end), Counter())[share.place] += 1
        stretches = list(pairwise(next(iter(self._question.edges.values()), ())))
        found: list[Counter[int]] = [Counter() for _ in stretches]
        for name, part in self._look.parts.items():
            polls = _polls(part.bundle, ticks.get(name), sealed.summaries.get(name, ()))
            for late, (start, end) in zip(found, stretches, strict=True):
                lag = part.bundle.lag_seconds
                for first, last in [(start, end), *([(start - lag, end - lag)] if lag >= end - start else [])]:
                    for bounds, places in asked.get(name, {}).items():
                        _count_polls(late, polls, max(first, bounds[0]), min(last, bounds[1]), places)
        return [lateness_of(sorted(late.items())) for late in found]


_Poll = tuple[int, int, int]  # slot, lateness in ms, members by bits


def _polls(bundle: Bundle, ticks: TickColumns | None, summaries: Iterable[BundleSummary]) -> list[_Poll]:
    """Return the live polls of a bundle, oldest first; a slot may be in a tick and sealed."""
    found: dict[int, _Poll] = {}
    for summary in summaries:
        runs = states_of_summary(summary, Grid.of(bundle))
        starts = [run.start for run in runs]
        for slot, late_ms in summary.late_ms.items():
            found[slot] = slot, late_ms, runs[bisect_right(starts, slot) - 1].stored
    for slot, late_ms, live in ticks.late_polls() if ticks else ():
        _, late_ms, known = found.get(slot, (slot, late_ms, 0))
        found[slot] = slot, late_ms, known | live
    return sorted(found.values())


def _count_polls(
    late: Counter[int], polls: Sequence[_Poll], start: int, end: int, places: Mapping[int, int]
) -> None:
    """Count the polls of slots in [start, end), each for so many metrics of the members that it stored."""
    mask, every = sum(1 << place for place in places), sum(places.values())
    for _, late_ms, live in polls[bisect_left(polls, (start,)) : bisect_left(polls, (end,))]:
        if live & mask == mask:
            late[late_ms] += every
        elif live & mask:
            late[late_ms] += sum(places[place] for place in places_of(live & mask))


def _plans(
    scope: Scope, shares: Sequence[Share], look: SlotLook, edges: Sequence[int], kept: int
) -> Iterator[ValuePlan]:
    """ViewPlan a metric's values, those of each interval for themselves."""
    for _, several in groupby(sorted(shares, key=_interval), key=_interval):
        held = [(share, look.sealed_until(share)) for share in several]
        yield ValuePlan.of(scope, held, edges, kept)


def _interval(share: Share) -> int:
    return share.bundle.interval_seconds


ViewPlanOf = Callable[[SlotQuestion, Any, SlotLook], ViewPlan]

_PLANS: Mapping[type, ViewPlanOf] = {
    Buckets: BucketsPlan,
    Runs: RunsPlan,
    Each: EachPlan,
    PollLateness: LatenessPlan,
}
