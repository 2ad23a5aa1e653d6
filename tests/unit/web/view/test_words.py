"""The words: both languages say the same things, numbers and durations read as people write them."""

from __future__ import annotations

import re
import string
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.core.coverage import Completeness
from kizami.web.view import words as words_module
from kizami.web.view.render import breakable, phrased
from kizami.web.view.words import LANGUAGES, choose_language, compact, exact_number, number, percent, words_in


def placeholders(phrase: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(phrase) if name}


def test_both_languages_have_the_same_phrases_with_the_same_values() -> None:
    english, japanese = (words_in(language).phrases for language in LANGUAGES)
    assert english.keys() == japanese.keys()
    for key, phrase in english.items():
        # The form for one may spell the number out.
        assert placeholders(phrase) - {"n"} == placeholders(japanese[key]) - {"n"}, key


def test_japanese_is_japanese() -> None:
    same = {"json", "csv", "zone_utc", "unit.none", "other_language", "verdict.comma"}
    for key, phrase in words_in("ja").phrases.items():
        assert (
            key in same or re.search(r"[ぁ-んァ-ヶ一-龠、。〜]", phrase) or not re.search(r"[a-z]{3}", phrase)
        ), key


def test_one_has_a_form_of_its_own() -> None:
    words = words_in("en")
    assert [words("verdict.gaps", n) for n in (1, 2, 1234)] == ["1 gap", "2 gaps", "1,234 gaps"]
    assert words("cell.count", count=3) == "count 3"


def test_a_section_goes_to_the_script_as_it_stands() -> None:
    section = words_in("en").section("action")
    assert section["sent"] == "{n} slots are on their way."
    assert all("." not in key for key in section)


@pytest.mark.parametrize(
    ("seconds", "english", "japanese"),
    [
        (0, "0 s", "0秒"),
        (0.25, "250 ms", "250 ms"),
        (59.9, "59 s", "59秒"),
        (60, "1 min", "1分"),
        (125, "2 min 5 s", "2分5秒"),
        (7_260, "2 h 1 min", "2時間1分"),
        (86_400, "1 d", "1日"),
        (90_061, "1 d 1 h", "1日1時間"),
        (-5, "0 s", "0秒"),
    ],
)
def test_durations_have_their_two_largest_units(seconds: float, english: str, japanese: str) -> None:
    assert words_in("en").duration(timedelta(seconds=seconds)) == english
    assert words_in("ja").duration(seconds) == japanese


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 ms"), (999, "999 ms"), (1000, "1 s"), (9_990, "9.9 s"), (75_000, "1 min 15 s")]
)
def test_short_times(value: int, text: str) -> None:
    assert words_in("en").milliseconds(value) == text


def test_a_count_fits_into_a_cell_whatever_its_size() -> None:
    counts = (0, 99_999, 100_000, 123_456, 1_004_999, 12_345_678, 999_999_999, 2**53 - 1)
    assert [compact(count) for count in counts] == [
        "0", "99,999", "100K", "123K", "1.00M", "12.3M", "999M", "9007T",
    ]  # fmt: skip


def test_a_count_with_decimal_places_fits_too() -> None:
    counts = (0.1, 12.345, 1234.5, 99_999.5, 123_456.75, 0.05, 0.00003, -12.345, -123_456)
    assert [compact(count) for count in counts] == [
        "0.1", "12.34", "1,234", "99,999", "123K", "0.05", "3e-05", "-12.34", "-123K",
    ]  # fmt: skip
    assert [exact_number(count) for count in (0.00003, -1234.567, 1234567)] == [
        "0.00003",
        "-1,234.567",
        "1,234,567",
    ]


def test_numbers_are_grouped() -> None:
    assert [number(value) for value in (0, 1234567, 3.0, 2.456, 0.1)] == ["0", "1,234,567", "3", "2.46", "0.1"]


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_only_the_whole_is_one_hundred_percent(stored: int, lacking: int) -> None:
    text = percent(Completeness(stored, stored + lacking))
    assert (text == "100%") == (lacking == 0)


@pytest.mark.parametrize(
    ("wishes", "header", "chosen"),
    [
        ((), "", "en"),
        ((), "ja", "ja"),
        ((), "ja-JP,ja;q=0.9,en;q=0.8", "ja"),
        ((), "fr-FR,fr;q=0.9,en;q=0.2,ja;q=0.1", "en"),
        ((), "de;q=1, en;q=0.5, ja;q=0.7", "ja"),
        ((), "zh,ko", "en"),
        ((), "ja;q=x,,;;q=", "ja"),
        (("ja",), "en", "ja"),
        ((None, "en"), "ja", "en"),
        (("xx", "<script>"), "ja", "ja"),
    ],
)
def test_the_reader_s_wish_outranks_the_browser_s(
    wishes: tuple[str | None, ...], header: str, chosen: str
) -> None:
    assert choose_language(*wishes, accept_language=header) == chosen


@given(st.text())
def test_no_header_can_break_the_choice(header: str) -> None:
    assert choose_language(accept_language=header) in LANGUAGES


def test_every_phrase_that_the_code_asks_for_is_there() -> None:
    backend = Path(words_module.__file__).parent.parent
    texts = [path.read_text("utf-8") for path in backend.rglob("*") if path.suffix in (".py", ".html")]
    asked = {key for text in texts for key in re.findall(r'words\("([\w.]+)"(?=[,)])', text)}
    assert len(asked) > 80
    assert asked <= words_in("en").phrases.keys()


@pytest.mark.parametrize(
    ("sentence", "phrases"),
    [
        ("All 12 stored; 1,234 gaps, 1 dead.", ["All 12 stored;", "1,234 gaps,", "1 dead."]),
        ("保存済みです。欠落なし、失敗 1件。", ["保存済みです。", "欠落なし、", "失敗 1件。"]),
    ],
)
def test_a_sentence_breaks_between_its_phrases_and_reads_the_same(sentence: str, phrases: list[str]) -> None:
    marked = phrased(sentence)
    assert re.findall(r'<span class="phrase">(.*?)</span>', marked) == phrases
    assert marked.striptags() == sentence


def test_a_name_breaks_after_its_separators_and_stays_text() -> None:
    assert breakable("orders/tokyo_1") == "orders/<wbr>tokyo_<wbr>1"
    assert breakable("<b>") == "&lt;b&gt;"
