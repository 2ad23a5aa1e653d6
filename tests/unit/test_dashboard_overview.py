"""The verdict: what happens now outranks what happened during the day, in one sentence of either language."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kizami.coverage import Completeness, Span
from kizami.dashboard.overview import (
    DAY,
    LAST_MINUTE,
    Finding,
    Level,
    Overview,
    SlotTally,
    TileKind,
    judge,
    recent_span,
    span_within,
    tally_slots,
    tile_levels,
)
from kizami.dashboard.phrasing import tiles_of, verdict_sentence
from kizami.dashboard.source import PolledTarget, SlotCounts
from kizami.dashboard.words import words_in
from kizami.readings import Lateness, QueueDepth
from kizami.slots import Window

NOW = datetime(2025, 12, 2, 10, 0, 30, tzinfo=UTC)
WHOLE = Overview(
    now=NOW,
    targets=1,
    paused=0,
    last_minute=SlotTally(stored=12),
    newest_slot=NOW - timedelta(seconds=6),
    hour=Completeness(720, 720),
    day=Completeness(17_280, 17_280),
    lateness=Lateness(120, 2, 9, 40),
    queue=QueueDepth(0, 12, 1, 0, 0.0),
    gaps=0,
    gap_slots=0,
)


def told(overview: Overview, language: str = "en") -> str:
    return verdict_sentence(overview, judge(overview), words_in(language))


def test_all_is_well_when_everything_is_stored() -> None:
    assert judge(WHOLE).level is Level.GOOD
    assert told(WHOLE) == "All 12 slots of the last minute are stored; coverage 24 h 100%, no gaps."
    assert told(WHOLE, "ja") == "直近1分の12スロットはすべて保存済みです。24時間の充足率 100%、欠落なし。"


def test_gaps_of_the_day_are_worth_a_look() -> None:
    overview = replace(WHOLE, day=Completeness(17_277, 17_280), gaps=3, gap_slots=3)
    assert judge(overview).level is Level.NOTICE
    assert told(overview) == "All 12 slots of the last minute are stored; coverage 24 h 99.98%, 3 gaps."


def test_what_is_pending_is_worth_a_look_and_what_is_dead_or_missing_needs_action() -> None:
    pending = replace(WHOLE, last_minute=SlotTally(stored=10, pending=2))
    assert (judge(pending).level, judge(pending).finding) == (Level.NOTICE, Finding.SOME_STORED)
    assert told(pending).startswith("10 of 12 slots of the last minute are stored (2 pending);")
    broken = replace(WHOLE, last_minute=SlotTally(stored=0, pending=9, dead=2, missing=1))
    assert (judge(broken).level, judge(broken).finding) == (Level.BAD, Finding.NONE_STORED)
    assert "(9 pending, 2 dead, 1 missing)" in told(broken)


def test_nobody_asking_at_all_is_told_as_such() -> None:
    stopped = replace(WHOLE, last_minute=SlotTally(missing=12))
    assert (judge(stopped).level, judge(stopped).finding) == (Level.BAD, Finding.STOPPED)
    assert told(stopped).startswith("Nothing is being collected")


def test_dead_letters_and_pauses_are_named() -> None:
    overview = replace(WHOLE, queue=QueueDepth(0, 0, 0, 1, 0.0), paused=2)
    assert judge(overview).level is Level.NOTICE
    assert told(overview).endswith("no gaps, 1 dead letter, 2 targets paused.")


def test_before_anything_was_due_it_waits() -> None:
    nothing = replace(
        WHOLE, last_minute=SlotTally(), hour=Completeness(0, 0), day=Completeness(0, 0), newest_slot=None
    )
    assert judge(nothing).level is Level.IDLE
    assert told(nothing) == "No slot was due in the last minute."
    assert told(replace(nothing, targets=0)).startswith("No target has been polled yet")
    assert all(tile.value for tile in tiles_of(nothing, words_in("ja")))


@pytest.mark.parametrize(
    ("stored", "expected", "percent"),
    [
        (17_279, 17_280, "99.99%"),
        (9_999, 10_000, "99.99%"),
        (99_999, 100_000, "99.99%"),
        (1, 3, "33.33%"),
        (0, 5, "0.00%"),
    ],
)
def test_coverage_is_never_rounded_up_to_whole(stored: int, expected: int, percent: str) -> None:
    assert percent in told(replace(WHOLE, day=Completeness(stored, expected)))


def test_tiles_say_what_to_look_at() -> None:
    assert set(tile_levels(WHOLE).values()) == {Level.GOOD}
    overview = replace(
        WHOLE,
        hour=Completeness(700, 720),
        day=Completeness(17_279, 17_280),
        lateness=Lateness(120, 2, 1400, 2000),
        queue=QueueDepth(5, 0, 0, 2, 75.0),
        gaps=1,
        gap_slots=20,
    )
    levels = tile_levels(overview)
    assert levels[TileKind.HOUR] is Level.BAD
    assert levels[TileKind.DAY] is levels[TileKind.LATENESS] is levels[TileKind.QUEUE] is Level.NOTICE
    assert levels[TileKind.DEAD] is Level.BAD
    texts = {tile.kind: (tile.value, tile.note) for tile in tiles_of(overview, words_in("en"))}
    assert texts[TileKind.AGE] == ("6 s ago", "of 1 target")
    assert texts[TileKind.DAY] == ("99.99%", "17,279 of 17,280")
    assert texts[TileKind.LATENESS] == ("2 ms / 1.4 s", "120 polls, last 10 min")
    assert texts[TileKind.QUEUE] == ("5", "oldest waits 1 min 15 s")
    assert texts[TileKind.GAPS] == ("1", "20 slots missing")


@pytest.mark.parametrize("interval", [1, 5, 60])
@pytest.mark.parametrize("offset", [0, 0.001, 0.5, 3])
def test_the_last_minute_always_has_a_minute_of_slots_whose_time_has_come(interval: int, offset: float) -> None:
    target = PolledTarget("calls", interval, interval, NOW - timedelta(hours=1))
    now = NOW + timedelta(seconds=offset)
    span = recent_span(target, LAST_MINUTE, now)
    assert span.expected == 60 // interval
    assert span.end <= now - timedelta(seconds=interval)


def test_nothing_is_expected_from_before_a_target_was_known() -> None:
    target = PolledTarget("calls", 5, 5, NOW - timedelta(seconds=30))
    assert recent_span(target, DAY, NOW).start == target.first_slot
    window = Window(NOW - timedelta(hours=1), NOW - timedelta(seconds=17))
    assert span_within(target, window, NOW).expected == 3
    assert span_within(target, Window(NOW - timedelta(hours=2), NOW - timedelta(hours=1)), NOW).expected == 0


def test_what_is_accounted_for_nowhere_is_missing() -> None:
    span = Span(NOW - LAST_MINUTE, NOW, 5)
    assert tally_slots(span, SlotCounts(stored=8, pending=2, dead=1)) == SlotTally(8, 2, 1, 1)
    assert tally_slots(span, SlotCounts(stored=12, pending=1)).missing == 0
