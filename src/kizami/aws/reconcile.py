"""Reconciling: one run over all bundles, which finds slots that members lack and asks for them again.

    #marks, #plans, #blocks, depth of the backfill queue           read once
    targets that answered again ─▶ the runs of their bundles
    bundle: runs that were asked for ─▶ read again      ─┐
            slots that are due ─▶ counted, and read only ├─▶ runs ─▶ messages ─▶ backfill queue ─▶ mark saved
            where the count is short                    ─┘       └─▶ given up: dead letters, then ticks

The mark is saved last. After a crash before that, messages are sent once more by the next run; a Collector reads
the tick first, and asks only for what is not stored. A bundle that fails or for which no time is left waits for
the next run, which begins with the bundles that were seen least recently.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from functools import cached_property, partial
from math import inf
from typing import Any
from zlib import crc32

from kizami.aws.blocks import Blocks
from kizami.aws.bundle_list import BundleList, ListedBundle
from kizami.aws.client import machine
from kizami.aws.files import PackagedTargets
from kizami.aws.history.keeping import KeptMetric, hour_of, kept_metrics
from kizami.aws.invocation import TimeLeft
from kizami.aws.marks import Marks
from kizami.aws.returns import Failed, Returns
from kizami.aws.rows import RowTicks
from kizami.aws.sealed import SealedItems
from kizami.aws.settings import QueueUrls
from kizami.aws.store.sqs_queue import QueueEntry, SqsQueue
from kizami.aws.ticks import TickFacts, Ticks, TickStore
from kizami.core.bundles import Bundle
from kizami.core.coverage import Span
from kizami.core.epoch import EPOCH, from_seconds, to_seconds
from kizami.core.errors import KizamiError, QueueError, StoreError
from kizami.core.holding import TargetState, is_over, note_recovered
from kizami.core.messages import write_bundle
from kizami.core.recovery import (
    GRACE_SECONDS,
    MOST_ROUNDS,
    ROUND_SECONDS,
    LookedAfter,
    Mark,
    Recovered,
    TickRun,
    find_lost,
    find_runs,
    fit_runs,
    lacking_slots,
    leave_expired,
    missing_values,
    next_look,
    put_runs,
    read_again,
    reopen,
    runs_to_read,
)
from kizami.core.retries import Retry
from kizami.core.rounds import (
    LackingSlots,
    RecoveryPlan,
    message_of,
    newest_slot,
    note_asked,
    note_given_up,
    pace,
    plan_recovery,
)
from kizami.core.slots import format_instant, shift, slots_between
from kizami.core.summaries import Absence
from kizami.core.targets.target import Target
from kizami.core.ticks import Tick

LEAST_SECONDS = 15.0  # with less time left no other bundle is begun
AT_ONCE = 16  # bundles
READ_AT_ONCE = 120  # slots; of more, halves are counted first
MOST_READ = 1440  # slots, where no tick is perfect

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecoverySettings:
    """What is looked after, where messages go, and how often there is a run."""

    table: str
    urls: QueueUrls
    targets: PackagedTargets | None = None
    rows: Target | None = None  # the original target, where that is what is polled
    period_seconds: int = 300
    look_back_seconds: int = 3 * 3600  # for which completeness is reported
    spread_seconds: int = 0  # over which old slots are spread, where they share the live queue


@dataclass(frozen=True, slots=True)
class _Moment:
    """What all bundles of a run go by."""

    now: datetime
    held_from: Mapping[str, datetime]  # targets that are held, and since which slot
    waiting: int | None  # messages on the backfill queue; None if it cannot be asked, then nothing is sent
    sharing: int  # bundles that these messages may be about


class Recovery:
    """One run. With several shards each looks after its share of the bundles."""

    def __init__(
        self, settings: RecoverySettings, time_left: TimeLeft = lambda: inf, shard: int = 0, shards: int = 1
    ) -> None:
        self._settings = settings
        self._time_left = time_left
        self._shard, self._shards = shard, shards
        self._marks = Marks(settings.table, time_left)
        self._blocks = Blocks(settings.table, time_left)
        self._bundles = BundleList(
            settings.table, settings.targets, settings.rows, settings.look_back_seconds, time_left
        )
        self._ticks = Ticks(settings.table, time_left)
        self._rows = RowTicks(settings.table, time_left)
        self._sealed = SealedItems(settings.table, time_left)
        self._queue = SqsQueue(settings.urls.backfill, time_left)
        self._returns = Returns(settings.urls, time_left)

    def run(self, now: datetime) -> Recovered:
        """Look after the bundles of this shard. StoreError if not one of them could be examined."""
        self._bundles.read(now)
        states = self._blocks.all() if self._settings.targets else {}
        self._release(states, now)
        held = {name: state.kept_from or EPOCH for name, state in states.items() if state.is_held}
        sharing = sum(bool(each.mark.open_runs) for each in self._bundles.all)
        moment = _Moment(now, held, self._waiting(), sharing)
        mine = [each for each in self._bundles.all if _shard_of(each.bundle, self._shards) == self._shard]
        mine.sort(key=lambda each: each.mark.seen_until)
        call = machine.map_in_threads(lambda each: self._examine(each, moment), mine, min(AT_ONCE, len(mine) or 1))
        found = Recovered(list(call))
        if mine and not found.examined:
            raise StoreError("not one bundle could be examined")
        if len(found.examined) < len(mine):
            counts = {"examined": len(found.examined), "bundles": len(mine)}
            log.warning("bundles left to the next run", extra={"event": "reconcile.cut", **counts})
        if self._shard == 0 and self._time_left() >= LEAST_SECONDS:
            try:
                self._bundles.forget_finished()
            except StoreError as error:
                log.error("marks not forgotten", extra={"event": "reconcile.failed", "detail": str(error)})
        return found

    # Targets that were held

    def _release(self, states: dict[str, TargetState], now: datetime) -> None:
        """Let the kept slots of targets that have answered again be missing; forget states that are over.

        Plans may have changed meanwhile, so a target may have kept slots in several bundles.
        """
        targets = self._settings.targets
        if targets is None or not states:
            return
        shards = {
            name: _shard_of(bundle, self._shards) for bundle in targets.plan.bundles for name in bundle.places
        }
        mine = [name for name in states if shards.get(name, 0) == self._shard]
        ranges = {name: kept for name in mine if (kept := states[name].recovery)}
        stuck: set[str] = set()
        for bundle in self._bundles.held_since(min(start for start, _ in ranges.values())) if ranges else ():
            kept_from = {name: ranges[name][0] for name in bundle.places.keys() & ranges.keys()}
            if kept_from and not self._reopen(bundle, kept_from):
                stuck |= kept_from.keys()
        for name in mine:
            try:
                if name in ranges and name not in stuck:
                    change = partial(_after_recovery, ranges[name][1])
                    states[name] = self._blocks.update(name, change, states[name]) or states[name]
                target = targets.target(name) if targets.knows(name) else None
                if is_over(states[name], target, now) and self._blocks.forget(name, states[name]):
                    del states[name]
            except StoreError as error:
                details = {"metric": name, "detail": str(error)}
                log.error("state of a target not changed", extra={"event": "target.unread", **details})

    def _reopen(self, bundle: Bundle, kept_from: Mapping[str, datetime]) -> bool:
        """Reopen the kept slots of members; return False if the mark could not be written."""
        try:
            listed = self._bundles.listed(bundle)
            mark = self._bundles.begun(listed)
            starts = {bundle.places[name]: start for name, start in kept_from.items()}
            return self._save(listed, reopen(mark, bundle, starts, self._sealed_gaps(bundle, mark, starts)))
        except StoreError as error:
            _log_unread(bundle, error)
            return False

    def _sealed_gaps(
        self, bundle: Bundle, mark: Mark, starts: Mapping[int, datetime]
    ) -> Iterator[tuple[int, datetime, datetime]]:
        """Return the sealed slots that members lack and were not given up, by their places."""
        first, end = to_seconds(min(starts.values())), to_seconds(mark.sealed_until)
        found: dict[int, list[tuple[int, int]]] = {}
        for summary in self._sealed.summaries(bundle.name, bundle.interval_seconds, first, end):
            for place, start in starts.items():
                ranges = found.setdefault(place, [])
                for run in summary.runs(place, to_seconds(start), end):
                    if run.state is Absence.DEAD:
                        continue
                    begins = ranges.pop()[0] if ranges and ranges[-1][1] == run.start else run.start
                    ranges.append((begins, run.end))
        for place, ranges in found.items():
            for begins, ends in ranges:
                yield place, from_seconds(begins), from_seconds(ends)

    # One bundle

    def _examine(self, listed: ListedBundle, moment: _Moment) -> LookedAfter:
        if self._time_left() >= LEAST_SECONDS:
            try:
                return self._recover(listed, moment)
            except KizamiError as error:
                _log_unread(listed.bundle, error)
            except Exception as error:  # one bundle's surprise must not take the others down
                name = type(error).__name__
                extra = {"event": "bundle.unread", "bundle": listed.bundle.name, "error": name}
                log.exception("bundle not examined", extra=extra)
        return LookedAfter(listed.bundle, listed.live, listed.mark)

    def _recover(self, listed: ListedBundle, moment: _Moment) -> LookedAfter:
        bundle, now = listed.bundle, moment.now
        held = bundle.places.keys() & moment.held_from.keys()
        held_from = {bundle.places[name]: moment.held_from[name] for name in held}
        mark = self._read_late_days(bundle, self._bundles.begun(listed), now)
        mark, is_read = self._read_again(bundle, mark, held_from)
        mark = self._look(listed, mark, held_from, now)
        mark = leave_expired(mark, self._kept_from(bundle, now))
        plan = self._plan_recovery(bundle, mark, moment) if is_read else RecoveryPlan()
        if bundle.is_rows:
            self._note_late_rows(bundle, plan.asked, now)
        asked, failed = self._ask(bundle, plan.asked)
        mark = note_asked(mark, asked, now)
        mark = note_given_up(mark, bundle, self._give_up(bundle, plan.given_up, now), now)
        self._save(listed, mark)
        reach = max(self._settings.look_back_seconds, GRACE_SECONDS + bundle.interval_seconds) + bundle.lag_seconds
        expected, lacking = lacking_slots(mark, bundle, listed.live, shift(now, -reach))
        counts = missing_values(mark, bundle), _values(asked, bundle), _values(failed, bundle)
        found = LookedAfter(bundle, listed.live, listed.mark, True, expected, lacking, *counts)
        if found.missing:
            _log_missing(found, mark.open_runs)
        return found

    def _save(self, listed: ListedBundle, mark: Mark) -> bool:
        is_saved = self._bundles.save(listed, fit_runs(mark))
        if not is_saved:
            extra = {"event": "reconcile.overtaken", "bundle": listed.bundle.name}
            log.warning("another run has looked after the bundle at the same time", extra=extra)
        return is_saved

    def _read_late_days(self, bundle: Bundle, mark: Mark, now: datetime) -> Mark:
        """Ask again for members that are outstanding in late ticks; such a day is read once an hour.

        Sealing ends a late day within an hour, unless the message about a tick was lost.
        """
        for day, noted in () if bundle.is_rows else mark.late_days.items():
            since = (now - noted).total_seconds()
            if since < ROUND_SECONDS or since % ROUND_SECONDS >= self._settings.period_seconds:
                continue
            start = datetime.combine(day, time.min, UTC)
            end = min(shift(start, 86_400), mark.sealed_until)
            mark = find_lost(mark, bundle, self._ticks.read(bundle, start, end, consistent=False), now)
        return mark

    def _read_again(self, bundle: Bundle, mark: Mark, held_from: Mapping[int, datetime]) -> tuple[Mark, bool]:
        """Read runs that were asked for; return False if there was no time for all of them."""
        for run in runs_to_read(mark, bundle):
            found: list[TickRun] = []
            for span, ticks in self._parts(bundle, Span(run.start, run.end, bundle.interval_seconds)):
                if ticks is not None:
                    found += read_again(replace(run, start=span.start, end=span.end), bundle, ticks, held_from)
                if self._time_left() < LEAST_SECONDS:
                    return mark, False
            mark = put_runs(mark, run.start, run.end, found)
        return mark, True

    def _look(self, listed: ListedBundle, mark: Mark, held_from: Mapping[int, datetime], now: datetime) -> Mark:
        """Look at the slots that are due, as far as there is time."""
        whole = next_look(mark, listed.bundle, listed.live, now)
        if whole is None:
            return mark
        found: list[TickRun] = []
        for span, ticks in self._parts(listed.bundle, whole):
            if ticks is not None:
                found += find_runs(span, listed.bundle, ticks, held_from)
            mark = replace(mark, seen_until=span.end)
            if self._time_left() < LEAST_SECONDS:
                break
        return put_runs(mark, whole.start, mark.seen_until, found)

    def _parts(self, bundle: Bundle, span: Span) -> Iterator[tuple[Span, Iterator[Tick] | None]]:
        """Cut a span into parts, oldest first, each with its ticks; without them where all are perfect."""
        store: TickStore = self._rows if bundle.is_rows else self._ticks
        count = store.count_perfect(bundle, span.start, span.end)
        if count == span.expected:
            yield span, None
        elif span.expected <= (READ_AT_ONCE if count else MOST_READ):
            yield span, store.read(bundle, span.start, span.end, consistent=False)
        else:
            middle = shift(span.start, span.expected // 2 * span.interval_seconds)
            yield from self._parts(bundle, Span(span.start, middle, span.interval_seconds))
            yield from self._parts(bundle, Span(middle, span.end, span.interval_seconds))

    def _kept_from(self, bundle: Bundle, now: datetime) -> dict[int, datetime]:
        """Return from when on the members' slots are kept, by place, where they are not kept for ever."""
        kept = self._kept.get
        found = {place: kept(member.metrics[0]) for place, member in enumerate(bundle.members)}
        return {place: hour_of(shift(now, -each.keep_seconds)) for place, each in found.items() if each}

    @cached_property
    def _kept(self) -> Mapping[str, KeptMetric]:
        rows, targets = self._settings.rows, self._settings.targets
        of_rows = {each.name: each for each in kept_metrics([rows] if rows else [])}
        return of_rows | (targets.kept() if targets else {})

    # Asking and giving up

    def _waiting(self) -> int | None:
        """Return how many messages are on the backfill queue; of a queue that live messages share, those due."""
        urls = self._settings.urls
        try:
            due, delayed, in_flight = self._queue.depth()
        except QueueError as error:
            log.error("queue not asked", extra={"event": "backfill.failed", "detail": str(error)})
            return None
        return due + in_flight + (delayed if urls.backfill != urls.live else 0)

    def _plan_recovery(self, bundle: Bundle, mark: Mark, moment: _Moment) -> RecoveryPlan:
        """Decide what to ask for and what to give up; of an API that is down rows would only make dead letters."""
        if moment.waiting is None:
            return RecoveryPlan()
        if bundle.is_rows and not self._answers(bundle, moment.now):
            return newest_slot(mark, bundle, moment.now)
        most = pace(bundle, self._settings.period_seconds, moment.waiting, moment.sharing)
        return plan_recovery(mark, bundle, moment.now, most)

    def _answers(self, bundle: Bundle, now: datetime) -> bool:
        """Return True if the newest row was stored in the last two periods, or intervals if those are longer."""
        newest = next(iter(self._rows.newest(bundle, now, 1)), None)
        if newest is None:
            return False
        answered_at = shift(bundle.due(newest.slot), newest.answers[0].after_ms / 1000)
        return answered_at >= shift(now, -2 * max(self._settings.period_seconds, bundle.interval_seconds))

    def _ask(self, bundle: Bundle, slots: Sequence[LackingSlots]) -> tuple[list[LackingSlots], list[LackingSlots]]:
        """Send messages about slots; return those that the queue took, and those that it did not take."""
        if not slots:
            return [], []
        seconds = min(self._settings.spread_seconds, len(slots) / 4)
        entries = [
            QueueEntry(write_bundle(message_of(each, bundle)), int(number * seconds / len(slots)))
            for number, each in enumerate(slots)
        ]
        try:
            reasons = {each.number: each.reason for each in self._queue.send_entries(entries)}
        except QueueError as error:
            reasons = dict.fromkeys(range(len(slots)), str(error))
        if reasons:
            reason = next(iter(reasons.values()))
            extra = {"event": "backfill.failed", "bundle": bundle.name, "messages": len(reasons), "detail": reason}
            log.error("slots not sent", extra=extra)
        asked = [each for number, each in enumerate(slots) if number not in reasons]
        return asked, [slots[number] for number in reasons]

    def _note_late_rows(self, bundle: Bundle, slots: Iterable[LackingSlots], now: datetime) -> None:
        """Note the days of rows that may arrive after their hour was added up: no Collector of rows does that."""
        for each in slots:
            self._marks.note_if_late(bundle, each.start, now)

    def _give_up(self, bundle: Bundle, slots: Sequence[LackingSlots], now: datetime) -> list[LackingSlots]:
        """Give slots up: their dead letter first, then their ticks; return those for which both is done.

        Rows have no place for that, so the slots of the original target just stay missing.
        """
        done: list[LackingSlots] = []
        for each in slots:
            if self._time_left() < LEAST_SECONDS:
                break
            try:
                if not bundle.is_rows:
                    self._bury(bundle, each, now)
            except KizamiError as error:
                details = {"bundle": bundle.name, "detail": str(error)}
                log.error("slots not given up", extra={"event": "backfill.failed", **details})
                break
            done.append(each)
        if done:
            log.error(
                "slots are given up",
                extra={
                    "event": "slots.given_up",
                    "bundle": bundle.name,
                    "missing": _values(done, bundle),
                    "from": format_instant(done[0].start),
                    "to": format_instant(done[-1].end),
                },
            )
        return done

    def _bury(self, bundle: Bundle, slots: LackingSlots, now: datetime) -> None:
        message = message_of(slots, bundle)
        reason = f"asked for again {MOST_ROUNDS} times, and neither answered nor given up"
        retry = Retry(MOST_ROUNDS, None)
        self._returns.bury(message, [Failed(name, retry, reason) for name in message.metrics])
        for slot in slots_between(slots.start, slots.end, bundle.interval_seconds):
            self._marks.note_late(bundle.name, slot, now)
            self._ticks.record(bundle, slot, TickFacts(dead=slots.places))


