"""What the dashboard knows, for a monitoring system: `/metrics` as OpenMetrics text (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kizami import __version__
from kizami.backend.health import Overview, TargetCondition, TargetStatus
from kizami.backend.incidents import Incident, Kind
from kizami.backend.port import IncidentLog
from kizami.backend.snapshot import Snapshot

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[dict[str, str], float]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its samples by their labels. All of ours are gauges: what is, not what was."""

    name: str
    words: str
    samples: tuple[Sample, ...]

    def lines(self) -> Iterator[str]:
        """As a scrape reads it."""
        yield f"# TYPE {self.name} gauge\n"
        yield f"# HELP {self.name} {self.words}\n"
        for labels, value in self.samples:
            yield f"{self.name}{_labels_text(labels)} {value:.15g}\n"


def metrics_text(snapshot: Snapshot, pages: int, log: IncidentLog) -> str:
    """The whole exposition, but for its end."""
    families = [
        *_overall(snapshot.overview),
        *_by_target(snapshot),
        *_of_incidents(log.incidents(open_only=True), log.undelivered()),
        _family("dashboard_pages", "Open pages.", pages),
    ]
    return "".join(line for family in families if family.samples for line in family.lines())


def _overall(overview: Overview) -> Iterator[Family]:
    minute, queue, late = overview.last_minute, overview.queue, overview.lateness
    states = {
        "stored": minute.stored,
        "pending": minute.pending,
        "dead": minute.dead,
        "missing": minute.missing,
    }
    coverage = {"1h": overview.hour.ratio, "24h": overview.day.ratio}
    messages = {"waiting": queue.waiting, "planned": queue.planned, "in_flight": queue.in_flight}
    yield Family("kizami_build_info", "The version that runs.", (({"version": __version__}, 1),))
    yield _labelled("last_minute_slots", "Slots that were due in the last minute.", "state", states)
    yield _labelled("coverage_ratio", "The share of due slots that is stored.", "window", coverage)
    yield _moment("newest_slot_timestamp_seconds", "The newest stored slot of all.", overview.newest_slot)
    if late.polls:
        words = "From planned moment to request, over the live polls of ten minutes:"
        yield _family("lateness_p50_seconds", f"{words} half were quicker.", late.p50_ms / 1000)
        yield _family("lateness_p99_seconds", f"{words} 99 of 100 were quicker.", late.p99_ms / 1000)
    yield _labelled("queue_messages", "Messages on the queue.", "state", messages)
    if queue.oldest_age_seconds is not None:
        yield _family("queue_oldest_age_seconds", "How long the oldest has waited.", queue.oldest_age_seconds)
    yield _family("dead_letters", "Slots that were given up.", queue.dead)
    yield _family("gaps", "Runs of missing slots of the last day.", overview.gaps)
    yield _family("missing_slots", "Missing slots of the last day.", overview.gap_slots)


def _by_target(snapshot: Snapshot) -> Iterator[Family]:
    statuses = list(snapshot.targets.values())
    conditions = Counter(status.condition for status in statuses)
    counts = {condition.value: conditions[condition] for condition in TargetCondition}
    yield _labelled("targets", "Targets by how they do.", "condition", counts)
    yield Family(
        "kizami_target_coverage_ratio",
        "The share of a target's due slots of the last day that is stored.",
        tuple((_of(status), status.day.ratio) for status in statuses if status.day.expected),
    )
    yield Family(
        "kizami_target_newest_slot_timestamp_seconds",
        "A target's newest stored slot.",
        tuple((_of(each), each.newest_slot.timestamp()) for each in statuses if each.newest_slot),
    )


def _of_incidents(
    incidents: Sequence[Incident], undelivered: Mapping[str, tuple[int, str | None]]
) -> Iterator[Family]:
    kinds = Counter(kind for incident in incidents for kind in incident.kinds)
    counts = {kind.value: kinds[kind] for kind in Kind}
    acknowledged = sum(incident.acknowledged_at is not None for incident in incidents)
    yield _family("open_incidents", "Incidents that are not over.", len(incidents))
    yield _family("acknowledged_incidents", "Open incidents that somebody has taken on.", acknowledged)
    yield _labelled("incidents", "Open incidents by what is wrong; one may be of several kinds.", "kind", counts)
    waiting = {receiver: count for receiver, (count, _) in undelivered.items()}
    yield _labelled("undelivered_alerts", "Messages that a receiver has not taken yet.", "receiver", waiting)


def _of(status: TargetStatus) -> dict[str, str]:
    return {"metric": status.target.name}


def _family(name: str, words: str, value: float) -> Family:
    return Family(f"kizami_{name}", words, (({}, value),))


def _labelled(name: str, words: str, label: str, values: dict[str, float] | dict[str, int]) -> Family:
    return Family(f"kizami_{name}", words, tuple(({label: key}, value) for key, value in values.items()))


def _moment(name: str, words: str, instant: datetime | None) -> Family:
    return Family(f"kizami_{name}", words, (({}, instant.timestamp()),) if instant else ())


def _labels_text(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def wants_openmetrics(accept: str) -> bool:
    """Whether the scraper's Accept header names OpenMetrics."""
    return any(part.strip().startswith("application/openmetrics-text") for part in accept.split(","))
