"""The verdict: what happens now outranks what happened during the day, in one sentence of either language."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest

from kizami.backend.health import (
    DAY,
    LAST_MINUTE,
    Level,
    MinuteFinding,
    Overview,
    SlotTally,
    Stop,
    TargetBehind,
    TargetCondition,
    TargetStatus,
    TileKind,
    Verdict,
    find_culprits,
    judge,
    seconds_behind,
    tally_slots,
    tile_levels,
)
from kizami.backend.snapshot import make_overview
from kizami.backend.targets import KnownTarget
from kizami.backend.values import Lateness, QueueDepth, SlotCounts, TargetTrouble
from kizami.core.coverage import Completeness, Span
from kizami.web.view.phrasing import level_word, tiles_of, verdict_sentence
from kizami.web.view.words import words_in

NOW = datetime(2025, 12, 2, 10, 0, 30, tzinfo=UTC)
WHOLE = Overview(
    now=NOW,
    targets=1,
    polled=1,
    paused=0,
    last_minute=SlotTally(stored=12),
    newest_slot=NOW - timedelta(seconds=6),
    furthest_behind=TargetBehind("calls", NOW - timedelta(seconds=6), 0),
    targets_behind=0,
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


def status_of(
    minute: SlotTally, trouble: TargetTrouble | None = None, stop: Stop | None = None, **how: Any
) -> TargetStatus:
    """A target that was polled for a day, and lacks what its last minute lacks."""
    target = KnownTarget("calls", 5, 5, NOW - DAY)
    newest = NOW - (timedelta(seconds=6) if minute.stored else timedelta(hours=1))
    day = Completeness(17_280 - minute.expected + minute.stored, 17_280)
    return TargetStatus(target, newest, minute, day, day, 0, trouble, **({"stop": stop} | how))


REFUSED = TargetTrouble("status 401", NOW - timedelta(minutes=2), NOW)
STOP = Stop(NOW - timedelta(minutes=7), True)
STORED, SHORT, NOTHING_STORED = SlotTally(stored=12), SlotTally(stored=10, pending=2), SlotTally(0, 9, 2, 1)
# In the one order, the worst first: the state, its colour, when it began and why.
STATES: list[tuple[TargetStatus, TargetCondition, Level, datetime | None, str]] = [
    (status_of(NOTHING_STORED, REFUSED, STOP), TargetCondition.STOPPED, Level.BAD, STOP.since, ""),
    (
        status_of(NOTHING_STORED, TargetTrouble("timed out")),
        TargetCondition.SILENT,
        Level.BAD,
        NOW - timedelta(hours=1, seconds=-5),
        "timed out",
    ),
    (status_of(SHORT, REFUSED), TargetCondition.BLOCKED, Level.BAD, REFUSED.blocked_since, "status 401"),
    (status_of(SHORT, incident_since=NOW), TargetCondition.LATE, Level.NOTICE, NOW, ""),
    (status_of(STORED, given_up="status 500"), TargetCondition.INCOMPLETE, Level.NOTICE, None, "status 500"),
    (status_of(STORED), TargetCondition.COLLECTING, Level.GOOD, None, ""),
]


def overview_of(*statuses: TargetStatus) -> Overview:
    named = {
        f"{number}": replace(each, target=replace(each.target, name=f"{number}"))
        for number, each in enumerate(statuses)
    }
    stop = next((each.stop for each in statuses if each.stop), None)
    return make_overview(named, [], WHOLE.lateness, WHOLE.queue, NOW, stop)


def test_each_state_has_one_colour_one_time_and_one_cause() -> None:
    for status, condition, level, since, cause in STATES:
        assert (status.condition, status.level, status.since, status.cause) == (condition, level, since, cause)
    lacking = replace(status_of(STORED), day=Completeness(17_279, 17_280))
    assert (lacking.condition, lacking.cause) == (TargetCondition.INCOMPLETE, "")
    silent = status_of(NOTHING_STORED, REFUSED)
    assert (silent.condition, silent.since) == (TargetCondition.BLOCKED, REFUSED.blocked_since)  # that explains it


def test_the_verdict_is_that_of_the_worst_target_whatever_stands_beside_it() -> None:
    for rank, (worst, condition, level, since, cause) in enumerate(STATES[:-1]):
        others = [status for status, *_ in STATES[rank:]]
        for statuses in permutations(others, min(3, len(others))):
            if worst not in statuses:
                continue
            verdict = judge(overview_of(*statuses))
            found = verdict.culprits
            assert found is not None
            assert (verdict.level, found.condition, found.since, found.cause) == (level, condition, since, cause)
    assert judge(overview_of(STATES[-1][0])) == Verdict(Level.GOOD, MinuteFinding.ALL_STORED)


def test_the_sentence_tells_what_became_of_the_last_minute() -> None:
    assert told(overview_of(status_of(SHORT))).startswith(
        "10 of 12 slots of the last minute are stored (2 pending);"
    )
    assert "(9 pending, 2 dead, 1 missing)" in told(overview_of(status_of(NOTHING_STORED)))


def test_nobody_asking_at_all_is_told_as_such() -> None:
    missing = SlotTally(missing=12)
    stopped = overview_of(status_of(missing, stop=replace(STOP, is_daemon_down=False)))
    assert (judge(stopped).level, judge(stopped).finding) == (Level.BAD, MinuteFinding.STOPPED)
    assert told(stopped).startswith("Nothing is being collected: nobody asked for the 12 slots")
    down = replace(WHOLE, targets=0, polled=0, stop=STOP, culprits=find_culprits([], STOP))
    assert (judge(down).level, judge(down).finding) == (Level.BAD, MinuteFinding.STOPPED)
    assert told(down).startswith("Nothing is collected: `kizami up` does not run here")
    assert told(down, "ja").startswith("収集が止まっています。ここでは `kizami up` が動いていません")


def test_dead_letters_and_pauses_are_named() -> None:
    overview = replace(WHOLE, queue=QueueDepth(0, 0, 0, 1, 0.0), paused=2)
    assert judge(overview).level is Level.NOTICE
    assert told(overview).endswith("no gaps, 1 dead letter, 2 targets paused.")


NOTHING = replace(
    WHOLE,
    last_minute=SlotTally(),
    hour=Completeness(0, 0),
    day=Completeness(0, 0),
    lateness=Lateness(0, 0, 0, 0),
    newest_slot=None,
    furthest_behind=None,
)


def tile_texts(overview: Overview, language: str = "en") -> dict[TileKind, tuple[str, str]]:
    return {tile.kind: (tile.value, tile.note) for tile in tiles_of(overview, words_in(language))}


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_first_slot_is_told_before_it_is_due_and_while_it_is_on_its_way(language: str) -> None:
    soon = replace(NOTHING, first_tick=NOW + timedelta(seconds=2.4))
    asked = replace(NOTHING, first_tick=NOW - timedelta(seconds=2))
    words = words_in(language)
    assert (judge(soon).level, judge(soon).finding) == (Level.IDLE, MinuteFinding.STARTING)
    assert (
        told(soon, language)
        == {"en": "The first slot is due in 3 s.", "ja": "最初のスロットは3秒後です。"}[language]
    )
    assert told(asked, language) == words("verdict.starting_asked") + words("verdict.stop")
    assert level_word(judge(soon), words) == words("verdict.level_starting")
    texts = tile_texts(soon, language)
    assert texts[TileKind.AGE] == ("–", words("tile.age_none"))
    assert texts[TileKind.HOUR] == texts[TileKind.DAY] == ("–", words("tile.first_slot"))
    assert texts[TileKind.LATENESS] == ("–", words("tile.lateness_first"))


def behind(metric: str, age_seconds: int | None, seconds: int) -> TargetBehind:
    newest = None if age_seconds is None else NOW - timedelta(seconds=age_seconds)
    return TargetBehind(metric, newest, seconds)


def test_the_newest_slot_is_that_of_the_target_that_is_furthest_behind() -> None:
    many = replace(WHOLE, targets=13, polled=12, furthest_behind=behind("calls", 11, 0))
    assert tile_texts(many)[TileKind.AGE] == ("11 s ago", "or newer, all 12 targets")
    assert tile_levels(many)[TileKind.AGE] is Level.GOOD
    late = replace(many, furthest_behind=behind("orders", 45, 25), targets_behind=1)
    assert tile_texts(late)[TileKind.AGE] == ("45 s ago", "orders; 1 of 12 targets behind")
    assert tile_levels(late)[TileKind.AGE] is Level.NOTICE
    silent = replace(many, furthest_behind=behind("orders", 3600, 3580), targets_behind=3)
    assert tile_texts(silent, "ja")[TileKind.AGE] == ("1時間前", "orders。対象12件中 3件が遅延")
    assert tile_levels(silent)[TileKind.AGE] is Level.BAD
    never = replace(many, furthest_behind=behind("x" * 60 + "_the_end_of_it", None, 600), targets_behind=1)
    assert tile_texts(never)[TileKind.AGE] == ("–", "xxxxxxxxxxxxx…_the_end_of_it; 1 of 12 targets behind")
    resting = replace(many, polled=0, furthest_behind=None)
    assert tile_texts(resting)[TileKind.AGE] == ("6 s ago", "no target is polled now")
    assert tile_levels(resting)[TileKind.AGE] is Level.IDLE


def test_a_target_is_behind_once_a_slot_is_lacking_that_cannot_be_on_its_way_any_more() -> None:
    target = KnownTarget("calls", 5, 5, NOW - timedelta(minutes=1))
    settled = target.settled(NOW)
    assert seconds_behind(settled, NOW - timedelta(seconds=10)) == 0
    assert seconds_behind(settled, NOW - timedelta(seconds=15)) == 0  # the next may be on its way
    assert seconds_behind(settled, NOW - timedelta(seconds=25)) == 10
    assert seconds_behind(settled, None) == 50
    young = replace(target, first_slot=NOW - timedelta(seconds=5)).settled(NOW)
    assert seconds_behind(young, None) == 0


def test_before_anything_was_due_it_waits() -> None:
    nothing = NOTHING
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
    texts = tile_texts(overview)
    assert texts[TileKind.AGE] == ("6 s ago", "of 1 target")
    assert texts[TileKind.DAY] == ("99.99%", "17,279 of 17,280")
    assert texts[TileKind.LATENESS] == ("2 ms / 1.4 s", "120 polls, last 10 min")
    assert texts[TileKind.QUEUE] == ("5", "oldest waits 1 min 15 s")
    assert texts[TileKind.GAPS] == ("1", "20 slots missing")


@pytest.mark.parametrize("interval", [1, 5, 60])
@pytest.mark.parametrize("offset", [0, 0.001, 0.5, 3])
def test_the_last_minute_always_has_a_minute_of_slots_whose_time_has_come(interval: int, offset: float) -> None:
    target = KnownTarget("calls", interval, interval, NOW - timedelta(hours=1))
    now = NOW + timedelta(seconds=offset)
    span = target.recent(LAST_MINUTE, now)
    assert span.expected == 60 // interval
    assert span.end <= now - timedelta(seconds=interval)


def test_nothing_is_expected_from_before_a_target_was_known() -> None:
    target = KnownTarget("calls", 5, 5, NOW - timedelta(seconds=30))
    assert target.recent(DAY, NOW).start == target.first_slot
    window = NOW - timedelta(hours=1), NOW - timedelta(seconds=17)
    assert target.within(*window, NOW).expected == 3
    assert target.within(NOW - timedelta(hours=2), NOW - timedelta(hours=1), NOW).expected == 0


def test_what_is_accounted_for_nowhere_is_missing() -> None:
    span = Span(NOW - LAST_MINUTE, NOW, 5)
    assert tally_slots(span, SlotCounts(stored=8, pending=2, dead=1)) == SlotTally(8, 2, 1, 1)
    assert tally_slots(span, SlotCounts(stored=12, pending=1)).missing == 0
