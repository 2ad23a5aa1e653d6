"""Numbers become sentences: the verdict and the tiles in a reader's language (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from kizami.backend.grid import Cell
from kizami.backend.health import Level, MinuteFinding, Overview, SlotTally, TileKind, Verdict, tile_levels
from kizami.core.coverage import Completeness
from kizami.web.view.words import Words, exact_number, number, percent
from kizami.web.wall.orders import Order

NAME_END = 14


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of the page, with what it means."""

    kind: TileKind
    level: Level
    label: str
    value: str
    note: str
    hint: str = ""


def verdict_sentence(overview: Overview, verdict: Verdict, words: Words) -> str:
    """How things stand, in one sentence."""
    first = _first_phrase(overview, verdict.finding, words)
    facts = _facts(overview, words) if overview.day.expected else []
    rest = words("verdict.separator") + words("verdict.comma").join(facts) if facts else ""
    return first + rest + words("verdict.stop")


def level_word(verdict: Verdict, words: Words) -> str:
    """The verdict in a word or two."""
    is_starting = verdict.finding is MinuteFinding.STARTING
    return words("verdict.level_starting" if is_starting else f"verdict.level_{verdict.level.value}")


def _first_phrase(overview: Overview, finding: MinuteFinding, words: Words) -> str:
    minute = overview.last_minute
    values: dict[str, object] = {}
    if finding is MinuteFinding.STARTING and overview.first_tick is not None:
        return _starting(overview.first_tick - overview.now, words)
    if finding is MinuteFinding.SOME_STORED:
        values["stored"] = number(minute.stored)
    if finding in (MinuteFinding.SOME_STORED, MinuteFinding.NONE_STORED):
        values["rest"] = _rest(minute, words)
    if finding in (MinuteFinding.NO_TARGETS, MinuteFinding.NOTHING_DUE):
        return words(f"verdict.{finding.value}")
    if overview.stop is not None and overview.stop.is_daemon_down:
        return words("verdict.stopped_daemon")
    recent = "recent_" if overview.is_slow else ""  # a slower target has its newest slot among them
    return words(f"verdict.{recent}{finding.value}", minute.expected, **values)


def _starting(ahead: timedelta, words: Words) -> str:
    # Whole seconds, rounded up: "in 0 s" would be now.
    seconds = ceil(ahead.total_seconds())
    if seconds <= 0:
        return words("verdict.starting_asked")
    return words("verdict.starting", ahead=words.duration(seconds))


def _rest(minute: SlotTally, words: Words) -> str:
    parts = (("pending", minute.pending), ("dead", minute.dead), ("missing", minute.missing))
    return words("verdict.comma").join(words(f"verdict.{name}", n) for name, n in parts if n)


def _facts(overview: Overview, words: Words) -> list[str]:
    facts = [words("verdict.coverage", percent=percent(overview.day))]
    facts.append(words("verdict.gaps", overview.gaps) if overview.gaps else words("verdict.gaps_none"))
    if overview.queue.dead:
        facts.append(words("verdict.dead_letters", overview.queue.dead))
    if overview.blocked:
        facts.append(words("verdict.blocked", overview.blocked))
    if overview.paused:
        facts.append(words("verdict.paused", overview.paused))
    return facts


# What is told of one target among others: the queue and the lateness are those of all.
_OF_ONE = (TileKind.AGE, TileKind.HOUR, TileKind.DAY, TileKind.DEAD, TileKind.GAPS)


def tiles_of(overview: Overview, words: Words, of_one: str | None = None) -> list[Tile]:
    """The tiles, in their order; of one target among others fewer."""
    texts = {
        TileKind.AGE: _age(overview, words),
        TileKind.HOUR: _coverage(overview.hour, overview, words),
        TileKind.DAY: _coverage(overview.day, overview, words),
        TileKind.LATENESS: _lateness(overview, words),
        TileKind.QUEUE: _queue(overview, words),
        TileKind.DEAD: _dead(overview, words),
        TileKind.GAPS: _gaps(overview, words),
    }
    levels = tile_levels(overview)
    kinds = TileKind if of_one is None else _OF_ONE
    return [
        Tile(kind, levels[kind], words(f"tile.{kind.value}"), *texts[kind], words(f"hint.{kind.value}"))
        for kind in kinds
    ]


