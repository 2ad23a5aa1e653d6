"""A backend in memory, as far as the watch asks one: targets whose slots a test stores, queues and gives up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import cast

from kizami.backend.port import Backend
from kizami.backend.targets import KnownTarget
from kizami.backend.values import Bucket, Deaths, Lateness, QueueDepth, SlotCounts, TargetTrouble, bucket_of
from kizami.core.coverage import Completeness, Span
from kizami.core.errors import InvalidInput
from kizami.core.slots import slots_between

IDLE = QueueDepth(0, 12, 0, 0, 0.0)
PROMPT = Lateness(100, 2, 9, 40)


@dataclass
class WatchedTarget:
    """A target: its stored counts, the slots on the queue, and when and why others were given up."""

    known: KnownTarget
    counts: dict[datetime, int] = field(default_factory=dict)
    pending: set[datetime] = field(default_factory=set)
    dead: dict[datetime, tuple[datetime, str]] = field(default_factory=dict)

    def stored(self, span: Span) -> list[datetime]:
        return [slot for slot in self.counts if span.start <= slot < span.end]


@dataclass
class WatchedBackend:
    """Answers what `watch` asks. `fault` is raised by every question, `too_large` are questions it refuses."""

    targets_by_name: dict[str, WatchedTarget] = field(default_factory=dict)
    failing: dict[str, TargetTrouble] = field(default_factory=dict)
    depth: QueueDepth = IDLE
    late: Lateness = PROMPT
    fault: BaseException | None = None
    too_large: Collection[str] = ()
    asked: Counter[str] = field(default_factory=Counter)

    @property
    def port(self) -> Backend:
        """It, as the watch takes it."""
        return cast(Backend, self)

    # What happens

    def add(self, *targets: KnownTarget) -> None:
        self.targets_by_name |= {target.name: WatchedTarget(target) for target in targets}

    def remove(self, name: str) -> None:
        del self.targets_by_name[name]

    def change(self, name: str, **changes: object) -> None:
        target = self.targets_by_name[name]
        target.known = replace(target.known, **changes)  # type: ignore[arg-type]

    def store(self, name: str, start: datetime, end: datetime, count: int = 7) -> None:
        """Store the slots of a range that were not given up."""
        target = self.targets_by_name[name]
        for slot in set(slots_between(start, end, target.known.interval_seconds)) - target.dead.keys():
            target.counts.setdefault(slot, count)
            target.pending.discard(slot)

    def send(self, name: str, start: datetime, end: datetime) -> None:
        """Queue the slots of a range that are not stored."""
        target = self.targets_by_name[name]
        target.pending |= set(slots_between(start, end, target.known.interval_seconds)) - target.counts.keys()

    def bury(self, name: str, slots: Iterable[datetime], died_at: datetime, reason: str = "status 404") -> None:
        """Give slots up."""
        for slot in slots:
            self.targets_by_name[name].dead[slot] = died_at, reason
            self.targets_by_name[name].pending.discard(slot)

    # What the watch asks

    def look(self) -> AbstractContextManager[WatchedBackend]:
        return nullcontext(self)

    def targets(self, names: Collection[str] | None = None, *, recent: bool = False) -> list[KnownTarget]:
        self._ask("targets")
        wanted = sorted(self.targets_by_name if names is None else self.targets_by_name.keys() & names)
        return [self.targets_by_name[name].known for name in wanted]

    def troubles(self) -> dict[str, TargetTrouble]:
        self._ask("troubles")
        return dict(self.failing)

    def deaths(self, since: datetime) -> dict[str, Deaths]:
        self._ask("deaths")
        found = {}
        for name, target in self.targets_by_name.items():
            dead = {slot: why for slot, (at, why) in target.dead.items() if at >= since}
            if dead:
                found[name] = Deaths(len(dead), min(dead), dead[max(dead)])
        return found

    def completeness(self, spans: Mapping[str, Span]) -> dict[str, Completeness]:
        self._ask("completeness")
        return {
            name: Completeness(len(self.targets_by_name[name].stored(span)), span.expected)
            for name, span in spans.items()
        }

    def slot_counts(self, spans: Mapping[str, Span]) -> dict[str, SlotCounts]:
        self._ask("slot_counts")
        found = {}
        for name, span in spans.items():
            target, stored = self.targets_by_name[name], set(self.targets_by_name[name].stored(span))
            dead, pending = (
                sum(span.start <= slot < span.end for slot in set(slots) - stored)
                for slots in (target.dead, target.pending)
            )
            found[name] = SlotCounts(len(stored), pending, dead)
        return found

    def newest_slots(self, names: Collection[str] | None = None) -> dict[str, datetime]:
        self._ask("newest_slots")
        wanted = self.targets_by_name if names is None else names
        return {name: max(counts) for name in wanted if (counts := self.targets_by_name[name].counts)}

    def totals(self, spans: Mapping[str, Span]) -> dict[str, Bucket]:
        self._ask("totals")
        found = {}
        for name, span in spans.items():
            target = self.targets_by_name[name]
            if stored := target.stored(span):
                found[name] = bucket_of(span.start, [target.counts[slot] for slot in stored])
        return found

    def lateness(self, start: datetime, end: datetime) -> Lateness:
        self._ask("lateness")
        return self.late

    def queue_depth(self, now: datetime) -> QueueDepth:
        self._ask("queue_depth")
        return self.depth

    def _ask(self, question: str) -> None:
        self.asked[question] += 1
        if self.fault is not None:
            raise self.fault
        if question in self.too_large:
            raise InvalidInput("edges", "takes some 2,500 requests to DynamoDB, more than 2,000")
