"""Every arrow, branch and log code of the aggregation sequence, in its order."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fakes.aggregation import (
    NOON,
    TODAY,
    YESTERDAY,
    CodedLines,
    ScriptedUsersApi,
    coded_lines,
    delivery,
    make_batch,
    message,
    user,
)
from kizami.aggregation import batch as batch_module
from kizami.aggregation.batch import Ending
from kizami.aggregation.lock import Lock
from kizami.aggregation.log_codes import LogCode
from kizami.aggregation.messages import AggregationMessage
from kizami.aggregation.points import point_day
from kizami.aggregation.signing import ApiKey, sign
from kizami.core.collector import Request, Response
from kizami.core.errors import ApiUnreachable, ConfigurationError, StoreError
from kizami.core.targets.references import SecretReference

ITEM = '{"CompanyId": "acme", "UpdateAt": "%s", "LockOwner": "%s", "LockRun": "%s"}'
REQUEST = '{"url": "https://users.example.com/v1/users", "company_id": "acme", "timestamp": 1764644400}'
LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@pytest.fixture
def lines() -> Iterator[CodedLines]:
    with coded_lines() as captured:
        yield captured


def raising(error: BaseException, operation: str | None = None) -> Callable[..., Any]:
    """A trap that springs on `operation` only, or always."""

    def trap(called: str | None = None) -> None:
        if operation in (None, called):
            raise error

    return trap


def answering(status: int, body: bytes) -> ScriptedUsersApi:
    api = ScriptedUsersApi()
    api.answer = lambda request: Response(status, body)
    return api


def unreachable() -> ScriptedUsersApi:
    api = ScriptedUsersApi()
    api.answer = lambda request: raising(ApiUnreachable("no connection"))()
    return api


def locked(age: timedelta, owner: str | None = "m0", run: str | None = "r0") -> Lock:
    return Lock(NOON - age, owner, run)


# The whole way


def test_a_run_takes_every_step_in_order_and_ends_with_the_lock_released(lines: CodedLines) -> None:
    batch = make_batch(user("u1", TODAY), user("u2", None), user("u3", YESTERDAY))
    outcome = batch.run(message(), delivery())
    assert lines.codes == ["001", "003", "008", "009", "010", "012"]
    assert (outcome.ending, outcome.code, outcome.is_failure) == (Ending.COMPLETED, LogCode.END, False)
    assert (outcome.tally.granted, outcome.tally.never_detected, outcome.tally.not_today) == (1, 1, 1)
    assert batch.points.items == {("acme", "u1", "202512"): (1, int(NOON.timestamp()))}
    assert batch.locks.locks == {}


def test_the_api_is_asked_with_company_timestamp_and_signature(lines: CodedLines) -> None:
    batch = make_batch()
    batch.run(message("acme & co".replace(" ", "-"), "k-123456"), delivery())
    (request,) = batch.api.requests
    signature = sign(ApiKey("k-123456"), 1764644400, "acme-&-co")
    assert request.url == (
        f"https://users.example.com/v1/users?company_id=acme-%26-co&timestamp=1764644400&signature={signature}"
    )
    assert request.headers == {}


def test_the_lock_is_held_while_the_api_is_asked_and_points_are_granted(lines: CodedLines) -> None:
    batch = make_batch(user("u1", TODAY))
    held: list[Lock] = []
    batch.points.trap = lambda: held.append(batch.locks.locks["acme"])
    ask = batch.api.answer

    def answer(request: Request) -> Response:
        held.append(batch.locks.locks["acme"])
        return ask(request)

    batch.api.answer = answer
    batch.run(message(), delivery("m1", "r1"))
    assert held == [Lock(NOON, "m1", "r1")] * 2


# One line each


def test_aggregation_001_start_is_the_first_line(lines: CodedLines) -> None:
    make_batch().run(message(), delivery())
    assert lines.messages[0] == "AGGREGATION-001 AGGREGATION Batch start."
    assert lines.of("001").levelno == logging.INFO


def test_aggregation_002_a_failed_lock_check_ends_the_run_before_anything_is_written(lines: CodedLines) -> None:
    batch = make_batch(user("u1", TODAY))
    batch.locks.trap = raising(StoreError("GetItem: ThrottlingException"), "read")
    outcome = batch.run(message(), delivery())
    assert lines.codes == ["001", "002"]
    assert lines.messages[1] == (
        "AGGREGATION-002 failed to access DynamoDB. error: StoreError: GetItem: ThrottlingException"
    )
    assert lines.of("002").levelno == logging.ERROR
    assert (outcome.ending, outcome.code) == (Ending.FAILED, LogCode.LOCK_ACCESS_FAILED)
    assert outcome.is_failure
    assert batch.api.requests == []


def test_aggregation_002_a_failed_release_ends_the_run_without_its_end_line(lines: CodedLines) -> None:
    batch = make_batch(user("u1", TODAY))
    batch.locks.trap = raising(StoreError("UpdateItem: gone"), "release")
    outcome = batch.run(message(), delivery())
    assert lines.codes == ["001", "003", "008", "002"]
    assert (outcome.ending, outcome.code) == (Ending.FAILED, LogCode.LOCK_ACCESS_FAILED)


def test_aggregation_003_shows_the_item_that_was_read(lines: CodedLines) -> None:
    make_batch().run(message(), delivery())
    assert lines.messages[1] == 'AGGREGATION-003 dynamodb response. response: {"CompanyId": "acme"}'
    assert lines.of("003").levelno == logging.INFO


def test_aggregation_003_shows_the_lock_of_the_item(lines: CodedLines) -> None:
    batch = make_batch()
    batch.locks.locks["acme"] = locked(timedelta(minutes=1))
    batch.run(message(), delivery())
    item = ITEM % ("2025-12-02T02:59:00Z", "m0", "r0")
    assert lines.messages[1] == f"AGGREGATION-003 dynamodb response. response: {item}"


def test_aggregation_004_a_lock_older_than_120_minutes_is_reported_and_taken_over(lines: CodedLines) -> None:
    batch = make_batch(user("u1", TODAY))
    batch.locks.locks["acme"] = locked(timedelta(minutes=120, seconds=1))
    outcome = batch.run(message(), delivery())
    assert lines.codes == ["001", "003", "004", "008", "012"]
    item = ITEM % ("2025-12-02T00:59:59Z", "m0", "r0")
    assert lines.messages[2] == f"AGGREGATION-004 record locked too long. item:{item}"
    assert lines.of("004").levelno == logging.ERROR
    assert outcome.ending is Ending.COMPLETED
    assert outcome.tally.granted == 1


def test_aggregation_004_has_a_stack_trace_although_there_is_no_exception(lines: CodedLines) -> None:
    batch = make_batch()
    batch.locks.locks["acme"] = locked(timedelta(hours=3))
    batch.run(message(), delivery())
    assert "_take_lock" in lines.of("004").stack_info
    assert "_stack_of" not in lines.of("004").stack_info


def test_aggregation_004_is_reported_for_a_lock_of_the_specification_without_an_owner(lines: CodedLines) -> None:
    batch = make_batch()
    batch.locks.locks["acme"] = locked(timedelta(hours=3), owner=None, run=None)
    assert batch.run(message(), delivery()).ending is Ending.COMPLETED
    assert lines.of("004").getMessage().endswith('item:{"CompanyId": "acme", "UpdateAt": "2025-12-02T00:00:00Z"}')


def test_aggregation_004_is_reported_for_the_messages_own_lock_too(lines: CodedLines) -> None:
    batch = make_batch()
    batch.locks.locks["acme"] = locked(timedelta(hours=3), owner="m1")
    assert batch.run(message(), delivery("m1", "r2")).ending is Ending.COMPLETED
    assert "004" in lines.codes


@pytest.mark.parametrize(
    "age",
    [timedelta(0), timedelta(minutes=1), timedelta(minutes=120), -timedelta(minutes=5), NOON - LAST],
)
def test_aggregation_005_a_younger_lock_ends_the_run(lines: CodedLines, age: timedelta) -> None:
    batch = make_batch(user("u1", TODAY))
    batch.locks.locks["acme"] = lock = locked(age)
    outcome = batch.run(message(), delivery())
    assert lines.codes == ["001", "003", "005"]
    assert lines.messages[2].startswith('AGGREGATION-005 locked record. item:{"CompanyId": "acme", "UpdateAt": ')
    assert lines.of("005").levelno == logging.INFO
    assert (outcome.ending, outcome.code, outcome.is_failure) == (Ending.LOCKED, LogCode.LOCK_HELD, False)
    assert batch.locks.locks == {"acme": lock}
    assert batch.api.requests == []


def test_aggregation_005_losing_the_race_for_the_lock_ends_the_run_and_shows_the_winner(lines: CodedLines) -> None:
    batch = make_batch(user("u1", TODAY))
    winner = Lock(NOON, "m2", "r2")

    def win_in_between(operation: str) -> None:
        if operation == "acquire":
            batch.locks.locks["acme"] = winner

    batch.locks.trap = win_in_between
    outcome = batch.run(message(), delivery())
    assert lines.codes == ["001", "003", "005"]
    assert lines.messages[2] == "AGGREGATION-005 locked record. item:" + ITEM % (
        "2025-12-02T03:00:00Z",
        "m2",
        "r2",
    )
    assert outcome.ending is Ending.LOCKED
    assert batch.locks.locks == {"acme": winner}


def test_a_redelivered_message_re_enters_its_own_lock_at_once(lines: CodedLines) -> None:
    batch = make_batch(user("u1", TODAY))
    batch.locks.locks["acme"] = locked(timedelta(seconds=3), owner="m1", run="r1")
    outcome = batch.run(message(), delivery("m1", "r2"))
    assert lines.codes == ["001", "003", "008", "012"]
    assert outcome.tally.granted == 1
    assert batch.locks.locks == {}


def test_aggregation_006_a_failed_lock_acquisition_ends_the_run(lines: CodedLines) -> None:
    batch = make_batch(user("u1", TODAY))
    batch.locks.trap = raising(StoreError("UpdateItem: refused"), "acquire")
    outcome = batch.run(message(), delivery())
    assert lines.codes == ["001", "003", "006"]
    item = ITEM % ("2025-12-02T03:00:00Z", "m1", "r1")
    assert lines.messages[2] == (
        f"AGGREGATION-006 failed to access DynamoDB. request:{item}, error: StoreError: UpdateItem: refused"
    )
    assert lines.of("006").levelno == logging.ERROR
    assert (outcome.ending, outcome.code) == (Ending.FAILED, LogCode.LOCK_WRITE_FAILED)
    assert batch.api.requests == []


def test_aggregation_007_an_api_that_cannot_be_reached_ends_the_run_with_the_lock_released(
    lines: CodedLines,
) -> None:
    batch = make_batch(api=unreachable())
    outcome = batch.run(message(), delivery())
    assert lines.codes == ["001", "003", "007"]
    assert lines.messages[2] == (
        f"AGGREGATION-007 failed to access API API. request:{REQUEST}, error: ApiUnreachable: no connection"
    )
    assert lines.of("007").levelno == logging.ERROR
    assert (outcome.ending, outcome.code, outcome.is_failure) == (Ending.FAILED, LogCode.API_FAILED, True)
    assert batch.locks.locks == {}


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (500, b"oops", "ApiStatusError: status 500, expected 200"),
        (302, b"", "ApiStatusError: status 302, expected 200"),
        (401, b'{"users": []}', "ApiStatusError: status 401, expected 200"),
        (200, b"<html>", "ApiPayloadError: the body is not JSON: Expecting value at character 0"),
        (200, b"\xff", "ApiPayloadError: the body is not UTF-8 at byte 0"),
        (200, b"[]", 'ApiPayloadError: the body is not a JSON object with a list "users"'),
        (200, b"{}", 'ApiPayloadError: the body is not a JSON object with a list "users"'),
        (200, b'{"users": {}}', 'ApiPayloadError: the body is not a JSON object with a list "users"'),
        (200, b'{"users": null}', 'ApiPayloadError: the body is not a JSON object with a list "users"'),
        (200, b'{"users": [], "users": []}', "ApiPayloadError: the body is not unambiguous: a key occurs twice"),
        (200, b'{"users": [NaN]}', "ApiPayloadError: the body is not JSON: NaN is no number"),
        (200, b"[" * 100_000, "ApiPayloadError: the body is nested too deeply"),
    ],
)
def test_aggregation_007_a_malformed_answer_ends_the_run_with_the_lock_released(
    lines: CodedLines, status: int, body: bytes, problem: str
) -> None:
    batch = make_batch(api=answering(status, body))
    outcome = batch.run(message(), delivery())
    assert lines.codes == ["001", "003", "007"]
    assert lines.messages[2].endswith(f"error: {problem}")
    assert outcome.is_failure
    assert batch.locks.locks == {}


def test_aggregation_007_a_key_that_cannot_be_looked_up_ends_the_run_with_the_lock_released(
    lines: CodedLines,
) -> None:
    def look_up_key(reference: SecretReference) -> ApiKey:
        raise ConfigurationError(str(reference), "no such secret")

    batch = make_batch(look_up_key=look_up_key)
    outcome = batch.run(AggregationMessage("acme", SecretReference("secretsmanager", "acme/key")), delivery())
    assert lines.codes == ["001", "003", "007"]
    assert lines.messages[2].endswith("error: ConfigurationError: secretsmanager:acme/key: no such secret")
    assert outcome.is_failure
    assert batch.locks.locks == {}


def test_aggregation_007_then_002_when_the_release_fails_as_well(lines: CodedLines) -> None:
    batch = make_batch(api=unreachable())
    batch.locks.trap = raising(StoreError("gone"), "release")
    outcome = batch.run(message(), delivery())
    assert lines.codes == ["001", "003", "007", "002"]
    assert outcome.code is LogCode.API_FAILED


def test_aggregation_008_shows_the_request_without_its_signature(lines: CodedLines) -> None:
    make_batch().run(message(), delivery())
    assert lines.messages[2] == f"AGGREGATION-008 success API API. request:{REQUEST}, error: none"
    assert lines.of("008").levelno == logging.INFO


def test_aggregation_009_a_user_who_was_never_detected_is_skipped(lines: CodedLines) -> None:
    batch = make_batch(user("u1", None))
    batch.run(message(), delivery())
    assert lines.messages[3] == (
        'AGGREGATION-009 event_timestamp is null. user:{"user_number": "u1", "event_timestamp": null}'
    )
    assert lines.of("009").levelno == logging.INFO
    assert batch.points.items == {}


def test_aggregation_010_a_user_who_was_not_detected_today_is_skipped(lines: CodedLines) -> None:
    batch = make_batch(user("u1", 1764601199))  # 2025-12-01T23:59:59+09:00
    batch.run(message(), delivery())
    assert lines.messages[3] == (
        "AGGREGATION-010 event_timestamp is older than yesterday. "
        'user:{"user_number": "u1", "event_timestamp": 1764601199}'
    )
    assert lines.of("010").levelno == logging.INFO
    assert batch.points.items == {}


def test_a_user_detected_at_the_days_first_second_gets_a_point(lines: CodedLines) -> None:
    batch = make_batch(user("u1", 1764601200))
    assert batch.run(message(), delivery()).tally.granted == 1


def test_aggregation_011_a_failed_points_update_goes_on_with_the_next_user(lines: CodedLines) -> None:
    batch = make_batch(user("u1", TODAY), user("u2", TODAY), user("u3", TODAY))
    batch.points.failing = {"u2"}
    outcome = batch.run(message(), delivery())
    assert lines.codes == ["001", "003", "008", "011", "012"]
    assert lines.messages[3] == (
        'AGGREGATION-011 failed to access DynamoDB. request:{"CompanyId": "acme", "UserMonth": "u2#202512"}, '
        "error: StoreError: UpdateItem: the table is out of reach"
    )
    assert lines.of("011").levelno == logging.ERROR
    assert sorted(user for _, user, _ in batch.points.items) == ["u1", "u3"]
    assert (outcome.tally.granted, outcome.tally.failed) == (2, 1)


def test_the_lines_about_users_come_in_the_order_of_the_answer(lines: CodedLines) -> None:
    batch = make_batch(
        user("u1", TODAY),
        user("u2", None),
        user("u3", TODAY),
        {"user_number": 4},
        user("u5", 1),
        user("u6", TODAY),
    )
    batch.points.failing = {"u1", "u6"}
    batch.points.grant("acme", ["u3"], point_day(NOON, batch.zone))
    outcome = batch.run(message(), delivery())
    assert lines.codes[3:-1] == ["011", "009", "013", "014", "010", "011"]
    assert outcome.tally.users == 6


def test_aggregation_011_makes_the_run_a_failure_that_the_redelivery_completes(lines: CodedLines) -> None:
    batch = make_batch(user("u1", TODAY), user("u2", TODAY))
    batch.points.failing = {"u2"}
    first = batch.run(message(), delivery("m1", "r1"))
    assert (first.ending, first.is_failure) == (Ending.INCOMPLETE, True)
    batch.points.failing = set()
    second = batch.run(message(), delivery("m1", "r2"))
    assert (second.ending, second.tally.granted, second.tally.already_granted) == (Ending.COMPLETED, 1, 1)


def test_aggregation_012_end_is_the_last_line_and_carries_the_tally(lines: CodedLines) -> None:
    make_batch(user("u1", TODAY), user("u2", None)).run(message(), delivery())
    record = lines.records[-1]
    assert record.getMessage() == "AGGREGATION-012 AGGREGATION Batch end."
    assert vars(record)["event"] == "aggregation.end"
    assert record.levelno == logging.INFO
    assert (record.granted, record.never_detected, record.failed) == (1, 1, 0)


def test_aggregation_013_a_user_granted_today_already_is_counted_and_not_a_fault(lines: CodedLines) -> None:
    batch = make_batch(user("u1", TODAY), user("u1", TODAY))
    outcome = batch.run(message(), delivery())
    assert lines.codes == ["001", "003", "008", "013", "012"]
    assert lines.messages[3] == (
        f'AGGREGATION-013 point already granted today. user:{{"user_number": "u1", "event_timestamp": {TODAY}}}'
    )
    assert lines.of("013").levelno == logging.INFO
    assert (outcome.ending, outcome.tally.already_granted) == (Ending.COMPLETED, 1)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("u1", "user: is not a JSON object"),
        (None, "user: is not a JSON object"),
        ({"user_number": "u1"}, "event_timestamp: is missing"),
        ({"event_timestamp": None}, "user_number: is not 1 to 128 printable characters without spaces"),
        (user("", TODAY), "user_number: is not 1 to 128 printable characters without spaces"),
        (user("a b", TODAY), "user_number: is not 1 to 128 printable characters without spaces"),
        (user("u" * 129, TODAY), "user_number: is not 1 to 128 printable characters without spaces"),
        (user(-1, TODAY), "user_number: is not 1 to 128 printable characters without spaces"),
        (user(True, TODAY), "user_number: is not 1 to 128 printable characters without spaces"),
        (user("u1", "1764644400"), "event_timestamp: is neither epoch seconds nor null"),
        (user("u1", 1764644400.5), "event_timestamp: is neither epoch seconds nor null"),
        (user("u1", True), "event_timestamp: is neither epoch seconds nor null"),
        (user("u1", -1), "event_timestamp: is neither epoch seconds nor null"),
        (user("u1", 10**12), "event_timestamp: is neither epoch seconds nor null"),
    ],
)
def test_aggregation_014_a_malformed_user_is_logged_and_skipped(
    lines: CodedLines, entry: object, problem: str
) -> None:
    batch = make_batch(entry, user("u2", TODAY))
    outcome = batch.run(message(), delivery())
    assert lines.codes == ["001", "003", "008", "014", "012"]
    assert lines.messages[3] == (
        f"AGGREGATION-014 malformed user skipped. user:{entry if isinstance(entry, str) else json.dumps(entry)}, "
        f"error: InvalidInput: {problem}"
    )
    assert lines.of("014").levelno == logging.ERROR
    assert (outcome.ending, outcome.tally.malformed, outcome.tally.granted) == (Ending.COMPLETED, 1, 1)


def test_aggregation_014_a_user_nested_as_deep_as_the_reader_allows_does_not_end_the_run(
    lines: CodedLines,
) -> None:
    for depth in range(50, 1000, 50):
        body = b'{"users": [{"user_number": "u1", "event_timestamp": %s}]}' % (b"[" * depth + b"]" * depth)
        outcome = make_batch(api=answering(200, body)).run(message(), delivery())
        assert outcome.code in (LogCode.END, LogCode.API_FAILED)


def test_a_user_number_that_is_a_json_integer_means_its_digits(lines: CodedLines) -> None:
    batch = make_batch(user(17, TODAY), user("17", TODAY))
    outcome = batch.run(message(), delivery())
    assert (outcome.tally.granted, outcome.tally.already_granted) == (1, 1)


def test_aggregation_015_a_lock_that_was_taken_over_is_reported_and_left_to_its_new_holder(
    lines: CodedLines,
) -> None:
    batch = make_batch(user("u1", TODAY))
    thief = Lock(NOON, "m2", "r2")
    batch.points.trap = lambda: batch.locks.locks.update(acme=thief)
    outcome = batch.run(message(), delivery())
    assert lines.codes == ["001", "003", "008", "015", "012"]
    item = ITEM % ("2025-12-02T03:00:00Z", "m2", "r2")
    assert lines.messages[3] == f"AGGREGATION-015 lock taken over by another run. item:{item}"
    assert lines.of("015").levelno == logging.ERROR
    assert outcome.ending is Ending.COMPLETED
    assert batch.locks.locks == {"acme": thief}


def test_a_run_that_a_redelivery_of_its_own_message_has_overtaken_cannot_release_its_lock(
    lines: CodedLines,
) -> None:
    batch = make_batch(user("u1", TODAY))
    successor = Lock(NOON, "m1", "r2")
    batch.points.trap = lambda: batch.locks.locks.update(acme=successor)
    batch.run(message(), delivery("m1", "r1"))
    assert batch.locks.locks == {"acme": successor}


def test_aggregation_016_a_run_that_nears_its_time_limit_stops_cleanly_and_is_delivered_again(
    lines: CodedLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_module, "CHUNK_USERS", 2)
    batch = make_batch(*(user(f"u{number}", TODAY) for number in range(5)))
    left = iter([900.0, 900.0, 29.0])
    outcome = batch.run(message(), delivery("m1", "r1", seconds_left=lambda: next(left)))
    assert lines.codes == ["001", "003", "008", "016"]
    assert lines.messages[3] == "AGGREGATION-016 stopped before the time limit. done:2, left:3"
    assert lines.of("016").levelno == logging.INFO
    assert (outcome.ending, outcome.is_failure, outcome.tally.granted) == (Ending.STOPPED, True, 2)
    assert batch.locks.locks == {}
    again = batch.run(message(), delivery("m1", "r2"))
    assert (again.tally.granted, again.tally.already_granted) == (3, 2)


def test_the_api_gets_no_more_time_than_the_run_has(lines: CodedLines) -> None:
    batch = make_batch()
    batch.run(message(), delivery(seconds_left=lambda: 42.0))
    batch.run(message(), delivery(seconds_left=lambda: 900.0))
    batch.run(message(), delivery(seconds_left=lambda: 3.0))
    assert [request.timeout_seconds for request in batch.api.requests] == [12.0, 30.0, 1.0]


@pytest.mark.parametrize("operation", ["read", "acquire", "release"])
def test_aggregation_999_anything_unexpected_from_the_lock_store_is_reported(
    lines: CodedLines, operation: str
) -> None:
    batch = make_batch()
    batch.locks.trap = raising(RuntimeError("a bug"), operation)
    outcome = batch.run(message(), delivery())
    assert lines.messages[-1] == "AGGREGATION-999 Unknown error."
    assert lines.of("999").levelno == logging.ERROR
    assert "RuntimeError: a bug" in lines.of("999").stack_info
    assert (outcome.ending, outcome.code, outcome.is_failure) == (Ending.FAILED, LogCode.UNKNOWN, True)


def test_aggregation_999_from_an_acquisition_that_was_made_after_all_releases_the_lock(lines: CodedLines) -> None:
    batch = make_batch()
    acquire = batch.locks.acquire

    def acquire_then_fail(company_id: str, seen: Lock | None, lock: Lock) -> Lock | None:
        acquire(company_id, seen, lock)
        raise RuntimeError("a bug after the write")

    batch.locks.acquire = acquire_then_fail  # type: ignore[method-assign]
    assert batch.run(message(), delivery()).code is LogCode.UNKNOWN
    assert batch.locks.locks == {}


def test_aggregation_999_anything_unexpected_from_the_api_releases_the_lock(lines: CodedLines) -> None:
    api = ScriptedUsersApi()
    api.answer = lambda request: raising(RuntimeError("a bug"))()
    batch = make_batch(api=api)
    assert batch.run(message(), delivery()).code is LogCode.UNKNOWN
    assert lines.codes == ["001", "003", "999"]
    assert batch.locks.locks == {}


def test_aggregation_999_anything_unexpected_from_the_points_releases_the_lock(lines: CodedLines) -> None:
    batch = make_batch(user("u1", TODAY))
    batch.points.trap = raising(RuntimeError("a bug"))
    assert batch.run(message(), delivery()).code is LogCode.UNKNOWN
    assert lines.codes == ["001", "003", "008", "999"]
    assert batch.locks.locks == {}


def test_aggregation_999_shows_both_faults_when_the_release_fails_unexpectedly_too(lines: CodedLines) -> None:
    batch = make_batch(user("u1", TODAY))
    batch.points.trap = raising(RuntimeError("the first bug"))
    batch.locks.trap = raising(RuntimeError("the second bug"), "release")
    assert batch.run(message(), delivery()).code is LogCode.UNKNOWN
    assert "the first bug" in lines.of("999").stack_info
    assert "the second bug" in lines.of("999").stack_info


def test_an_interrupt_releases_the_lock_on_its_way_out(lines: CodedLines) -> None:
    batch = make_batch(user("u1", TODAY))
    batch.points.trap = raising(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        batch.run(message(), delivery())
    assert batch.locks.locks == {}


# The table as a whole

TABLE = {
    "001": ("INFO", "AGGREGATION Batch start."),
    "002": ("ERROR", "failed to access DynamoDB. error: {error}"),
    "003": ("INFO", "dynamodb response. response: {response}"),
    "004": ("ERROR", "record locked too long. item:{item}"),
    "005": ("INFO", "locked record. item:{item}"),
    "006": ("ERROR", "failed to access DynamoDB. request:{request}, error: {error}"),
    "007": ("ERROR", "failed to access API API. request:{request}, error: {error}"),
    "008": ("INFO", "success API API. request:{request}, error: {error}"),
    "009": ("INFO", "event_timestamp is null. user:{user}"),
    "010": ("INFO", "event_timestamp is older than yesterday. user:{user}"),
    "011": ("ERROR", "failed to access DynamoDB. request:{request}, error: {error}"),
    "012": ("INFO", "AGGREGATION Batch end."),
    "999": ("ERROR", "Unknown error."),
}


def test_the_codes_of_the_specification_have_its_levels_and_wordings() -> None:
    ours = {code.code: (logging.getLevelName(code.level), code.template) for code in LogCode}
    for number, (level, wording) in TABLE.items():
        assert ours.pop(f"AGGREGATION-{number}") == (level, f"AGGREGATION-{number} {wording}")
    assert sorted(ours) == [f"AGGREGATION-{number}" for number in ("013", "014", "015", "016")]


def test_every_error_line_of_every_branch_has_a_stack_trace_and_no_info_line_has_one(lines: CodedLines) -> None:
    for spring in ("read", "acquire", "release"):
        batch = make_batch(user("u1", TODAY), "malformed", user("u2", TODAY))
        batch.locks.trap = raising(StoreError("gone"), spring)
        batch.locks.locks["acme"] = locked(timedelta(hours=3))
        batch.points.failing = {"u2"}
        batch.run(message(), delivery())
    make_batch(api=unreachable()).run(message(), delivery())
    make_batch(api=answering(200, b"{")).run(message(), delivery())
    make_batch(zone=None).run(message(), delivery())
    assert {record.code[-3:] for record in lines.records if record.levelno == logging.ERROR} >= {
        "002", "004", "006", "007", "011", "014",
    }  # fmt: skip
    for record in lines.records:
        assert bool(record.stack_info) is (record.levelno == logging.ERROR), record.getMessage()


def test_every_line_says_its_code_company_message_and_run(lines: CodedLines) -> None:
    make_batch(user("u1", TODAY)).run(message(), delivery("m7", "r7"))
    assert {(record.companyId, record.messageId, record.runId) for record in lines.records} == {
        ("acme", "m7", "r7")
    }
    assert [record.code[-3:] for record in lines.records] == lines.codes
