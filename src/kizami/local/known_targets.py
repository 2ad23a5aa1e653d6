"""The targets as a backend tells them: what its database knows, what its file lists, and what is paused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from kizami.backend.targets import KnownTarget, Polling
from kizami.core.slots import shift
from kizami.core.targets.target import Target
from kizami.local.store.metrics import KnownMetric


@dataclass(frozen=True, slots=True)
class TargetSources:
    """Where a backend's targets come from; `listed` is None without a configuration file."""

    metrics: Mapping[str, KnownMetric]
    listed: Mapping[str, Target] | None
    paused: Mapping[str, datetime]

    def is_same(self, other: TargetSources) -> bool:
        """Whether these are the very same, which is quickly told."""
        is_unchanged = self.metrics is other.metrics and self.listed is other.listed
        return is_unchanged and self.paused == other.paused


class TargetCatalogue:
    """All targets, for who asks again and again: made anew only where what they come from has changed."""

    def __init__(self, newest_slots: Callable[[Collection[str]], Mapping[str, datetime]]) -> None:
        self._newest_slots = newest_slots
        self._sources: TargetSources | None = None
        self._targets: list[KnownTarget] = []

    def read(self, sources: TargetSources, now: datetime) -> list[KnownTarget]:
        """Every target at `now`, by name."""
        if self._sources is not None and sources.is_same(self._sources):
            return list(self._targets)
        targets = self.choose(sources, sources.metrics.keys() | (sources.listed or {}).keys(), now)
        is_lasting = all(each.is_on and each.name in sources.metrics for each in targets) and not any(
            metric.keep_seconds is not None for metric in sources.metrics.values()
        )
        self._sources, self._targets = (sources, targets) if is_lasting else (None, [])
        return list(targets)

    def choose(self, sources: TargetSources, names: Collection[str], now: datetime) -> list[KnownTarget]:
        """Those of these names at `now`."""
        return sorted(self._made(sources, names, now), key=lambda target: target.name)

    def _made(self, sources: TargetSources, names: Collection[str], now: datetime) -> Iterator[KnownTarget]:
        metrics, listed = sources.metrics, sources.listed or {}
        polling = {
            name: polling_of(name, sources.listed, sources.paused)
            for name in names
            if name in metrics or name in listed
        }
        ended = [name for name, each in polling.items() if each is not Polling.ON and name in metrics]
        newest = self._newest_slots(ended) if ended else {}
        for name, each in polling.items():
            if name in metrics:
                target = _known(metrics[name], each, sources.paused.get(name), newest.get(name), now)
            else:
                target = _unpolled(listed[name], each, now)
            yield target if name not in listed or listed[name].backfill else replace(target, backfill=False)


def polling_of(name: str, listed: Mapping[str, Target] | None, paused: Container[str]) -> Polling:
    """Whether a metric is polled: the configuration outranks a pause."""
    if listed is not None and name not in listed:
        return Polling.REMOVED
    if listed is not None and not listed[name].enabled:
        return Polling.DISABLED
    return Polling.PAUSED if name in paused else Polling.ON


def _known(
    metric: KnownMetric,
    polling: Polling,
    paused_since: datetime | None,
    newest: datetime | None,
    now: datetime,
) -> KnownTarget:
    """A target that is not on is expected until its pause or, if it has none, until its newest slot."""
    until = None
    if polling is Polling.PAUSED and paused_since is not None:
        until = shift(paused_since, -metric.lag_seconds)
    elif polling is not Polling.ON:
        until = shift(newest, metric.interval_seconds) if newest else metric.first_slot
    pace = metric.interval_seconds, metric.lag_seconds, metric.expected_from(now)
    kept = metric.kept_from(now)
    return KnownTarget(metric.name, *pace, polling, paused_since, until, decimals=metric.decimals, kept_from=kept)


def _unpolled(target: Target, polling: Polling, now: datetime) -> KnownTarget:
    """A target that is listed and not known to the database yet: nothing is expected of it so far."""
    pace = target.interval_seconds, target.lag_seconds, now
    return KnownTarget(target.name, *pace, polling, decimals=target.answer.decimals)
