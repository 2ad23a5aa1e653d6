"""What is believed of an answer: its window, what it must say, its value and the bounds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kizami.core.answers.answer import Answer, parse_refuse, parse_require
from kizami.core.answers.values import Expression, parse_expression
from kizami.core.errors import ApiPayloadError, InvalidInput
from kizami.core.messages import ApiAnswer, read_answer
from kizami.core.slots import Window

START = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)
WINDOW = Window(START, START + timedelta(seconds=5))
FROM, TO = '"from": "2025-12-02T10:23:00Z"', '"to": "2025-12-02T10:23:05Z"'


def read(body: str, **settings: Any) -> int:
    return read_answer(body, Answer(**settings), WINDOW).count


def refused(body: str, **settings: Any) -> ApiPayloadError:
    with pytest.raises(ApiPayloadError) as raised:
        read(body, **settings)
    return raised.value


def refusal(body: str, **settings: Any) -> str:
    return str(refused(body, **settings))


def remedy(body: str, **settings: Any) -> str:
    return refused(body, **settings).remedy


class TestEcho:
    def test_it_is_checked_where_the_answer_has_both(self) -> None:
        elsewhere = f'{{{FROM}, "to": "2025-12-02T10:23:10Z", "count": 3}}'
        found = read_answer(elsewhere, Answer(), WINDOW)
        assert found == ApiAnswer(Window(START, START + timedelta(seconds=10)), 3)

    def test_it_is_not_asked_for_where_the_answer_has_neither(self) -> None:
        assert read('{"count": 3}') == 3
        assert read("[3]", count=Expression(("0",))) == 3

    @pytest.mark.parametrize(("there", "lacking"), [(FROM, "to"), (TO, "from")])
    def test_one_alone_is_refused(self, there: str, lacking: str) -> None:
        assert refusal(f'{{{there}, "count": 3}}') == f"{lacking}: is missing"

    def test_two_that_are_no_instants_are_refused_with_the_remedy(self) -> None:
        body = '{"from": 0, "to": 20, "count": 3}'
        assert refusal(body) == "from: 0 is not a timestamp like 2025-12-02T10:23:05Z"
        assert remedy(body) == "echo = false, if from and to name no window"
        assert read('{"from": 0, "to": 20, "count": 3}', echo=False) == 3

    def test_true_demands_it(self) -> None:
        assert refusal('{"count": 3}', echo=True) == "from: is missing"


class TestRequire:
    REQUIRE = parse_require({"/has_more": False, "status": "success", "/page": 1, "/v": 1.5})

    @pytest.mark.parametrize("page", ["1", "1.0", "10e-1"])
    def test_an_answer_that_says_it_is_taken(self, page: str) -> None:
        body = f'{{"has_more": false, "status": "success", "page": {page}, "v": 1.50, "count": 3}}'
        assert read(body, require=self.REQUIRE) == 3

    @pytest.mark.parametrize(
        ("pointer", "wanted", "found", "words"),
        [
            ("/has_more", False, "true", "require: /has_more is true, where false must stand"),
            ("/has_more", False, "0", "require: /has_more is 0, where false must stand"),
            ("/page", 1, "true", "require: /page is true, where 1 must stand"),
            ("/page", 1, '"1"', 'require: /page is "1", where 1 must stand'),
            ("/page", 1, "2", "require: /page is 2, where 1 must stand"),
            ("/page", "1", "1", 'require: /page is 1, where "1" must stand'),
            ("/page", 1, "null", "require: /page is null, where 1 must stand"),
            ("/page", 1, "[]", "require: /page is an array, where 1 must stand"),
        ],
    )
    def test_one_that_says_something_else_is_refused(
        self, pointer: str, wanted: bool | int | str, found: str, words: str
    ) -> None:
        body = f'{{"{pointer[1:]}": {found}, "count": 3}}'
        assert refusal(body, require=parse_require({pointer: wanted})) == words

    def test_one_that_does_not_say_it_is_refused(self) -> None:
        words = refusal('{"count": 3, "hasMore": false}', require=parse_require({"/has_more": False}))
        assert words == "require: /has_more is missing, where false must stand; the answer has count, hasMore"


class TestRefuse:
    @pytest.mark.parametrize("there", ["null", "false", "0", '""', "[]", "{}"])
    def test_what_means_nothing_may_stand_there(self, there: str) -> None:
        assert read(f'{{"count": 3, "error": {there}}}', refuse=parse_refuse(["/error"])) == 3
        assert read('{"count": 3}', refuse=parse_refuse(["/error", "/results/0/error"])) == 3

    @pytest.mark.parametrize(
        ("there", "words"),
        [('"partial"', "'partial'"), ("true", "true"), ("[0]", "an array"), ('{"a": 1}', "an object"), ("1", "1")],
    )
    def test_anything_else_is_refused(self, there: str, words: str) -> None:
        refused = refusal(f'{{"count": 3, "error": {there}}}', refuse=parse_refuse(["/error"]))
        assert refused == f"refuse: /error is {words}, where nothing must stand"

    def test_it_comes_before_a_part_that_may_be_missing(self) -> None:
        assert (
            refusal(
                '{"results": [{"error": "timeout"}]}',
                count=parse_expression("/results/0/series/0/n"),
                zero_if_missing=parse_expression("/results/0/series"),
                refuse=parse_refuse(["/results/0/error"]),
            )
            == "refuse: /results/0/error is 'timeout', where nothing must stand"
        )


class TestBounds:
    @pytest.mark.parametrize("text", ["1", "5", '"5.0"'])
    def test_what_lies_within_them_is_believed(self, text: str) -> None:
        assert read(f'{{"count": {text}}}', minimum=1, maximum=5) in (1, 5)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("0", "count is 0, which is below min = 1"),
            ("6", "count is 6, which is above max = 5"),
            ('"-3"', "count is -3, which is below min = 1"),
            ("1e400", "count is …, which is above max = 5"),
        ],
    )
    def test_what_lies_beyond_is_refused(self, text: str, words: str) -> None:
        assert refusal(f'{{"count": {text}}}', minimum=1, maximum=5) == words

    def test_by_default_they_are_0_and_what_every_json_reader_keeps(self) -> None:
        assert (Answer().lowest, Answer().highest) == (0, 2**53 - 1)
        assert refusal('{"count": -1}') == "count is -1, which is below min = 0"

    def test_a_negative_bound_allows_negative_values(self) -> None:
        assert read('{"count": -5}', minimum=-10) == -5

    def test_600_of_the_largest_fit_64_bits(self) -> None:
        for decimals in range(10):
            assert 600 * Answer(decimals=decimals).highest < 2**63

    @pytest.mark.parametrize(("decimals", "most"), [(0, "9007199254740991"), (2, "9999999999999.99")])
    def test_a_bound_that_cannot_be_kept_is_refused(self, decimals: int, most: str) -> None:
        with pytest.raises(InvalidInput, match=rf"^max: must be from -{most} to {most}, as decimals = {decimals}"):
            Answer(decimals=decimals, maximum=10**16)


class TestDecimals:
    @pytest.mark.parametrize(
        ("text", "decimals", "units"),
        [
            ("0.1", 1, 1),
            ('"12.34"', 2, 1234),
            ("12", 2, 1200),
            ("1e-2", 2, 1),
            ("9999999999999.99", 2, 999_999_999_999_999),
            ("0.30000000000000004", 2, 30),
            ("0.125", 2, 12),
            ("0.135", 2, 14),
            ("-0.125", 2, -12),
            ("1e-400", 2, 0),
        ],
    )
    def test_so_many_places_are_kept_exactly(self, text: str, decimals: int, units: int) -> None:
        assert read(f'{{"count": {text}}}', decimals=decimals, minimum=-1) == units

    def test_a_fraction_is_refused_with_the_setting_that_keeps_it(self) -> None:
        for text in ("12.5", '"12.5"', "1.25e1"):
            assert refusal(f'{{"count": {text}}}') == "count is 12.5, not a whole number"
            assert remedy(f'{{"count": {text}}}') == "decimals = 1 keeps its decimal places"

    @pytest.mark.parametrize("decimals", [-1, 10, True, 1.0])
    def test_so_many_places_cannot_be_kept(self, decimals: Any) -> None:
        with pytest.raises(InvalidInput, match=r"^decimals: .* is not a whole number from 0 to 9$"):
            Answer(decimals=decimals)


class TestText:
    @pytest.mark.parametrize("body", ["12", " 12\n", "1.2e1", "+12"])
    def test_the_body_is_the_number(self, body: str) -> None:
        assert read(body, format="text", count=Expression()) == 12

    def test_anything_else_is_refused(self) -> None:
        assert refusal("busy", format="text", count=Expression()) == "the body is 'busy', not a number"
        with pytest.raises(ApiPayloadError, match=r"^the body is not UTF-8 at byte 0$"):
            read_answer(b"\xff", Answer(format="text", count=Expression()), WINDOW)


def test_equal_answers_are_equal_values() -> None:
    first = Answer(count=parse_expression("/count"), require=parse_require({"a": 1}))
    assert first == Answer(count=parse_expression("count"), require=parse_require({"/a": 1}))
    assert hash(first) == hash(replace(first))
