"""Past slots that are asked for again: gathered by bundles, and cut into messages (pure).

    messages about single slots, metric by metric ─▶ spans of bundles, members by bits ─▶ messages about many

Slots come metric by metric, and a message is about all members of a bundle that want the same slots of a minute.
So they are held until all are known, millions of them in some 8 bytes each: members that want the same slots
share their bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kizami.core.bundles import Bundle
from kizami.core.epoch import from_seconds
from kizami.core.rounds import LackingSlots, slots_a_message
from kizami.core.sealed_spans import span_seconds, span_start
from kizami.core.ticks import places_of


class WantedRange(NamedTuple):
    """What is wanted of a bundle: slots in [start, end), in seconds since 1970, of members by bits."""

    bundle: Bundle
    start: int
    end: int
    members: int


class WantedSpan(NamedTuple):
    """What is wanted of a bundle in one span: its slots, each with members by bits."""

    bundle: Bundle
    start: int
    end: int
    slots: dict[int, int]


class PastSlots:
    """Slots of bundles, each with the members that it is wanted of."""

    def __init__(self) -> None:
        self._bundles: dict[str, Bundle] = {}
        self._spans: dict[tuple[int, str], list[int]] = {}  # by start and bundle: the members of each slot
        self._same: dict[int, int] = {}  # equal bits are one object
        self.size = 0  # slots of bundles that are held

    def add(self, bundle: Bundle, slot: int, place: int) -> None:
        """Want a slot of a member."""
        step = bundle.interval_seconds
        length = span_seconds(step)
        start = span_start(slot, length)
        span = self._spans.get((start, bundle.name))
        if span is None:
            self._bundles[bundle.name] = bundle
            span = self._spans[start, bundle.name] = [0] * (length // step)
        number = (slot - start) // step
        self.size += not span[number]
        bits = span[number] | 1 << place
        span[number] = self._same.setdefault(bits, bits)

    def ranges(self) -> list[WantedRange]:
        """Return what is wanted of each bundle."""
        found: dict[str, WantedRange] = {}
        for (start, name), span in self._spans.items():
            bundle = self._bundles[name]
            wanted = [number for number, bits in enumerate(span) if bits]
            if not wanted:
                continue
            step, members = bundle.interval_seconds, 0
            for bits in set(span):
                members |= bits
            first, end = start + wanted[0] * step, start + (wanted[-1] + 1) * step
            before = found.get(name, WantedRange(bundle, first, end, 0))
            bounds = min(before.start, first), max(before.end, end)
            found[name] = WantedRange(bundle, *bounds, before.members | members)
        return list(found.values())

    def keep(self, bundle: Bundle, runs: Iterable[tuple[int, int, int]]) -> None:
        """Want nothing of a bundle but what lies within these runs: start, end, members by bits."""
        step = bundle.interval_seconds
        length = span_seconds(step)
        kept = {key: [0] * len(span) for key, span in self._spans.items() if key[1] == bundle.name}
        for start, end, members in runs:
            for at in range(span_start(start, length), end, length):
                if (at, bundle.name) in kept:
                    allowed = kept[at, bundle.name]
                    first, last = max(0, -(-(start - at) // step)), min(len(allowed), -(-(end - at) // step))
                    for number in range(first, last):
                        allowed[number] |= members
        for key, allowed in kept.items():
            span = self._spans[key]
            self.size -= sum(map(bool, span))
            for number, bits in enumerate(span):
                span[number] = self._same.setdefault(bits & allowed[number], bits & allowed[number])
            self.size += sum(map(bool, span))

    def values(self) -> int:
        """Return how many slots of members are wanted."""
        return sum(bits.bit_count() for span in self._spans.values() for bits in span)

    def spans(self) -> Iterator[WantedSpan]:
        """Return what is wanted of each span."""
        for (start, name), span in self._spans.items():
            bundle = self._bundles[name]
            step = bundle.interval_seconds
            slots = {start + number * step: bits for number, bits in enumerate(span) if bits}
            if slots:
                yield WantedSpan(bundle, start, start + span_seconds(step), slots)

    def messages(self) -> Iterator[tuple[Bundle, LackingSlots]]:
        """Return what each message is about, oldest spans first: neighbouring slots that the same members want."""
        for start, name in sorted(self._spans):
            bundle, span = self._bundles[name], self._spans[start, name]
            step, most = bundle.interval_seconds, slots_a_message(bundle)
            first = 0
            for number in range(1, len(span) + 1):
                is_end = number == len(span) or number % most == 0 or span[number] != span[first]
                if not is_end:
                    continue
                if span[first]:
                    begin, end = from_seconds(start + first * step), from_seconds(start + number * step)
                    yield bundle, LackingSlots(begin, end, frozenset(places_of(span[first])))
                first = number
