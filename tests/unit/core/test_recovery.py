"""How far a bundle's ticks were looked at, and what they lack."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kizami.core.bundles import Bundle, BundleMember, BundlePlan, Period
from kizami.core.coverage import Span
from kizami.core.recovery import (
    GIVEN_UP,
    GRACE_SECONDS,
    LOOK_SLOTS,
    MOST_RUNS,
    LiveRange,
    Mark,
    TickRun,
    begin_mark,
    find_lost,
    find_runs,
    fit_runs,
    horizon,
    is_finished,
    lacking_slots,
    leave_expired,
    live_ranges,
    missing_values,
    next_look,
    put_runs,
    read_again,
    reopen,
    runs_to_read,
    seal_mark,
    slots_between_plans,
)
from kizami.core.slots import shift
from kizami.core.ticks import Answered, Tick

T0 = datetime(2025, 12, 2, 10, tzinfo=UTC)
ANSWER = Answered((7,), 0, 9)


def bundle_of(
    members: str = "abc", interval: int = 5, lag: int = 5, backfill: bool = True, plan: str = "plan"
) -> Bundle:
    parts = tuple(BundleMember(name, 0, (name,)) for name in members)
    return Bundle(f"{plan}.0", interval, lag, backfill, 0, parts)


def at(slot: int) -> datetime:
    """The start of a five-second slot by its number."""
    return shift(T0, 5 * slot)


def run_of(first: int, end: int, missing: Iterable[int] = (), **fields: object) -> TickRun:
    return TickRun(at(first), at(end), frozenset(missing), **fields)  # type: ignore[arg-type]


def mark_of(*runs: TickRun, seen: int = 1000, sealed: int = 0) -> Mark:
    return Mark("plan.0", at(seen), at(sealed), runs)


def tick(slot: int, answers: Iterable[int], **states: frozenset[int]) -> Tick:
    return Tick(at(slot), dict.fromkeys(answers, ANSWER), **states)  # type: ignore[arg-type]


def places(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


def found(
    *ticks: Tick, end: int, bundle: Bundle | None = None, **held: datetime
) -> list[tuple[int, int, set[int]]]:
    runs = find_runs(
        Span(T0, at(end), 5), bundle or bundle_of(), ticks, {int(name[1:]): at for name, at in held.items()}
    )
    return [(number(run.start), number(run.end), set(run.missing)) for run in runs]


def number(slot: datetime) -> int:
    return int((slot - T0).total_seconds()) // 5


# Which slots there are to look at


def test_slots_are_live_from_the_first_minute_of_a_period_on_less_the_lag() -> None:
    periods = [Period("plan", T0, shift(T0, 600)), Period("other", shift(T0, 600), shift(T0, 900))]
    periods.append(Period("plan", shift(T0, 900)))
    ranges = [LiveRange(shift(T0, -5), shift(T0, 595)), LiveRange(shift(T0, 895))]
    assert live_ranges(bundle_of(), periods) == ranges
    assert live_ranges(bundle_of(plan="third"), periods) == []


def test_slots_that_are_sent_a_minute_ahead_begin_a_minute_later() -> None:
    (only,) = live_ranges(bundle_of(backfill=False), [Period("plan", T0)])
    assert only.start == shift(T0, 55)


def test_a_period_between_two_slots_has_none() -> None:
    hourly = bundle_of(interval=3600, lag=3600)
    assert live_ranges(hourly, [Period("plan", shift(T0, 60), shift(T0, 120))]) == []


def test_a_slot_is_looked_at_once_its_grace_is_over() -> None:
    bundle = bundle_of()
    due = bundle.due(T0)
    assert horizon(bundle, shift(due, GRACE_SECONDS)) == at(1)
    assert horizon(bundle, shift(due, GRACE_SECONDS - 1)) == T0


def test_a_run_looks_at_a_day_of_slots_at_most() -> None:
    live, now = [LiveRange(T0)], at(3 * LOOK_SLOTS)
    span = next_look(begin_mark("plan.0", T0), bundle_of(), live, now)
    assert span == Span(T0, at(LOOK_SLOTS), 5)
    assert next_look(mark_of(seen=3 * LOOK_SLOTS), bundle_of(), live, now) is None


def test_between_two_live_ranges_nothing_is_looked_at() -> None:
    live, now = [LiveRange(T0, at(10)), LiveRange(at(500))], at(1000)
    assert next_look(mark_of(seen=0), bundle_of(), live, now) == Span(T0, at(10), 5)
    span = next_look(mark_of(seen=10), bundle_of(), live, now)
    assert span is not None
    assert span.start == at(500)
    assert next_look(mark_of(seen=10), bundle_of(), live[:1], now) is None


# What ticks lack


def test_ticks_that_lack_the_same_members_are_one_run() -> None:
    ticks = [tick(0, [0, 1, 2]), tick(2, [0, 1, 2]), tick(5, [0]), tick(6, [0])]
    assert found(*ticks, end=8) == [(1, 2, {0, 1, 2}), (3, 5, {0, 1, 2}), (5, 7, {1, 2}), (7, 8, {0, 1, 2})]


def test_a_value_counts_more_than_a_state_and_a_dead_member_is_not_held() -> None:
    full = tick(0, [0, 1, 2], dead=places(0), held=places(1), outstanding=places(2))
    assert find_runs(Span(T0, at(1), 5), bundle_of(), [full]) == ()
    (run,) = find_runs(Span(T0, at(1), 5), bundle_of(), [tick(0, [0], dead=places(1), held=places(1, 2))], {2: T0})
    assert (run.missing, run.dead, run.held) == (places(), places(1), places(2))
    assert not run.is_open


def test_a_member_is_held_only_as_long_as_its_target_is() -> None:
    held = [tick(slot, [0, 1], held=places(2)) for slot in range(3)]
    assert found(*held, end=3) == [(0, 3, {2})]
    assert found(*held, end=3, _2=at(2)) == [(0, 2, {2}), (2, 3, set())]


def test_rows_of_a_former_interval_are_passed_over() -> None:
    odd = Tick(shift(T0, 7), dict.fromkeys(range(3), ANSWER))
    assert found(tick(0, [0, 1, 2]), odd, tick(2, [0, 1, 2]), end=3) == [(1, 2, {0, 1, 2})]


def test_slots_that_cannot_be_asked_for_later_are_given_up_at_once() -> None:
    (run,) = find_runs(Span(T0, at(4), 5), bundle_of(backfill=False), [])
    assert run.missing == places(0, 1, 2)
    assert run.rounds == GIVEN_UP
    mark = mark_of(run)
    assert mark.complete_until == mark.seen_until
    assert mark.may_delete(T0)
    assert missing_values(mark, bundle_of()) == 0


def test_a_run_that_is_read_again_keeps_its_rounds() -> None:
    asked = run_of(0, 4, [0, 1], rounds=3, asked_at=at(500))
    ticks = [tick(0, [0, 1]), tick(1, [0], dead=places(1)), tick(2, [0])]
    assert read_again(asked, bundle_of(), ticks) == (
        TickRun(at(1), at(2), dead=places(1)),
        run_of(2, 3, [1], rounds=3, asked_at=at(500)),
        run_of(3, 4, [0, 1], rounds=3, asked_at=at(500)),
    )


def test_only_what_was_not_perfect_is_read_again() -> None:
    late = [replace(tick(1, [1]), is_partial=True)]
    assert read_again(run_of(0, 3, [1]), bundle_of(), late) == (run_of(0, 1, [1]), run_of(2, 3, [1]))
    purged = read_again(run_of(0, 1, [1], dead=places(2)), bundle_of(), [tick(0, [0])])
    assert purged == (run_of(0, 1, [1, 2]),)


def test_runs_that_were_asked_for_or_are_mixed_are_read_again_a_day_of_them_at_most() -> None:
    fresh, asked = run_of(0, 10, [1]), run_of(20, 30, [1], rounds=1)
    mixed, dead = run_of(40, LOOK_SLOTS + 90, [1], is_mixed=True), run_of(20_000, 20_001, dead=places(1))
    after = run_of(30_000, 30_001, [1], rounds=1)
    parts = runs_to_read(mark_of(fresh, asked, mixed, dead, after), bundle_of())
    assert parts == [asked, replace(mixed, end=at(LOOK_SLOTS + 30))]


# Marks


def test_a_mark_is_complete_up_to_its_first_open_run() -> None:
    dead, open_ = run_of(2, 3, dead=places(1)), run_of(5, 6, [1])
    assert mark_of(dead, seen=9).complete_until == at(9)
    assert mark_of(dead, open_, seen=9).complete_until == at(5)
    assert mark_of(open_, seen=9, sealed=7).complete_until == at(9), "it is sealed, and asked for all the same"
    assert mark_of(open_, seen=9, sealed=5).complete_until == at(5)


def test_ticks_stay_where_recovery_is_to_read_them_again() -> None:
    mark = mark_of(run_of(2, 4, dead=places(1)), run_of(5, 6, [1]), run_of(7, 8, [1], rounds=GIVEN_UP), seen=9)
    assert [mark.may_delete(at(slot)) for slot in range(10)] == [slot not in (5, 9) for slot in range(10)]


def test_runs_replace_what_a_mark_knew_of_their_slots() -> None:
    mark = put_runs(
        mark_of(run_of(0, 4, [1]), run_of(6, 9, [2])), at(2), at(7), [run_of(2, 3, [1]), run_of(5, 6, [0])]
    )
    assert mark.runs == (run_of(0, 3, [1]), run_of(5, 6, [0]), run_of(7, 9, [2]))


def test_of_sealed_slots_only_open_runs_are_kept() -> None:
    dead, open_ = run_of(0, 4, dead=places(1)), run_of(4, 5, [1])
    mark = seal_mark(mark_of(dead, open_), at(2))
    assert mark.sealed_until == at(2)
    assert mark.runs == (run_of(2, 4, dead=places(1)), open_)
    assert seal_mark(mark, at(6)).runs == (open_,)


def test_a_mark_holds_so_many_runs_and_joins_those_that_lie_close() -> None:
    near = [run_of(100, 101, [0], dead=places(1)), run_of(102, 103, [2], rounds=2, asked_at=at(900))]
    runs = [run_of(200 + 10 * each, 201 + 10 * each, [0]) for each in range(MOST_RUNS - 1)]
    mark = fit_runs(mark_of(*near, *runs))
    joined = TickRun(at(100), at(103), places(0, 2), places(1), is_mixed=True)
    assert len(mark.runs) == MOST_RUNS
    assert joined not in mark.runs, "those that were asked for together are joined first"
    near[1] = replace(near[1], rounds=0, asked_at=None)
    mark = fit_runs(mark_of(*near, *runs))
    assert mark.runs == (joined, *runs)
    assert fit_runs(mark_of(*near, *runs[1:])).runs == (*near, *runs[1:])


def test_a_joined_run_counts_as_the_part_that_was_asked_for_least() -> None:
    runs = [run_of(10 * each, 10 * each + 1, [0], rounds=each, asked_at=at(900 + each)) for each in range(1, 40)]
    (first, *_) = fit_runs(mark_of(*runs)).runs
    assert first.is_mixed
    assert (first.rounds, first.asked_at) == (1, at(901))


def test_a_plan_is_finished_when_all_is_sealed_and_nothing_is_asked_for() -> None:
    live = [LiveRange(T0, at(100))]
    assert is_finished(mark_of(seen=100, sealed=100), live)
    assert is_finished(mark_of(run_of(99, 100, dead=places(1)), seen=100, sealed=100), live)
    assert not is_finished(mark_of(seen=100, sealed=99), live)
    assert not is_finished(mark_of(seen=99, sealed=100), live)
    assert not is_finished(mark_of(run_of(99, 100, [1]), seen=100, sealed=100), live)
    assert not is_finished(mark_of(seen=100, sealed=100), [*live, LiveRange(at(200))])


# Targets that were held, and slots that are kept no more


def test_kept_slots_of_a_target_that_answers_again_are_missing() -> None:
    held = run_of(5, 9, held=places(1, 2))
    other = run_of(10, 11, [0], rounds=2, asked_at=at(900))
    mark = reopen(mark_of(held, other), bundle_of(), [2])
    assert mark.runs == (run_of(5, 9, [2], held=places(1)), other)


def test_kept_slots_that_are_sealed_are_missing_too() -> None:
    other = run_of(10, 11, [0], rounds=2, asked_at=at(900))
    mark = mark_of(other, run_of(25, 30, held=places(2)), sealed=20)
    mark = reopen(mark, bundle_of(), [1, 2], [(1, at(8), at(30)), (2, at(8), at(30))])
    assert mark.runs == (
        run_of(8, 10, [1, 2]),
        run_of(10, 11, [0, 1, 2]),
        run_of(11, 20, [1, 2]),
        run_of(25, 30, [2]),
    )


def test_kept_slots_that_cannot_be_asked_for_later_are_given_up() -> None:
    bundle = bundle_of(backfill=False)
    mark = reopen(mark_of(run_of(5, 9, held=places(2)), sealed=3), bundle, [2], [(2, at(0), at(3))])
    assert mark.runs == (run_of(5, 9, [2], rounds=GIVEN_UP),)


def test_what_is_outstanding_in_late_ticks_is_missing_once_its_message_is_lost() -> None:
    ticks = [
        tick(3, [0], outstanding=places(0, 1, 2), dead=places(2)),
        replace(tick(5, [], outstanding=places(1)), asked=at(800)),
        tick(7, [], outstanding=places(2)),
    ]
    mark = mark_of(run_of(7, 9, [0], rounds=2, asked_at=at(900)), sealed=500)
    now = shift(at(800), GRACE_SECONDS)
    open_ = mark.runs[0]
    assert find_lost(mark, bundle_of(), ticks, shift(now, -1)).runs == (run_of(3, 4, [1]), open_)
    assert find_lost(mark, bundle_of(), ticks, now).runs == (run_of(3, 4, [1]), run_of(5, 6, [1]), open_)


def test_a_shorter_lag_leaves_slots_that_no_plan_has_sent() -> None:
    former = BundlePlan("old", (bundle_of("ab", lag=60, plan="old"), bundle_of("c", lag=5, plan="old")))
    bundle, minute = bundle_of("xabc", lag=5), shift(T0, 600)
    mark = slots_between_plans(begin_mark("plan.0", shift(T0, 595)), bundle, minute, former)
    assert mark.runs == (TickRun(shift(T0, 540), shift(T0, 595), places(1, 2)),)
    live_only = bundle_of("ab", backfill=False)
    assert slots_between_plans(begin_mark("plan.0", shift(T0, 655)), live_only, minute, former).runs == ()


def test_slots_that_are_kept_no_more_are_not_missing() -> None:
    mark = leave_expired(mark_of(run_of(0, 10, [0, 1], dead=places(2))), {0: at(4), 1: at(4), 2: at(6)})
    assert mark.runs == (run_of(4, 6, [0, 1]), run_of(6, 10, [0, 1], dead=places(2)))


# What is known


def test_completeness_leaves_out_what_is_sealed() -> None:
    mark = mark_of(run_of(2, 4, [1], dead=places(2)), run_of(8, 9, held=places(1)), seen=10)
    live = [LiveRange(T0)]
    assert lacking_slots(mark, bundle_of(), live, T0) == (10, {1: 3, 2: 2})
    assert lacking_slots(mark, bundle_of(), live, at(3)) == (7, {1: 2, 2: 1})
    assert lacking_slots(replace(mark, sealed_until=at(4)), bundle_of(), live, T0) == (6, {1: 1})
    assert lacking_slots(mark, bundle_of(), [LiveRange(T0, at(3)), LiveRange(at(7))], T0)[0] == 6


def test_missing_values_are_those_that_may_still_come() -> None:
    mark = mark_of(run_of(2, 4, [0, 1]), run_of(8, 9, held=places(1)), run_of(10, 12, [1], rounds=GIVEN_UP))
    assert missing_values(mark, bundle_of()) == 4


@pytest.mark.parametrize("rounds", [0, 24])
def test_a_clock_that_was_set_back_does_not_stop_recovery(rounds: int) -> None:
    run = run_of(0, 1, [1], rounds=rounds, asked_at=at(5000))
    assert not run.is_due(shift(at(5000), 3599))
    assert run.is_due(shift(at(5000), 3600))
    assert run.is_due(at(4000))
