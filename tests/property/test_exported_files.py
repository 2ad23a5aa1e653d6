"""Whatever is exported reads back as it was, and no spreadsheet computes any of it."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from typing import Any

import pyarrow.parquet
from hypothesis import given, settings
from hypothesis import strategies as st

from kizami.backend.columns import RecordColumns
from kizami.cli.terminal.record_formats import EXCEL, write_csv_columns, write_jsonl, write_parquet
from kizami.core.answers.numbers import MAX_DECIMALS, largest_units
from kizami.core.epoch import from_ms, from_seconds, to_ms, to_seconds
from kizami.core.slots import format_second
from samples.strategies import instants

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@st.composite
def pieces(draw: st.DrawFn) -> RecordColumns:
    """Some records of a metric with any name that a foreign program may have written."""
    decimals = draw(st.integers(0, MAX_DECIMALS))
    most = largest_units(decimals)
    rows = draw(st.lists(st.tuples(instants, st.integers(-most, most), instants), min_size=1, max_size=5))
    slots, units, collected = zip(*rows, strict=True)
    name = draw(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20))
    return RecordColumns(name, decimals, [*map(to_seconds, slots)], units, [*map(to_ms, collected)])


def _rows(exported: list[RecordColumns]) -> list[tuple[str, int, Decimal, int]]:
    return [
        (piece.metric, slot, Decimal(units).scaleb(-piece.decimals), ms)
        for piece in exported
        for slot, units, ms in zip(piece.slots, piece.units, piece.collected_ms, strict=True)
    ]


def _written(exported: list[RecordColumns]) -> list[tuple[str, str, Decimal, str]]:
    return [
        (name, format_second(from_seconds(slot)), count, format_second(from_ms(ms)))
        for name, slot, count, ms in _rows(exported)
    ]


# **Feature: data-collection-scheduler, Property 50: Whatever is exported reads back as it was**
@given(exported=st.lists(pieces(), max_size=4))
@settings(max_examples=100)
def test_exports_round_trip(exported: list[RecordColumns]) -> None:
    text, lines, file = io.StringIO(), io.StringIO(), io.BytesIO()
    write_csv_columns(exported, text)
    found = [*csv.reader(io.StringIO(text.getvalue(), newline=""))][1:]
    assert [(name, slot, Decimal(count), at) for name, slot, count, at in found] == _written(exported)
    write_jsonl(exported, lines)
    objects = (json.loads(line, parse_float=Decimal).values() for line in lines.getvalue().split("\n") if line)
    assert [(name, slot, Decimal(count), at) for name, slot, count, at in objects] == _written(exported)
    write_parquet(exported, file, MAX_DECIMALS)
    rows: list[dict[str, Any]] = pyarrow.parquet.read_table(io.BytesIO(file.getvalue())).to_pylist()
    read = [(name, to_seconds(slot), count, to_ms(at)) for name, slot, count, at in (row.values() for row in rows)]
    assert read == _rows(exported)


# **Feature: data-collection-scheduler, Property 51: No exported name is a formula to a spreadsheet**
@given(exported=st.lists(pieces(), max_size=4))
@settings(max_examples=100)
def test_no_name_is_computed(exported: list[RecordColumns]) -> None:
    text = io.StringIO()
    write_csv_columns(exported, text, EXCEL)
    found = [*csv.reader(io.StringIO(text.getvalue().removeprefix("\ufeff"), newline=""))][1:]
    assert not any(name.startswith(_FORMULA) for name, *_ in found)
    assert [name.removeprefix("'") for name, *_ in found] == [row[0].removeprefix("'") for row in _rows(exported)]
