"""The drawing of a metric: what is stored is drawn, what is not is left open and marked."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.backend.figures.gathering import gather
from kizami.backend.figures.summary import Aggregate, summarize
from kizami.backend.targets import KnownTarget
from kizami.backend.values import Bucket
from kizami.cli.terminal.plot import ASCII, BRAILLE, MARGIN, Column, column_edges, column_of, draw, scale_text
from kizami.core.coverage import Span
from samples.database import T0, at


def columns_of(
    counts: list[int | None], most: int, aggregate: Aggregate | None = None, first_slot: int = 0
) -> list[Column]:
    """One count a slot, or none where it is None; slots are expected from the first on."""
    edges = column_edges(Span(T0, at(len(counts)), 5), most)
    pieces = [Bucket(at(n), 1, count, count, count) for n, count in enumerate(counts) if count is not None]
    target = KnownTarget("calls", 5, 5, at(first_slot))
    figures = summarize(target, edges, gather(edges, pieces), at(len(counts) + 100))
    return [column_of(figure, 5, aggregate) for figure in figures]


def drawing(counts: list[int | None], width: int, height: int) -> list[str]:
    """The plane of an ASCII drawing and its axis, without the margin."""
    lines = draw(columns_of(counts, width), width, height, ASCII)
    return [line[MARGIN:].ljust(width) for line in lines]


def test_a_whole_line_is_drawn_through() -> None:
    assert drawing([0, 1, 2, 3], 4, 4) == [
        "   *",
        "  **",
        " ** ",
        "**  ",
        "----",
    ]


def test_values_below_zero_are_drawn_below_it() -> None:
    lines = draw(columns_of([-2, 0, 1], 3), 3, 4, ASCII)
    assert [line[:MARGIN].strip(" |+") for line in lines] == ["1", "", "", "-2", ""]
    assert [line[MARGIN:] for line in lines] == ["  *", " **", " *", "**", "---"]


def test_a_gap_is_a_hole_and_no_line_leads_across_it() -> None:
    assert drawing([3, 3, None, None, 0, 0], 6, 4) == [
        "**    ",
        "      ",
        "      ",
        "    **",
        "--##--",
    ]


def test_a_gap_within_a_column_breaks_the_line_and_is_marked() -> None:
    # Two slots a column: of the second column one slot is stored, so nothing joins it to the third.
    plane = drawing([0, 0, 0, None, 9, 9], 3, 4)
    assert plane == ["  *", "   ", "   ", "** ", "-.-"]


def test_a_column_of_many_slots_reaches_from_the_least_to_the_greatest_count() -> None:
    assert drawing([0, 9, 0, 9], 1, 3) == ["*", "*", "*", "-"]


def test_a_column_can_be_at_one_figure_of_its_slots() -> None:
    assert [column.high for column in columns_of([1, 2, 3, 4], 2, Aggregate.SUM)] == [3, 7]
    assert [column.low for column in columns_of([1, 2, 3, 4], 2, Aggregate.MEAN)] == [1.5, 3.5]


def test_what_was_never_expected_is_open_but_not_marked() -> None:
    columns = columns_of([None, None, 1, 1], 4, first_slot=2)
    assert [line[MARGIN:] for line in draw(columns, 4, 2, ASCII)] == ["  **", "", "----"]


def test_braille_has_two_by_four_dots_a_character() -> None:
    lines = draw(columns_of([0, 1, 2, 3], 4), 2, 1, BRAILLE)
    # From the bottom left to the top right, each count joined to the one before.
    assert lines == ["     0 │⣠⠞", "       └──"]


def test_the_scale_has_the_greatest_count_and_zero() -> None:
    lines = draw(columns_of([0, 250], 2), 10, 3, ASCII)
    assert [line[: MARGIN - 2].strip() for line in lines] == ["250", "", "0", ""]


@pytest.mark.parametrize(
    ("count", "text"), [(7, "7"), (999_999, "999999"), (1_000_000, "1.0e6"), (2**53 - 1, "9.0e15")]
)
def test_the_scale_fits_its_margin(count: int, text: str) -> None:
    assert scale_text(count) == text


def test_nothing_at_all_can_be_drawn() -> None:
    assert [line.strip() for line in draw(columns_of([], 4), 4, 2, ASCII)] == ["1 |", "0 |", "+----"]
    assert [line.strip() for line in draw(columns_of([None, None], 4), 4, 2, ASCII)] == ["1 |", "0 |", "+####"]


@given(st.integers(0, 5000), st.integers(1, 300))
def test_columns_share_out_the_slots_without_remainder(slots: int, most: int) -> None:
    edges = column_edges(Span(T0, at(slots), 5), most)
    lengths = {(later - earlier).total_seconds() // 5 for earlier, later in pairwise(edges)}
    assert (edges[0], edges[-1], len(edges)) == (T0, at(slots), min(slots, most) + 1)
    assert not lengths or max(lengths) - min(lengths) <= 1


@given(st.lists(st.none() | st.integers(0, 50), min_size=1, max_size=200), st.integers(1, 40))
def test_a_column_without_a_record_is_blank_and_every_gap_is_marked(counts: list[int | None], width: int) -> None:
    columns = columns_of(counts, width)
    lines = [line[MARGIN:].ljust(width) for line in draw(columns, width, 6, ASCII)]
    for x in range(width):
        blank = all(line[x] == " " for line in lines[:-1])
        column = columns[x * len(columns) // width]
        assert blank == (column.stored == 0)
        assert (lines[-1][x] == "-") == (column.stored == column.expected)
