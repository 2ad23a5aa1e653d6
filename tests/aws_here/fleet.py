"""A fleet on AWS in memory as a reader finds it: many targets polled for a month, with marks and sealed hours.

Items are put into the table as the functions would have written them. Nothing is polled, so that a thousand
targets take a second.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil

from aws_here.memory_aws import MemoryAws, led_to, memory_aws
from kizami.aws.marks import Marks
from kizami.aws.ownership import Ownership
from kizami.aws.plans import Plans
from kizami.aws.sealed import FiguresOfSpan, SealedItems, SpanItem, SpanKey, SummaryKey
from kizami.aws.slot_answers import AwsSlotAnswers
from kizami.aws.ticks import PREFIX
from kizami.core.bundles import Bundle, BundlePlan, make_plan
from kizami.core.epoch import from_seconds, to_ms, to_seconds
from kizami.core.merging import MetricSlots, figures_by_hour
from kizami.core.recovery import Mark, TickRun
from kizami.core.sealed_spans import HOUR, SlotColumns, pack_slots
from kizami.core.slots import floor_to_slot, format_instant, shift
from kizami.core.summaries import Absence, AbsentRun, BundleSummary
from kizami.core.targets.target import Target
from kizami.core.ticks import Answered, numbers_of, write_first

TABLE = "Metrics"
BEGAN = datetime(2025, 11, 1, tzinfo=UTC)
NOW = datetime(2025, 12, 2, 10, 23, 7, tzinfo=UTC)
SEALED = datetime(2025, 12, 2, 8, tzinfo=UTC)
SEEN = NOW.replace(minute=5, second=0)
DAY = timedelta(days=1)
STEP = 5


@dataclass
class Fleet:
    """A deployment at NOW; `dead` members of bundles have answered to nothing since an hour before SEALED."""

    aws: MemoryAws
    targets: Sequence[Target]
    plan: BundlePlan
    answers: AwsSlotAnswers
    ownership: Ownership
    dead: Mapping[str, frozenset[int]]

    def now(self) -> datetime:
        return NOW

    def milliseconds(self) -> int:
        return to_ms(NOW)

    @property
    def names(self) -> list[str]:
        return [target.name for target in self.targets]

    @contextmanager
    def asking(self) -> Iterator[Counter[str]]:
        """Lead requests to the fleet, and count them by operation."""
        before, found = self.aws.calls.copy(), Counter[str]()
        with led_to(self.aws):
            yield found
        found.update(self.aws.calls - before)

    def seal_dead(self) -> None:
        """Write the sealed spans of dead members, of the day before they died."""
        for bundle in self.plan.bundles:
            for place in self.dead.get(bundle.name, ()):
                self.seal_metric(bundle.members[place].name, SEALED - DAY, shift(SEALED, -HOUR))

    def seal_metric(self, name: str, since: datetime, until: datetime = SEALED) -> None:
        """Write the sealed spans and figures of one metric's hours; slot n of an hour counts n."""
        spans, figures = [], []
        for hour in range(to_seconds(since), to_seconds(until), HOUR):
            slots = range(hour, hour + HOUR, STEP)
            size, key = len(slots), SpanKey(name, hour, STEP)
            collected = [1000 * (slot + STEP) + 90 for slot in slots]
            columns = SlotColumns(slots, range(size), collected, [0] * size, [1] * size, [0] * size)
            spans.append(SpanItem(key, 1, 0, pack_slots(columns)))
            figures.append(FiguresOfSpan(key, 1, figures_by_hour(MetricSlots(columns, 0))))
        with led_to(self.aws):
            SealedItems(TABLE).write_spans(spans, {})
            SealedItems(TABLE).write_figures(figures, {})

    def fill(self, days: int) -> None:
        """Write the ticks of open hours, the marks, and the summaries of so many days."""
        for bundle in self.plan.bundles:
            dead = self.dead.get(bundle.name, frozenset())
            self._put_ticks(bundle, dead)
            since = shift(SEALED, -HOUR)
            runs = (TickRun(since, SEEN, dead=dead),) if dead else ()
            Marks(TABLE).begin(Mark(bundle.name, SEEN, SEALED, runs))
            for hour in range(to_seconds(SEALED - days * DAY), to_seconds(SEALED), HOUR):
                gone = dead if hour >= to_seconds(since) else ()
                absent = {place: [AbsentRun(hour, hour + HOUR, Absence.DEAD)] for place in gone}
                late = {slot: 40 + slot % 7 for slot in range(hour, hour + HOUR, STEP)}
                summary = BundleSummary(STEP, hour, hour + HOUR, absent, late)
                SealedItems(TABLE).write_summary(SummaryKey(bundle.name, hour), summary, None)

    def _put_ticks(self, bundle: Bundle, dead: frozenset[int]) -> None:
        table = self.aws.dynamodb.tables[TABLE]
        first = {
            place: Answered((1000 + 7 * place,), 0, 9 + place)
            for place in range(len(bundle.members))
            if place not in dead
        }
        packed = _binary(write_first(45, bundle, first))
        states = {"d": {"NS": numbers_of(dead)}} if dead else {}
        end = floor_to_slot(shift(NOW, -bundle.lag_seconds - 2), STEP)
        for slot in range(to_seconds(SEALED), to_seconds(end) + 1, STEP):
            key = {
                "metricName": {"S": PREFIX + bundle.name},
                "slotTime": {"S": format_instant(from_seconds(slot))},
            }
            table.put({**key, "a": packed, "v": {"M": {}}, **states})


def _binary(data: bytes) -> dict[str, str]:
    return {"B": b64encode(data).decode()}


def make_fleet(size: int, days: int = 1, dead_share: float = 0.0, dead_members: int = 1) -> Fleet:
    """Return a fleet of so many targets; a share of its bundles has dead members."""
    targets = [Target(name=f"metric{number:05}", lag_seconds=5) for number in range(size)]
    plan = make_plan(targets)
    aws = memory_aws()
    ownership = Ownership(TABLE, targets)
    few = plan.bundles[: ceil(dead_share * len(plan.bundles))]
    dead = {each.name: frozenset(range(7, 7 + dead_members)) for each in few}
    found = Fleet(aws, targets, plan, None, ownership, dead)  # type: ignore[arg-type]
    found.answers = AwsSlotAnswers(TABLE, ownership, targets, found)
    with led_to(aws):
        assert Plans(TABLE).claim(plan, BEGAN)
        found.fill(days)
    return found
