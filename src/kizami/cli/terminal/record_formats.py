"""Records as files: CSV, JSON lines and Parquet, written as they are read, so that any number fits into memory."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import IO, Any

from kizami.backend.columns import RecordColumns, after_slots
from kizami.core.epoch import InstantTexts
from kizami.core.errors import ConfigurationError
from kizami.core.slots import format_second

COLUMNS = ("metricName", "slotTime", "count", "collectedAt")
_ROW_GROUP = 100_000

# What a spreadsheet would compute, also where it stands behind blanks or is a full-width character.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


@dataclass(frozen=True, slots=True)
class CsvForm:
    """How a table is written as CSV: for programs, or as a spreadsheet opens it rightly."""

    start: str = ""
    line_end: str = "\n"
    is_for_people: bool = False

    def cells(self, texts: Sequence[str]) -> str:
        """The texts as cells of a line, quoted where need be."""
        line = io.StringIO()
        shown = [_harmless(text) for text in texts] if self.is_for_people else texts
        csv.writer(line).writerow(shown)  # with its own line end, whose characters it then quotes
        return line.getvalue().removesuffix("\r\n")

    def instant(self, text: str) -> str:
        """An instant as it is on the wire, in this form: to a spreadsheet it is one only without a zone."""
        return text.replace("T", " ").removesuffix("Z") if self.is_for_people else text

    def instant_texts(self) -> InstantTexts:
        """The instants of many records."""
        return InstantTexts(lambda instant: self.instant(format_second(instant)))


PLAIN = CsvForm()
EXCEL = CsvForm("\ufeff", "\r\n", is_for_people=True)  # the mark says that it is UTF-8


def _harmless(text: str) -> str:
    return f"'{text}" if text.lstrip(" \u3000").startswith(_FORMULA) else text


def write_csv_columns(pieces: Iterable[RecordColumns], file: IO[str], form: CsvForm = PLAIN) -> None:
    """A heading and one line a record, metric by metric, with the names of the `AiResponseMetrics` table."""
    file.write(form.start + form.cells(COLUMNS) + form.line_end)
    texts = form.instant_texts()
    for piece in pieces:
        parts = f"{form.cells([piece.metric])},", ",", ",", form.line_end
        file.write(piece.lines(parts, texts).decode())


def write_jsonl(pieces: Iterable[RecordColumns], file: IO[str]) -> None:
    """One JSON object a line."""
    texts = InstantTexts()
    for piece in pieces:
        file.write(piece.json_objects("\n", texts).decode())


def write_parquet(pieces: Iterable[RecordColumns], file: IO[bytes], decimals: int = 0) -> None:
    """The same columns with types of their own: timestamps in UTC, and 64-bit counts or exact decimals."""
    arrow, parquet = import_pyarrow()
    instant = arrow.timestamp("ms", tz="UTC")
    number = arrow.decimal128(38, decimals) if decimals else arrow.int64()
    types = (arrow.dictionary(arrow.int32(), arrow.string()), instant, number, instant)
    schema = arrow.schema([arrow.field(*column, nullable=False) for column in zip(COLUMNS, types, strict=True)])
    # The times of a metric hardly differ from one record to the next, so their differences are kept.
    near = dict.fromkeys((COLUMNS[1], COLUMNS[3]), "delta_binary_packed".upper())
    options = {"compression": "zstd", "use_dictionary": [COLUMNS[0]], "column_encoding": near}
    with parquet.ParquetWriter(file, schema, **options) as writer:
        for group in _row_groups(pieces):
            batches = [_batch(arrow, schema, metric, of_metric) for metric, of_metric in group]
            writer.write_table(arrow.Table.from_batches(batches).unify_dictionaries())


def _row_groups(pieces: Iterable[RecordColumns]) -> Iterator[Iterable[tuple[Any, Iterator[RecordColumns]]]]:
    """Pieces enough for a row group, those of each metric together."""
    group: list[RecordColumns] = []
    rows = 0
    for piece in pieces:
        group.append(piece)
        rows += len(piece)
        if rows >= _ROW_GROUP:
            yield _by_metric(group)
            group, rows = [], 0
    if group:
        yield _by_metric(group)


def _by_metric(group: list[RecordColumns]) -> Iterable[tuple[Any, Iterator[RecordColumns]]]:
    return groupby(group, lambda piece: (piece.metric, piece.decimals))


def _batch(arrow: Any, schema: Any, metric: tuple[str, int], pieces: Iterable[RecordColumns]) -> Any:
    name, decimals = metric
    slots: list[int] = []
    units: list[int] = []
    after: list[int] = []
    for piece in pieces:
        slots += piece.slots
        units += piece.units
        after += after_slots(piece.collected_ms, piece.slots)
    # Whole numbers until the end: Arrow reads those twice as fast as times, and adds them up itself.
    of_slots, counts, of_after = (arrow.array(numbers, arrow.int64()) for numbers in (slots, units, after))
    begun_ms = arrow.compute.multiply(of_slots, 1000)
    indices = arrow.repeat(arrow.scalar(0, arrow.int32()), len(slots))
    columns = [
        arrow.DictionaryArray.from_arrays(indices, arrow.array([name])),
        begun_ms.view(schema.field(1).type),
        _numbers(arrow, counts, decimals, schema.field(2).type),
        arrow.compute.add(begun_ms, of_after).view(schema.field(3).type),
    ]
    return arrow.record_batch(columns, schema=schema)


def _numbers(arrow: Any, units: Any, decimals: int, number: Any) -> Any:
    """Units as the numbers they are; the file may have more decimal places than this metric."""
    if number == arrow.int64():
        return units
    return units.cast(arrow.decimal128(38, number.scale - decimals)).view(number)


def import_pyarrow() -> tuple[Any, Any]:
    """The library that writes Parquet, else ConfigurationError."""
    try:
        import pyarrow
        import pyarrow.compute
        from pyarrow import parquet
    except ImportError:
        problem = "needs pyarrow, which is not installed; pip install 'kizami[parquet]'"
        raise ConfigurationError("--format parquet", problem) from None
    return pyarrow, parquet
