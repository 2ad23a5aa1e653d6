"""A run of the reconciler over bundles: the ledger says what is whole, and only what is not is looked at closely.

one count a bundle ─▶ all ticks whole? ─▶ done
    └─▶ which ticks are not (halves that are whole need no reading), whom they lack, who answers at present
        ─▶ short_ticks (whose turn it is) ─▶ the backfill queue, as they are found
before a bundle's first tick, and of targets that are or were blocked ─▶ their records, target by target
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime

from kizami.aws.bundles.backfill import BackfillSender
from kizami.aws.bundles.short_ticks import BundleFinding, lacking_of, plan_bundle, rotated
from kizami.aws.client import machine
from kizami.aws.history.totalling import Totalling
from kizami.aws.invocation import TimeLeft
from kizami.aws.reconciler import (
    TARGETS_AT_ONCE,
    ReconcilerSettings,
    examine,
    find_gaps,
    is_over,
    lowest_of,
    note_kept,
    publish,
)
from kizami.aws.store.block_items import BlockItem, BlockItems
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.sqs_queue import SqsQueue
from kizami.aws.store.tick_ledger import TickLedger
from kizami.core.coverage import Gap, Span, add_up
from kizami.core.errors import StoreError
from kizami.core.reconcile import (
    TargetFinding,
    overall,
    plan_run,
    since_first,
    span_to_check,
)
from kizami.core.slots import format_instant, shift
from kizami.core.targets.bundles import NamedBundle
from kizami.core.targets.target import Target

LEAST_SECONDS = 15.0  # with less time left no other bundle is begun: what was found is still sent
SENT_AT_ONCE = 500

log = logging.getLogger(__name__)


class BundleReconciler:
    """One run."""

    def __init__(
        self, settings: ReconcilerSettings, store: DynamoDbMetricStore, queue: SqsQueue, time_left: TimeLeft
    ) -> None:
        assert settings.bundles is not None
        self._settings = settings
        self._bundles = settings.bundles
        self._store = store
        self._ledger = TickLedger(settings.ledger_name, time_left)
        self._blocks = BlockItems(settings.table_name, time_left)
        self._backfill = BackfillSender(queue, settings.policy.limit)
        self._time_left = time_left

    def run(self, now: datetime) -> dict[str, int]:
        """Examine every bundle, send what this run asks for again, publish the coverage."""
        items = self._blocks.all()
        polled = {name for bundle in self._bundles.all() for name in bundle.members} if items else set()
        known = {name: items[name] for name in sorted(items.keys() & polled)}
        apart = {name: item for name, item in known.items() if item.is_blocked or item.keeps}
        order = rotated(self._bundles.all(), self._run_number(now))
        findings = []
        for finding in machine.map_in_threads(
            lambda bundle: self._examine(bundle, apart, now), order, TARGETS_AT_ONCE
        ):
            if finding is not None:
                findings.append(finding)
                self._backfill.add(plan_bundle(finding, now, self._settings.policy))
        if not findings:
            raise StoreError("not one bundle could be examined")
        blocked = self._reconcile_blocked(apart, now)
        self._forget_doubts({name: item for name, item in known.items() if name not in apart}, now)
        self._backfill.flush()
        if len(findings) < len(order):
            details = {"examined": len(findings), "bundles": len(order)}
            log.warning("bundles left to the next run", extra={"event": "reconcile.cut", **details})
        if self._settings.topic_arn:
            from kizami.aws.bundles.telling import tell_of_bundles  # an app of one's own may have no topic

            tell_of_bundles(self._settings, self._ledger, self._store, findings, items, now, self._time_left)
        self._make_totals(now)
        return self._report(findings, blocked, now)

    def _make_totals(self, now: datetime) -> None:
        if kept := self._bundles.kept():
            order = {name: kept[name] for name in rotated(list(kept), self._run_number(now))}
            Totalling(self._store, self._settings.table_name, self._time_left).of_bundles(order, self._ledger, now)

    def _run_number(self, now: datetime) -> int:
        return int(now.timestamp()) // self._settings.policy.period_seconds

    def _report(
        self, findings: Sequence[BundleFinding], blocked: Sequence[TargetFinding], now: datetime
    ) -> dict[str, int]:
        whole = add_up([*(each.completeness for each in findings), overall(blocked)])
        lowest = lowest_of([*(each.lowest for each in findings), *(each.completeness for each in blocked)])
        targets = sum(len(each.bundle.members) for each in findings)
        publish(whole, lowest, targets, self._backfill.slots, self._settings.stack_name, now)
        return {"missing": whole.missing, "sent": self._backfill.slots, "failed": self._backfill.failed}

    def _examine(self, bundle: NamedBundle, items: Mapping[str, BlockItem], now: datetime) -> BundleFinding | None:
        """What is missing of one bundle; None if it could not be read, or there is no time to."""
        if self._time_left() < LEAST_SECONDS:
            return None
        try:
            return self._look_back(bundle, items, now)
        except StoreError as error:
            log.error(
                "bundle not examined",
                extra={"event": "bundle.unread", "bundle": bundle.name, "detail": str(error)},
            )
            return None

    def _look_back(self, bundle: NamedBundle, items: Mapping[str, BlockItem], now: datetime) -> BundleFinding:
        span = span_to_check(bundle, now, self._settings.policy)
        members = [name for name in bundle.members if name not in items]
        if self._ledger.count_whole(bundle.name, span.start, span.end) == span.expected:
            return BundleFinding(bundle, span.expected * len(bundle.members))
        first = self._ledger.first(bundle.name)  # from when on it tells of the bundle, which may be young
        known = since_first(span, first or span.end)
        # All of it is seen only if it reaches up to the first tick, and nobody is left out for being blocked.
        is_all = first is not None and first <= span.end and len(members) == len(bundle.members)
        earlier = Span(span.start, known.start, span.interval_seconds)
        before, lacking = self._before(bundle, members, earlier, now if is_all else None)
        short = lacking_of(bundle, *self._ledger.short(bundle.name, known))
        lacking |= short if bundle.backfill else self._compare(bundle, short, known.end, now)
        lacking = {slot: found for slot, names in lacking.items() if (found := _among(names, frozenset(members)))}
        finding = BundleFinding(bundle, before + known.expected * len(members), lacking)
        if not lacking:
            return finding
        _log_missing(finding)
        return replace(finding, answering=self._answering(bundle, now))

    def _compare(
        self, bundle: NamedBundle, short: Mapping[datetime, Set[str]], until: datetime, now: datetime
    ) -> dict[datetime, Set[str]]:
        """Whom short ticks really lack. What nobody asks for again may be stored, by a Collector that could not
        note it: that is noted now. Each tick is compared with the records by the first run that can."""
        compared = self._ledger.compared_until(bundle.name)
        new = {slot: names for slot, names in short.items() if compared is None or slot >= compared}
        if not new:
            return dict(short)
        stored, is_all = self._look_up(bundle, new)
        for slot, names in stored.items():
            places = [place for place, name in enumerate(bundle.members) if name in names]
            self._ledger.note(bundle.name, len(bundle.members), slot, places, now)
        if is_all:
            self._ledger.note_compared(bundle.name, until, now)
        return {slot: rest for slot, names in short.items() if (rest := names - stored.get(slot, frozenset()))}

    def _look_up(
        self, bundle: NamedBundle, lacking: Mapping[datetime, Set[str]]
    ) -> tuple[dict[datetime, set[str]], bool]:
        """Who of those that ticks lack has a record, and whether there was time to look for all."""
        stored: dict[datetime, set[str]] = {}
        start, end = min(lacking), shift(max(lacking), bundle.interval_seconds)
        anybody = frozenset().union(*lacking.values())
        for name in sorted(anybody):
            if self._time_left() < LEAST_SECONDS:
                return stored, False
            for record in self._store.query(self._bundles.target(name).metrics[-1], start, end):
                if name in lacking.get(record.slot, ()):
                    stored.setdefault(record.slot, set()).add(name)
        return stored, True

    def _before(
        self, bundle: NamedBundle, members: Sequence[str], span: Span, seen_at: datetime | None
    ) -> tuple[int, dict[datetime, Set[str]]]:
        """How many slots were expected before the bundle's first tick, and whom they lack by the records.

        Targets were in other bundles then, or in none. Once all of it is seen to be there nobody looks again;
        without `seen_at` this is not all of it.
        """
        if not span.expected or self._ledger.is_checked(bundle.name):
            return 0, {}
        expected, lacking = 0, dict[datetime, Set[str]]()
        for name in members:
            if self._time_left() < LEAST_SECONDS:
                return expected, lacking
            found, gaps = self._records_lack(self._bundles.target(name), span)
            expected += found
            for slot in _slots_of(gaps, span.interval_seconds):
                lacking[slot] = lacking.get(slot, frozenset()) | {name}
        if seen_at is not None and not lacking:
            self._ledger.check(bundle.name, seen_at)
        return expected, lacking

    def _records_lack(self, target: Target, span: Span) -> tuple[int, list[Gap]]:
        name = target.metrics[-1]
        if self._store.count(name, span.start, span.end) == span.expected:
            return span.expected, []
        span = since_first(span, self._store.first_slot(name))
        return span.expected, list(find_gaps(name, span, self._store))

    def _answering(self, bundle: NamedBundle, now: datetime) -> frozenset[str]:
        """Who has given an answer in the last two periods, or intervals if those are longer."""
        lately = 2 * max(self._settings.policy.period_seconds, bundle.interval_seconds)
        start = shift(now.replace(microsecond=0), -lately - bundle.lag_seconds)
        lacked = [tick.lacking for tick in self._ledger.ticks(bundle.name, start, now.replace(microsecond=0))]
        return frozenset(
            name for place, name in enumerate(bundle.members) if any(place not in names for names in lacked)
        )

    def _reconcile_blocked(self, items: Mapping[str, BlockItem], now: datetime) -> list[TargetFinding]:
        """Those that are or were blocked, by their records: what was kept may be older than the ledger."""
        findings = [self._examine_blocked(name, item, now) for name, item in items.items()]
        found = [finding for finding in findings if finding is not None]
        messages = plan_run(found, now, self._settings.policy, self._backfill.waiting)
        sent = self._backfill.send_now(messages)
        note_kept(self._blocks, items, found, sent, now)
        return found

    def _forget_doubts(self, items: Mapping[str, BlockItem], now: datetime) -> None:
        """Who was only ever doubted, or has been asked for all that was kept, is looked for in the ledger as
        anybody else; what is known of him is not kept for ever."""
        for name, item in items.items():
            if is_over(item, self._bundles.target(name), now):
                self._blocks.forget(name, item)

    def _examine_blocked(self, name: str, item: BlockItem, now: datetime) -> TargetFinding | None:
        if self._time_left() < LEAST_SECONDS:
            return None
        try:
            return examine(self._bundles.target(name), self._store, now, self._settings.policy, item)
        except StoreError as error:
            log.error(
                "target not examined", extra={"event": "target.unread", "metric": name, "detail": str(error)}
            )
            return None


def _among(names: Set[str], members: frozenset[str]) -> Set[str]:
    """Those of the names that are members: the same set if all are, for hours of ticks may share it."""
    return names if names <= members else names & members


def _slots_of(gaps: Iterable[Gap], interval_seconds: int) -> Iterator[datetime]:
    return (slot for gap in gaps for slot in Span(gap.start, gap.end, interval_seconds).slots())


def _log_missing(finding: BundleFinding) -> None:
    missing = finding.completeness.missing
    log.warning(
        "slots are missing",
        extra={
            "event": "slots.missing",
            "bundle": finding.bundle.name,
            "targets": len({name for names in finding.lacking.values() for name in names}),
            "missing": missing,
            "expected": finding.expected,
            "oldest": format_instant(min(finding.lacking)),
            "newest": format_instant(max(finding.lacking)),
        },
    )
