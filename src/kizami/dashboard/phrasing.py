"""Numbers become sentences: the verdict and the tiles in a reader's language (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from kizami.coverage import Completeness
from kizami.dashboard.grid import Cell
from kizami.dashboard.overview import Finding, Level, Overview, SlotTally, TileKind, Verdict, tile_levels
from kizami.dashboard.words import Words, number, percent


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of the page, with what it means."""

    kind: TileKind
    level: Level
    label: str
    value: str
    note: str


def verdict_sentence(overview: Overview, verdict: Verdict, words: Words) -> str:
    """How things stand, in one sentence."""
    first = _first_phrase(overview.last_minute, verdict.finding, words)
    facts = _facts(overview, words) if overview.day.expected else []
    rest = words("verdict.separator") + words("verdict.comma").join(facts) if facts else ""
    return first + rest + words("verdict.stop")


def _first_phrase(minute: SlotTally, finding: Finding, words: Words) -> str:
    values: dict[str, object] = {}
    if finding is Finding.SOME_STORED:
        values["stored"] = number(minute.stored)
    if finding in (Finding.SOME_STORED, Finding.NONE_STORED):
        values["rest"] = _rest(minute, words)
    if finding in (Finding.NO_TARGETS, Finding.NOTHING_DUE):
        return words(f"verdict.{finding.value}")
    return words(f"verdict.{finding.value}", minute.expected, **values)


def _rest(minute: SlotTally, words: Words) -> str:
    parts = (("pending", minute.pending), ("dead", minute.dead), ("missing", minute.missing))
    return words("verdict.comma").join(words(f"verdict.{name}", n) for name, n in parts if n)


def _facts(overview: Overview, words: Words) -> list[str]:
    facts = [words("verdict.coverage", percent=percent(overview.day))]
    facts.append(words("verdict.gaps", overview.gaps) if overview.gaps else words("verdict.gaps_none"))
    if overview.queue.dead:
        facts.append(words("verdict.dead_letters", overview.queue.dead))
    if overview.paused:
        facts.append(words("verdict.paused", overview.paused))
    return facts


def tiles_of(overview: Overview, words: Words) -> list[Tile]:
    """The tiles, in their order."""
    texts = {
        TileKind.AGE: _age(overview, words),
        TileKind.HOUR: _coverage(overview.hour, words),
        TileKind.DAY: _coverage(overview.day, words),
        TileKind.LATENESS: _lateness(overview, words),
        TileKind.QUEUE: _queue(overview, words),
        TileKind.DEAD: _dead(overview, words),
        TileKind.GAPS: _gaps(overview, words),
    }
    levels = tile_levels(overview)
    return [Tile(kind, levels[kind], words(f"tile.{kind.value}"), *texts[kind]) for kind in TileKind]


def _age(overview: Overview, words: Words) -> tuple[str, str]:
    if overview.newest_slot is None:
        return words("unit.none"), words("tile.age_none")
    # A slot is whole seconds: fractions of its age would only flicker.
    age = words.duration(int((overview.now - overview.newest_slot).total_seconds()))
    return words("tile.age_value", age=age), words("tile.age_note", overview.targets)


def _coverage(part: Completeness, words: Words) -> tuple[str, str]:
    if not part.expected:
        return words("unit.none"), words("tile.nothing_expected")
    return percent(part), words("tile.of", stored=number(part.stored), expected=number(part.expected))


def _lateness(overview: Overview, words: Words) -> tuple[str, str]:
    late = overview.lateness
    if not late.polls:
        return words("unit.none"), words("tile.lateness_none")
    value = f"{words.milliseconds(late.p50_ms)} / {words.milliseconds(late.p99_ms)}"
    return value, words("tile.lateness_note", late.polls)


def _queue(overview: Overview, words: Words) -> tuple[str, str]:
    queue = overview.queue
    due = number(queue.waiting + queue.in_flight)
    if not queue.oldest_age_seconds:
        return due, words("tile.queue_idle", queue.delayed)
    return due, words("tile.queue_note", age=words.duration(queue.oldest_age_seconds))


def _dead(overview: Overview, words: Words) -> tuple[str, str]:
    return number(overview.queue.dead), words("tile.dead_note" if overview.queue.dead else "tile.dead_none")


def _gaps(overview: Overview, words: Words) -> tuple[str, str]:
    if not overview.gaps:
        return "0", words("tile.gaps_none")
    return number(overview.gaps), words("tile.gaps_note", overview.gap_slots)


def cell_text(cell: Cell, words: Words) -> str:
    """What a cell's colour and glyph stand for, without its time."""
    parts = [words(f"state.{cell.state.value}")]
    if cell.count is not None:
        parts.append(words("cell.count", count=number(cell.count)))
    if cell.late_ms is not None and cell.late_ms >= 1:
        parts.append(words("cell.late", late=words.milliseconds(cell.late_ms)))
    if cell.tries > 1 or (cell.tries and cell.reason):
        parts.append(words("cell.tries", cell.tries))
    if cell.reason:
        parts.append(cell.reason)
    return words("verdict.comma").join(parts)
