"""How the API writes what it knows: flat JSON objects, UTC timestamps, the same names everywhere (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from kizami.backend.calendar import CalendarCell
from kizami.backend.causes import FoundGap
from kizami.backend.chart import Chart, Point
from kizami.backend.figures.wire import json_number
from kizami.backend.grid import Cell
from kizami.backend.health import Overview, TargetStatus, Verdict
from kizami.backend.incidents import BACKEND, BackendEvent, Incident
from kizami.backend.values import CompanyState, DeadLetter
from kizami.core.coverage import Completeness, Gap
from kizami.core.slots import format_second

RECORD_COLUMNS = ("metricName", "slotTime", "count", "collectedAt")
SLOT_COLUMNS = ("metricName", "slotTime", "state", "count", "lateMs", "receives", "reason")
GAP_COLUMNS = ("metricName", "from", "to", "slots", "intervalSeconds")
DEAD_LETTER_COLUMNS = (
    "metricName",
    "slotTime",
    "intervalSeconds",
    "receives",
    "backfill",
    "sentAt",
    "diedAt",
    "reason",
)
TARGET_COLUMNS = (
    "metricName",
    "condition",
    "level",
    "since",
    "cause",
    "intervalSeconds",
    "lagSeconds",
    "firstSlot",
    "newestSlot",
    "stored24h",
    "expected24h",
    "pausedSince",
    "backfill",
    "lastError",
    "blockedSince",
    "nextProbe",
)
COMPANY_COLUMNS = ("companyId", "lockedSince", "lockAgeSeconds", "month", "users", "points")
STATUS_COLUMNS = (
    "now",
    "level",
    "finding",
    "condition",
    "metricName",
    "since",
    "cause",
    "sentence",
    "targets",
    "pausedTargets",
    "lastMinuteExpected",
    "lastMinuteStored",
    "lastMinutePending",
    "lastMinuteDead",
    "lastMinuteMissing",
    "newestSlot",
    "newestAgeSeconds",
    "furthestBehind",
    "furthestBehindSlot",
    "furthestBehindAgeSeconds",
    "targetsBehind",
    "stored1h",
    "expected1h",
    "stored24h",
    "expected24h",
    "polls",
    "latenessP50Ms",
    "latenessP99Ms",
    "queueWaiting",
    "queueInFlight",
    "queuePlanned",
    "queueOldestAgeSeconds",
    "deadLetters",
    "gaps",
    "gapSlots",
)


INCIDENT_COLUMNS = (
    *("number", "state", "kinds", "cause", "since", "overSince", "targets", "firstTarget"),
    *("acknowledgedAt", "acknowledgedBy", "silencedUntil"),
)
EVENT_COLUMNS = ("number", "at", "event", "by", "details")


def moment(instant: datetime | None) -> str | None:
    """An instant cut to the second, as on every wire of kizami."""
    return None if instant is None else format_second(instant)


def status_json(overview: Overview, verdict: Verdict, sentence: str) -> dict[str, Any]:
    """The verdict and its numbers."""
    minute, newest, last = overview.last_minute, overview.newest_slot, overview.furthest_behind
    last_slot = None if last is None else last.newest_slot
    values = (
        moment(overview.now),
        verdict.level.value,
        verdict.finding.value,
        *worst_values(verdict),
        sentence,
        overview.targets,
        overview.paused,
        minute.expected,
        minute.stored,
        minute.pending,
        minute.dead,
        minute.missing,
        moment(newest),
        _age(overview.now, newest),
        None if last is None else last.metric,
        moment(last_slot),
        _age(overview.now, last_slot),
        overview.targets_behind,
        *_parts(overview.hour),
        *_parts(overview.day),
        overview.lateness.polls,
        overview.lateness.p50_ms,
        overview.lateness.p99_ms,
        overview.queue.waiting,
        overview.queue.in_flight,
        overview.queue.planned,
        overview.queue.oldest_age_seconds,
        overview.queue.dead,
        overview.gaps,
        overview.gap_slots,
    )
    return dict(zip(STATUS_COLUMNS, values, strict=True))


def worst_values(verdict: Verdict) -> tuple[str | None, str | None, str | None, str | None]:
    """The worst state of any target: condition, whose, since, cause; nothing where nothing is wrong."""
    worst = verdict.culprits
    if worst is None:
        return None, None, None, None
    return worst.condition.value, worst.metric or None, moment(worst.since), worst.cause or None


def _age(now: datetime, slot: datetime | None) -> float | None:
    return None if slot is None else round((now - slot).total_seconds(), 3)


def _parts(completeness: Completeness) -> tuple[int, int]:
    return completeness.stored, completeness.expected


def slot_json(metric: str, cell: Cell) -> dict[str, Any]:
    """A cell of the grid."""
    values = metric, moment(cell.slot), cell.state.value, cell.count, cell.late_ms, cell.tries, cell.reason
    return dict(zip(SLOT_COLUMNS, values, strict=True))


def gap_fields(gap: Gap) -> dict[str, Any]:
    """A gap of a metric that is named elsewhere."""
    return {"from": moment(gap.start), "to": moment(gap.end), "slots": gap.slots}


def gap_json(found: FoundGap) -> dict[str, Any]:
    """A gap, and of what."""
    fields = {"metricName": found.metric, **gap_fields(found.gap), "intervalSeconds": found.interval_seconds}
    return {name: fields[name] for name in GAP_COLUMNS}


def dead_letter_json(letter: DeadLetter) -> dict[str, Any]:
    """A dead letter with its reason."""
    values = (
        letter.metric,
        moment(letter.slot),
        letter.interval_seconds,
        letter.receives,
        letter.backfill,
        moment(letter.sent_at),
        moment(letter.died_at),
        letter.reason,
    )
    return dict(zip(DEAD_LETTER_COLUMNS, values, strict=True))


def state_values(status: TargetStatus) -> tuple[str, str, str | None, str | None]:
    """The state as every list has it: condition, level, since, cause."""
    return status.condition.value, status.level.value, moment(status.since), status.cause or None


def target_json(status: TargetStatus) -> dict[str, Any]:
    """A target and how it does."""
    target, trouble = status.target, status.trouble
    values = (
        target.name,
        *state_values(status),
        target.interval_seconds,
        target.lag_seconds,
        moment(target.first_slot),
        moment(status.newest_slot),
        *_parts(status.day),
        moment(target.paused_since),
        target.backfill,
        trouble.error if trouble else None,
        moment(trouble.blocked_since if trouble else None),
        moment(trouble.next_probe if trouble else None),
    )
    return dict(zip(TARGET_COLUMNS, values, strict=True))


def company_json(company: CompanyState, now: datetime) -> dict[str, Any]:
    """A company of the aggregation batch."""
    since = company.locked_since
    age = None if since is None else round((now - since).total_seconds(), 3)
    values = company.company_id, moment(since), age, company.month, company.users, company.points
    return dict(zip(COMPANY_COLUMNS, values, strict=True))


def _mean(mean: float | None) -> float | None:
    """Six digits after the point, or as many that count where the mean is small."""
    if mean is None or abs(mean) >= 1:
        return None if mean is None else round(mean, 6)
    return float(f"{mean:.6g}")


def cell_json(cell: CalendarCell) -> dict[str, Any]:
    """A day or an hour of the calendar."""
    stored, expected = _parts(cell.part)
    return {
        "from": moment(cell.start),
        "to": moment(cell.end),
        "stored": stored,
        "expected": expected,
        "lackingTargets": cell.lacking,
    }


def chart_json(metric: str, interval_seconds: int, chart: Chart) -> dict[str, Any]:
    """The chart in columns, as a plotting library wants them; a hole is null."""
    return {
        "metricName": metric,
        "intervalSeconds": interval_seconds,
        "grainSeconds": chart.grain_seconds,
        "from": moment(chart.start),
        "to": moment(chart.end),
        **_columns(chart.points),
        "before": None if chart.before is None else _columns(chart.before),
    }


def _columns(points: Sequence[Point]) -> dict[str, list[Any]]:
    return {
        "time": [int(point.start.timestamp()) for point in points],
        "lowest": [point.lowest for point in points],
        "highest": [point.highest for point in points],
        "mean": [_mean(point.mean) for point in points],
        "sum": [json_number(point.total) for point in points],
        "stored": [point.stored for point in points],
        "expected": [point.expected for point in points],
    }


def incident_row(incident: Incident) -> dict[str, Any]:
    """An incident in a list, without its members."""
    values = (
        incident.number,
        "open" if incident.is_open else "over",
        sorted(kind.value for kind in incident.kinds),
        incident.shown_cause,
        moment(incident.shown_since),
        moment(incident.over_since),
        len(incident.members),
        next(iter(incident.members), BACKEND),
        moment(incident.acknowledged_at),
        incident.acknowledged_by or None,
        moment(incident.silenced_until),
    )
    return dict(zip(INCIDENT_COLUMNS, values, strict=True))


def incident_json(incident: Incident, most: int | None = None) -> dict[str, Any]:
    """An incident with all its members, or with the first ones."""
    members = [
        {
            "name": member.name,
            "kinds": sorted(kind.value for kind in member.kinds),
            "since": moment(member.shown_since),
            "clearSince": moment(member.clear_since),
            "firstSlot": moment(member.first_slot),
            "detail": member.detail,
        }
        for member in islice(incident.members.values(), most)
    ]
    return {**incident_row(incident), "members": members}


def event_json(event: BackendEvent) -> dict[str, Any]:
    """Something that happened."""
    values = event.number, moment(event.at), event.event, event.by, dict(event.details)
    return dict(zip(EVENT_COLUMNS, values, strict=True))
