"""The lists of the API, page by page: from records, slots and gaps to incidents and events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from kizami.backend.causes import FoundGap
from kizami.backend.columns import RecordColumns
from kizami.backend.grid import cells_between
from kizami.backend.port import Backend
from kizami.backend.snapshot import LETTERS_READ, find_gaps_in, find_targets, judged_statuses
from kizami.backend.targets import KnownTarget, UnknownTarget
from kizami.backend.values import DeadLetterKey
from kizami.backend.wire import (
    company_json,
    dead_letter_json,
    event_json,
    gap_json,
    incident_json,
    slot_json,
    target_json,
)
from kizami.core.epoch import from_ms, from_seconds, to_ms, to_seconds
from kizami.core.errors import InvalidInput
from kizami.core.slots import floor_to_slot, shorten
from kizami.core.targets.target import require_metric
from kizami.web.paging import Cursor, Page, RecordItems, read_cursor
from kizami.web.view.address import read_condition, read_range, read_search

Query = Mapping[str, str]
LISTED_MEMBERS = 100  # of an incident; how many it has is told beside them


def require_target(backend: Backend, metric: str | None) -> KnownTarget:
    """The target of that name, or the only one there is; else InvalidInput."""
    targets = {target.name: target for target in backend.targets(None if metric is None else [metric])}
    if metric is not None and metric not in targets:
        require_metric(metric)
    if metric is None and len(targets) == 1:
        return next(iter(targets.values()))
    if metric is None:
        raise InvalidInput("metric", f"is missing; there are {len(targets)} targets, see /api/v1/targets")
    if metric not in targets:
        raise UnknownTarget(metric)
    return targets[metric]


def list_records(backend: Backend, query: Query, now: datetime, cursor: str | None, limit: int) -> Page:
    """The stored records of a range."""
    target, window = require_target(backend, query.get("metric")), read_range(query, now)
    start = _after(cursor, window.start)
    found: list[RecordColumns] = []
    for piece in backend.record_columns(target.name, start, window.end):
        if len(piece) > limit:
            return Page(RecordItems([*found, piece.part(0, limit)]), [piece.slots[limit]])
        found.append(piece)
        limit -= len(piece)
    return Page(RecordItems(found))


def list_slots(backend: Backend, query: Query, now: datetime, cursor: str | None, limit: int) -> Page:
    """Every slot of a range with its state."""
    target, window = require_target(backend, query.get("metric")), read_range(query, now)
    start = _after(cursor, window.start)
    step = timedelta(seconds=target.interval_seconds)
    end = min(window.end, floor_to_slot(start, target.interval_seconds) + (limit + 1) * step)
    details = backend.slot_details(target.name, start, end)
    cells = list(cells_between(target, start, end, details, now))[:limit]
    following = cells[-1].slot + step if cells else window.end
    items = [slot_json(target.name, cell) for cell in cells]
    return Page(items, [to_seconds(following)] if following < window.end else None)


def list_gaps(backend: Backend, query: Query, now: datetime, cursor: str | None, limit: int) -> Page:
    """The gaps of a range (the last 24 hours), newest first."""
    window = read_range(query, now, "24h")
    targets = backend.targets()
    if "metric" in query:
        targets = [require_target(backend, query["metric"])]
    gaps = find_gaps_in(backend, targets, window, now)
    last = read_cursor(cursor, int, str)
    if last is not None:
        gaps = [found for found in gaps if _gap_key(found) < (last[0], last[1])]
    page = gaps[:limit]
    return Page([gap_json(found) for found in page], _gap_key(page[-1]) if len(gaps) > limit else None)


def _gap_key(found: FoundGap) -> tuple[int, str]:
    return to_seconds(found.gap.start), found.metric


def list_dead_letters(backend: Backend, query: Query, now: datetime, cursor: str | None, limit: int) -> Page:
    """The dead letters of one target or of all, newest first."""
    before = _read_key(read_cursor(cursor, int, int, str))
    metric = require_target(backend, query["metric"]).name if "metric" in query else None
    letters = backend.dead_letters(metric, limit + 1, before)
    page = letters[:limit]
    following = None
    if len(letters) > limit:
        died, slot, metric = page[-1].key
        following = [to_ms(died), to_seconds(slot), metric]
    return Page([dead_letter_json(letter) for letter in page], following)


def _read_key(cursor: Cursor | None) -> DeadLetterKey | None:
    if cursor is None:
        return None
    milliseconds, slot, metric = cursor
    return _instant(from_ms, milliseconds), _instant(from_seconds, slot), metric


def list_targets(backend: Backend, query: Query, now: datetime, cursor: str | None, limit: int) -> Page:
    """Every target whose name contains `search`, of one `condition` or of any, by name."""
    (after,) = read_cursor(cursor, str) or ("",)
    letters = backend.dead_letters(None, LETTERS_READ) if backend.queue_depth(now).dead else []
    statuses, _ = judged_statuses(backend, now, backend.targets(), letters)
    found = find_targets(statuses, read_search(query), read_condition(query), after)
    page = found[:limit]
    following = [page[-1].target.name] if len(found) > limit else None
    return Page([target_json(status) for status in page], following)


def list_companies(backend: Backend, query: Query, now: datetime, cursor: str | None, limit: int) -> Page:
    """The companies of the aggregation batch, by id."""
    (after,) = read_cursor(cursor, str) or ("",)
    found = [company for company in backend.companies(now) if company.company_id > after]
    page = found[:limit]
    following = [page[-1].company_id] if len(found) > limit else None
    return Page([company_json(company, now) for company in page], following)


def list_incidents(backend: Backend, query: Query, now: datetime, cursor: str | None, limit: int) -> Page:
    """The incidents of one target or of all, newest first: all of them, or those that are open."""
    wanted = query.get("state", "all")
    if wanted not in ("all", "open"):
        raise InvalidInput("state", f"{shorten(wanted)} is neither all nor open")
    (before,) = read_cursor(cursor, int) or (None,)
    metric = require_target(backend, query["metric"]).name if "metric" in query else None
    found = backend.incident_log.incidents(limit + 1, before, open_only=wanted == "open", metric=metric)
    page = found[:limit]
    following = [page[-1].number] if len(found) > limit else None
    return Page([incident_json(incident, LISTED_MEMBERS) for incident in page], following)


def list_events(backend: Backend, query: Query, now: datetime, cursor: str | None, limit: int) -> Page:
    """What happened to one target or to all, newest first."""
    (before,) = read_cursor(cursor, int) or (None,)
    metric = require_target(backend, query["metric"]).name if "metric" in query else None
    found = backend.incident_log.events(limit + 1, before, metric=metric)
    page = found[:limit]
    following = [page[-1].number] if len(found) > limit else None
    return Page([event_json(event) for event in page], following)


def _after(cursor: str | None, start: datetime) -> datetime:
    found = read_cursor(cursor, int)
    return start if found is None else max(start, _instant(from_seconds, found[0]))


def _instant(read: Callable[[int], datetime], number: int) -> datetime:
    try:
        return read(number)
    except OverflowError:
        raise InvalidInput("cursor", "is not one that this list gave out") from None
