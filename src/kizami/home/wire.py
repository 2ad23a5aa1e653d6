"""How the API writes what it knows: flat JSON objects, UTC timestamps, the same names everywhere (pure)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kizami.core.coverage import Completeness
from kizami.core.slots import format_second
from kizami.home.chart import Chart
from kizami.home.grid import Cell
from kizami.home.health import Overview, Verdict
from kizami.home.snapshot import FoundGap, TargetStatus
from kizami.home.values import CompanyState, DeadLetter

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
    "intervalSeconds",
    "lagSeconds",
    "firstSlot",
    "newestSlot",
    "stored24h",
    "expected24h",
    "pausedSince",
)
COMPANY_COLUMNS = ("companyId", "lockedSince", "lockAgeSeconds", "month", "users", "points")
STATUS_COLUMNS = (
    "now",
    "level",
    "finding",
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


def _age(now: datetime, slot: datetime | None) -> float | None:
    return None if slot is None else round((now - slot).total_seconds(), 3)


def _parts(completeness: Completeness) -> tuple[int, int]:
    return completeness.stored, completeness.expected


def slot_json(metric: str, cell: Cell) -> dict[str, Any]:
    """A cell of the grid."""
    values = metric, moment(cell.slot), cell.state.value, cell.count, cell.late_ms, cell.tries, cell.reason
    return dict(zip(SLOT_COLUMNS, values, strict=True))


def gap_json(found: FoundGap) -> dict[str, Any]:
    """A gap."""
    gap = found.gap
    values = found.metric, moment(gap.start), moment(gap.end), gap.slots, found.interval_seconds
    return dict(zip(GAP_COLUMNS, values, strict=True))


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


def target_json(status: TargetStatus) -> dict[str, Any]:
    """A target and how it does."""
    target = status.target
    values = (
        target.name,
        status.condition.value,
        target.interval_seconds,
        target.lag_seconds,
        moment(target.first_slot),
        moment(status.newest_slot),
        *_parts(status.day),
        moment(target.paused_since),
    )
    return dict(zip(TARGET_COLUMNS, values, strict=True))


def company_json(company: CompanyState, now: datetime) -> dict[str, Any]:
    """A company of the aggregation batch."""
    since = company.locked_since
    age = None if since is None else round((now - since).total_seconds(), 3)
    values = company.company_id, moment(since), age, company.month, company.users, company.points
    return dict(zip(COMPANY_COLUMNS, values, strict=True))


def chart_json(metric: str, interval_seconds: int, chart: Chart) -> dict[str, Any]:
    """The chart in columns, as a plotting library wants them; a hole is null."""
    points = chart.points
    return {
        "metricName": metric,
        "intervalSeconds": interval_seconds,
        "grainSeconds": chart.grain_seconds,
        "from": moment(chart.start),
        "to": moment(chart.end),
        "time": [int(point.start.timestamp()) for point in points],
        "lowest": [point.lowest for point in points],
        "highest": [point.highest for point in points],
        "mean": [None if point.mean is None else round(point.mean, 6) for point in points],
        "stored": [point.stored for point in points],
        "expected": [point.expected for point in points],
    }
