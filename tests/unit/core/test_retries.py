"""When a slot is tried again on AWS, and when it is given up."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kizami.core.errors import (
    ApiError,
    ApiPayloadError,
    ApiStatusError,
    ApiUnreachable,
    ConfigurationError,
    InvalidInput,
)
from kizami.core.retries import Retry, plan_retry, reason_of, retry_wait

NOW = datetime(2025, 12, 2, 10, 23, 7, tzinfo=UTC)


def plan(error: Exception, attempts: int = 1, *, interval: int = 5, chance: float = 0.0) -> Retry:
    return plan_retry(error, attempts, 5, interval, chance, NOW)


def test_pauses_grow_to_three_minutes_and_are_half_random() -> None:
    assert [retry_wait(attempts, 0.0) for attempts in range(1, 7)] == [10, 40, 160, 180, 180, 180]
    assert retry_wait(2, 1.0) == 20
    assert retry_wait(99_999, 0.0) == 180


@pytest.mark.parametrize("error", [ApiUnreachable("refused"), ApiStatusError(503), ApiStatusError(429)])
def test_a_failure_is_tried_again_up_to_the_limit(error: ApiError) -> None:
    assert [plan(error, attempts).delay_seconds for attempts in range(1, 6)] == [10, 40, 160, 180, None]
    assert plan(error, 3).attempts == 3
    assert plan(error, 5).is_dead


@pytest.mark.parametrize("error", [ApiStatusError(404), ApiPayloadError("count: is missing")])
def test_a_lasting_failure_is_tried_until_its_target_is_known_to_be_held_or_to_answer(error: ApiError) -> None:
    assert [plan(error, attempts).delay_seconds for attempts in range(1, 4)] == [10, 40, None]
    assert plan(error, interval=60).delay_seconds == 75, "the next slot tells more"


def test_an_api_gets_the_pause_that_it_asks_for() -> None:
    assert plan(ApiStatusError(429, 100.0)) == Retry(1, 100)
    assert plan(ApiStatusError(429, 3.0)) == Retry(1, 10)
    assert plan(ApiStatusError(429, 3000.0)) == Retry(1, 900, int(NOW.timestamp()) + 3000)


def test_what_is_not_about_a_slot_is_given_up_at_once() -> None:
    assert plan(InvalidInput("from", "is not on a boundary")).is_dead
    assert not plan(ConfigurationError("headers.x-api-key", "is not there")).is_dead


def test_the_reason_of_a_surprise_does_not_show_its_words() -> None:
    assert reason_of(ApiStatusError(503)) == "status 503, expected 200"
    assert reason_of(KeyError("s3cr3t")) == "KeyError, which is a fault of kizami"