def _age(overview: Overview, words: Words) -> tuple[str, str]:
    last = overview.furthest_behind
    if last is None:
        value = _age_value(overview, overview.newest_slot, words)
        return value, words("tile.age_none" if overview.newest_slot is None else "tile.age_unpolled")
    value = _age_value(overview, last.newest_slot, words)
    if overview.polled == 1:
        return value, words("tile.age_note", 1)
    if not last.seconds:
        return value, words("tile.age_note", overview.polled)
    behind = words("tile.age_behind", overview.targets_behind, targets=number(overview.polled))
    return value, words("tile.age_target", metric=_short(last.metric), behind=behind)


def _age_value(overview: Overview, slot: datetime | None, words: Words) -> str:
    if slot is None:
        return words("unit.none")
    # A slot is whole seconds: fractions of its age would only flicker.
    return words("tile.age_value", age=words.duration(int((overview.now - slot).total_seconds())))


def _short(name: str) -> str:
    """A name that fits a tile: its ends tell more than its middle."""
    return name if len(name) <= 2 * NAME_END else f"{name[: NAME_END - 1]}…{name[-NAME_END:]}"


def _coverage(part: Completeness, overview: Overview, words: Words) -> tuple[str, str]:
    if not part.expected:
        is_starting = overview.first_tick is not None
        return words("unit.none"), words("tile.first_slot" if is_starting else "tile.nothing_expected")
    return percent(part), words("tile.of", stored=number(part.stored), expected=number(part.expected))


def _lateness(overview: Overview, words: Words) -> tuple[str, str]:
    late = overview.lateness
    if not late.polls:
        is_starting = overview.first_tick is not None
        return words("unit.none"), words("tile.lateness_first" if is_starting else "tile.lateness_none")
    value = f"{words.milliseconds(late.p50_ms)} / {words.milliseconds(late.p99_ms)}"
    return value, words("tile.lateness_note", late.polls)


def _queue(overview: Overview, words: Words) -> tuple[str, str]:
    queue = overview.queue
    due = number(queue.waiting + queue.in_flight)
    if not queue.oldest_age_seconds:
        return due, words("tile.queue_idle", queue.planned)
    return due, words("tile.queue_note", age=words.duration(queue.oldest_age_seconds))


def _dead(overview: Overview, words: Words) -> tuple[str, str]:
    return number(overview.queue.dead), words("tile.dead_note" if overview.queue.dead else "tile.dead_none")


def _gaps(overview: Overview, words: Words) -> tuple[str, str]:
    if not overview.gaps:
        return "0", words("tile.gaps_none")
    return number(overview.gaps), words("tile.gaps_note", overview.gap_slots)


def order_title(order: Order, words: Words) -> str:
    """What was ordered."""
    slots = words("orders.slots", order.slots)
    if len(order.metrics) == 1:
        return words("orders.of_one", slots=slots, metric=order.metrics[0])
    return words("orders.of_many", len(order.metrics), slots=slots)


def order_words(order: Order, words: Words) -> str:
    """How far it has come."""
    facts = [words("orders.filled", order.filled)]
    if order.dead:
        facts.append(words("orders.dead", order.dead))
    if order.left:
        facts.append(words("orders.lacking" if order.ended_at else "orders.left", order.left))
    return words("verdict.comma").join(facts) + words("verdict.stop")


def cell_text(cell: Cell, words: Words) -> str:
    """What a cell's colour and glyph stand for, without its time."""
    parts = [words(f"state.{cell.state.value}")]
    if cell.count is not None:
        parts.append(words("cell.count", count=exact_number(cell.count)))
    if cell.late_ms is not None and cell.late_ms >= 1:
        parts.append(words("cell.late", late=words.milliseconds(cell.late_ms)))
    if cell.tries > 1 or (cell.tries and cell.reason):
        parts.append(words("cell.tries", cell.tries))
    if cell.reason:
        parts.append(cell.reason)
    return words("verdict.comma").join(parts)
