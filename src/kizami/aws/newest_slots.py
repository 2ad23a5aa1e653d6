"""The newest stored slots of many metrics: of the newest ticks first, then ever further back for those left.

1. the newest few ticks of each bundle, a hundred bundles or so a call
2. ticks that are not known to be perfect, of bundles with metrics left; marks tell of the others
3. where several members of a bundle are left, its summaries of two days
4. the newest sealed span of each metric that is left
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from kizami.aws.dynamodb import MAX_KEYS
from kizami.aws.looks import Share, SlotLook, SlotQuestion, Wants, require_few, want_spans, want_summaries
from kizami.aws.reading import Sealed, SlotReader
from kizami.aws.sealed import SpanItem
from kizami.aws.slot_sources import BundleStates, cut
from kizami.backend.slots import Slot, State
from kizami.core.answers.numbers import to_number
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.sealed_spans import LONGEST_SPAN, span_seconds, span_start
from kizami.core.slot_states import Grid
from kizami.core.ticks import Tick

NEWEST_TICKS = 3  # looked at before others: the very newest may be on its way
MANY = 4  # metrics of one bundle; from more of them on its summaries are read first
SPANS_BACK = 48


class Value(NamedTuple):
    """A stored slot, in units of `decimals`."""

    slot: int
    units: int
    decimals: int


class NewestReading:
    """Finds the newest stored slots of a question. InvalidInput if that takes too many requests."""

    def __init__(self, reader: SlotReader, question: SlotQuestion) -> None:
        self._reader = reader
        self._question = question
        self._ranges = question.ranges()
        self._requests = 1  # so far, with that of the look
        self._found: dict[str, Value] = {}
        self._left: dict[str, Sequence[Share]] = {}

    def slots(self) -> dict[str, Slot]:
        """Return them with their values, as asked; metrics without any are left out."""
        question = self._question
        foreseen = self._reader.foresee(self._ranges, question.kept, question.now)
        require_few(1 + Wants(BundleStates(foreseen).ticks()).requests(foreseen))
        look = self._reader.look(self._ranges, question.kept, question.now)
        self._left = dict(look.shares)
        for step in (self._in_rows, self._in_newest_ticks, self._in_ticks, self._in_summaries, self._in_spans):
            if self._left:
                step(look)
        return {
            name: Slot(from_seconds(value.slot), State.STORED, to_number(value.units, value.decimals))
            for name in question.edges
            if (value := self._found.get(name)) is not None
        }

    def _in_rows(self, look: SlotLook) -> None:
        for name, (*_, share) in [*self._left.items()]:
            if share.bundle.is_rows:
                tick = self._reader.newest_row(share.bundle, share.end)
                if tick is not None and to_seconds(tick.slot) >= share.start:
                    self._note(name, _value_in(tick, share))
                del self._left[name]

    def _in_newest_ticks(self, look: SlotLook) -> None:
        wanted = {
            (share.bundle.name, slot): share.bundle
            for *_, share in self._left.values()
            for slot in _newest_slots(share, look)
        }
        self._count(-(-len(wanted) // MAX_KEYS))
        ticks = self._reader.ticks_at((bundle, slot) for (_, slot), bundle in wanted.items())
        for name, (*_, share) in [*self._left.items()]:
            for slot in _newest_slots(share, look):
                tick = ticks.get((share.bundle.name, from_seconds(slot)))
                if tick is not None and share.place in tick.answers:
                    self._note(name, _value_in(tick, share))
                    del self._left[name]
                    break

    def _in_ticks(self, look: SlotLook) -> None:
        names = {share.bundle.name for shares in self._left.values() for share in shares}
        part_of_it = replace(look, parts={name: look.parts[name] for name in names})
        states = BundleStates(part_of_it)
        wanted = states.ticks()
        self._count(Wants(wanted).requests(look))
        ticks = self._reader.ticks(wanted)
        states.read(wanted, ticks, Sealed())
        newest = {name: _newest_of(shares, states) for name, shares in self._left.items()}
        # Where all ticks are perfect they were not read.
        single = {
            (share.bundle.name, slot): share.bundle
            for share, slot in filter(None, newest.values())
            if (columns := ticks.get(share.bundle.name)) is None or not columns.has(slot)
        }
        self._count(-(-len(single) // MAX_KEYS))
        others = self._reader.ticks_at((bundle, slot) for (_, slot), bundle in single.items())
        for name, shares in [*self._left.items()]:
            if (found := newest[name]) is None:
                continue
            share, slot = found
            tick = others.get((share.bundle.name, from_seconds(slot)))
            if tick is not None and share.place in tick.answers:
                self._note(name, _value_in(tick, share))
            elif (columns := ticks.get(share.bundle.name)) is not None:
                exact = columns.value(slot, share.place, share.number)
                if exact is not None:
                    self._note(name, Value(slot, *exact))
            if name in self._found and slot >= max(_sealable(each, look) for each in shares):
                del self._left[name]

    def _in_summaries(self, look: SlotLook) -> None:
        """Find where those left have their newest sealed slots, if there are many, and read these."""
        self._left = {
            name: shares
            for name, shares in self._left.items()
            if any(_sealable(share, look) > share.start for share in shares)
        }
        silent = Counter(share.bundle.name for *_, share in self._left.values())
        wanted = []
        for name, count in silent.items():
            part = look.parts[name]
            if count > MANY and (each := want_summaries(part, part.sealable_until(look.now))) is not None:
                wanted.append(each._replace(starts=each.starts[-SPANS_BACK:]))
        self._count(Wants(summaries=wanted).requests(look))
        states = BundleStates(replace(look, parts={each.name: look.parts[each.name] for each in wanted}))
        states.read((), {}, self._reader.sealed(Wants(summaries=wanted), look), sealed_only=True)
        spans = []
        for name, shares in self._left.items():
            if (found := _newest_of(shares[-1:], states)) is not None:
                share, slot = found
                interval = share.bundle.interval_seconds
                spans.append(want_spans(name, interval, [span_start(slot, span_seconds(interval))]))
        self._count(Wants(spans=spans).requests(look))
        for span in self._reader.sealed(Wants(spans=spans), look).spans.values():
            if self._note_span(span):
                del self._left[span.key.metric]

    def _in_spans(self, look: SlotLook) -> None:
        """Read the newest spans of those left, and the ones before where all slots of those are too new."""
        ends = {name: self._ranges[name][1] for name in self._left}
        while ends:
            self._count(len(ends))
            spans = {span.key.metric: span for span in self._reader.newest_spans(ends)}
            beside = []
            for name, span in spans.items():
                # A longer span of another interval may have begun before and ended after it.
                for interval in {share.bundle.interval_seconds for share in look.shares[name]}:
                    length = span_seconds(interval)
                    if interval != span.key.interval_seconds:
                        starts = range(span_start(span.key.start - LONGEST_SPAN, length), ends[name], length)
                        beside.append(want_spans(name, interval, starts))
            self._count(Wants(spans=beside).requests(look))
            for span in self._reader.sealed(Wants(spans=beside), look).spans.values():
                self._note_span(span)
            first = {name: start for name, (start, _) in self._ranges.items()}
            ends = {
                name: span.key.start
                for name, span in spans.items()
                if not self._note_span(span) and span.key.start > first[name]
            }

    def _note_span(self, span: SpanItem) -> bool:
        """Note the newest slot of a span in the range of its metric; return False if there is none."""
        slots = cut(span.unpack(), *self._ranges[span.key.metric])
        if slots is not None:
            self._note(span.key.metric, Value(slots.columns.slot[-1], slots.columns[1][-1], slots.decimals))
        return slots is not None

    def _note(self, name: str, value: Value) -> None:
        """Keep the newest value; of one slot the one that is noted last, which is sealed."""
        known = self._found.get(name)
        if known is None or value.slot >= known.slot:
            self._found[name] = value

    def _count(self, requests: int) -> None:
        self._requests += requests
        require_few(self._requests)


def _newest_slots(share: Share, look: SlotLook) -> list[int]:
    """Return the newest slots of a share that are due and not sealed, newest first."""
    grid = Grid.of(share.bundle)
    last = min(look.now - grid.lag, share.end - 1) // grid.interval * grid.interval
    first = max(share.start, look.parts[share.bundle.name].sealed_until)
    return [slot for number in range(NEWEST_TICKS) if (slot := last - number * grid.interval) >= first]


def _newest_of(shares: Sequence[Share], states: BundleStates) -> tuple[Share, int] | None:
    """Return the newest stored slot, with the share that it lies in."""
    for share in reversed(shares):
        interval = share.bundle.interval_seconds
        for run in reversed(states.runs(share.bundle.name)):
            slot = (min(run.end, share.end) - 1) // interval * interval
            if run.stored >> share.place & 1 and slot >= max(run.start, share.start):
                return share, slot
    return None


def _sealable(share: Share, look: SlotLook) -> int:
    """Return the end of the slots of a share that may be sealed by now."""
    return min(share.end, look.parts[share.bundle.name].sealable_until(look.now))


def _value_in(tick: Tick, share: Share) -> Value:
    answer = tick.answers[share.place]
    return Value(to_seconds(tick.slot), answer.values[share.number], answer.decimals)
