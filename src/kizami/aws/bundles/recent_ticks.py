"""What the ledger shows of bundles, for alerts: who lacks slots since the last run, how much of a time is stored.

One question a bundle brings its newest ticks and why its members fail; counts are asked for only where a message,
an end or a condition about coverage depends on them, and then of each bundle once, however many members are meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime

from kizami.alerts.reconciled import SeenTarget, recent_span
from kizami.aws.alerts.failure_notes import FailureNote, read_notes
from kizami.aws.alerts.noted import is_current, seen_with_note
from kizami.aws.client import machine
from kizami.aws.invocation import TimeLeft
from kizami.aws.known_targets import pace_of
from kizami.aws.store.block_items import BlockItem
from kizami.aws.store.tick_ledger import TickLedger, is_tick, read_tick
from kizami.backend.targets import KnownTarget
from kizami.backend.values import trouble_of
from kizami.core.coverage import Completeness, Gap, Span
from kizami.core.epoch import EPOCH
from kizami.core.errors import StoreError
from kizami.core.reconcile import ReconcilePolicy, since_first
from kizami.core.targets.bundles import NamedBundle

ASKED_AT_ONCE = 16
LEAST_SECONDS = 15.0  # with less time left nothing more is counted


@dataclass(frozen=True, slots=True)
class RecentBundle:
    """What was seen of a bundle: with whom something may be wrong, and the notes; whether anything came."""

    seen: Sequence[SeenTarget]
    notes: Mapping[str, FailureNote]
    is_storing: bool


class RecentTicks:
    """What one run asks the ledger for alerts; `asked_by` leads from metrics of several values to their target."""

    def __init__(
        self,
        bundles: Iterable[NamedBundle],
        ledger: TickLedger,
        policy: ReconcilePolicy,
        now: datetime,
        time_left: TimeLeft,
        asked_by: Mapping[str, str] | None = None,
    ) -> None:
        self._places = {name: (each, place) for each in bundles for place, name in enumerate(each.members)}
        for metric, name in (asked_by or {}).items():
            if name in self._places:
                self._places[metric] = self._places[name]
        self._ledger = ledger
        self._policy = policy
        self._now = now
        self._time_left = time_left

    def known(self, name: str) -> KnownTarget | None:
        """The target of that name, if it is polled."""
        found = self._places.get(name)
        return None if found is None else _known(found[0], name)

    def look(self, bundle: NamedBundle, blocked: Mapping[str, BlockItem]) -> RecentBundle | None:
        """Who of a bundle lacks slots that should be there by now; None if it has no tick to tell by."""
        span = recent_span(_known(bundle, ""), self._policy, self._now)
        items = list(self._ledger.items_since(bundle.name, span.start))
        noted = {(tick := read_tick(item)).slot: tick.lacking for item in items if is_tick(item)}
        notes = dict(read_notes(iter(items), "tick"))
        if min(noted, default=span.end) > span.start:
            first = self._ledger.first(bundle.name)
            if first is None and not notes:
                return None
            span = since_first(span, first)
        short = [(slot, noted.get(slot)) for slot in span.slots() if noted.get(slot, {0})]
        counts = _count_lacking(short, bundle)
        names = sorted({*(bundle.members[place] for place in counts)} | _known_of(bundle, notes, blocked))
        found = [self._seen(bundle, name, span, counts, notes.get(name), blocked.get(name)) for name in names]
        is_storing = bool(noted) or any(is_current(each, self._policy, self._now) for each in notes.values())
        return RecentBundle(found, notes, is_storing)

    def _seen(
        self,
        bundle: NamedBundle,
        name: str,
        span: Span,
        counts: Mapping[int, tuple[int, datetime]],
        note: FailureNote | None,
        item: BlockItem | None,
    ) -> SeenTarget:
        lacking, first = counts.get(self._places[name][1], (0, None))
        recent = Completeness(span.expected - lacking, span.expected)
        seen = SeenTarget(_known(bundle, name), recent, first)
        trouble = trouble_of(item.trouble) if item is not None and item.is_blocked and item.trouble else None
        return seen_with_note(seen, note, trouble, self._policy, self._now)

    def count(self, spans: Mapping[str, Span]) -> dict[str, Completeness]:
        """How much of each target's span is stored since the bundle's first tick: before it, only records tell.

        Those of bundles that cannot be read, or that there is no time for, are left out.
        """
        of_bundles: dict[str, list[str]] = {}
        for name in spans:
            of_bundles.setdefault(self._places[name][0].name, []).append(name)
        parts = machine.map_in_threads(lambda names: self._count(names, spans), of_bundles.values(), ASKED_AT_ONCE)
        return {name: found for part in parts for name, found in part.items()}

    def _count(self, names: Sequence[str], spans: Mapping[str, Span]) -> dict[str, Completeness]:
        if self._time_left() < LEAST_SECONDS:
            return {}
        bundle = self._places[names[0]][0]
        try:
            first = self._ledger.first(bundle.name)
            known = {name: since_first(spans[name], first) for name in names}
            whole = Span(
                min(span.start for span in known.values()),
                max(span.end for span in known.values()),
                bundle.interval_seconds,
            )
            gaps, noted = self._ledger.short(bundle.name, whole)
        except StoreError:
            return {}
        short = [(slot, noted.get(slot)) for gap in gaps for slot in _slots(gap, bundle)]
        counts = {
            span: _count_lacking([each for each in short if span.start <= each[0] < span.end], bundle)
            for span in set(known.values())
        }
        return {name: self._completeness(name, span, counts[span]) for name, span in known.items()}

    def _completeness(self, name: str, span: Span, counts: Mapping[int, tuple[int, datetime]]) -> Completeness:
        lacking, _ = counts.get(self._places[name][1], (0, None))
        return Completeness(span.expected - lacking, span.expected)


def _known(bundle: NamedBundle, name: str) -> KnownTarget:
    timing = bundle.interval_seconds, bundle.lag_seconds
    return KnownTarget(name, *timing, EPOCH, pace=pace_of(bundle), backfill=bundle.backfill)


def _known_of(bundle: NamedBundle, *facts: Mapping[str, object]) -> set[str]:
    """The members of whom something is known."""
    return {name for name in bundle.members if any(name in each for each in facts)}


def _slots(gap: Gap, bundle: NamedBundle) -> Iterable[datetime]:
    return Span(gap.start, gap.end, bundle.interval_seconds).slots()


def _count_lacking(
    short: Sequence[tuple[datetime, Set[int] | None]], bundle: NamedBundle
) -> dict[int, tuple[int, datetime]]:
    """How many of these ticks each member lacks, and the first of them; where nothing is noted, all lack it."""
    everybody = [slot for slot, places in short if places is None]
    counts = Counter(place for _, places in short for place in places or ())
    firsts: dict[int, datetime] = {}
    for slot, places in short:
        for place in () if places is None or places <= firsts.keys() else places:
            firsts.setdefault(place, slot)
    if not everybody:
        return {place: (count, firsts[place]) for place, count in counts.items()}
    return {
        place: (counts[place] + len(everybody), min(firsts.get(place, everybody[0]), everybody[0]))
        for place in range(len(bundle.members))
    }
