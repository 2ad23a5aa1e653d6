"""The targets of a deployed stack as the port knows them: who asks for a metric, since when slots are expected."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from kizami.aws.history.keeping import kept_from
from kizami.backend.targets import LONGEST_SPREAD_SECONDS, KnownTarget, Pace, Polling
from kizami.core.bundles import Bundle
from kizami.core.config import Config
from kizami.core.epoch import EPOCH
from kizami.core.slots import shift
from kizami.core.targets.description import shown_settings
from kizami.core.targets.target import Target

# The rule fires at any second of the minute, and all its slots are that much behind; the functions need more.
SETTLING_SECONDS, LATE_AFTER_MS = 75, 75_000


class TargetList:
    """The targets of the configuration at hand. One with several values is a target of each of its metrics."""

    def __init__(self, targets: Sequence[Target], *, is_original: bool = False) -> None:
        parts = (part for target in targets for part in target.of_each_metric())
        self.by_metric = {part.name: part for part in sorted(parts, key=lambda part: part.name)}
        self._targets = {target.name: target for target in targets}
        self._asked_by = Config(tuple(targets)).asked_by
        self._is_original = is_original

    @property
    def names(self) -> Collection[str]:
        """The names of all metrics and of the targets that ask for them."""
        return self.by_metric.keys() | self._targets.keys()

    def asker(self, metric: str) -> str:
        """Return the target whose messages and dead letters are about a metric."""
        return self._asked_by.get(metric, metric)

    def metrics(self, asker: str) -> Sequence[str]:
        """Return the metrics of a target; those of a former one are not known."""
        target = self._targets.get(asker)
        return (asker,) if target is None else target.metrics

    def may_ask_again(self, asker: str) -> bool:
        """Return True if past slots of a target can be asked for: it is configured, and its API knows them."""
        target = self._targets.get(asker)
        return target is not None and target.backfill

    def has_changed_interval(self, metric: str, bundle: Bundle) -> bool:
        """Return True if a metric is polled at another interval now than in `bundle`."""
        part = self.by_metric.get(metric)
        return part is not None and part.interval_seconds != bundle.interval_seconds

    def kept_from(self, metric: str, now: datetime) -> datetime:
        """Return the first moment of which slots are kept."""
        part = self.by_metric.get(metric)
        return (kept_from(part, now) if part else None) or EPOCH

    def settings(self, metric: str) -> dict[str, str]:
        """Return how a metric's target is configured, without secrets."""
        part = self.by_metric.get(metric)
        return shown_settings(part) if part else {}

    def known(
        self,
        names: Collection[str] | None,
        first_slots: Mapping[str, datetime],
        newest: Mapping[str, datetime],
        now: datetime,
    ) -> list[KnownTarget]:
        """Return targets of metrics, by name; the newest slots are needed of disabled ones only."""
        parts = self.by_metric.values()
        wanted = [part for part in parts if names is None or part.name in names]
        return [self._known(part, first_slots.get(part.name), newest.get(part.name), now) for part in wanted]

    def _known(
        self, part: Target, first_slot: datetime | None, newest: datetime | None, now: datetime
    ) -> KnownTarget:
        """Without a first slot every slot is missing: a deployment that never worked does not look complete."""
        kept = kept_from(part, now)
        first = max(first_slot or EPOCH, kept or EPOCH)
        until = None if part.enabled else shift(newest or first, part.interval_seconds if newest else 0)
        return KnownTarget(
            part.name,
            part.interval_seconds,
            part.lag_seconds,
            first,
            Polling.ON if part.enabled else Polling.DISABLED,
            expected_until=until,
            pace=self._pace(part),
            backfill=part.backfill,
            decimals=part.answer.decimals,
            kept_from=kept,
        )

    def _pace(self, part: Target) -> Pace:
        """Return how quick the stack is about a target: bundles have their places within the interval."""
        spread = 0 if self._is_original else min(part.interval_seconds, LONGEST_SPREAD_SECONDS) - 1
        return Pace(SETTLING_SECONDS + spread, LATE_AFTER_MS + 1000 * spread)
