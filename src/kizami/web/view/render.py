"""A Screen becomes HTML: the whole page at first, then only the parts that have changed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kizami.home.chart import RANGES
from kizami.home.grid import GLYPHS, Row
from kizami.home.health import DAY, Level
from kizami.home.snapshot import LISTED, FoundGap
from kizami.home.wire import moment
from kizami.web.view.phrasing import cell_text, level_word, tiles_of, verdict_sentence
from kizami.web.view.screen import Screen
from kizami.web.view.words import LANGUAGES, Words, compact, number, percent

# Parts of the page that are renewed on their own; the id of each is the id of its element.
PARTS = {
    "verdict": "verdict.html",
    "tiles": "tiles.html",
    "chart-head": "chart_head.html",
    "chart-foot": "chart_foot.html",
    "grid-head": "grid_head.html",
    "grid-caption": "grid_caption.html",
    "grid-columns": "grid_columns.html",
    "grid-foot": "grid_foot.html",
    "gaps": "gaps.html",
    "dead": "dead_letters.html",
    "targets": "targets.html",
    "companies": "companies.html",
}
SCRIPT_SECTIONS = ("action", "live", "chart", "grid", "unit")

_CLOCKS = {"second": "%H:%M:%S", "minute": "%H:%M", "full": "%Y-%m-%d %H:%M:%S", "full-minute": "%Y-%m-%d %H:%M"}
# Up to a comma, and the space that follows it in English; a comma inside a number ends nothing.
_PHRASE = re.compile(r"(.+?(?:[;,](?= )|[、。]|$))( ?)")
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
    made.filters |= {"breakable": breakable, "phrased": phrased}
    return made


def breakable(name: str) -> Markup:
    """A metric's name, which a narrow column may break after its separators."""
    return Markup("<wbr>").join(re.split(r"(?<=[/_.:-])", name))


def phrased(sentence: str) -> Markup:
    """A sentence that breaks between its phrases rather than inside one."""
    phrases = re.findall(_PHRASE, sentence)
    return Markup("").join(Markup('<span class="phrase">{}</span>{}').format(*found) for found in phrases)


def render(template: str, words: Words, theme: str | None, **context: Any) -> str:
    """A page that shows no data: the login, an error."""
    return environment().get_template(template).render(words=words, theme=theme, **context)


def render_page(screen: Screen, words: Words, theme: str | None) -> str:
    """The whole page."""
    other = next(language for language in LANGUAGES if language != words.language)
    separator = "&" if "?" in screen.view.url() else "?"
    script_words = {section: words.section(section) for section in SCRIPT_SECTIONS}
    return render(
        "page.html",
        words,
        theme,
        **_context(screen, words),
        title=page_title(screen, words),
        other_language=other,
        language_url=f"{screen.view.url()}{separator}lang={other}",
        script_words=json.dumps(
            script_words | {key: words(key) for key in ("copy", "copied")}, ensure_ascii=False
        ),
    )


def render_parts(screen: Screen, words: Words) -> Parts:
    """The page in pieces."""
    context = _context(screen, words)
    templates = environment()
    parts = {
        part: templates.get_template(template).render(words=words, **context) for part, template in PARTS.items()
    }
    row_template = templates.get_template("grid_row.html")
    rows = {row_id(row): row_template.render(words=words, row=row, **context) for row in screen.rows}
    return Parts(page_title(screen, words), screen.verdict.level.value, parts, rows)


def page_title(screen: Screen, words: Words) -> str:
    """What the browser's tab says."""
    verdict = screen.verdict
    return f"{_TITLE_MARKS[verdict.level]} {level_word(verdict, words)} – kizami"


def _context(screen: Screen, words: Words) -> dict[str, Any]:
    overview = screen.snapshot.overview

    def show_gap(found: FoundGap) -> str:
        minutes = timedelta(minutes=screen.view.minutes - 1)
        until = min(screen.now, found.gap.start + minutes)
        return screen.view.url(metric=found.metric, until=until) + "#slots"

    return {
        "screen": screen,
        "level_word": level_word(screen.verdict, words),
        "sentence": verdict_sentence(overview, screen.verdict, words),
        "tiles": tiles_of(overview, words),
        "cell_text": lambda cell: cell_text(cell, words),
        "show_gap": show_gap,
        "gap_key": lambda found: gap_key(found, screen.now),
        **_HELPERS,
    }


def gap_key(found: FoundGap, now: datetime) -> str:
    """What a gap is known by: its first slot, or, as that moves with the clock, that the day begins in it."""
    is_cut = found.gap.start - (now - DAY) < timedelta(seconds=found.interval_seconds)
    return f"{'' if is_cut else moment(found.gap.start)} {found.metric}"


def row_id(row: Row) -> str:
    """The id of a row's element; ids in the order of time are in the order of text."""
    return f"minute-{int(row.minute.timestamp()):012d}"


def clock_text(instant: datetime, style: str) -> str:
    """An instant in UTC; the script shows it in the reader's zone if that is wished."""
    return instant.strftime(_CLOCKS[style])


_HELPERS = {
    "number": number,
    "compact": compact,
    "percent": percent,
    "wire_moment": moment,
    "clock_text": clock_text,
    "row_id": row_id,
    "glyphs": GLYPHS,
    "ranges": tuple(RANGES),
    "listed": LISTED,
}
