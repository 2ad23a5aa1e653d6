"""Which refusals are rate limits, and when they end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.core.answers.rate_limits import RateLimit, read_rate_limit
from kizami.core.blocking import Fate, remedy, slot_fate
from kizami.core.collector import Response, read_values
from kizami.core.errors import ApiStatusError
from kizami.core.sender import message_for_slot
from kizami.core.targets.target import SEED_TARGET

NOW = datetime(2025, 12, 2, 10, 23, 5, tzinfo=UTC)
EPOCH = int(NOW.timestamp())


def limit(status: int = 403, /, **headers: str) -> RateLimit | None:
    return read_rate_limit(status, [(name.replace("_", "-"), value) for name, value in headers.items()], NOW)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        # GitHub: the primary limit, then a secondary one, which comes although requests are left.
        ({"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": str(EPOCH + 90), "X_RateLimit_Limit": "60"}, 90),
        ({"Retry_After": "60", "X_RateLimit_Remaining": "4987", "X_RateLimit_Reset": str(EPOCH + 3000)}, 60),
        # Deltas, of the drafts and of many APIs.
        ({"RateLimit_Limit": "100", "RateLimit_Remaining": "0", "RateLimit_Reset": "30"}, 30),
        ({"x_rate_limit_remaining": "0", "x_rate_limit_reset": "30"}, 30),
        ({"RateLimit": '"default";r=0;t=30', "RateLimit_Policy": '"default";q=100;w=60'}, 30),
        ({"RateLimit": '"burst";r=5;t=1, "day";r=0;t=40'}, 40),
        ({"RateLimit": "default;r=0;t=30"}, 30),
        ({"RateLimit": "limit=100, remaining=0, reset=30"}, 30),
        ({"RateLimit": "limit=100,remaining=0,reset=30"}, 30),
        # Several limits: those that are used up count.
        (
            {
                "X_RateLimit_Remaining_Minute": "0",
                "X_RateLimit_Reset_Minute": "20",
                "X_RateLimit_Remaining_Hour": "7",
                "X_RateLimit_Reset_Hour": "2000",
            },
            20,
        ),
        ({"X_RateLimit_Requests_Remaining": "0", "X_RateLimit_Requests_Reset": "77"}, 77),
        # Other forms of a reset.
        ({"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": str((EPOCH + 45) * 1000)}, 45),
        ({"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": "1.5"}, 1.5),
        ({"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": "2025-12-02T10:24:05Z"}, 60),
        ({"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": "Tue, 02 Dec 2025 10:24:05 GMT"}, 60),
        ({"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": "6m0s"}, 360),
        ({"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": "20ms"}, 0.02),
        ({"Retry_After": "Tue, 02 Dec 2025 10:24:05 GMT"}, 60),
        # A limit is told of, and not how much of it is left.
        ({"X_RateLimit_Reset": "30"}, 30),
        ({"X_RateLimit_Limit": "60"}, None),
        ({"RateLimit_Policy": '"default";q=100;w=60'}, None),
        # Not to be believed: no wait, but still a limit.
        ({"X_RateLimit_Remaining": "0"}, None),
        ({"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": "soon"}, None),
        ({"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": "9" * 15}, None),
        ({"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": str(EPOCH - 5)}, 0),
    ],
)
def test_a_403_is_a_rate_limit_where_its_headers_say_so(headers: dict[str, str], seconds: float | None) -> None:
    found = limit(**headers)
    assert found is not None
    assert found.seconds == seconds
    if seconds:
        assert found.ends is not None
        assert timedelta(0) <= found.ends - NOW - timedelta(seconds=seconds) < timedelta(seconds=1)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X_RateLimit_Remaining": "4987", "X_RateLimit_Reset": str(EPOCH + 3000), "X_RateLimit_Limit": "5000"},
        {"RateLimit": '"default";r=1;t=30'},
        {"RateLimit_Remaining": "10", "RateLimit_Reset": "30"},
        {"X_Rated": "0", "Retry_After": "soon"},
    ],
)
def test_a_403_is_a_refusal_where_they_do_not(headers: dict[str, str]) -> None:
    assert limit(**headers) is None


def test_a_429_is_a_rate_limit_whatever_its_headers_say_and_other_statuses_are_none() -> None:
    assert limit(429) == RateLimit()
    waits = limit(429, X_RateLimit_Remaining="0", X_RateLimit_Reset="30")
    assert waits is not None
    assert waits.seconds == 30
    assert [limit(status, X_RateLimit_Remaining="0") for status in (401, 404, 500, 503)] == [None] * 4


def test_a_reset_is_by_the_servers_clock() -> None:
    ahead = NOW + timedelta(hours=1)
    date = ahead.strftime("%a, %d %b %Y %H:%M:%S GMT")
    reset = str(EPOCH + 3600 + 30)
    found = limit(Date=date, X_RateLimit_Remaining="0", X_RateLimit_Reset=reset)
    assert found == RateLimit(30, NOW + timedelta(seconds=30))


def test_the_error_says_until_when_and_that_waiting_helps() -> None:
    response = Response(403, b"", rate_limit=limit(X_RateLimit_Remaining="0", X_RateLimit_Reset="7200"))
    with pytest.raises(ApiStatusError) as refusal:
        read_values(response, message_for_slot(NOW, SEED_TARGET), SEED_TARGET)
    error = refusal.value
    assert str(error) == "status 403, expected 200: a rate limit; it ends at 2025-12-02T12:23:05Z"
    assert (error.is_lasting, error.refuses_key, error.retry_after_seconds) == (False, False, 3600)
    assert slot_fate(error, 2, 5, blocked=False) is Fate.RETRIED
    assert "asked again by itself" in remedy(error, SEED_TARGET)


@given(
    st.sampled_from([403, 429]),
    st.lists(
        st.tuples(
            st.sampled_from(
                [
                    "RateLimit",
                    "X-RateLimit-Remaining",
                    "RateLimit-Reset",
                    "Retry-After",
                    "Date",
                    "x-rate-limit-reset-x",
                ]
            ),
            st.text(max_size=40) | st.integers().map(str) | st.floats().map(str),
        )
    ),
)
def test_headers_of_any_kind_are_read(status: int, headers: list[tuple[str, str]]) -> None:
    found = read_rate_limit(status, headers, NOW)
    assert found is None or found.seconds is None or 0 <= found.seconds <= 366 * 86_400
    assert status == 403 or found is not None
