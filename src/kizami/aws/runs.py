"""A run of the reconciler: it asks again for what is missing, publishes coverage, and seals closed hours.

reconcile ─▶ what ticks lack is on the backfill queue, marks are moved on
          ─▶ coverage, one log line in CloudWatch's embedded metric format
          ─▶ sealing, oldest hours first, with the time that is left
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kizami.aws.history.keeping import KeptMetric
from kizami.aws.invocation import TimeLeft
from kizami.aws.marks import Marks
from kizami.aws.reconcile import Recovery, RecoverySettings, shard_of
from kizami.aws.reconciler import publish
from kizami.aws.sealing import BundleToSeal, Sealing
from kizami.aws.settings import Environment, find_packaged, queue_urls, read_number, require_table_name

DEFAULT_MINUTES, DEFAULT_HOURS = 5, 3


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a run looks after, how long metrics are kept, and what its coverage is published as."""

    recovery: RecoverySettings
    kept: Mapping[str, KeptMetric]
    stack: str = ""


def run_settings(environment: Environment) -> RunSettings | None:
    """Read what a run over a plan's bundles needs; None if none were deployed with the function."""
    targets = find_packaged(environment)
    if targets is None:
        return None
    minutes = read_number(environment, "KIZAMI_RECONCILE_MINUTES", DEFAULT_MINUTES)
    hours = read_number(environment, "KIZAMI_RECONCILE_HOURS", DEFAULT_HOURS)
    recovery = RecoverySettings(
        require_table_name(environment),
        queue_urls(environment),
        targets,
        period_seconds=max(1, int(minutes * 60)),
        look_back_seconds=int(hours * 3600),
    )
    return RunSettings(recovery, targets.kept(), environment.get("KIZAMI_STACK", "kizami"))


def run(settings: RunSettings, event: Mapping[str, Any], now: datetime, left: TimeLeft) -> dict[str, int]:
    """Carry out one run; return how many values are missing, and how many were asked for or could not be."""
    shard, shards = shard_of(event)
    found = Recovery(settings.recovery, left, shard, shards).run(now)
    targets = sum(len(each.bundle.members) for each in found.examined)
    publish(found.completeness, found.lowest, targets, found.asked, settings.stack, now)
    bundles = [BundleToSeal(each.bundle, each.mark, each.live) for each in found.bundles]
    table = settings.recovery.table
    Sealing(table, Marks(table, left), settings.kept, left).run(bundles, now)
    return {"missing": found.missing, "sent": found.asked, "failed": found.failed}
