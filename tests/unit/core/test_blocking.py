"""When a target is blocked and probed, and what becomes of a slot that failed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kizami.core.answers.answer import Answer, parse_refuse, parse_values
from kizami.core.blocking import (
    Fate,
    Trouble,
    Turn,
    after_failure,
    after_probe,
    explain,
    hurried,
    is_recent,
    probe_seconds,
    reason,
    remedy,
    resumed,
    retry_seconds,
    slot_fate,
    tells_of_target,
)
from kizami.core.errors import ApiError, ApiPayloadError, ApiStatusError, ApiUnreachable
from kizami.core.slots import shift
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import Target

NOW = datetime(2025, 12, 2, 8, 34, tzinfo=UTC)
REFUSED = ApiStatusError(401)


def blocked(error: ApiError = REFUSED, now: datetime = NOW) -> Trouble:
    return after_failure(after_failure(None, error, "first", now), error, str(error), now)


@pytest.mark.parametrize("status", [204, 301, 302, 400, 401, 402, 403, 404, 405, 406, 410, 415, 422, 451])
def test_these_statuses_do_not_heal_by_waiting(status: int) -> None:
    assert ApiStatusError(status).is_lasting


@pytest.mark.parametrize("status", [408, 409, 421, 423, 425, 429, 500, 502, 503, 504])
def test_these_statuses_heal_by_waiting(status: int) -> None:
    assert not ApiStatusError(status).is_lasting


def test_an_answer_that_does_not_match_lasts_and_none_at_all_does_not() -> None:
    assert ApiPayloadError("count: is missing").is_lasting
    assert not ApiUnreachable("refused").is_lasting


def test_the_second_lasting_failure_in_a_row_blocks() -> None:
    first = after_failure(None, REFUSED, "status 401", NOW)
    second = after_failure(first, REFUSED, "status 401", shift(NOW, 5))
    assert (first.is_blocked, second.is_blocked, second.since) == (False, True, NOW)
    assert second.next_probe == shift(NOW, 65)


def test_what_was_on_its_way_when_it_was_blocked_changes_nothing() -> None:
    assert after_failure(blocked(), REFUSED, "later", shift(NOW, 9)) == blocked()


def test_probes_come_after_a_minute_and_ever_more_slowly_up_to_ten() -> None:
    assert [probe_seconds(failed) / 60 for failed in range(7)] == [1, 2, 4, 8, 10, 10, 10]
    assert probe_seconds(10**9) == 600


@pytest.mark.parametrize("step", [after_failure, after_probe])
def test_a_probe_does_not_come_before_retry_after(step: object) -> None:
    told = ApiStatusError(403, 3600.0)
    trouble = after_probe(blocked(), told, "x", NOW) if step is after_probe else blocked(told)
    assert (trouble.next_probe, trouble.pace_seconds) == (shift(NOW, 3600), 3600)


def test_probes_take_turns_between_a_slot_that_failed_and_the_newest() -> None:
    trouble, turns = blocked(), []
    for _ in range(4):
        turns.append(trouble.turn)
        trouble = after_probe(trouble, REFUSED, "again", NOW)
    assert turns == [Turn.FAILED_BEFORE, Turn.NEWEST] * 2
    assert trouble.reason == "again"


def test_it_is_due_from_its_moment_on_and_when_the_clock_was_set_back() -> None:
    """But not to who has read the clock a moment before the block, which would be a probe at once."""
    trouble = blocked()
    due = [seconds for seconds in (-61, -60, -1, 0, 59, 60) if trouble.is_due(shift(NOW, seconds))]
    assert due == [-61, 60]
    assert not after_failure(None, REFUSED, "x", NOW).is_due(shift(NOW, 9999))


def test_a_hurried_probe_is_due_at_once() -> None:
    assert hurried(blocked(), shift(NOW, 1)).is_due(shift(NOW, 1))


@pytest.mark.parametrize(("after", "due_after"), [(5, 60), (60, 60), (300, 300), (900, 600), (-5, -5)])
def test_a_restart_probes_at_once_but_not_within_a_minute_of_the_last(after: int, due_after: int) -> None:
    trouble = blocked()
    for _ in range(4):
        trouble = after_probe(trouble, REFUSED, "x", NOW)
    assert resumed(trouble, shift(NOW, after)).next_probe == shift(NOW, due_after)


@pytest.mark.parametrize(
    ("error", "age", "interval", "tells"),
    [
        (REFUSED, 86_400, 5, True),
        (ApiStatusError(404), 75, 5, True),
        (ApiStatusError(404), 180, 5, False),
        (ApiStatusError(404), 180, 3600, True),
        (ApiStatusError(404), 7200, 3600, False),
        (ApiStatusError(503), 1, 5, False),
    ],
)
def test_an_old_slot_tells_of_its_target_only_if_the_key_is_refused_or_it_is_in_doubt(
    error: ApiError, age: int, interval: int, tells: bool
) -> None:
    assert tells_of_target(error, recent=is_recent(age, interval), in_doubt=False) is tells
    assert tells_of_target(error, recent=False, in_doubt=True) is error.is_lasting


@pytest.mark.parametrize(
    ("error", "attempts", "is_blocked", "fate"),
    [
        (REFUSED, 1, False, Fate.RETRIED),
        (REFUSED, 2, False, Fate.DEAD),
        (REFUSED, 9, True, Fate.KEPT),
        (ApiStatusError(503), 4, False, Fate.RETRIED),
        (ApiStatusError(503), 5, False, Fate.DEAD),
        (ApiUnreachable("x"), 1, True, Fate.KEPT),
    ],
)
def test_the_fate_of_a_slot(error: ApiError, attempts: int, is_blocked: bool, fate: Fate) -> None:
    assert slot_fate(error, attempts, 5, blocked=is_blocked) is fate


def test_the_next_slot_goes_before_the_retry_of_a_lasting_failure() -> None:
    assert retry_seconds(REFUSED, 2.0, 5) == 6.25
    assert retry_seconds(REFUSED, 2.0, 3600) == 75
    assert retry_seconds(ApiStatusError(503), 2.0, 5) == 2.0


def test_a_refused_key_names_the_header_and_where_its_secret_is_kept() -> None:
    target = Target(headers={"Authorization": SecretReference("env", "TOKEN"), "accept": "text/plain"})
    assert explain(REFUSED, target) == (
        "status 401, expected 200; the key is refused: check headers.Authorization (env:TOKEN)"
    )


CALLS = Target(name="calls", url="https://api.example.com/v1/usage", answer=Answer())


@pytest.mark.parametrize(
    ("error", "helps"),
    [
        (ApiPayloadError("count is missing"), "compare the answer with the target's count"),
        (ApiPayloadError("the body is not JSON", "is url right?"), "is url right?"),
        (
            ApiStatusError(404),
            "check the target's url and path (which adds /response_count?from={from}&to={to} unless",
        ),
        (ApiStatusError(400), "check the target's url and path, its query and body"),
        (ApiStatusError(401), "the key is refused: check the target's headers"),
        (ApiStatusError(301), "redirects are not followed"),
        (ApiUnreachable("refused"), "is https://api.example.com/v1/usage right and its server up?"),
    ],
)
def test_a_failure_comes_with_what_helps(error: ApiError, helps: str) -> None:
    assert remedy(error, CALLS).startswith(helps)
    told = f"{error}; {remedy(error, CALLS)}" if error.is_lasting else str(error)
    assert reason(error, CALLS) == told


def test_a_path_that_somebody_wrote_is_not_explained() -> None:
    written = replace(CALLS, path="/count?since={from}")
    assert remedy(ApiStatusError(404), written).startswith("check the target's url and path, its query")


def test_what_an_answer_is_compared_with_is_named_as_the_file_has_it() -> None:
    several = replace(CALLS, answer=Answer(values=parse_values({"a": "/a"}), refuse=parse_refuse(["/error"])))
    assert (
        remedy(ApiPayloadError("/a is missing"), several) == "compare the answer with the target's values, refuse"
    )
