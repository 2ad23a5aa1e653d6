"""How the collection is doing: the numbers of `kizami status`, read from either home."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kizami.cli.homes import Backend, Daemon, Metric, Polling
from kizami.core.coverage import Completeness, Span, due_span, with_arrivals
from kizami.core.slots import shift
from kizami.home.values import Lateness, QueueDepth

HOUR_SECONDS, DAY_SECONDS = 3600, 86_400
LATENESS_RANGE = timedelta(minutes=10)  # a thousand targets make 120,000 polls in it


@dataclass(frozen=True, slots=True)
class MetricOverview:
    """One metric: its newest slot, and how much of the last hour and day is stored."""

    metric: Metric
    newest: datetime | None
    hour: Completeness
    day: Completeness
    missing: int


@dataclass(frozen=True, slots=True)
class Overview:
    """All metrics, those that need a look first, and the queue that they share."""

    now: datetime
    metrics: tuple[MetricOverview, ...]
    queue: QueueDepth
    lateness: Lateness
    daemon: Daemon | None

    @property
    def hour(self) -> Completeness:
        """The last hour of all metrics."""
        return _together(each.hour for each in self.metrics)

    @property
    def day(self) -> Completeness:
        """The last day of all metrics."""
        return _together(each.day for each in self.metrics)

    @property
    def first_tick(self) -> datetime | None:
        """When the first slot of all is asked for, as long as nothing can be counted; else None."""
        polled = [each.metric for each in self.metrics if each.metric.polling is Polling.ON]
        if self.day.expected or not polled:
            return None
        return min(shift(metric.first_slot, metric.lag_seconds) for metric in polled)

    @property
    def missing(self) -> int:
        """The slots of the last day that nobody has collected."""
        return sum(each.missing for each in self.metrics)


def read_overview(backend: Backend, now: datetime) -> Overview:
    """The state of the home at `now`. Of a metric that is not polled any more nothing is expected."""
    metrics = backend.metrics()
    polled = [metric for metric in metrics.values() if metric.polling is Polling.ON]
    hours = {each.name: each.recent(HOUR_SECONDS, now, backend.grace_seconds) for each in polled}
    days = {each.name: each.recent(DAY_SECONDS, now, backend.grace_seconds) for each in polled}
    newest, missing = backend.newest_slots(), backend.missing_counts(days)
    arrived = _arrivals(backend, polled, days, now)
    hour = _counted(backend, hours, arrived, HOUR_SECONDS)
    day = _counted(backend, days, arrived, DAY_SECONDS)
    nothing = Completeness(0, 0)
    overviews = (
        MetricOverview(
            metric, newest.get(name), hour.get(name, nothing), day.get(name, nothing), missing.get(name, 0)
        )
        for name, metric in metrics.items()
    )
    return Overview(
        now,
        tuple(sorted(overviews, key=_urgency)),
        backend.queue_depth(now),
        backend.lateness(now - LATENESS_RANGE, now),
        backend.daemon(),
    )


def _counted(
    backend: Backend, spans: Mapping[str, Span], arrived: Counter[str], seconds: int
) -> dict[str, Completeness]:
    found = backend.completeness(spans)
    return {
        name: with_arrivals(found[name], arrived[name], seconds // span.interval_seconds)
        for name, span in spans.items()
    }


def _arrivals(backend: Backend, polled: Iterable[Metric], days: Mapping[str, Span], now: datetime) -> Counter[str]:
    """How many slots of each metric are stored already that might still be on their way; only the metrics that are
    too young to fill the day are asked for."""
    spans = {}
    for metric in polled:
        day, due = days[metric.name], due_span(metric, metric.first_slot, now)
        if day.expected * metric.interval_seconds < DAY_SECONDS and due.end > day.end:
            spans[metric.name] = Span(day.end, due.end, metric.interval_seconds)
    found = backend.completeness(spans) if spans else {}
    return Counter({name: part.stored for name, part in found.items()})


def _urgency(overview: MetricOverview) -> tuple[float, float, str]:
    return overview.hour.ratio, overview.day.ratio, overview.metric.name


def _together(parts: Iterable[Completeness]) -> Completeness:
    counts = [(part.stored, part.expected) for part in parts]
    return Completeness(sum(stored for stored, _ in counts), sum(expected for _, expected in counts))
