"""The wire formats: what is written reads back as the same value, and every refusal names its field."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from fakes.polled_api import write_answer
from kizami.core.answers.answer import Answer
from kizami.core.errors import ApiPayloadError, InvalidInput
from kizami.core.messages import (
    MAX_COUNT,
    ApiAnswer,
    BundleMessage,
    MetricRecord,
    ScheduleMessage,
    load_json,
    read_answer,
    read_bundle,
    read_message,
    read_record,
    write_bundle,
    write_message,
    write_record,
)
from kizami.core.slots import Window

START = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
WINDOW = Window(START, START + timedelta(seconds=5))
FROM, TO = "2025-12-02T10:23:00Z", "2025-12-02T10:23:05Z"


def message_body(**changes: Any) -> str:
    return json.dumps({"from": FROM, "to": TO} | changes)


def answer_body(count: str = "7", start: str = FROM, end: str = TO) -> str:
    return f'{{"from": "{start}", "to": "{end}", "count": {count}}}'


class TestScheduleMessage:
    def test_the_default_metric_gives_the_message_of_the_seeds_to_the_letter(self) -> None:
        assert write_message(ScheduleMessage(WINDOW)) == f'{{"from": "{FROM}", "to": "{TO}"}}'

    def test_another_metric_is_named_in_its_own_script(self) -> None:
        assert write_message(ScheduleMessage(WINDOW, "応答数")).endswith(', "metric": "応答数"}')

    @pytest.mark.parametrize("metric", ["ai_response_count", "cpu", "応答数", "a/b:c.d-e"])
    def test_what_is_written_reads_back(self, metric: str) -> None:
        message = ScheduleMessage(WINDOW, metric)
        assert read_message(write_message(message)) == message

    def test_requirement_2_1_the_window_is_taken_from_the_message(self) -> None:
        body = '{"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z"}'
        assert read_message(body) == ScheduleMessage(WINDOW, "ai_response_count")

    def test_a_named_default_metric_is_the_same_message(self) -> None:
        assert read_message(message_body(metric="ai_response_count")) == ScheduleMessage(WINDOW)

    @pytest.mark.parametrize("field", ["from", "to"])
    def test_a_missing_field_is_named(self, field: str) -> None:
        body = json.dumps({name: value for name, value in (("from", FROM), ("to", TO)) if name != field})
        with pytest.raises(InvalidInput, match=f"^{field}: is missing$"):
            read_message(body)

    @pytest.mark.parametrize("field", ["from", "to"])
    @pytest.mark.parametrize("value", [None, 5, True, "", "2025-12-02T10:23:05", ["x"], {"a": 1}])
    def test_a_bad_timestamp_is_named(self, field: str, value: object) -> None:
        with pytest.raises(InvalidInput, match=f"^{field}: .* is not a timestamp like"):
            read_message(message_body(**{field: value}))

    @pytest.mark.parametrize("metric", [None, 5, "", " ", "a b", "a\n", "x" * 129, ["a"]])
    def test_a_bad_metric_is_named(self, metric: object) -> None:
        with pytest.raises(InvalidInput, match=r"^metric: .* is not a metric name"):
            read_message(message_body(metric=metric))

    def test_a_window_that_runs_backward_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match=r"^from: must be before to$"):
            read_message(message_body(**{"from": TO, "to": FROM}))

    def test_an_unknown_field_is_refused_by_name(self) -> None:
        with pytest.raises(InvalidInput, match=r"^message: unknown field 'extra'$"):
            read_message(message_body(extra=1))

    @pytest.mark.parametrize("body", ["null", "[]", "5", '"text"', "true", "[" * 100 + "]" * 100])
    def test_what_is_no_object_is_refused(self, body: str) -> None:
        with pytest.raises(InvalidInput, match=r"^message: .* is not a JSON object$"):
            read_message(body)

    @pytest.mark.parametrize("body", ["", "{", "{'from': 1}", "nonsense", "{}}", "\ufeff{}"])
    def test_what_is_no_json_is_refused(self, body: str) -> None:
        with pytest.raises(InvalidInput, match=r"^message: not JSON: .* at character \d+$"):
            read_message(body)


class TestStrictJson:
    @pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
    def test_constants_that_only_python_knows_are_refused(self, constant: str) -> None:
        with pytest.raises(ValueError, match=f"^not JSON: {constant} is no number$"):
            load_json(f'{{"count": {constant}}}')

    @pytest.mark.parametrize(
        "body", ['{"a": 1, "a": 1}', '{"x": {"a": 1, "b": 2, "a": 3}}', r'{"a": 1, "\u0061": 2}']
    )
    def test_a_key_twice_is_refused_at_any_depth(self, body: str) -> None:
        with pytest.raises(ValueError, match=r"^not unambiguous: a key occurs twice$"):
            load_json(body)

    def test_what_is_not_utf_8_is_refused_with_its_place(self) -> None:
        with pytest.raises(ValueError, match=r"^not UTF-8 at byte 2$"):
            load_json(b'{"\xff": 1}')

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
    def test_other_encodings_are_refused(self, encoding: str) -> None:
        with pytest.raises(ValueError, match=r"^not (UTF-8|JSON)"):
            load_json(answer_body().encode(encoding))

    def test_a_byte_order_mark_is_accepted(self) -> None:
        assert load_json(answer_body().encode("utf-8-sig")) == load_json(answer_body())

    @pytest.mark.parametrize("opening", ["[", '{"a":'])
    def test_nesting_without_end_is_refused(self, opening: str) -> None:
        with pytest.raises(ValueError, match=r"^nested too deeply$"):
            load_json(opening * 100_000)

    @pytest.mark.parametrize("number", ["1" * 5000, "-" + "9" * 100_000, "1" + "0" * 400])
    def test_a_number_of_hundreds_of_digits_is_refused(self, number: str) -> None:
        with pytest.raises(ValueError, match=r"a number has too many digits$"):
            load_json(number)


class TestApiAnswer:
    @pytest.mark.parametrize("count", [0, 1, 65, MAX_COUNT])
    def test_what_is_written_reads_back(self, count: int) -> None:
        answer = ApiAnswer(WINDOW, count)
        assert read_answer(write_answer(answer)) == answer
        assert read_answer(write_answer(answer).encode()) == answer

    def test_requirement_2_3_from_to_and_count_are_read_from_the_json_answer(self) -> None:
        assert read_answer(answer_body("65")) == ApiAnswer(WINDOW, 65)

    def test_further_fields_of_an_answer_are_passed_over(self) -> None:
        body = answer_body()[:-1] + ', "note": {"a": [1.5, null, "x"]}}'
        assert read_answer(body) == ApiAnswer(WINDOW, 7)

    @pytest.mark.parametrize(
        "count",
        [
            *("-1", "5.0", "5.5", "1e2", "-0.0", "1e400", "true", "false", "null", '"5"', '""'),
            *("[5]", "{}", '{"count": 5}', "[" * 100 + "]" * 100, str(MAX_COUNT + 1), "-" + "9" * 300),
        ],
    )
    def test_a_count_that_is_no_integer_from_0_to_2_to_the_53_is_refused(self, count: str) -> None:
        with pytest.raises(ApiPayloadError, match=r"^count: .* is not an integer from 0 to 2\^53-1$"):
            read_answer(answer_body(count))

    def test_the_largest_count_is_the_largest_integer_that_every_json_reader_keeps(self) -> None:
        assert read_answer(answer_body("9007199254740991")).count == 9_007_199_254_740_991

    def test_minus_zero_is_the_integer_zero(self) -> None:
        assert read_answer(answer_body("-0")).count == 0

    @pytest.mark.parametrize("count", ["NaN", "Infinity", "9" * 5000, "[" * 100_000, '5, "count": 5'])
    def test_a_count_that_makes_the_body_unreadable_is_refused(self, count: str) -> None:
        with pytest.raises(ApiPayloadError, match=r"^the body is (not|nested) "):
            read_answer(answer_body(count))

    @pytest.mark.parametrize("body", [b"<html>busy</html>", b"\xff\xfe{}", b"OK"])
    def test_a_body_that_is_no_json_is_refused(self, body: bytes) -> None:
        with pytest.raises(ApiPayloadError, match=r"^the body is not (JSON|UTF-8)"):
            read_answer(body)

    @pytest.mark.parametrize("body", ["[]", "5", "null", '"x"', f"[{answer_body()}]"])
    def test_a_body_that_is_no_object_is_refused(self, body: str) -> None:
        with pytest.raises(ApiPayloadError, match=r"^the body is not a JSON object but (an array|5|null|'x')$"):
            read_answer(body)

    @pytest.mark.parametrize(
        ("field", "words"),
        [
            ("from", "from: is missing"),
            ("to", "to: is missing"),
            ("count", "count is missing; the answer has from, to"),
        ],
    )
    def test_a_missing_field_is_named(self, field: str, words: str) -> None:
        fields = json.loads(answer_body())
        del fields[field]
        with pytest.raises(ApiPayloadError, match=f"^{words}$"):
            read_answer(json.dumps(fields))

    def test_a_bad_timestamp_is_named(self) -> None:
        with pytest.raises(ApiPayloadError, match=r"^to: '2025-12-02' is not an ISO 8601 date-time"):
            read_answer(answer_body(end="2025-12-02"))
        with pytest.raises(ApiPayloadError, match=r"^from: must be before to$"):
            read_answer(answer_body(start=TO, end=FROM))

    @pytest.mark.parametrize("value", ["5", "null", "[]", '{"a": 1}', "true"])
    def test_a_timestamp_that_is_no_text_is_named(self, value: str) -> None:
        with pytest.raises(ApiPayloadError, match=r"^to: .* is not a timestamp like"):
            read_answer(answer_body().replace(f'"{TO}"', value))

    def test_an_api_that_echoes_no_window_is_taken_at_its_word(self) -> None:
        assert read_answer('{"count": 3}', Answer(), WINDOW) == ApiAnswer(WINDOW, 3)


class TestMetricRecord:
    RECORD = MetricRecord("ai_response_count", START, 7, START + timedelta(seconds=6))
    ITEM = {  # noqa: RUF012
        "metricName": "ai_response_count",
        "slotTime": FROM,
        "count": 7,
        "collectedAt": "2025-12-02T10:23:06Z",
    }

    def test_requirement_3_1_a_record_has_the_names_of_the_table(self) -> None:
        assert write_record(self.RECORD) == self.ITEM

    def test_what_is_written_reads_back(self) -> None:
        assert read_record(write_record(self.RECORD)) == self.RECORD

    def test_the_time_of_collection_is_kept_to_the_second_so_that_it_reads_back(self) -> None:
        tokyo = timezone(timedelta(hours=9))
        arrived = datetime(2025, 12, 2, 19, 23, 6, 999_999, tzinfo=tokyo)
        assert MetricRecord("ai_response_count", START, 7, arrived) == self.RECORD

    def test_a_naive_time_of_collection_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="has no time zone"):
            MetricRecord("ai_response_count", START, 7, datetime(2025, 12, 2))  # noqa: DTZ001

    @pytest.mark.parametrize("count", [0, MAX_COUNT, -MAX_COUNT, 0.1, -12.25])
    def test_the_smallest_and_the_largest_count_read_back(self, count: float) -> None:
        assert read_record(self.ITEM | {"count": count}).count == count

    def test_a_bare_seed_item_was_collected_at_its_slot(self) -> None:
        bare = {name: value for name, value in self.ITEM.items() if name != "collectedAt"}
        assert read_record(bare).collected_at == START

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("metricName", None),
            ("metricName", "a b"),
            ("slotTime", None),
            ("slotTime", "2025-12-02"),
            ("count", None),
            ("count", True),
            ("count", "1"),
            ("count", float("nan")),
            ("count", float("inf")),
            ("count", MAX_COUNT + 1),
            ("count", -MAX_COUNT - 1),
            ("collectedAt", 5),
            ("collectedAt", ""),
        ],
    )
    def test_a_bad_attribute_is_named(self, field: str, value: object) -> None:
        with pytest.raises(InvalidInput, match=f"^{field}: "):
            read_record(self.ITEM | {field: value})


class TestBundles:
    def test_one_of_several_metrics_reads_back(self) -> None:
        bundle = BundleMessage(WINDOW, ("a", "b"))
        assert json.loads(write_bundle(bundle)) == {"from": FROM, "to": TO, "metrics": ["a", "b"]}
        assert read_bundle(write_bundle(bundle)) == bundle

    def test_one_of_one_metric_is_the_message_about_it(self) -> None:
        assert write_bundle(BundleMessage(WINDOW, ("a",))) == write_message(ScheduleMessage(WINDOW, "a"))
        assert read_bundle(message_body(metric="a")) == BundleMessage(WINDOW, ("a",))

    @pytest.mark.parametrize("metrics", [[], "a", ["a", "a"], [1], ["a b"], [f"m{n}" for n in range(101)], None])
    def test_what_is_no_list_of_metrics_is_refused(self, metrics: object) -> None:
        with pytest.raises(InvalidInput, match="metrics"):
            read_bundle(message_body(metrics=metrics))

    def test_one_metric_and_several_are_not_both_said(self) -> None:
        with pytest.raises(InvalidInput, match="without metric"):
            read_bundle(message_body(metric="a", metrics=["b"]))
