"""Tables that align in any script, and fit a terminal without losing a character."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.cli.terminal import tables
from kizami.cli.terminal.tables import cell_width, fits, fold, hanging, pad, table_lines

COLUMNS = (("metric", False), ("count", True))


@pytest.mark.parametrize(
    ("text", "width"),
    [("calls", 5), ("応答数", 6), ("ｱｲ", 2), ("é", 1), ("e\u0301", 1), ("a\u200db", 2), ("Ａ", 2), ("", 0)],
)
def test_width_is_counted_in_cells_of_the_terminal(text: str, width: int) -> None:
    assert cell_width(text) == width
    assert cell_width(pad(text, 9)) == cell_width(pad(text, 9, right=True)) == 9


def test_columns_align_whatever_script_they_are_in() -> None:
    lines = table_lines(COLUMNS, [("応答数", "7"), ("calls", "1234567")])
    assert lines == ["metric    count", "応答数        7", "calls   1234567"]
    assert {cell_width(line) for line in lines} == {15}


def test_nothing_is_folded_where_no_terminal_is() -> None:
    assert tables.terminal_width() is None
    assert fits(COLUMNS, [("x" * 500, "1")])
    assert cell_width(table_lines(COLUMNS, [("x" * 500, "1")])[1]) == 507
    assert hanging("queue", "word " * 99, 10) == ["queue     " + "word " * 99]


def test_headings_are_folded_before_words_and_words_before_nothing() -> None:
    columns = (("service", False), ("after free tier", True))
    assert (
        table_lines(columns, [("requests of a month", "$1")], room=80)[0] == "service              after free tier"
    )
    assert table_lines(columns, [("requests of a month", "$1")], room=26) == [
        *("service              after", "                      free", "                      tier"),
        "requests of a month     $1",
    ]
    assert table_lines(columns, [("requests of a month", "$1")], room=20)[-2:] == [
        "requests of a     $1",
        "month",
    ]


def test_a_last_column_of_many_words_stands_below_its_row_where_it_has_no_room() -> None:
    columns = (("metric", False), ("slot", False), ("reason", False))
    reason = "status 404, expected 200; check the target's url and path"
    assert table_lines(columns, [("calls/of/somebody", "2025-12-02T10:31:05Z", reason)], room=60) == [
        "metric             slot",
        "calls/of/somebody  2025-12-02T10:31:05Z",
        "    status 404, expected 200; check the target's url and",
        "    path",
    ]


def test_words_that_are_wider_than_a_line_are_broken() -> None:
    assert fold("応答数が多い", 4) == ["応答", "数が", "多い"]
    assert fold("see https://api.example.com/v1 there", 12) == ["see https://", "api.example.", "com/v1 there"]
    assert fold("", 4) == [""]


def test_what_hangs_beside_a_name_is_folded_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    as_on_a_terminal(monkeypatch, columns=30)
    assert hanging("dead", "two letters of one metric", 10) == ["dead      two letters of one", "          metric"]
    assert not fits(COLUMNS, [("x" * 30, "1")])


def test_headings_are_bold_and_rows_coloured_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, colours = [["calls", "1"]], ["red"]
    plain = ["metric  count", "calls       1"]
    assert table_lines(COLUMNS, rows, colours) == plain  # type: ignore[arg-type]
    as_on_a_terminal(monkeypatch, columns=80)
    assert table_lines(COLUMNS, rows, colours) == [  # type: ignore[arg-type]
        "\x1b[1mmetric  count\x1b[0m",
        "\x1b[31mcalls       1\x1b[0m",
    ]
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert table_lines(COLUMNS, rows, colours) == plain  # type: ignore[arg-type]


def as_on_a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))


words = st.text(st.sampled_from("ab .-/応答e\u0301"), max_size=60)


@given(st.lists(st.tuples(words, words, st.integers(0, 10**6).map(str), words), max_size=4), st.integers(60, 100))
def test_every_line_fits_and_no_character_is_lost(rows: list[tuple[str, ...]], room: int) -> None:
    columns = (("metric", False), ("where it is", False), ("count", True), ("reason", False))
    lines = table_lines(columns, rows, room=room)
    assert all(cell_width(line) <= room for line in lines)
    headings, shown = "".join(name for name, _ in columns), "".join(lines)
    for character in "ab.-/応答":
        given_ones = headings.count(character) + sum(text.count(character) for row in rows for text in row)
        assert shown.count(character) >= given_ones - ("reason".count(character))  # its heading may stand nowhere
