"""No key and no signature in any line, stack trace, outcome or error, whatever goes wrong and quotes them."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fakes.aggregation import NOON, TODAY, ScriptedUsersApi, coded_lines, delivery, make_batch, user
from kizami.aggregation.batch import Batch
from kizami.aggregation.lock import Lock
from kizami.aggregation.log_codes import LogCode, RunLog
from kizami.aggregation.messages import AggregationMessage
from kizami.aggregation.signing import ApiKey, sign
from kizami.core.collector import Response
from kizami.core.errors import ApiPayloadError, ApiUnreachable, ConfigurationError, StoreError
from kizami.core.redaction import HIDDEN
from kizami.core.targets.references import SecretReference

# A key with everything in it that a URL, JSON, a repr or a query writes differently.
KEY = "canary/ké y+&%\"'\\4f1d"
SIGNATURE = sign(ApiKey(KEY), int(NOON.timestamp()), "acme")
FORMS = (
    KEY,
    repr(KEY),
    repr(KEY.encode()),
    json.dumps(KEY),
    json.dumps(KEY, ensure_ascii=False),
    urllib.parse.quote(KEY),
    urllib.parse.quote(KEY, safe=""),
    urllib.parse.quote_plus(KEY),
    urllib.parse.urlencode({"key": KEY}),
)
ALL = " ".join((*FORMS, SIGNATURE, f"/users?company_id=acme&signature={SIGNATURE}"))
# What a fault can quote before the signature is made.
KEY_ONLY = " ".join(FORMS)


def tell(error: type[Exception], gossip: str = ALL) -> Callable[..., Any]:
    """Raise an error that quotes every form of every secret, caused by one that does so too."""

    def raise_it(*_: object) -> None:
        try:
            raise ValueError(gossip)
        except ValueError as cause:
            raise error(gossip) from cause

    return raise_it


def fail_in(operation: str, error: type[Exception]) -> Batch:
    batch = make_batch(user("u1", TODAY))
    gossip = ALL if operation == "release" else KEY_ONLY
    batch.locks.trap = lambda called: tell(error, gossip)() if called == operation else None
    return batch


def fail_in_api(error: type[Exception]) -> Batch:
    batch = make_batch()
    batch.api.answer = tell(error)
    return batch


def fail_in_points(error: type[Exception]) -> Batch:
    batch = make_batch(user("u1", TODAY))
    batch.points.trap = tell(error)
    return batch


def fail_for_one_user() -> Batch:
    batch = make_batch(user("u1", TODAY))
    batch.points.grant = lambda *_: [StoreError(ALL)]  # type: ignore[method-assign]
    return batch


def answer_with(body: str) -> Batch:
    api = ScriptedUsersApi()
    api.answer = lambda request: Response(200, body.encode())
    return make_batch(api=api)


def hold_lock_of(owner: str) -> Batch:
    batch = make_batch(user("u1", TODAY))
    batch.locks.locks["acme"] = Lock(NOON - timedelta(hours=3), owner, owner)
    return batch


# Faults before the key is looked up, in a run that has only a reference, know no secret to quote.
BEFORE_THE_KEY: dict[str, tuple[LogCode, Callable[[], Batch]]] = {
    "002 at the check": (LogCode.LOCK_ACCESS_FAILED, lambda: fail_in("read", StoreError)),
    "004": (LogCode.LOCK_EXPIRED, lambda: hold_lock_of(KEY)),
    "006": (LogCode.LOCK_WRITE_FAILED, lambda: fail_in("acquire", StoreError)),
    "999 at the check": (LogCode.UNKNOWN, lambda: fail_in("read", RuntimeError)),
    "999 at the lock": (LogCode.UNKNOWN, lambda: fail_in("acquire", RuntimeError)),
}
WITH_THE_KEY: dict[str, tuple[LogCode, Callable[[], Batch]]] = {
    "002 at the release": (LogCode.LOCK_ACCESS_FAILED, lambda: fail_in("release", StoreError)),
    "007 unreachable": (LogCode.API_FAILED, lambda: fail_in_api(ApiUnreachable)),
    "007 payload": (LogCode.API_FAILED, lambda: fail_in_api(ApiPayloadError)),
    "007 an answer that is the key": (LogCode.API_FAILED, lambda: answer_with(KEY)),
    "011": (LogCode.POINT_FAILED, fail_for_one_user),
    "014 a user that is the key": (LogCode.MALFORMED_USER, lambda: answer_with(json.dumps({"users": [KEY]}))),
    "014 a user that quotes it": (
        LogCode.MALFORMED_USER,
        lambda: answer_with(json.dumps({"users": [{"user_number": KEY, "event_timestamp": [ALL, {ALL: ALL}]}]})),
    ),
    "999 at the release": (LogCode.UNKNOWN, lambda: fail_in("release", RuntimeError)),
    "999 at the API": (LogCode.UNKNOWN, lambda: fail_in_api(RuntimeError)),
    "999 at the points": (LogCode.UNKNOWN, lambda: fail_in_points(RuntimeError)),
}


def assert_silent(text: str) -> None:
    for secret in (*FORMS, SIGNATURE, "canary", "4f1d"):
        assert secret not in text


def run_and_listen(batch: Batch, key: ApiKey | SecretReference, code: LogCode) -> None:
    with coded_lines() as lines:
        outcome = batch.run(AggregationMessage("acme", key), delivery())
    assert code.code in {record.code for record in lines.records}
    assert_silent(lines.text)
    assert_silent(repr(outcome))


@pytest.mark.parametrize("branch", [*BEFORE_THE_KEY, *WITH_THE_KEY])
def test_no_secret_leaves_a_run_by_any_branch(branch: str) -> None:
    code, make = (BEFORE_THE_KEY | WITH_THE_KEY)[branch]
    run_and_listen(make(), ApiKey(KEY), code)


@pytest.mark.parametrize("branch", WITH_THE_KEY)
def test_no_secret_leaves_a_run_that_looked_its_key_up(branch: str) -> None:
    code, make = WITH_THE_KEY[branch]
    batch = replace(make(), look_up_key=lambda reference: ApiKey(KEY))
    run_and_listen(batch, SecretReference("secretsmanager", "acme/key"), code)


def test_a_failed_look_up_of_the_key_says_where_it_was_sought_and_no_more() -> None:
    def look_up_key(reference: SecretReference) -> ApiKey:
        raise ConfigurationError(str(reference), "is not allowed")

    with coded_lines() as lines:
        message = AggregationMessage("acme", SecretReference("secretsmanager", "acme/key"))
        make_batch(look_up_key=look_up_key).run(message, delivery())
    assert "ConfigurationError: secretsmanager:acme/key: is not allowed" in lines.of("007").getMessage()


def test_hiding_leaves_the_wording_of_a_line_alone() -> None:
    with coded_lines() as lines:
        log = RunLog()
        log.hide("A")
        log.write(LogCode.NEVER_DETECTED, user="AbA")
    assert lines.messages == [f"AGGREGATION-009 event_timestamp is null. user:{HIDDEN}b{HIDDEN}"]


def test_a_detail_is_one_line_of_a_bounded_length() -> None:
    with coded_lines() as lines:
        RunLog().write(LogCode.NEVER_DETECTED, user="a\nb\r\nc" + "x" * 5000)
    assert "\n" not in lines.messages[0]
    assert len(lines.messages[0]) < 1100


def test_a_detail_that_looks_like_a_template_is_not_filled_in() -> None:
    with coded_lines() as lines:
        RunLog().write(LogCode.API_FAILED, ValueError("{request} %s {0}"), request="{error}")
    assert lines.messages == [
        "AGGREGATION-007 failed to access API API. request:{error}, error: ValueError: {request} %s {0}"
    ]
