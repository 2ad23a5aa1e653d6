"""A Screen becomes HTML: the whole page at first, then only the parts that have changed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from kizami.alerts.messages import Message
from kizami.alerts.texts import sentence
from kizami.backend.causes import Episode, is_about
from kizami.backend.chart import RANGES
from kizami.backend.grid import GLYPHS, Row, row_length
from kizami.backend.health import Level, TileKind
from kizami.backend.snapshot import LISTED
from kizami.backend.wire import moment
from kizami.core.access.failures import cause_in
from kizami.core.errors import InvalidInput
from kizami.core.slots import parse_instant
from kizami.web.view.address import EVERY, View
from kizami.web.view.assets import assets_url, modules_of
from kizami.web.view.incident_lists import SILENCE_MINUTES, event_text
from kizami.web.view.panel_links import ways_to
from kizami.web.view.phrasing import (
    cell_text,
    level_word,
    order_title,
    order_words,
    tiles_of,
    verdict_sentence,
)
from kizami.web.view.screen import EPISODES, Screen
from kizami.web.view.wall import group_name
from kizami.web.view.words import LANGUAGES, Words, compact, number, percent
from kizami.web.wall.orders import Order

# Parts of each page that are renewed on their own; the id of each is the id of its element.
WALL_PARTS = {
    "verdict": "verdict.html",
    "config-note": "config_note.html",
    "incidents": "incidents.html",
    "orders": "orders.html",
    "episodes": "episodes.html",
    "events": "events.html",
    "wall-head": "wall_head.html",
    "wall-foot": "wall_foot.html",
    "companies": "companies.html",
}
TARGET_PARTS = {
    "target-head": "target_head.html",
    "verdict": "verdict.html",
    "config-note": "config_note.html",
    "incidents": "incidents.html",
    "orders": "orders.html",
    "chart-head": "chart_head.html",
    "chart-foot": "chart_foot.html",
    "grid-head": "grid_head.html",
    "grid-caption": "grid_caption.html",
    "grid-columns": "grid_columns.html",
    "grid-foot": "grid_foot.html",
    "episodes": "episodes.html",
    "events": "events.html",
}
SCRIPT_SECTIONS = ("action", "live", "chart", "grid", "unit", "targets", "calendar")

_CLOCKS = {"second": "%H:%M:%S", "minute": "%H:%M", "full": "%Y-%m-%d %H:%M:%S", "full-minute": "%Y-%m-%d %H:%M"}
# Up to a comma, and the space that follows it in English; a comma inside a number ends nothing.
_PHRASE = re.compile(r"(.+?(?:[;,](?= )|[、。]|$))( ?)")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_PLACE = "\0"  # of the time in a sentence; no name or error has it
_TITLE_MARKS = {Level.GOOD: "●", Level.NOTICE: "▲", Level.BAD: "✕", Level.IDLE: "○"}


@dataclass(frozen=True, slots=True)
class Parts:
    """What a page shows, in pieces: its parts by id, and the grid's rows, newest first."""

    title: str
    level: str
    parts: Mapping[str, str]
    rows: Mapping[str, str]


