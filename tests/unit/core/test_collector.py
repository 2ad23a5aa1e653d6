"""The Collector's decisions: the request for a message, and what an answer must be to become a record."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from kizami.core.answers.answer import Answer, parse_values
from kizami.core.answers.values import Expression, parse_expression
from kizami.core.collector import (
    Request,
    Response,
    is_missed,
    plan_request,
    read_count,
    read_records,
    read_response,
    request_url,
    retry_after_seconds,
)
from kizami.core.errors import ApiPayloadError, ApiStatusError, InvalidInput
from kizami.core.messages import MetricRecord, ScheduleMessage, write_record
from kizami.core.slots import Window, format_instant, shift
from kizami.core.targets.references import SecretReference
from kizami.core.targets.target import SEED_TARGET, Target

START = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
WINDOW = Window(START, shift(START, 5))
MESSAGE = ScheduleMessage(WINDOW)
QUERY = "from=2025-12-02T10%3A23%3A00Z&to=2025-12-02T10%3A23%3A05Z"
NOW = shift(START, 6.5)


def answer(count: object = 7, **changes: object) -> bytes:
    fields = {"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z", "count": count} | changes
    return json.dumps(fields).encode()


class TestRequest:
    def test_requirement_2_2_the_window_is_asked_for_in_iso_8601(self) -> None:
        assert plan_request(MESSAGE, SEED_TARGET) == Request(
            url=f"http://127.0.0.1:3000/response_count?{QUERY}", headers={}, timeout_seconds=10.0
        )

    @pytest.mark.parametrize(
        ("base", "asked"),
        [
            ("http://h", f"http://h/response_count?{QUERY}"),
            ("http://h/", f"http://h/response_count?{QUERY}"),
            ("http://h//", f"http://h/response_count?{QUERY}"),
            ("http://h/prod", f"http://h/prod/response_count?{QUERY}"),
            ("http://h/prod/", f"http://h/prod/response_count?{QUERY}"),
            ("http://h/a//b", f"http://h/a//b/response_count?{QUERY}"),
            ("http://h?region=eu", f"http://h/response_count?region=eu&{QUERY}"),
            ("http://h/prod/?a=1&b=%20x", f"http://h/prod/response_count?a=1&b=%20x&{QUERY}"),
            ("http://h?", f"http://h/response_count?{QUERY}"),
            ("http://h:8080", f"http://h:8080/response_count?{QUERY}"),
            ("https://h:/v1", f"https://h:/v1/response_count?{QUERY}"),
            ("http://[::1]:3000", f"http://[::1]:3000/response_count?{QUERY}"),
            ("http://[fe80::1%25eth0]", f"http://[fe80::1%25eth0]/response_count?{QUERY}"),
            ("http://h/%E6%97%A5%2Fx", f"http://h/%E6%97%A5%2Fx/response_count?{QUERY}"),
            ("HTTPS://API.Example.COM/V1", f"https://API.Example.COM/V1/response_count?{QUERY}"),
        ],
    )
    def test_any_base_url_keeps_its_parts(self, base: str, asked: str) -> None:
        assert request_url(Target(url=base), WINDOW) == asked

    @pytest.mark.parametrize(
        ("path", "asked"),
        [
            ("/{from}/{to}", "http://h/2025-12-02T10%3A23%3A00Z/2025-12-02T10%3A23%3A05Z"),
            ("/c?t={to}&f={from}&x=1", "http://h/c?t=2025-12-02T10%3A23%3A05Z&f=2025-12-02T10%3A23%3A00Z&x=1"),
            (
                "//evil.example/{from}{to}",
                "http://h//evil.example/2025-12-02T10%3A23%3A00Z2025-12-02T10%3A23%3A05Z",
            ),
            ("/c?a=?{from}&{to}", "http://h/c?a=?2025-12-02T10%3A23%3A00Z&2025-12-02T10%3A23%3A05Z"),
        ],
    )
    def test_any_path_template_is_filled_in_and_never_changes_the_host(self, path: str, asked: str) -> None:
        assert request_url(Target(url="http://h", path=path), WINDOW) == asked
        assert urlsplit(asked).netloc == "h"

    def test_the_plus_of_no_offset_can_be_misread_as_a_space(self) -> None:
        """Times go out in UTC with `Z`, percent-encoded, so what is read back is what was asked."""
        assert parse_qs(urlsplit(request_url(SEED_TARGET, WINDOW)).query) == {
            "from": ["2025-12-02T10:23:00Z"],
            "to": ["2025-12-02T10:23:05Z"],
        }

    def test_headers_stay_references_and_the_limits_are_the_targets(self) -> None:
        secret = SecretReference("env", "API_TOKEN")
        request = plan_request(MESSAGE, Target(headers={"Authorization": secret}, timeout_seconds=2.5))
        assert request.headers == {"Authorization": secret}
        assert (request.timeout_seconds, request.max_body_bytes) == (2.5, 1_048_576)
        assert hash(request) == hash(plan_request(MESSAGE, Target(timeout_seconds=2.5)))

    def test_a_message_for_another_metric_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match=r"^metric: cpu is not ai_response_count$"):
            plan_request(ScheduleMessage(WINDOW, "cpu"), SEED_TARGET)

    @pytest.mark.parametrize(
        ("start", "seconds", "problem"),
        [(3, 5, "^from: .* is not on a 5-second boundary"), (0, 10, "^to: must be 5 seconds after from, not 10$")],
    )
    def test_a_window_that_is_no_slot_of_the_target_is_refused(
        self, start: int, seconds: int, problem: str
    ) -> None:
        first = shift(START, start)
        with pytest.raises(InvalidInput, match=problem):
            plan_request(ScheduleMessage(Window(first, shift(first, seconds))), SEED_TARGET)


class TestResponse:
    def test_a_valid_answer_becomes_the_record_of_its_slot(self) -> None:
        record = read_response(Response(200, answer(65)), MESSAGE, SEED_TARGET, NOW)
        assert record == MetricRecord("ai_response_count", START, 65, shift(START, 6))

    @pytest.mark.parametrize("metric", ["ai_response_count", "応答数"])
    def test_requirement_3_1_the_record_has_the_name_of_the_metric(self, metric: str) -> None:
        message = ScheduleMessage(WINDOW, metric)
        assert read_response(Response(200, answer()), message, Target(name=metric), NOW).metric == metric

    @pytest.mark.parametrize("delay", range(0, 60, 5))
    def test_requirement_3_2_the_record_stands_on_the_slot_that_its_window_starts_with(self, delay: int) -> None:
        window = Window(shift(START, delay), shift(START, delay + 5))
        body = answer(**{"from": format_instant(window.start), "to": format_instant(window.end)})
        record = read_response(Response(200, body), ScheduleMessage(window), SEED_TARGET, NOW)
        assert write_record(record)["slotTime"] == f"2025-12-02T10:23:{delay:02}Z"

    @pytest.mark.parametrize("count", [0, 7, 2**53 - 1])
    def test_requirement_3_3_the_record_has_the_count_of_the_answer_as_a_number(self, count: int) -> None:
        record = read_response(Response(200, answer(count)), MESSAGE, SEED_TARGET, NOW)
        assert write_record(record)["count"] == count

    @pytest.mark.parametrize("status", [100, 201, 202, 204, 206, 301, 302, 304, 307, 400, 401, 404, 429, 500, 503])
    def test_any_status_but_200_is_an_error_even_with_a_valid_body(self, status: int) -> None:
        with pytest.raises(ApiStatusError, match=f"^status {status}, expected 200$") as refusal:
            read_response(Response(status, answer(), retry_after="30"), MESSAGE, SEED_TARGET, NOW)
        assert (refusal.value.status, refusal.value.retry_after_seconds) == (status, 30.0)

    @pytest.mark.parametrize(
        ("start", "end"),
        [
            ("2025-12-02T10:23:05Z", "2025-12-02T10:23:10Z"),
            ("2025-12-02T10:22:55Z", "2025-12-02T10:23:05Z"),
            ("2025-12-02T10:23:00Z", "2025-12-02T10:23:10Z"),
            ("2024-12-02T10:23:00Z", "2024-12-02T10:23:05Z"),
        ],
    )
    def test_an_answer_about_another_window_is_refused(self, start: str, end: str) -> None:
        body = answer(**{"from": start, "to": end})
        with pytest.raises(
            ApiPayloadError, match=f"^from, to: the answer is about {start} to {end}, which was not"
        ):
            read_response(Response(200, body), MESSAGE, SEED_TARGET, NOW)

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"null",
            b"<html></html>",
            b"{}",
            b"\xff",
            answer("7"),
            answer(True),
            answer(7.0),
            answer(-1),
            answer(None),
        ],
    )
    def test_a_body_that_is_no_answer_is_refused(self, body: bytes) -> None:
        with pytest.raises(ApiPayloadError):
            read_response(Response(200, body), MESSAGE, SEED_TARGET, NOW)

    @pytest.mark.parametrize(
        ("start", "end"),
        [
            ("2025-12-02T10:23:00.000Z", "2025-12-02T10:23:05.000Z"),
            ("2025-12-02T10:23:00+00:00", "2025-12-02T10:23:05+00:00"),
            ("2025-12-02T19:23:00+09:00", "2025-12-02T19:23:05.0+09:00"),
            ("2025-12-02T10:23Z", "20251202T102305Z"),
            ("2025-12-02T10:23:00Z", "2025-W49-2T10:23:05,000000000Z"),
        ],
    )
    def test_the_window_may_come_back_in_any_form_of_iso_8601(self, start: str, end: str) -> None:
        body = answer(**{"from": start, "to": end})
        assert read_response(Response(200, body), MESSAGE, SEED_TARGET, NOW).count == 7

    @pytest.mark.parametrize(
        ("end", "words"),
        [
            (
                "2025-12-02T10:23:05.5Z",
                "2025-12-02T10:23:00Z to 2025-12-02T10:23:05.500000Z, which was not asked for",
            ),
            ("2025-12-02T19:23:05Z", "2025-12-02T10:23:00Z to 2025-12-02T19:23:05Z, which was not asked for"),
            ("2025-12-02T10:23:05", "not an ISO 8601 date-time with an offset"),
        ],
    )
    def test_another_instant_is_refused_in_whatever_form(self, end: str, words: str) -> None:
        with pytest.raises(ApiPayloadError, match=words):
            read_response(Response(200, answer(to=end)), MESSAGE, SEED_TARGET, NOW)

    def test_a_target_that_echoes_nothing_is_taken_at_its_word(self) -> None:
        target = Target(name="cpu", answer=Answer(echo=False, count=Expression(("data", "0"))))
        record = read_response(Response(200, b'{"data": [3]}'), ScheduleMessage(WINDOW, "cpu"), target, NOW)
        assert record == MetricRecord("cpu", START, 3, NOW)

    def test_a_target_that_must_echo_and_does_not_is_refused(self) -> None:
        with pytest.raises(ApiPayloadError, match=r"^from: is missing$"):
            read_response(Response(200, b'{"count": 3}'), MESSAGE, SEED_TARGET, NOW)

    @pytest.mark.parametrize(("status", "body", "count"), [(204, b"", 0), (200, b'{"count": 3}', 3)])
    def test_a_listed_204_without_a_body_is_zero(self, status: int, body: bytes, count: int) -> None:
        target = Target(answer=Answer(status=(200, 204)))
        assert read_count(Response(status, body), MESSAGE, target) == count

    def test_an_empty_204_is_no_answer_where_the_window_must_be_echoed(self) -> None:
        target = Target(answer=Answer(status=(200, 204), echo=True))
        with pytest.raises(ApiPayloadError, match=r"^the body is empty$"):
            read_count(Response(204, b""), MESSAGE, target)

    def test_an_unexpected_status_is_named_with_those_that_are_expected(self) -> None:
        target = Target(answer=Answer(status=(200, 404)))
        with pytest.raises(ApiStatusError, match=r"^status 204, expected 200 or 404$"):
            read_count(Response(204, b""), MESSAGE, target)

    def test_a_header_gives_the_value_and_the_body_is_not_looked_at(self) -> None:
        target = Target(answer=Answer(count=parse_expression("header:X-Total-Count")))
        assert plan_request(MESSAGE, target).wanted_headers == {"x-total-count"}
        response = Response(200, b"<html>", headers={"x-total-count": " 1200 "})
        assert read_count(response, MESSAGE, target) == 1200
        with pytest.raises(ApiPayloadError, match=r"^header:X-Total-Count is missing$"):
            read_count(Response(200, b"[]"), MESSAGE, target)

    def test_several_values_of_one_answer_are_a_record_each(self) -> None:
        values = parse_values({"requests": "/a", "errors": "sum(/b/*)"})
        target = Target(name="usage", answer=Answer(values=values, decimals=1, status=(200, 204)))
        message = ScheduleMessage(WINDOW, "usage")
        found = read_records(Response(200, b'{"a": "1.5", "b": [1, 2]}'), message, target, NOW)
        assert [(each.metric, each.count) for each in found] == [("usage/requests", 1.5), ("usage/errors", 3)]
        assert [each.count for each in read_records(Response(204, b""), message, target, NOW)] == [0, 0]
        with pytest.raises(ApiPayloadError, match=r"^sum\(/b/\*\): /b is missing; the answer has a$"):
            read_records(Response(200, b'{"a": 1}'), message, target, NOW)

    def test_a_plain_target_wants_no_header(self) -> None:
        assert plan_request(MESSAGE, SEED_TARGET).wanted_headers == frozenset()

    def test_a_naive_clock_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="has no time zone"):
            read_response(Response(200, answer()), MESSAGE, SEED_TARGET, NOW.replace(tzinfo=None))


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("header", "seconds"),
        [
            *[("0", 0), ("5", 5), (" 120 ", 120), ("0000000000005", 5), ("3600", 3600), ("3601", 3600)],
            *[("9" * 5000, 3600), ("0" * 5000 + "7", 7)],
        ],
    )
    def test_seconds_are_read_and_bounded_by_an_hour(self, header: str, seconds: float) -> None:
        assert retry_after_seconds(header) == seconds

    @pytest.mark.parametrize(
        "header", [None, "", " ", "-5", "+5", "1.5", "5s", "５", "²", "Wed, 21 Oct 2026 07:28:00 GMT"]
    )
    def test_anything_else_says_nothing(self, header: str | None) -> None:
        assert retry_after_seconds(header) is None


def test_a_request_is_planned_for_a_slot_of_long_ago() -> None:
    """Every request names its window, so any past slot can be asked for again."""
    old = ScheduleMessage(Window(START - timedelta(days=365), shift(START - timedelta(days=365), 5)))
    assert "from=2024-12-02T10%3A23%3A00Z" in plan_request(old, SEED_TARGET).url


@pytest.mark.parametrize(("late", "missed"), [(-1, False), (0, False), (4.999, False), (5, True), (3600, True)])
@pytest.mark.parametrize("lag", [0, 5, 60])
def test_an_api_that_can_only_say_now_is_asked_until_the_next_slot_is_due(
    late: float, missed: bool, lag: int
) -> None:
    target = Target(lag_seconds=lag, backfill=False)
    now = shift(MESSAGE.window.start, lag + late)
    assert is_missed(MESSAGE, target, now) is missed
    assert not is_missed(MESSAGE, Target(lag_seconds=lag), now)
