"""An OAuth2 client's token: what is asked, what an answer says, and when the next one is asked for."""

from __future__ import annotations

import json
from itertools import pairwise
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.core.access.auth import OAuth2Auth
from kizami.core.access.tokens import (
    FIRST_WAIT_SECONDS,
    LONGEST_WAIT_SECONDS,
    YOUNG_SECONDS,
    KeptToken,
    Token,
    ask_for_token,
    read_token,
)
from kizami.core.errors import ApiError, ApiPayloadError, ApiUnreachable, TokenRefused
from kizami.core.targets.references import SecretReference

URL = "https://login.example.com/token"
AUTH = OAuth2Auth(URL, "a client", SecretReference("env", "S"), "read write")
DOWN = ApiUnreachable("down")


def test_the_secret_is_sent_in_the_header_or_in_the_body() -> None:
    question = ask_for_token(AUTH, lambda _: "s3:cr+t", in_body=False)
    assert question.headers["Authorization"] == "Basic YStjbGllbnQ6czMlM0FjciUyQnQ="  # a+client:s3%3Acr%2Bt
    assert parse_qsl(question.body.decode()) == [("grant_type", "client_credentials"), ("scope", "read write")]
    question = ask_for_token(AUTH, lambda _: "s3:cr+t", in_body=True)
    assert "Authorization" not in question.headers
    assert dict(parse_qsl(question.body.decode()))["client_secret"] == "s3:cr+t"


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        ({"expires_in": 3600}, 3600),
        ({"expires_in": "3599"}, 3599),
        ({"expires_in": 0}, None),
        ({"expires_in": "soon"}, None),
        ({"expires_in": True}, 1),
        ({"expires_in": None, "token_type": "Bearer"}, None),
    ],
)
def test_a_token_is_read_with_its_end_if_that_is_told(answer: dict[str, object], seconds: float | None) -> None:
    assert read_token(AUTH, 200, json.dumps({"access_token": "t", **answer}).encode()) == Token("t", seconds)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (
            401,
            '{"error": "invalid_client", "error_description": "no such\\n client"}',
            f"no token from {URL}: status 401 (invalid_client: no such client), expected 200",
        ),
        (503, "<html>", f"no token from {URL}: status 503, expected 200"),
        (400, '{"error": ["x"]}', f"no token from {URL}: status 400, expected 200"),
        (200, "<html>", f"no token from {URL}: its answer has no access_token"),
        (200, "[" * 100_000, f"no token from {URL}: its answer has no access_token"),
        (200, '{"access_token": "a\\nb"}', f"no token from {URL}: its answer has no access_token"),
        (200, '{"access_token": 5}', f"no token from {URL}: its answer has no access_token"),
    ],
)
def test_what_is_no_token_is_one_line_that_names_the_endpoint(status: int, body: str, words: str) -> None:
    with pytest.raises(ApiError) as refusal:
        read_token(AUTH, status, body.encode())
    assert str(refusal.value) == words
    assert isinstance(refusal.value, TokenRefused if status != 200 else ApiPayloadError)


def got(token: str = "t", seconds: float | None = 3600.0, now: float = 0.0) -> KeptToken:
    kept = KeptToken()
    kept.begin()
    kept.accept(Token(token, seconds), now)
    return kept


def test_a_token_is_asked_for_once_and_again_before_it_is_over() -> None:
    kept = KeptToken()
    assert (kept.value(0), kept.is_due(0)) == (None, True)
    kept.begin()
    assert not kept.is_due(0)
    kept.accept(Token("t", 3600), 0)
    assert (kept.value(0), kept.is_due(3539)) == ("t", False)
    assert kept.is_due(3540)
    kept.begin()
    kept.fail(DOWN, 3541)
    assert (kept.value(3550), kept.value(3600)) == ("t", None)  # in use to its end
    assert not kept.is_due(3541 + FIRST_WAIT_SECONDS - 0.1)
    assert kept.is_due(3541 + FIRST_WAIT_SECONDS)


def test_a_token_without_an_end_stays_until_it_is_refused() -> None:
    kept = got(seconds=None)
    assert not kept.is_due(10.0**9)
    assert kept.refuse("t", 10.0**9)
    assert (kept.value(10.0**9), kept.is_due(10.0**9)) == (None, True)


def test_a_young_token_is_not_to_blame_and_an_old_one_is_replaced_once() -> None:
    kept = got()
    assert not kept.refuse("t", YOUNG_SECONDS - 1)
    assert kept.value(YOUNG_SECONDS - 1) == "t"
    assert kept.refuse("t", YOUNG_SECONDS)
    kept.begin()
    assert kept.accept(Token("u", 3600), YOUNG_SECONDS) == "t"
    assert kept.refuse("t", YOUNG_SECONDS)  # of a request that left before: the next has the new one
    assert not kept.is_due(YOUNG_SECONDS)
    assert not kept.refuse("u", YOUNG_SECONDS + 1)


def test_a_failing_endpoint_is_asked_ever_more_rarely() -> None:
    kept, now, waits = KeptToken(), 0.0, []
    for _ in range(6):
        kept.begin()
        assert not kept.fail(DOWN, now)
        start = now
        while not kept.is_due(now):
            now += 1
        waits.append(now - start)
    assert waits == [5, 10, 20, 40, LONGEST_WAIT_SECONDS, LONGEST_WAIT_SECONDS]
    assert kept.failure is DOWN
    kept.begin()
    kept.fail(DOWN, now)
    kept.try_again()
    assert kept.is_due(now)


def test_a_client_that_is_refused_is_named_in_the_body_once_and_then_as_it_worked() -> None:
    refused = TokenRefused(401, URL)
    kept = KeptToken()
    kept.begin()
    assert kept.fail(refused, 0)
    assert kept.in_body
    kept.begin()
    assert not kept.fail(refused, 0)
    assert (kept.in_body, kept.failure) == (False, refused)
    kept.begin()
    assert kept.fail(refused, 10)
    kept.begin()
    kept.accept(Token("t", 1), 10)
    kept.begin()
    assert not kept.fail(refused, 20)  # what worked before is not tried the other way: the secret is wrong
    assert kept.in_body


@given(st.lists(st.tuples(st.sampled_from("afr"), st.floats(0, 100)), max_size=40))
def test_a_refused_or_failing_token_never_makes_a_storm(steps: list[tuple[str, float]]) -> None:
    """Whatever happens, two requests for a token are some seconds apart, unless the first ran out."""
    kept, now, asked = got(seconds=None), 0.0, []
    for step, seconds in steps:
        now += seconds
        if step == "r":
            kept.refuse("t", now)
        if kept.is_due(now):
            asked.append(now)
            kept.begin()
            kept.accept(Token("t", None), now) if step == "a" else kept.fail(DOWN, now)
    assert all(later - earlier >= FIRST_WAIT_SECONDS for earlier, later in pairwise(asked))
