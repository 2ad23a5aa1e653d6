"""What a page can do: backfill with a preview, redrive dead letters, pause and resume a target (POST, JSON)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from kizami.core.errors import InvalidInput
from kizami.core.messages import load_json
from kizami.core.ports import Clock
from kizami.core.slots import Window, floor_to_second, floor_to_slot, format_second, parse_instant, shift, shorten
from kizami.home.chart import MAX_RANGE_SECONDS
from kizami.home.health import DAY
from kizami.home.port import Home
from kizami.home.repair import Repair, carry_out, plan_gap_repair, plan_repair, repair_json
from kizami.home.snapshot import find_gaps_in
from kizami.home.targets import KnownTarget
from kizami.home.values import DeadLetter
from kizami.web.api_lists import require_target
from kizami.web.home_threads import HomeThreads

MAX_NAMED = 5_000
MAX_SLOTS = 100_000

Body = Mapping[str, Any]
Act = Callable[[Home, Body, datetime], dict[str, Any]]


def action_routes(home_threads: HomeThreads, clock: Clock) -> list[BaseRoute]:
    """The acting half of `/api/v1`."""
    actions: dict[str, tuple[Act, frozenset[str]]] = {
        "backfill": (backfill, frozenset({"metric", "slots", "from", "to", "allGaps", "asOf", "dryRun"})),
        "dead-letters/redrive": (redrive, frozenset({"metric", "slots", "all"})),
        "targets/pause": (pause, frozenset({"metric"})),
        "targets/resume": (resume, frozenset({"metric"})),
    }
    return [
        Route(f"/api/v1/{path}", partial(_act, home_threads, clock, act, known), methods=["POST"])
        for path, (act, known) in actions.items()
    ]


async def _act(
    home_threads: HomeThreads, clock: Clock, act: Act, known: frozenset[str], request: Request
) -> Response:
    body = await _read_body(request, known)
    return JSONResponse(await home_threads.ask(lambda home: act(home, body, clock.now())))


async def _read_body(request: Request, known: frozenset[str]) -> Body:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "send JSON, with Content-Type: application/json")
    try:
        body = load_json(await request.body())
    except ValueError as error:
        raise InvalidInput("body", str(error)) from None
    if not isinstance(body, dict):
        raise InvalidInput("body", "is not a JSON object")
    for name in body:
        if name not in known:
            raise InvalidInput(shorten(name), f"is not a field; known: {', '.join(sorted(known))}")
    return body


def backfill(home: Home, body: Body, now: datetime) -> dict[str, Any]:
    """Ask again for named slots, for a range, or for all gaps of the last day; a dry run only tells.

    Whoever has seen a dry run orders what it told with its `asOf`: what has become missing since is left alone.
    """
    all_gaps, as_of = _flag(body, "allGaps"), _as_of(body, now)
    _refuse_beside("allGaps" if all_gaps else "slots", body, {"slots", "from", "to"})
    repair = _plan_all_gaps(home, body, as_of) if all_gaps else _plan_named(home, body, as_of)
    if _flag(body, "dryRun"):
        return repair_json(repair, as_of, None, None)
    return repair_json(repair, as_of, *carry_out(home, repair))


def _as_of(body: Body, now: datetime) -> datetime:
    """The moment to plan for, in whole seconds: the wire knows no others."""
    now = floor_to_second(now)
    as_of = parse_instant(body["asOf"], "asOf") if "asOf" in body else now
    if not now - DAY <= as_of <= now:
        raise InvalidInput("asOf", "must be of the last 24 hours; ask for a new preview")
    return as_of


def _plan_all_gaps(home: Home, body: Body, now: datetime) -> Repair:
    targets = home.targets() if "metric" not in body else [_target(home, body)]
    return plan_gap_repair(targets, find_gaps_in(home, targets, Window(now - DAY, now), now))


def _plan_named(home: Home, body: Body, now: datetime) -> Repair:
    target = _target(home, body)
    if not target.is_on:
        raise InvalidInput("metric", f"{shorten(target.name)} is not polled now: nobody would ask for them")
    if "slots" not in body:
        return plan_repair(home, target, _window(body, target), None, now)
    slots = set(_slots(body, target))
    return plan_repair(home, target, _around(slots, target), slots, now)


def redrive(home: Home, body: Body, now: datetime) -> dict[str, Any]:
    """Put dead letters back on the queue: those of named slots of a target, or all of it or of everything."""
    if _flag(body, "all"):
        _refuse_beside("all", body, {"slots"})
        metric = _target(home, body).name if "metric" in body else None
        letters = home.dead_letters(metric, -1)
    else:
        letters = _named_letters(home, _target(home, body), body)
    redriven = home.redrive(letters)
    return {"redriven": redriven, "kept": len(letters) - redriven}


def _named_letters(home: Home, target: KnownTarget, body: Body) -> list[DeadLetter]:
    slots = set(_slots(body, target))
    window = _around(slots, target)
    letters = home.slot_details(target.name, window.start, window.end).dead
    return [letter for letter in letters if letter.slot in slots]


def pause(home: Home, body: Body, now: datetime) -> dict[str, Any]:
    """Poll a target no more until it is resumed."""
    target = _target(home, body)
    home.pause(target.name)
    return {"metric": target.name, "paused": True}


def resume(home: Home, body: Body, now: datetime) -> dict[str, Any]:
    """Poll a target again."""
    target = _target(home, body)
    home.resume(target.name)
    return {"metric": target.name, "paused": False}


def _refuse_beside(name: str, body: Body, others: set[str]) -> None:
    """Whoever orders two different things means one of them, and we cannot know which."""
    for other in sorted(others & body.keys() - {name}) if name in body else ():
        raise InvalidInput(other, f"does not go together with {name}; leave one of them out")


def _target(home: Home, body: Body) -> KnownTarget:
    metric = body.get("metric")
    if not isinstance(metric, str):
        raise InvalidInput("metric", "must be the name of a target")
    return require_target(home, metric)


def _window(body: Body, target: KnownTarget) -> Window:
    start, end = (parse_instant(body.get(name), name) for name in ("from", "to"))
    return _bounded(Window(start, end), target, "from")


def _around(slots: set[datetime], target: KnownTarget) -> Window:
    return _bounded(Window(min(slots), shift(max(slots), target.interval_seconds)), target, "slots")


def _bounded(window: Window, target: KnownTarget, place: str) -> Window:
    if window.seconds > MAX_RANGE_SECONDS or window.seconds / target.interval_seconds > MAX_SLOTS:
        raise InvalidInput(
            place,
            f"reaches over more than {MAX_RANGE_SECONDS // 86_400} days or {MAX_SLOTS:,} slots; choose fewer",
        )
    return window


def _slots(body: Body, target: KnownTarget) -> list[datetime]:
    named = body.get("slots")
    if not isinstance(named, list) or not 1 <= len(named) <= MAX_NAMED:
        raise InvalidInput("slots", f"must be a list of 1 to {MAX_NAMED:,} timestamps")
    slots = [parse_instant(text, "slots") for text in named]
    for slot in slots:
        if floor_to_slot(slot, target.interval_seconds) != slot:
            raise InvalidInput("slots", f"{format_second(slot)} is not a slot of {target.interval_seconds} s")
    return slots


def _flag(body: Body, name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise InvalidInput(name, "must be true or false")
    return value