@cache
def environment() -> Environment:
    """Everything that is put into a template is escaped; a name that is not there is an error."""
    made = Environment(
        loader=PackageLoader("kizami.web.view"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"breakable": breakable, "phrased": phrased, "zoned": zoned}
    made.globals |= {"assets": assets_url(), "modules_of": modules_of}
    return made


def compile_templates() -> None:
    """Once, before somebody asks for a page: it takes longer than the page itself."""
    for name in environment().list_templates():
        environment().get_template(name)


def breakable(name: str) -> Markup:
    """A metric's name, which a narrow column may break after its separators."""
    return Markup("<wbr>").join(re.split(r"(?<=[/_.:-])", name))


def phrased(sentence: str) -> Markup:
    """A sentence that breaks between its phrases rather than inside one."""
    phrases = re.findall(_PHRASE, sentence)
    return Markup("").join(Markup('<span class="phrase">{}</span>{}').format(*found) for found in phrases)


def time_markup(instant: datetime, style: str) -> Markup:
    """An instant, which the script shows in the reader's zone."""
    text = Markup('<time datetime="{}" data-clock="{}">{}</time>')
    return text.format(moment(instant), style, clock_text(instant, style))


def since_style(instant: datetime, now: datetime) -> str:
    """How the page shows when something began: with the date if that is a day ago."""
    return "full" if (now - instant).days else "second"


def zoned(text: str) -> Markup:
    """A text whose instants the script shows in the reader's zone."""
    return Markup(_INSTANT.sub(lambda found: _zoned_instant(found[0]), str(escape(text))))


def _zoned_instant(text: str) -> str:
    try:
        return time_markup(parse_instant(text, "text"), "full")
    except InvalidInput:  # what an API or a file says may look like an instant: 2026-02-30T00:00:00Z
        return text


def incident_sentence(message: Message, language: str, now: datetime) -> Markup:
    """What is said of an incident, its time in the reader's zone."""
    times: list[datetime] = []

    def hold_place(instant: datetime, _: datetime) -> str:
        times.append(instant)
        return _PLACE

    before, _, after = sentence(message, language, hold_place).partition(_PLACE)
    shown = time_markup(times[0], since_style(times[0], now)) if times else Markup("")
    return escape(before) + shown + escape(after)


def render(template: str, words: Words, theme: str | None, **context: Any) -> str:
    """A page that shows no data: the login, an error."""
    return environment().get_template(template).render(words=words, theme=theme, **context)


def render_page(
    screen: Screen, words: Words, theme: str | None, origin: str = "", reads_only: bool = False
) -> str:
    """The whole page: the wall, or that of one target."""
    is_wall = screen.status is None
    return render_frame(
        "wall.html" if is_wall else "target.html",
        words,
        theme,
        screen.view.url(),
        reads_only,
        **_context(screen, words),
        title=page_title(screen, words),
        script="wall.js" if is_wall else "target.js",
        place="wall" if is_wall else "target",
        ways=ways_to(screen.metric, origin, screen.command_options) if screen.metric else (),
    )


def render_calendar(
    words: Words,
    theme: str | None,
    orders: Sequence[Order],
    first_slot: datetime | None,
    reads_only: bool = False,
    is_cut: bool = False,
) -> str:
    """The calendar of all targets, which begins at `first_slot`: with the oldest of them, or where it `is_cut`."""
    context = _order_context(orders, words) | _HELPERS | {"first_slot": first_slot, "is_cut": is_cut}
    title = f"{words('calendar.heading')} – kizami"
    about = {"title": title, "script": "calendar.js", "place": "calendar"}
    return render_frame("calendar.html", words, theme, "/calendar", reads_only, **about, **context)


def render_frame(
    template: str, words: Words, theme: str | None, url: str, reads_only: bool = False, **context: Any
) -> str:
    """A page with its bar, and the words that its script says."""
    other = next(language for language in LANGUAGES if language != words.language)
    script_words: dict[str, Any] = {section: words.section(section) for section in SCRIPT_SECTIONS}
    script_words |= {key: words(key) for key in ("copy", "copied", "zone_local")}
    return render(
        template,
        words,
        theme,
        other_language=other,
        language_url=f"{url}{'&' if '?' in url else '?'}lang={other}",
        script_words=json.dumps(script_words, ensure_ascii=False),
        reads_only=reads_only,
        **context,
    )


def render_parts(screen: Screen, words: Words) -> Parts:
    """The page in pieces."""
    context = _context(screen, words)
    templates = environment()
    names = WALL_PARTS if screen.status is None else TARGET_PARTS
    parts: dict[str, str] = {
        name: templates.get_template(file).render(words=words, **context) for name, file in names.items()
    }
    for tile in context["tiles"]:
        html = templates.get_template("tile.html").render(words=words, tile=tile, **context)
        parts[f"tile-{tile.kind.value}"] = html
    row_template = templates.get_template("grid_row.html")
    rows = {row_id(row): row_template.render(words=words, row=row, **context) for row in screen.rows}
    return Parts(page_title(screen, words), screen.verdict.level.value, parts, rows)


def page_title(screen: Screen, words: Words) -> str:
    """What the browser's tab says."""
    verdict = screen.verdict
    about = f"{screen.metric} – kizami" if screen.metric else "kizami"
    return f"{_TITLE_MARKS[verdict.level]} {level_word(verdict, words)} – {about}"


def _context(screen: Screen, words: Words) -> dict[str, Any]:
    def show_episode(episode: Episode) -> str:
        name = episode.metrics[0]
        # Of one that asks for several values the first is shown: it has no slots of its own.
        shown = next((each for each in screen.snapshot.targets if is_about(name, each)), None)
        if shown is None:
            return "#episodes"
        target = screen.snapshot.targets[shown].target
        rows = timedelta(seconds=row_length(target.interval_seconds).value * (screen.view.minutes - 1))
        until = episode.start + rows
        view = screen.view if screen.metric else View()
        # One in sight at present needs no moment, and `now` would be another link for every page each second.
        held = until if until < screen.now else None
        return view.url(metric=target.name, until=held, start=None, end=None) + "#slots"

    def can_fill(episode: Episode) -> bool:
        return any(screen.snapshot.targets[name].target.backfill for name in episode.metrics)

    return {
        "screen": screen,
        "level_word": level_word(screen.verdict, words),
        "sentence": verdict_sentence(screen.overview, screen.verdict, words),
        "incident_sentence": lambda message: incident_sentence(message, words.language, screen.now),
        "cause_text": lambda cause: cause_in(cause, words.language),
        "event_text": lambda event: event_text(event, words),
        "tiles": tiles_of(
            screen.overview, words, of_one=screen.metric if screen.snapshot.overview.targets > 1 else None
        ),
        "tile_url": lambda tile: tile_url(tile.kind, screen),
        "cell_text": lambda cell: cell_text(cell, words),
        "is_overdue": screen.is_overdue,
        "show_episode": show_episode,
        "can_fill": can_fill,
        "group": group_name(screen.metric) if screen.metric else "",
        "first_slot": screen.status.target.first_slot if screen.status else None,
        "is_cut": False,
        **_order_context(screen.orders, words),
        **_HELPERS,
    }


def _order_context(orders: Sequence[Order], words: Words) -> dict[str, Any]:
    return {
        "orders": orders,
        "order_title": lambda order: order_title(order, words),
        "order_words": lambda order: order_words(order, words),
    }


def tile_url(kind: TileKind, screen: Screen) -> str:
    """Where what a tile counts is seen."""
    last = screen.overview.furthest_behind
    if kind is TileKind.AGE and last and not screen.metric:
        return target_url(last.metric) + "#slots"
    if kind in (TileKind.HOUR, TileKind.DAY):
        return "#calendar" if screen.metric else "/calendar"
    if kind in (TileKind.DEAD, TileKind.GAPS):
        return "#episodes"
    return "#slots" if screen.metric else "#targets"


def target_url(metric: str) -> str:
    """The address of a target's page."""
    return View(metric=metric).url()


def row_id(row: Row) -> str:
    """The id of a row's element; ids in the order of time are in the order of text."""
    return f"row-{int(row.start.timestamp()):012d}"


def clock_text(instant: datetime, style: str) -> str:
    """An instant in UTC; the script shows it in the reader's zone if that is wished."""
    return instant.strftime(_CLOCKS[style])


_HELPERS = {
    "number": number,
    "compact": compact,
    "percent": percent,
    "wire_moment": moment,
    "clock_text": clock_text,
    "since_style": since_style,
    "row_id": row_id,
    "glyphs": GLYPHS,
    "ranges": tuple(RANGES),
    "every": EVERY,
    "listed": LISTED,
    "episodes_listed": EPISODES,
    "target_url": target_url,
    "silence_minutes": SILENCE_MINUTES,
}
