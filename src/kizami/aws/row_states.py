"""States of the original target's slots that its rows do not tell: given up, and asked for again.

A row holds an answer and no state. What was given up is a message on the dead-letter queue; what this process has
asked for is pending for as long as the message can be on its way. Other processes do not know of that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, cast

from kizami.aws.client import machine
from kizami.backend.slots import (
    EARLIEST,
    LATEST,
    Answer,
    AnswersSlots,
    Asked,
    Buckets,
    Each,
    Edges,
    Runs,
    Slot,
    SlotRun,
    SlotView,
    State,
)
from kizami.core.bundles import Bundle
from kizami.core.ports import Clock
from kizami.core.slot_states import HORIZON_SECONDS
from kizami.core.slots import shift

MOST_NOTED = 100_000  # slots that were asked for; of more the newest

_SECOND = timedelta(seconds=1)


class AskedRows:
    """The slots that this process has asked for, and when. For several threads."""

    def __init__(self) -> None:
        self._guard = machine.lock()
        self._asked: dict[datetime, datetime] = {}

    def note(self, slots: Iterable[datetime], now: datetime) -> None:
        """Note that slots are asked for."""
        with self._guard:
            for slot in slots:
                self._asked.pop(slot, None)
                self._asked[slot] = now
            while len(self._asked) > MOST_NOTED:
                del self._asked[next(iter(self._asked))]

    def pending(self, now: datetime) -> set[datetime]:
        """Return the slots whose messages can be on their way."""
        with self._guard:
            asked = self._asked.items()
            self._asked = {slot: at for slot, at in asked if now < shift(at, HORIZON_SECONDS)}
            return set(self._asked)


@dataclass(frozen=True, slots=True)
class _States:
    """Slots of a range that have no row: given up, and on their way."""

    dead: frozenset[datetime]
    pending: frozenset[datetime]

    def of(self, slot: datetime) -> State | None:
        """Return the state of a slot, None if nothing is known of it."""
        if slot in self.dead:
            return State.DEAD
        return State.PENDING if slot in self.pending else None


class RowAnswers:
    """Answers the question about slots from rows, with what else is known of them. StoreError, QueueError."""

    def __init__(
        self,
        answers: AnswersSlots,
        bundle: Bundle,
        clock: Clock,
        dead: Callable[[], Collection[datetime]],
        asked: AskedRows,
    ) -> None:
        self._answers = answers
        self._metric, self._step = bundle.members[0].name, timedelta(seconds=bundle.interval_seconds)
        self._clock = clock
        self._dead = dead
        self._asked = asked

    def slots(self, asked: Asked, view: SlotView[Answer]) -> Answer:
        """Answer one question about slots."""
        found = self._answers.slots(asked, view)
        change = next((change for kind, change in self._changes().items() if isinstance(view, kind)), None)
        if change is None or self._metric not in asked or (isinstance(view, Buckets) and not view.states):
            return found
        edges = asked[self._metric]
        states = self._states(edges)
        if not states.dead | states.pending:
            return found
        answer = cast("dict[str, Any]", found)
        entries = change(edges, view, states, answer.get(self._metric, []))
        # In the order of the question, and only where there is something.
        whole = {name: entries if name == self._metric else answer.get(name) for name in asked}
        return cast(Answer, {name: each for name, each in whole.items() if each})

    def _changes(self) -> dict[type, Callable[[Edges, Any, _States, list[Any]], list[Any]]]:
        return {Buckets: self._in_buckets, Each: self._in_each, Runs: self._in_runs}

    def _states(self, edges: Edges) -> _States:
        """Return the states of slots in a range: a stored slot has neither, a dead one is not on its way."""
        start, end = edges[0], edges[-1]
        dead = {slot for slot in self._dead() if start <= slot < end}
        pending = {slot for slot in self._asked.pending(self._clock.now()) if start <= slot < end}
        noted = sorted(slot for slot in dead | pending if EARLIEST < slot < LATEST - _SECOND)
        if not noted:
            return _States(frozenset(), frozenset())
        instants = sorted({edge for slot in noted for edge in (slot, slot + _SECOND)})
        rows = self._answers.slots({self._metric: instants}, Buckets())[self._metric]
        stored = {each.start for each in rows if each.stored}
        live = self._answers.slots({self._metric: edges}, Each(frozenset({State.PENDING})))
        pending |= {each.slot for each in live.get(self._metric, ())}
        return _States(frozenset(dead - stored), frozenset(pending - stored - dead))

    def _in_buckets(self, edges: Edges, view: Buckets, states: _States, found: list[Any]) -> list[Any]:
        def count(slots: Collection[datetime], start: datetime, end: datetime) -> int:
            return sum(start <= slot < end for slot in slots)

        return [
            bucket._replace(dead=count(states.dead, *bounds), pending=count(states.pending, *bounds))
            for bucket, bounds in zip(found, pairwise(edges), strict=True)
        ]

    def _in_each(self, edges: Edges, view: Each, states: _States, found: list[Slot]) -> list[Slot]:
        listed = {each.slot: each for each in found if states.of(each.slot) in (None, each.state)}
        for slot in states.dead | states.pending:
            state = states.of(slot)
            if state in view.of and state is not None:
                listed.setdefault(slot, Slot(slot, state))
        return [listed[slot] for slot in sorted(listed)]

    def _in_runs(self, edges: Edges, view: Runs, states: _States, found: list[SlotRun]) -> list[SlotRun]:
        noted = sorted(states.dead | states.pending)
        runs = [part for run in found for part in self._without(run, noted)]
        for slot in noted:
            state = states.of(slot)
            if state is not None and state in view.of:
                runs.append(SlotRun(slot, slot + self._step, 1, state))
        return list(self._joined(sorted(runs), edges))

    def _without(self, run: SlotRun, noted: Sequence[datetime]) -> Iterator[SlotRun]:
        """Return what is left of a run without these slots."""
        start = run.start
        for slot in noted:
            if start <= slot < run.end:
                if start < slot:
                    yield self._run(start, slot, run.state)
                start = slot + self._step
        if start < run.end:
            yield self._run(start, run.end, run.state)

    def _joined(self, runs: Iterable[SlotRun], edges: Edges) -> Iterator[SlotRun]:
        """Join neighbours of one state, unless an edge is between them."""
        last: SlotRun | None = None
        for run in runs:
            is_cut = last is not None and any(last.end - self._step < edge <= run.start for edge in edges)
            if last is not None and last.end == run.start and last.state is run.state and not is_cut:
                last = self._run(last.start, run.end, run.state)
                continue
            if last is not None:
                yield last
            last = run
        if last is not None:
            yield last

    def _run(self, start: datetime, end: datetime, state: State) -> SlotRun:
        return SlotRun(start, end, (end - start) // self._step, state)