def shard_of(event: Mapping[str, Any]) -> tuple[int, int]:
    """Return which shard of how many an invocation is about; other events than ours are about all bundles."""
    shard, shards = event.get("shard", 0), event.get("of", 1)
    return (int(shard), int(shards)) if 0 <= int(shard) < int(shards) else (0, 1)


def _shard_of(bundle: Bundle, shards: int) -> int:
    return crc32(bundle.name.encode()) % shards


def _after_recovery(until: datetime, state: TargetState | None) -> TargetState | None:
    return note_recovered(state, until) if state else None


def _values(slots: Iterable[LackingSlots], bundle: Bundle) -> int:
    step = timedelta(seconds=bundle.interval_seconds)
    return sum((each.end - each.start) // step * len(each.places) for each in slots)


def _log_unread(bundle: Bundle, error: KizamiError) -> None:
    details = {"bundle": bundle.name, "detail": str(error)}
    log.error("bundle not examined", extra={"event": "bundle.unread", **details})


def _log_missing(found: LookedAfter, runs: Sequence[TickRun]) -> None:
    log.warning(
        "slots are missing",
        extra={
            "event": "slots.missing",
            "bundle": found.bundle.name,
            "targets": len(frozenset().union(*(run.missing for run in runs))),
            "missing": found.missing,
            "expected": found.completeness.expected,
            "oldest": format_instant(runs[0].start),
            "newest": format_instant(runs[-1].end),
        },
    )
