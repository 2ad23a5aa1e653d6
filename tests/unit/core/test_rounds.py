"""What is asked for again, at which pace, and what is given up."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kizami.core.bundles import Bundle, BundleMember, row_bundle
from kizami.core.messages import write_bundle
from kizami.core.recovery import GIVEN_UP, MOST_ROUNDS, Mark, TickRun
from kizami.core.rounds import (
    LackingSlots,
    message_of,
    newest_slot,
    note_asked,
    note_given_up,
    pace,
    plan_recovery,
    slots_a_message,
)
from kizami.core.slots import shift
from kizami.core.targets.target import Target

T0 = datetime(2025, 12, 2, 10, tzinfo=UTC)
NOW = shift(T0, 7200)
ROWS = row_bundle(Target(name="calls"))


def bundle_of(interval: int = 5) -> Bundle:
    return Bundle("0a1b2c3d.0", interval, 5, True, 0, tuple(BundleMember(name, 0, (name,)) for name in "abc"))


def at(slot: int) -> datetime:
    return shift(T0, 5 * slot)


def run_of(first: int, end: int, *missing: int, **fields: object) -> TickRun:
    return TickRun(at(first), at(end), frozenset(missing), **fields)  # type: ignore[arg-type]


def mark_of(*runs: TickRun, sealed: int = 0) -> Mark:
    return Mark("0a1b2c3d.0", at(1000), at(sealed), runs)


def slots(first: int, end: int, *places: int) -> LackingSlots:
    return LackingSlots(at(first), at(end), frozenset(places))


@pytest.mark.parametrize(
    ("interval", "message", "run"), [(1, 12, 1200), (5, 12, 240), (10, 6, 120), (60, 1, 20), (3600, 1, 1)]
)
def test_four_times_the_live_pace_a_minute_a_message(interval: int, message: int, run: int) -> None:
    assert slots_a_message(bundle_of(interval)) == message
    assert pace(bundle_of(interval), 300) == run


def test_what_waits_on_the_queue_counts_for_the_bundles_that_share_it() -> None:
    assert pace(bundle_of(), 300, waiting=5) == 180
    assert pace(bundle_of(), 300, waiting=50, sharing=10) == 180
    assert pace(bundle_of(), 300, waiting=51, sharing=10) == 178
    assert pace(bundle_of(), 300, waiting=900) == 0
    assert pace(ROWS, 300, waiting=40) == 200, "a message is about one row"


def test_the_oldest_slots_go_first_a_minute_a_message() -> None:
    plan = plan_recovery(mark_of(run_of(10, 26, 1), run_of(26, 30, 0, 2)), bundle_of(), NOW, 20)
    assert plan.asked == (slots(10, 12, 1), slots(12, 24, 1), slots(24, 26, 1), slots(26, 30, 0, 2))
    assert plan_recovery(mark_of(run_of(10, 26, 1)), bundle_of(), NOW, 14).asked == plan.asked[:2]
    assert plan_recovery(mark_of(run_of(10, 26, 1)), bundle_of(), NOW, 13).asked == plan.asked[:1]


def test_one_message_is_about_all_slots_of_a_minute_that_lack_the_same() -> None:
    scattered = [run_of(1, 2, 1), run_of(4, 5, 1), run_of(8, 9, 1), run_of(13, 14, 1)]
    assert plan_recovery(mark_of(*scattered), bundle_of(), NOW, 4).asked == (slots(1, 9, 1), slots(13, 14, 1))
    scattered[1] = TickRun(at(4), at(5), dead=frozenset({1}))
    plan = plan_recovery(mark_of(*scattered), bundle_of(), NOW, 9)
    assert plan.asked == (slots(1, 2, 1), slots(8, 9, 1), slots(13, 14, 1)), "what is dead is not asked for"
    sealed = mark_of(run_of(1, 2, 1), run_of(4, 5, 1), sealed=3)
    assert len(plan_recovery(sealed, bundle_of(), NOW, 9).asked) == 2, "states of sealed slots are not in the mark"


def test_a_slot_is_asked_for_once_an_hour() -> None:
    mark = note_asked(mark_of(run_of(0, 24, 1)), [slots(0, 12, 1)], NOW)
    assert mark.runs == (run_of(0, 12, 1, rounds=1, asked_at=NOW), run_of(12, 24, 1))
    assert plan_recovery(mark, bundle_of(), shift(NOW, 3599), 99).asked == (slots(12, 24, 1),)
    assert plan_recovery(mark, bundle_of(), shift(NOW, 3600), 99).asked == (slots(0, 12, 1), slots(12, 24, 1))


def test_messages_change_only_the_runs_that_they_are_about() -> None:
    recent = run_of(2, 3, 0, rounds=1, asked_at=shift(NOW, -60))
    mark = mark_of(run_of(0, 2, 1), recent, run_of(3, 6, 1), run_of(7, 8, 1, is_mixed=True))
    after = note_asked(mark, [slots(0, 2, 1), slots(4, 8, 1)], NOW)
    asked = {"rounds": 1, "asked_at": NOW}
    assert after.runs == (
        run_of(0, 2, 1, **asked),
        recent,
        run_of(3, 4, 1),
        run_of(4, 6, 1, **asked),
        mark.runs[-1],
    )


def test_a_slot_is_given_up_an_hour_after_the_last_round() -> None:
    last = run_of(0, 13, 1, dead=frozenset({2}), rounds=MOST_ROUNDS, asked_at=NOW)
    assert plan_recovery(mark_of(last), bundle_of(), shift(NOW, 3599), 99).given_up == ()
    later = shift(NOW, 3600)
    plan = plan_recovery(mark_of(last, run_of(13, 14, 1)), bundle_of(), later, 99)
    assert plan.given_up == (slots(0, 12, 1), slots(12, 13, 1))
    assert plan.asked == (slots(13, 14, 1),)
    after = note_given_up(mark_of(last), bundle_of(), plan.given_up[:1], later)
    assert after.runs == (
        TickRun(at(0), at(12), dead=frozenset({1, 2})),
        run_of(12, 13, 1, dead=frozenset({2}), rounds=MOST_ROUNDS, asked_at=NOW),
    )
    rows = note_given_up(mark_of(run_of(0, 2, 0, rounds=MOST_ROUNDS)), ROWS, [slots(0, 2, 0)], later)
    assert rows.runs == (run_of(0, 2, 0, rounds=GIVEN_UP),)
    assert rows.complete_until == rows.seen_until
    assert plan_recovery(rows, ROWS, shift(later, 9000), 99).asked == ()


def test_of_a_target_that_does_not_answer_the_newest_slot_is_asked_for() -> None:
    asked = run_of(5, 6, 0, rounds=1, asked_at=NOW)
    assert newest_slot(mark_of(run_of(0, 4, 0), asked), ROWS, NOW).asked == (slots(3, 4, 0),)
    assert newest_slot(mark_of(asked), ROWS, NOW).asked == ()


def test_messages_name_the_members_and_those_of_rows_are_as_the_seeds_have_them() -> None:
    assert write_bundle(message_of(slots(0, 12, 2, 0), bundle_of())) == (
        '{"from": "2025-12-02T10:00:00Z", "to": "2025-12-02T10:01:00Z", "bundle": "0a1b2c3d.0", '
        '"metrics": ["a", "c"], "lane": "backfill"}'
    )
    row = message_of(slots(0, 1, 0), row_bundle(Target()))
    assert write_bundle(row) == '{"from": "2025-12-02T10:00:00Z", "to": "2025-12-02T10:00:05Z"}'
