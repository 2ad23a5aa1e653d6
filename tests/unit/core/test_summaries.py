"""Bundle summaries: absent runs by member and state, lateness of live ticks, in few bytes."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from kizami.core.bundles import Bundle, BundleMember
from kizami.core.epoch import to_seconds
from kizami.core.summaries import (
    Absence,
    AbsentRun,
    BundleSummary,
    MemberTally,
    read_summary,
    summarize,
    without_dead,
    write_summary,
)
from kizami.core.ticks import Answered, Tick

START = datetime(2025, 12, 2, 10, tzinfo=UTC)
FIRST = to_seconds(START)
HOUR = FIRST, FIRST + 3600
PAIR = Bundle("0a1b2c3d.0", 5, 5, True, 0, (BundleMember("a", 0, ("a",)), BundleMember("b", 0, ("b",))))


def tick(number: int, *places: int, late_ms: int = 40, backfill: bool = False, **states: object) -> Tick:
    answers = {place: Answered((1,), 0, 7, 1, backfill) for place in places}
    return Tick(START + timedelta(seconds=5 * number), answers, late_ms, **states)  # type: ignore[arg-type]


def places(*these: int) -> frozenset[int]:
    return frozenset(these)


class TestWhatTicksTell:
    def test_a_full_hour_has_no_absent_runs(self) -> None:
        summary = summarize(PAIR, *HOUR, [tick(number, 0, 1) for number in range(720)])
        assert summary.absent == {}
        assert summary.count(0, *HOUR) == MemberTally(stored=720)
        assert summary.late_ms == {FIRST + 5 * number: 40 for number in range(720)}

    def test_slots_without_a_tick_are_missing_for_all(self) -> None:
        summary = summarize(PAIR, *HOUR, [tick(number, 0, 1) for number in range(720) if not 10 <= number < 12])
        gap = AbsentRun(FIRST + 50, FIRST + 60, Absence.MISSING)
        assert summary.absent == {0: [gap], 1: [gap]}
        assert summary.count(1, *HOUR) == MemberTally(stored=718, missing=2)

    def test_an_hour_without_ticks_is_missing_as_a_whole(self) -> None:
        summary = summarize(PAIR, *HOUR, [])
        assert summary.count(0, *HOUR) == MemberTally(missing=720)

    def test_each_absent_slot_has_one_state(self) -> None:
        ticks = [
            tick(0, 0, dead=places(1)),
            tick(1, 0, held=places(1)),
            tick(2, 0, dead=places(1), held=places(1)),
            tick(3, 0, outstanding=places(1)),
            tick(4, 0, is_partial=True),
            tick(5, 0, 1, dead=places(0), held=places(1)),  # a value counts more than a state
        ]
        summary = summarize(PAIR, FIRST, FIRST + 30, ticks)
        states = [run.state for run in summary.absent[1] for _ in range(run.start, run.end, 5)]
        assert states == [Absence.DEAD, Absence.HELD, Absence.DEAD, Absence.MISSING, Absence.MISSING]
        assert 0 not in summary.absent

    def test_slots_that_end_within_the_span_end_the_summary(self) -> None:
        summary = summarize(PAIR, FIRST + 1800, FIRST + 2400, [tick(360, 0, 1)])
        assert (summary.begin, summary.end) == (FIRST + 1800, FIRST + 2400)
        assert summary.count(0, *HOUR) == MemberTally(stored=1, missing=119)

    def test_backfilled_slots_before_the_first_live_one_count(self) -> None:
        summary = summarize(PAIR, FIRST + 1800, FIRST + 3600, [tick(10, 0, backfill=True)])
        assert (summary.begin, summary.end) == (FIRST + 50, FIRST + 3600)
        assert summary.count(0, FIRST, FIRST + 1800) == MemberTally(stored=1, missing=349)

    def test_ticks_of_a_bundle_that_sends_no_slot_of_the_span_live(self) -> None:
        summary = summarize(PAIR, FIRST, FIRST, [tick(10, 0, backfill=True), tick(12, 1, backfill=True)])
        assert (summary.begin, summary.end) == (FIRST + 50, FIRST + 65)

    def test_only_ticks_with_an_answer_to_a_poll_have_a_lateness(self) -> None:
        ticks = [tick(0, 0, late_ms=7), tick(1, 0, late_ms=900_000, backfill=True), tick(2, dead=places(0, 1))]
        assert summarize(PAIR, *HOUR, ticks).late_ms == {FIRST: 7}


class TestMerging:
    def test_a_late_value_fills_a_gap(self) -> None:
        before = summarize(PAIR, *HOUR, [tick(0, 0, dead=places(1))])
        late = tick(0, 1, late_ms=9_000_000, backfill=True, is_partial=True)
        after = summarize(PAIR, *HOUR, [late], before)
        assert after.count(1, FIRST, FIRST + 5) == MemberTally(stored=1)
        assert after.late_ms == {FIRST: 40}

    def test_a_stored_slot_never_becomes_absent_again(self) -> None:
        before = summarize(PAIR, *HOUR, [tick(0, 0, 1)])
        after = summarize(PAIR, *HOUR, [tick(0, dead=places(0), held=places(1))], before)
        assert after == before

    def test_a_slot_without_a_tick_stays_as_it_was(self) -> None:
        before = summarize(PAIR, *HOUR, [tick(number, 0, dead=places(1)) for number in range(100)])
        assert summarize(PAIR, *HOUR, [], before) == before

    def test_a_newer_state_replaces_an_older_one_unless_the_tick_does_not_speak_of_the_member(self) -> None:
        before = summarize(PAIR, *HOUR, [tick(0, 0, dead=places(1))])
        for states in ({"is_partial": True}, {"outstanding": places(1)}):
            assert summarize(PAIR, *HOUR, [tick(0, 0, **states)], before) == before
        held = summarize(PAIR, *HOUR, [tick(0, 0, held=places(1))], before)
        assert held.count(1, FIRST, FIRST + 5) == MemberTally(held=1)

    def test_the_range_only_grows(self) -> None:
        before = summarize(PAIR, FIRST + 1800, FIRST + 3600, [])
        after = summarize(PAIR, FIRST + 1800, FIRST + 1900, [tick(100, 0)], before)
        assert (after.begin, after.end) == (FIRST + 500, FIRST + 3600)


class TestCounting:
    SUMMARY = BundleSummary(
        5,
        FIRST,
        FIRST + 3600,
        {0: [AbsentRun(FIRST + 10, FIRST + 20, Absence.DEAD), AbsentRun(FIRST + 20, FIRST + 30, Absence.HELD)]},
    )

    @pytest.mark.parametrize(
        ("first", "end", "expected"),
        [
            (0, 30, MemberTally(2, 0, 2, 2)),
            (11, 25, MemberTally(0, 0, 1, 1)),  # a slot belongs where it begins
            (1, 10, MemberTally(1)),
            (-100, 5, MemberTally(1)),
            (3590, 9999, MemberTally(2)),
            (3600, 9999, MemberTally()),
            (20, 20, MemberTally()),
        ],
    )
    def test_slots_that_begin_between_two_instants_count(
        self, first: int, end: int, expected: MemberTally
    ) -> None:
        assert self.SUMMARY.count(0, FIRST + first, FIRST + end) == expected

    def test_runs_are_cut_at_the_instants(self) -> None:
        assert list(self.SUMMARY.runs(0, FIRST + 11, FIRST + 25)) == [
            AbsentRun(FIRST + 15, FIRST + 20, Absence.DEAD),
            AbsentRun(FIRST + 20, FIRST + 25, Absence.HELD),
        ]
        assert list(self.SUMMARY.runs(1, *HOUR)) == []


class TestBytes:
    HUNDRED = Bundle("0a1b2c3d.1", 5, 5, True, 0, tuple(BundleMember(f"t{n}", 0, (f"t{n}",)) for n in range(100)))

    def test_an_hour_of_a_hundred_members_takes_a_kilobyte(self) -> None:
        chance = random.Random(1)
        ticks = [tick(number, *range(100), late_ms=chance.randrange(450)) for number in range(720) if number % 100]
        data = write_summary(summarize(self.HUNDRED, *HOUR, ticks))
        assert len(data) < 960
        assert read_summary(data) == summarize(self.HUNDRED, *HOUR, ticks)

    def test_ten_members_that_lack_a_tenth_of_their_slots_at_random_take_little(self) -> None:
        chance = random.Random(2)
        ticks = [
            tick(number, *(place for place in range(100) if place >= 10 or chance.random() < 0.9))
            for number in range(720)
        ]
        assert len(write_summary(summarize(self.HUNDRED, *HOUR, ticks))) < 2500

    def test_another_version_is_refused(self) -> None:
        data = write_summary(summarize(PAIR, *HOUR, []))
        with pytest.raises(ValueError, match="version 9"):
            read_summary(b"\x09" + data[1:])


def test_what_is_given_up_no_more_is_missing() -> None:
    ticks = [tick(number, 0, dead=places(1)) for number in range(4)]
    summary = summarize(PAIR, FIRST, FIRST + 25, [*ticks, tick(4, 0, held=places(1))])
    changed = without_dead(summary, {FIRST + 5: 0b10, FIRST + 10: 0b11, FIRST + 20: 0b10, FIRST + 500: 0b10})
    states = [Absence.DEAD, Absence.MISSING, Absence.MISSING, Absence.DEAD, Absence.HELD]
    edges = [(0, 5), (5, 15), (15, 20), (20, 25)]
    expected = [AbsentRun(FIRST + start, FIRST + end, states[start // 5]) for start, end in edges]
    assert changed.absent == {1: expected}
    assert (changed.begin, changed.end, changed.late_ms) == (summary.begin, summary.end, summary.late_ms)
    assert without_dead(summary, {}) == summary
