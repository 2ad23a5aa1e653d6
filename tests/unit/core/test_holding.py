"""Targets that are slow or held on AWS: when they become so, who asks them, and when they are well again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kizami.core.answers.answer import Answer
from kizami.core.errors import ApiError, ApiPayloadError, ApiStatusError, ApiUnreachable
from kizami.core.holding import (
    LIVE_ONLY_SECONDS,
    LIVE_SECONDS,
    PATIENT_SECONDS,
    PROBE_SECONDS,
    STALE_SECONDS,
    Admission,
    TargetState,
    admit,
    fingerprint,
    is_over,
    keep_slot,
    note_answer,
    note_failure,
    note_recovered,
    probe_slot,
    probe_target,
    reserve_probe,
    starts_slow,
)
from kizami.core.messages import BACKFILL, LIVE, PROBE, RETRY
from kizami.core.slots import shift
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target

NOW = datetime(2025, 12, 2, 10, 23, 7, tzinfo=UTC)
SLOT = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
BUNDLE = "0a1b2c3d.0"
CALLS = Target(name="calls", lag_seconds=5)
NOW_ONLY = Target(name="calls", path="/now", lag_seconds=5, backfill=False)
REFUSED = ApiUnreachable("refused")
DOWN, NO_KEY, ABSENT = ApiStatusError(503), ApiStatusError(401), ApiStatusError(404)


def fail(
    state: TargetState | None,
    error: ApiError,
    *,
    target: Target = CALLS,
    lane: str = RETRY,
    seconds: float = 0.1,
    times: int = 1,
    now: datetime = NOW,
) -> TargetState | None:
    for _ in range(times):
        state = note_failure(state, target, error, SLOT, lane, seconds, now) or state
    return state


def held(error: ApiError = REFUSED, target: Target = CALLS, now: datetime = NOW) -> TargetState:
    state = fail(None, error, target=target, times=3, now=now)
    assert state is not None
    assert state.is_held
    return keep_slot(state, SLOT, BUNDLE)


def next_probe(state: TargetState) -> datetime:
    assert state.trouble is not None
    assert state.trouble.next_probe is not None
    return state.trouble.next_probe


def test_a_target_without_a_state_is_asked_on_every_lane() -> None:
    for lane in (LIVE, RETRY, PROBE, BACKFILL):
        assert admit(None, CALLS, SLOT, lane, NOW) is Admission.ASK


@pytest.mark.parametrize("error", [REFUSED, DOWN, NO_KEY, ABSENT])
def test_a_live_failure_is_not_noted(error: ApiError) -> None:
    assert note_failure(None, CALLS, error, SLOT, LIVE, 0.1, NOW) is None


def test_a_live_failure_is_noted_where_there_is_no_second_try() -> None:
    assert note_failure(None, NOW_ONLY, REFUSED, SLOT, LIVE, 0.1, NOW) is not None


@pytest.mark.parametrize(("error", "seconds"), [(REFUSED, 0.1), (REFUSED, 10.0), (DOWN, 2.1), (ABSENT, 9.0)])
def test_a_request_without_an_answer_in_time_makes_its_target_slow(error: ApiError, seconds: float) -> None:
    state = fail(None, error, seconds=seconds)
    assert state is not None
    assert (state.slow, state.is_held) == (True, False)
    assert admit(state, CALLS, SLOT, LIVE, NOW) is Admission.SLOW
    assert admit(state, CALLS, SLOT, RETRY, NOW) is Admission.ASK
    assert admit(state, CALLS, SLOT, BACKFILL, NOW) is Admission.ASK


def test_an_error_that_comes_quickly_does_not() -> None:
    state = fail(None, DOWN)
    assert state is not None
    assert not state.slow


def test_a_late_answer_makes_its_target_slow_on_the_retry_lane_alone() -> None:
    state = note_answer(None, CALLS, 1.6, RETRY, NOW)
    assert state == TargetState(slow=True)
    assert note_answer(None, CALLS, 1.5, RETRY, NOW) is None
    assert note_answer(None, CALLS, 9.0, BACKFILL, NOW) is None, "an old slot may take longer"
    assert note_answer(None, CALLS, 9.0, LIVE, NOW) is None, "a bundle of one waits for its answer"


def test_two_quick_answers_in_a_row_make_it_well() -> None:
    slow = TargetState(slow=True)
    once = note_answer(slow, CALLS, 1.1, RETRY, NOW)
    assert once == TargetState(slow=True, quick=1)
    assert note_answer(once, CALLS, 1.3, RETRY, NOW) == slow, "in a row"
    assert note_answer(once, CALLS, 1.1, RETRY, NOW) == TargetState()
    assert note_answer(slow, CALLS, 1.3, RETRY, NOW) is None, "nothing to write"


def test_a_failure_ends_the_row_of_quick_answers() -> None:
    assert fail(TargetState(slow=True, quick=1), DOWN).quick == 0  # type: ignore[union-attr]


def test_a_target_that_may_take_longer_than_its_interval_starts_slow() -> None:
    patient = Target(name="calls", timeout_seconds=30)
    assert starts_slow(patient)
    assert not starts_slow(CALLS), "the default timeout says nothing"
    assert not starts_slow(Target(name="calls", timeout_seconds=30, interval_seconds=60, lag_seconds=60))
    assert admit(None, patient, SLOT, LIVE, NOW) is Admission.SLOW
    once = note_answer(None, patient, 0.3, RETRY, NOW)
    well = note_answer(once, patient, 0.3, RETRY, NOW)
    assert well == TargetState()
    assert admit(well, patient, SLOT, LIVE, NOW) is Admission.ASK
    assert not is_over(TargetState(), patient, NOW), "forgotten, it would be slow again"


@pytest.mark.parametrize("error", [REFUSED, DOWN])
def test_three_failures_in_a_row_hold_a_target(error: ApiError) -> None:
    state = fail(None, error, times=2)
    assert state is not None
    assert not state.is_held
    state = fail(state, error)
    assert state is not None
    assert state.is_held
    assert state.trouble is not None
    assert (state.trouble.since, state.trouble.failures) == (NOW, 3)
    assert str(error) in state.trouble.reason


@pytest.mark.parametrize("error", [NO_KEY, ABSENT, ApiPayloadError("count: is missing")])
def test_two_lasting_failures_in_a_row_hold_a_target(error: ApiError) -> None:
    assert not fail(None, error).is_held  # type: ignore[union-attr]
    assert fail(None, error, times=2).is_held  # type: ignore[union-attr]
    between = fail(fail(None, error), DOWN)
    assert not fail(between, ABSENT, times=0).is_held  # type: ignore[union-attr]
    assert fail(between, error).is_held, "that is three failures in a row"  # type: ignore[union-attr]


@pytest.mark.parametrize("status", [408, 409, 425, 429])
def test_an_api_that_asks_for_patience_is_not_held(status: int) -> None:
    assert fail(None, ApiStatusError(status, 5.0), times=9) is None


def test_an_answer_ends_the_row_of_failures() -> None:
    state = fail(None, DOWN, times=2)
    state = note_answer(state, CALLS, 0.1, LIVE, NOW)
    assert state == TargetState()
    assert not fail(state, DOWN, times=2).is_held  # type: ignore[union-attr]


@pytest.mark.parametrize("error", [ABSENT, DOWN])
def test_a_failure_of_an_old_slot_says_nothing_of_its_target(error: ApiError) -> None:
    old = shift(SLOT, -86_400)
    assert note_failure(None, CALLS, error, old, BACKFILL, 0.1, NOW) is None
    assert note_failure(None, CALLS, NO_KEY, old, BACKFILL, 0.1, NOW) is not None
    assert note_failure(None, CALLS, REFUSED, old, BACKFILL, 0.1, NOW) is not None


def test_a_held_target_is_asked_by_probes_alone() -> None:
    state = held()
    for lane in (LIVE, RETRY, BACKFILL):
        assert admit(state, CALLS, SLOT, lane, shift(NOW, 14)) is Admission.HOLD
    assert admit(state, CALLS, SLOT, PROBE, NOW) is Admission.ASK
    assert admit(state, CALLS, shift(SLOT, 15), LIVE, shift(NOW, 15)) is Admission.PROBE


def test_old_slots_leave_probes_to_live_deliveries_as_long_as_these_come() -> None:
    state, old = held(), shift(SLOT, -86_400)
    assert admit(state, CALLS, old, BACKFILL, shift(NOW, 60)) is Admission.HOLD
    assert admit(state, CALLS, old, BACKFILL, shift(NOW, 15 + 360)) is Admission.PROBE


def test_what_was_on_its_way_when_a_target_was_held_changes_nothing() -> None:
    assert note_failure(held(), CALLS, REFUSED, SLOT, RETRY, 10.0, shift(NOW, 5)) is None


def test_probes_come_ever_more_slowly_and_at_least_every_five_minutes() -> None:
    state, now, pauses = held(), NOW, []
    for _ in range(12):
        probe = next_probe(state)
        pauses.append((probe - now).total_seconds())
        state, now = reserve_probe(state, CALLS, probe), probe
    assert pauses[:2] == [15, 30]
    assert max(pauses) == PROBE_SECONDS[-1] == 300
    assert pauses[-4:] == [300] * 4


def test_from_a_minute_on_the_probes_of_all_held_targets_fall_on_the_same_moments() -> None:
    probes = []
    for seconds in range(0, 50, 7):
        state, now = held(now=shift(NOW, seconds)), shift(NOW, seconds)
        for _ in range(8):
            now = shift(next_probe(state), seconds % 3)  # the delivery that finds it due is a little late
            state = reserve_probe(state, CALLS, now)
        probes.append(next_probe(state))
    assert {probe.timestamp() % 300 for probe in probes} == {0}


def test_no_probe_begins_before_the_one_before_has_ended() -> None:
    patient = Target(name="calls", lag_seconds=5, timeout_seconds=100)
    state = held(target=patient)
    assert next_probe(state) == shift(NOW, 105)


def test_a_target_that_cannot_be_asked_later_is_probed_each_minute_within_the_first_hour() -> None:
    state, now = held(target=NOW_ONLY), NOW
    while now < shift(NOW, 3600):
        pause = (next_probe(state) - now).total_seconds()
        assert pause <= LIVE_ONLY_SECONDS
        now = next_probe(state)
        state = reserve_probe(state, NOW_ONLY, now)
    for _ in range(3):
        now = next_probe(state)
        state = reserve_probe(state, NOW_ONLY, now)
    assert (next_probe(state) - now).total_seconds() == 300


def test_a_probe_waits_for_as_long_as_the_api_asks() -> None:
    told = ApiStatusError(503, 1000.0)
    assert next_probe(held(told)) == shift(NOW, 1000)
    state = reserve_probe(held(), CALLS, shift(NOW, 15))
    after = note_failure(state, CALLS, told, SLOT, PROBE, 0.1, shift(NOW, 16))
    assert after is not None
    assert next_probe(after) == shift(NOW, 1016)


def test_a_reserved_probe_counts_as_failed_and_its_failure_adds_the_reason_alone() -> None:
    state = reserve_probe(held(), CALLS, shift(NOW, 15))
    assert state.trouble is not None
    assert state.trouble.probes == 1
    assert admit(state, CALLS, shift(SLOT, 20), LIVE, shift(NOW, 20)) is Admission.HOLD
    assert note_failure(state, CALLS, REFUSED, SLOT, PROBE, 10.0, shift(NOW, 25)) is None, "nothing is new"
    other = note_failure(state, CALLS, DOWN, SLOT, PROBE, 0.1, shift(NOW, 25))
    assert other is not None
    assert other.trouble is not None
    assert "503" in other.trouble.reason
    assert next_probe(other) == next_probe(state)


def test_of_late_probes_one_in_a_quarter_of_an_hour_has_the_full_timeout() -> None:
    state, now, timeouts = held(), NOW, []
    for _ in range(len(PROBE_SECONDS) + 9):
        now = shift(next_probe(state), 3)  # the delivery that finds it due is a little late, as is the probe
        state = reserve_probe(state, CALLS, now)
        timeouts.append(probe_target(state, CALLS, shift(now, 1)).timeout_seconds)
    early, late = timeouts[: len(PROBE_SECONDS) - 1], timeouts[len(PROBE_SECONDS) - 1 :]
    assert set(early) == {CALLS.timeout_seconds}
    assert set(late) == {CALLS.timeout_seconds, LIVE_SECONDS}
    patient = [number for number, seconds in enumerate(late) if seconds == CALLS.timeout_seconds]
    assert {after - before for before, after in pairwise(patient)} == {PATIENT_SECONDS // PROBE_SECONDS[-1]}


def test_a_probe_has_the_full_timeout_where_slots_cannot_be_asked_for_later_or_it_is_short_anyway() -> None:
    for target in (NOW_ONLY, replace(CALLS, timeout_seconds=1.5)):
        state, now = held(target=target), NOW
        for _ in range(90):
            now = next_probe(state)
            state = reserve_probe(state, target, now)
            assert probe_target(state, target, now) == target
    assert probe_target(None, CALLS, NOW) == CALLS


def test_a_changed_target_is_probed_at_once() -> None:
    state, changed = held(NO_KEY), replace(CALLS, headers={"x-api-key": SecretReference("env", "OTHER_KEY")})
    assert admit(state, changed, SLOT, LIVE, shift(NOW, 14)) is Admission.HOLD, "two versions may run side by side"
    state = reserve_probe(reserve_probe(state, CALLS, NOW), CALLS, NOW)
    slot, now = shift(SLOT, 16), shift(NOW, 16)
    assert admit(state, CALLS, slot, LIVE, now) is Admission.HOLD
    assert admit(state, changed, slot, LIVE, now) is Admission.PROBE
    assert admit(reserve_probe(state, changed, now), changed, slot, LIVE, now) is Admission.HOLD


def test_the_fingerprint_says_nothing_of_the_timing() -> None:
    assert fingerprint(CALLS) == fingerprint(replace(CALLS, interval_seconds=10, lag_seconds=20))
    others = [replace(CALLS, url="https://b.example"), replace(CALLS, answer=Answer(decimals=2)), NOW_ONLY]
    assert len({fingerprint(each) for each in (CALLS, *others)}) == 4


def test_a_probe_asks_for_the_newest_slot_after_an_outage() -> None:
    state, slot = held(), shift(SLOT, 900)
    for _ in range(4):
        assert probe_slot(state, CALLS, slot, BUNDLE) == slot
        state = reserve_probe(state, CALLS, next_probe(state))


def test_after_lasting_failures_probes_take_turns_between_the_first_kept_slot_and_the_newest() -> None:
    state, slot, turns = held(ABSENT), shift(SLOT, 900), []
    for _ in range(4):
        turns.append(probe_slot(state, CALLS, slot, BUNDLE))
        state = reserve_probe(state, CALLS, next_probe(state))
    assert turns == [SLOT, slot, SLOT, slot]
    assert probe_slot(state, CALLS, slot, "ffffffff.0") == slot, "another bundle holds the older slot"
    assert probe_slot(held(ABSENT, NOW_ONLY), NOW_ONLY, slot, BUNDLE) == slot


def test_slots_are_kept_from_the_oldest_on() -> None:
    state = held()
    assert keep_slot(state, shift(SLOT, 5), BUNDLE) == state
    older = keep_slot(state, shift(SLOT, -5), "ffffffff.0")
    assert (older.kept_from, older.kept_in) == (shift(SLOT, -5), "ffffffff.0")


def test_kept_slots_are_recovered_after_the_first_answer_and_the_state_is_forgotten() -> None:
    state = held(NO_KEY)
    assert state.recovery is None
    assert not is_over(state, CALLS, NOW)
    answered = shift(NOW, 600)
    after = note_answer(state, CALLS, 0.2, PROBE, answered)
    assert after is not None
    state = after
    assert not state.is_held
    assert admit(state, CALLS, SLOT, LIVE, answered) is Admission.ASK
    end = shift(answered, STALE_SECONDS)
    assert state.recovery == (SLOT, end)
    assert not is_over(state, CALLS, shift(answered, 86_400))
    state = note_recovered(state, shift(SLOT, 60))
    assert state.recovery == (shift(SLOT, 60), end)
    assert note_recovered(state, SLOT) == state, "never back"
    state = note_recovered(state, end)
    assert state.recovery is None
    assert is_over(state, CALLS, answered)


def test_an_unreachable_target_that_answers_is_slow_until_it_is_quick_again() -> None:
    state = note_answer(held(), CALLS, 0.2, PROBE, NOW)
    assert state is not None
    assert admit(state, CALLS, SLOT, LIVE, NOW) is Admission.SLOW
    state = note_answer(state, CALLS, 0.2, RETRY, NOW)
    assert state is not None
    assert admit(state, CALLS, SLOT, LIVE, NOW) is Admission.ASK


def test_a_target_that_is_held_again_before_all_was_recovered_keeps_the_older_slots() -> None:
    state = note_answer(held(NO_KEY), CALLS, 0.2, PROBE, shift(NOW, 60))
    state = note_recovered(state, shift(SLOT, 20)) if state else None
    state = fail(state, NO_KEY, times=2, now=shift(NOW, 90))
    assert state is not None
    assert (state.is_held, state.recovery, state.kept_from) == (True, None, shift(SLOT, 20))
    assert keep_slot(state, shift(SLOT, 85), BUNDLE) == state


def test_a_state_is_forgotten_with_its_target_or_when_it_says_nothing_any_more() -> None:
    assert is_over(held(), None, NOW)
    assert is_over(TargetState(), CALLS, NOW)
    assert not is_over(TargetState(slow=True), CALLS, NOW)
    doubted = fail(None, DOWN)
    assert doubted is not None
    assert not is_over(doubted, CALLS, shift(NOW, 3600))
    assert is_over(doubted, CALLS, shift(NOW, 3610))


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(("answer", "slow answer", "refused", "down", "no key", "patience")),
        st.sampled_from((LIVE, RETRY, PROBE, BACKFILL)),
        st.integers(0, 400),
    ),
    max_size=60,
)
ERRORS = {"refused": REFUSED, "down": DOWN, "no key": NO_KEY, "patience": ApiStatusError(429)}


@given(events=EVENTS)
@settings(max_examples=200)
def test_a_target_is_held_until_it_answers(events: list[tuple[str, str, int]]) -> None:
    state: TargetState | None = None
    now, row = NOW, 0
    for event, lane, seconds in events:
        now = shift(now, seconds)
        before = state
        if event in ERRORS:
            state = note_failure(state, CALLS, ERRORS[event], shift(now, -5), lane, 0.1, now) or state
            row += lane != LIVE and event != "patience" and not (before and before.is_held)
        else:
            state = note_answer(state, CALLS, 3.0 if event == "slow answer" else 0.1, lane, now) or state
            row = 0
        is_held = state is not None and state.is_held
        assert not is_held or row >= 2
        assert is_held or row < 3
        if state is not None and is_held:
            state = keep_slot(state, shift(now, -5), BUNDLE)
            if admit(state, CALLS, shift(now, -5), LIVE, now) is Admission.PROBE:
                state = reserve_probe(state, CALLS, now)
            assert now < next_probe(state) <= shift(now, 300)
        if state is not None and before is not None and before.is_held and not is_held:
            assert event not in ERRORS
            assert state.answered_at == now
