"""After a run over bundles: what the ledger shows of each becomes incidents, and who is to be told is told."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime

from kizami.alerts.reconciled import SeenTarget
from kizami.alerts.rules.conditions import AlertCondition
from kizami.aws.alerts.alerting import Run, alerting_of
from kizami.aws.bundles.recent_ticks import ASKED_AT_ONCE, LEAST_SECONDS, RecentBundle, RecentTicks
from kizami.aws.bundles.short_ticks import BundleFinding
from kizami.aws.client import machine
from kizami.aws.invocation import TimeLeft
from kizami.aws.reconciler import ReconcilerSettings
from kizami.aws.store.block_items import BlockItem
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.tick_ledger import TickLedger
from kizami.backend.targets import KnownTarget
from kizami.core.coverage import Completeness
from kizami.core.errors import StoreError
from kizami.core.targets.bundles import NamedBundle

log = logging.getLogger(__name__)


def tell_of_bundles(
    settings: ReconcilerSettings,
    ledger: TickLedger,
    store: DynamoDbMetricStore,
    findings: Sequence[BundleFinding],
    items: Mapping[str, BlockItem],
    now: datetime,
    left: TimeLeft,
) -> None:
    """Open and close incidents by what is seen of all bundles; nothing is known of those that cannot be read."""
    assert settings.bundles is not None
    packed, bundles = settings.bundles.alerts(), settings.bundles.all()
    asked_by = {metric: name for pairs in packed.watched.values() for metric, name in pairs if metric != name}
    recent = RecentTicks(bundles, ledger, settings.policy, now, left, asked_by)

    def watched(condition: AlertCondition, patterns: Sequence[str]) -> list[KnownTarget]:
        known = (recent.known(metric) for metric, _ in packed.watched.get(condition.text, ()))
        return [each for each in known if each is not None]

    looks = _look_at_all(recent, bundles, findings, items, left)
    read = {bundle.name for bundle, look in looks if look is not None}
    unread = frozenset(name for bundle in bundles if bundle.name not in read for name in bundle.members)
    found = [look for _, look in looks if look is not None]
    seen = [each for look in found for each in look.seen]
    notes = {name: note for look in found for name, note in look.notes.items()}
    is_storing = not found or any(look.is_storing for look in found)
    alerting = alerting_of(settings, packed.settings, store, left)
    alerting.after_run(Run(now, seen, recent.known, recent.count, watched, unread, notes, is_storing))


def _look_at_all(
    recent: RecentTicks,
    bundles: Sequence[NamedBundle],
    findings: Sequence[BundleFinding],
    items: Mapping[str, BlockItem],
    left: TimeLeft,
) -> list[tuple[NamedBundle, RecentBundle | None]]:
    of_run = {finding.bundle.name: finding for finding in findings}

    def look(bundle: NamedBundle) -> RecentBundle | None:
        if left() < LEAST_SECONDS:
            return None
        try:
            found = recent.look(bundle, items)
        except StoreError as error:
            log.error(
                "bundle not examined",
                extra={"event": "bundle.unread", "bundle": bundle.name, "detail": str(error)},
            )
            return None
        return found or _never_seen(recent, of_run.get(bundle.name))

    return list(zip(bundles, machine.map_in_threads(look, bundles, ASKED_AT_ONCE), strict=True))


def _never_seen(recent: RecentTicks, found: BundleFinding | None) -> RecentBundle | None:
    """A bundle of which no tick was ever noted: who lacks slots by the records and gives no answers is silent."""
    if found is None:
        return None
    oldest: dict[str, datetime] = {}
    for slot in sorted(found.lacking):
        for name in found.lacking[slot]:
            oldest.setdefault(name, slot)
    expected = max(1, found.expected // len(found.bundle.members))
    known = ((name, recent.known(name)) for name in found.silent)
    seen = [SeenTarget(target, Completeness(0, expected), oldest[name]) for name, target in known if target]
    return RecentBundle(seen, {}, is_storing=not seen)
