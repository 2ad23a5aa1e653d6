"""What a page can do: backfill with a preview, redrive, pause and resume, take incidents on (POST, JSON)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from kizami.backend.chart import MAX_RANGE_SECONDS
from kizami.backend.health import DAY
from kizami.backend.port import Backend
from kizami.backend.repair import Repair, carry_out, plan_gap_repair, plan_repair, repair_json
from kizami.backend.snapshot import find_gaps_in, find_gaps_of_day
from kizami.backend.targets import KnownTarget
from kizami.backend.values import DeadLetter
from kizami.backend.wire import incident_json
from kizami.core.backfill import left_out_words
from kizami.core.coverage import count_slots
from kizami.core.errors import InvalidInput, KizamiError
from kizami.core.messages import load_json
from kizami.core.ports import Clock
from kizami.core.slots import Window, floor_to_second, floor_to_slot, format_second, parse_instant, shift, shorten
from kizami.web.api_lists import LISTED_MEMBERS, require_target
from kizami.web.backend_threads import BackendThreads
from kizami.web.live import NEWCOMER_SECONDS, Live, Scene, look_at, page_data
from kizami.web.view.address import read_view
from kizami.web.view.words import choose_language
from kizami.web.wall.columns import changes_of, columns_of, in_language
from kizami.web.wall.orders import Orders
from kizami.web.wall.watch import Watch

MAX_NAMED = 5_000
MAX_SLOTS = 100_000
MAX_ALL_SLOTS = 1_000_000  # of all targets together
MAX_PAGE = 16_000
MAX_SILENCE_MINUTES = 31 * 1440

Body = Mapping[str, Any]
Act = Callable[[Backend, Body, datetime], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ActingPage:
    """The page that an action is done on, if it is done on one."""

    scene: Scene

    def after(self, backend: Backend, watch: Watch, now: datetime, good_for: float) -> dict[str, Any] | None:
        """The page with the change; None if it cannot be read, which the live updates report."""
        try:
            shown = look_at(watch, backend, [self.scene], now, good_for)[self.scene]
        except KizamiError:
            return None
        if isinstance(shown, InvalidInput):
            return None
        if shown.screen.status is not None:
            return page_data(shown, None, {})
        columns = changes_of(columns_of(shown.screen.snapshot), None)
        return page_data(shown, None, in_language(columns, self.scene.language))


def action_routes(backend_threads: BackendThreads, clock: Clock, watch: Watch, live: Live) -> list[BaseRoute]:
    """The acting half of `/api/v1`."""
    actions: dict[str, tuple[Act, frozenset[str]]] = {
        "backfill": (
            partial(backfill, orders=watch.orders),
            frozenset({"metric", "slots", "from", "to", "allGaps", "asOf", "dryRun"}),
        ),
        "orders/dismiss": (partial(dismiss, orders=watch.orders), frozenset({"order"})),
        "dead-letters/redrive": (
            partial(redrive, orders=watch.orders),
            frozenset({"metric", "slots", "all", "from", "to", "reason"}),
        ),
        "targets/pause": (pause, frozenset({"metric"})),
        "targets/resume": (resume, frozenset({"metric"})),
        "incidents/acknowledge": (acknowledge, frozenset({"incident", "by"})),
        "incidents/silence": (silence, frozenset({"incident", "minutes", "by"})),
        "incidents/unsilence": (unsilence, frozenset({"incident", "by"})),
    }
    return [
        Route(f"/api/v1/{path}", partial(_act, backend_threads, clock, watch, live, act, known), methods=["POST"])
        for path, (act, known) in actions.items()
    ]


async def _act(
    backend_threads: BackendThreads,
    clock: Clock,
    watch: Watch,
    live: Live,
    act: Act,
    known: frozenset[str],
    request: Request,
) -> Response:
    """Do it and, with `page`, answer with the page as it is then, so that it need not wait for a live update."""
    page, body = _read_page(request), await _read_body(request, known)
    is_dry = body.get("dryRun") is True

    def answer(backend: Backend) -> dict[str, Any]:
        done = act(backend, body, clock.now())
        if is_dry:
            return done
        if act in _OF_INCIDENTS:  # which change nothing else: figures of thousands of targets take long to read
            watch.incidents.forget()
        else:
            watch.forget()
        good_for = NEWCOMER_SECONDS if act in _OF_INCIDENTS else 0.0
        return done | ({"page": page.after(backend, watch, clock.now(), good_for)} if page else {})

    done = await backend_threads.ask(answer)
    if not is_dry:
        live.hurry(page.scene if page else None)
    return JSONResponse(done)


def _read_page(request: Request) -> ActingPage | None:
    """The page whose query, as that of its live updates, stands in `page`."""
    text = request.query_params.get("page")
    if text is None:
        return None
    if len(text) > MAX_PAGE:
        raise InvalidInput("page", f"is longer than any page's query: {MAX_PAGE:,} characters")
    query = dict(parse_qsl(text, keep_blank_values=True))
    header = request.headers.get("accept-language", "")
    language = choose_language(query.get("lang"), request.cookies.get("lang"), accept_language=header)
    return ActingPage(Scene(read_view(query), language))


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


def backfill(backend: Backend, body: Body, now: datetime, *, orders: Orders | None = None) -> dict[str, Any]:
    """Ask again for named slots, for a range, or for all gaps of the last day or of a range; a dry run only tells.

    Whoever has seen a dry run orders what it told with its `asOf`: what has become missing since is left alone.
    """
    all_gaps, as_of = _flag(body, "allGaps"), _as_of(body, now)
    _refuse_beside("allGaps" if all_gaps else "slots", body, {"slots"} if all_gaps else {"slots", "from", "to"})
    repair = _plan_all_gaps(backend, body, as_of) if all_gaps else _plan_named(backend, body, as_of)
    if _flag(body, "dryRun"):
        return repair_json(repair, as_of, None, None)
    if orders is not None and (repair.missing_slots or repair.dead):
        orders.place(backend, repair, now)
    return repair_json(repair, as_of, *carry_out(backend, repair))


def dismiss(backend: Backend, body: Body, now: datetime, *, orders: Orders) -> dict[str, Any]:
    """Somebody has seen how a backfill ended."""
    number = body.get("order")
    if not isinstance(number, int) or isinstance(number, bool):
        raise InvalidInput("order", "must be the number of an order")
    return {"dismissed": orders.dismiss(number)}


def _as_of(body: Body, now: datetime) -> datetime:
    """The moment to plan for, in whole seconds: the wire knows no others."""
    now = floor_to_second(now)
    as_of = parse_instant(body["asOf"], "asOf") if "asOf" in body else now
    if not now - DAY <= as_of <= now:
        raise InvalidInput("asOf", "must be of the last 24 hours; ask for a new preview")
    return as_of


def _plan_all_gaps(backend: Backend, body: Body, now: datetime) -> Repair:
    targets = backend.targets() if "metric" not in body else [_target(backend, body)]
    if "from" not in body and "to" not in body:
        return plan_gap_repair(targets, find_gaps_of_day(backend, targets, now))
    gaps = find_gaps_in(backend, targets, _range(body), now)
    if (slots := count_slots(found.gap for found in gaps)) > MAX_ALL_SLOTS:
        raise InvalidInput(
            "from", f"lacks {slots:,} slots; order at most {MAX_ALL_SLOTS:,} at once: a shorter range"
        )
    return plan_gap_repair(targets, gaps)


def _plan_named(backend: Backend, body: Body, now: datetime) -> Repair:
    target = _target(backend, body)
    if not target.is_on:
        raise InvalidInput("metric", f"{shorten(target.name)} is not polled now: nobody would ask for them")
    if not target.backfill:
        raise InvalidInput("metric", left_out_words([target.name]))
    slots = set(_slots(body, target)) if "slots" in body else None
    window = _window(body, target) if slots is None else _around(slots, target)
    target.require_kept(window.start, "from" if slots is None else "slots")
    return plan_repair(backend, target, window, slots, now)


def redrive(backend: Backend, body: Body, now: datetime, *, orders: Orders | None = None) -> dict[str, Any]:
    """Put dead letters back on the queue: those of named slots of a target, or all of it or of everything, or
    those of a range and a reason."""
    if _flag(body, "all") or "from" in body:
        _refuse_beside("all" if "all" in body else "from", body, {"slots"})
        metric = _target(backend, body).name if "metric" in body else None
        letters = _wanted_letters(backend.dead_letters(metric, -1), body)
    else:
        letters = _named_letters(backend, _target(backend, body), body)
    if orders is not None and letters:
        orders.place(backend, Repair(dead=letters), now)
    redriven = backend.redrive(letters)
    return {"redriven": redriven, "kept": len(letters) - redriven}


def _wanted_letters(letters: list[DeadLetter], body: Body) -> list[DeadLetter]:
    """Those of the range and the reason that are named, if they are."""
    window = _range(body) if "from" in body else None
    found = letters if window is None else [each for each in letters if window.start <= each.slot < window.end]
    return [letter for letter in found if body.get("reason", letter.reason) == letter.reason]


def _named_letters(backend: Backend, target: KnownTarget, body: Body) -> list[DeadLetter]:
    slots = set(_slots(body, target))
    window = _around(slots, target)
    letters = backend.slot_details(target.name, window.start, window.end).dead
    return [letter for letter in letters if letter.slot in slots]


def pause(backend: Backend, body: Body, now: datetime) -> dict[str, Any]:
    """Poll a target no more until it is resumed."""
    target = _target(backend, body)
    backend.pause(target.name)
    return {"metric": target.name, "paused": True}


def resume(backend: Backend, body: Body, now: datetime) -> dict[str, Any]:
    """Poll a target again."""
    target = _target(backend, body)
    backend.resume(target.name)
    return {"metric": target.name, "paused": False}


def acknowledge(backend: Backend, body: Body, now: datetime) -> dict[str, Any]:
    """Take an incident on: nobody is told of it any more until it is over."""
    return incident_json(backend.incident_log.acknowledge(_incident(body), _by(body)), LISTED_MEMBERS)


def silence(backend: Backend, body: Body, now: datetime) -> dict[str, Any]:
    """Keep quiet about an incident for some minutes."""
    minutes = body.get("minutes")
    if isinstance(minutes, bool) or not isinstance(minutes, int) or not 1 <= minutes <= MAX_SILENCE_MINUTES:
        raise InvalidInput("minutes", f"must be a whole number from 1 to {MAX_SILENCE_MINUTES}")
    until = shift(floor_to_second(now), 60 * minutes)
    return incident_json(backend.incident_log.silence(_incident(body), until, _by(body)), LISTED_MEMBERS)


def unsilence(backend: Backend, body: Body, now: datetime) -> dict[str, Any]:
    """End the silence about an incident."""
    return incident_json(backend.incident_log.unsilence(_incident(body), _by(body)), LISTED_MEMBERS)


_OF_INCIDENTS = (acknowledge, silence, unsilence)


def _incident(body: Body) -> int:
    number = body.get("incident")
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number < 2**53:
        raise InvalidInput("incident", "must be the number of an incident")
    return number


def _by(body: Body) -> str:
    by = body.get("by", "page")
    if not isinstance(by, str) or not 1 <= len(by) <= 100 or not by.isprintable():
        raise InvalidInput("by", "must be a name of up to 100 printable characters")
    return by


def _refuse_beside(name: str, body: Body, others: set[str]) -> None:
    """Whoever orders two different things means one of them, and we cannot know which."""
    for other in sorted(others & body.keys() - {name}) if name in body else ():
        raise InvalidInput(other, f"does not go together with {name}; leave one of them out")


def _target(backend: Backend, body: Body) -> KnownTarget:
    metric = body.get("metric")
    if not isinstance(metric, str):
        raise InvalidInput("metric", "must be the name of a target")
    return require_target(backend, metric)


def _window(body: Body, target: KnownTarget) -> Window:
    return _bounded(_range(body), target, "from")


def _range(body: Body) -> Window:
    start, end = (parse_instant(body.get(name), name) for name in ("from", "to"))
    window = Window(start, end)
    if window.seconds > MAX_RANGE_SECONDS:
        raise InvalidInput("from", f"reaches over more than {MAX_RANGE_SECONDS // 86_400} days; choose fewer")
    return window


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
