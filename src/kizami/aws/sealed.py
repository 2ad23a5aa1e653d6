"""What is sealed, in DynamoDB: spans of metrics, summaries of bundles, and figures of days.

    (`#hour <metric>`, "<span start>/<interval>")  `d` packed slots, `e` decimals of their counts, `n` version
    (`#sum <bundle>`, span start)                  `p` the summary, `n` version
    (`#day <metric>`, "<day>/<interval>")          `h00` … `h23`: version and figures of the hours of a span

Spans and summaries are inserted as version 1, and changed only from the version that was read to the next. The
figures of a span begin with its version and are replaced only by those of a higher one; an attribute is named for
the first hour that the span has in that day. `expiresAt` is when DynamoDB may remove an item.

Slots and starts are seconds since 1970.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, TypeVar

from kizami.aws.client.json_client import Fields
from kizami.aws.dynamodb import change_item, execute_statements, get_items, read_items, read_pages
from kizami.aws.invocation import TimeLeft
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.errors import InvalidInput, StoreError
from kizami.core.merging import HourFigures, MetricSlots, read_figures, version_bytes, write_figures
from kizami.core.sealed_spans import (
    COLUMNS,
    HOUR,
    Column,
    Names,
    PackedSlots,
    SlotColumns,
    span_seconds,
    span_start,
)
from kizami.core.sealing import DAY
from kizami.core.slots import format_instant, parse_instant
from kizami.core.summaries import BundleSummary, read_summary, write_summary

SPANS, SUMMARIES, DAYS = "#hour ", "#sum ", "#day "
Found = TypeVar("Found")

_REFUSED = {"", "DuplicateItem", "ConditionalCheckFailed"}  # what another run, or this one before, has written


class SpanKey(NamedTuple):
    """Which span or day of a metric, whose slots have this interval."""

    metric: str
    start: int
    interval_seconds: int


class SummaryKey(NamedTuple):
    """Which span of a bundle."""

    bundle: str
    start: int


@dataclass(frozen=True, slots=True)
class SpanItem:
    """The sealed slots of one metric in a span, packed."""

    key: SpanKey
    version: int
    decimals: int
    data: bytes

    def columns(self, names: Names = COLUMNS) -> list[Column]:
        """Return the columns of these names; StoreError if they cannot be read."""
        try:
            return PackedSlots(self.data).columns(names)
        except (IndexError, ValueError, zlib.error) as error:
            raise StoreError(
                f"the span {_sort_key(self.key)} of {self.key.metric} cannot be read: {error}"
            ) from None

    def unpack(self) -> MetricSlots:
        """Return all columns; StoreError if they cannot be read."""
        return MetricSlots(SlotColumns(*self.columns()), self.decimals)


class SummaryItem(NamedTuple):
    """A summary, and the version that the next one replaces."""

    version: int
    summary: BundleSummary


class FiguresOfSpan(NamedTuple):
    """The figures of a span's hours. A higher version replaces them; 0 is written only where there are none."""

    key: SpanKey
    version: int
    hours: Sequence[HourFigures]


class SealedItems:
    """The sealed items of a table. StoreError."""

    def __init__(self, table: str, time_left: TimeLeft = lambda: inf) -> None:
        self._table = table
        self._time_left = time_left

    # Spans

    def write_spans(self, spans: Sequence[SpanItem], expires_at: Mapping[str, int]) -> None:
        """Write these versions where theirs is the next one; read back what is there then. 25 are one call."""
        self._execute([self._span_statement(span, expires_at.get(span.key.metric)) for span in spans])

    def spans_at(self, keys: Iterable[SpanKey], *, consistent: bool = True) -> dict[SpanKey, SpanItem]:
        """Return the spans of these keys that there are; 100 are one call."""
        wanted = [_key(SPANS + key.metric, _sort_key(key)) for key in keys]
        items = get_items(self._time_left, self._table, wanted, consistent=consistent)
        return {span.key: span for span in (_read(_span_of, item) for item in items)}

    def spans(
        self, metric: str, interval_seconds: int, first: int, end: int, *, consistent: bool = True
    ) -> Iterator[SpanItem]:
        """Return the spans of a metric and interval that have a part in [first, end), oldest first."""
        start = span_start(first, span_seconds(interval_seconds))
        for item in self._between(SPANS + metric, start, end, consistent):
            span = _read(_span_of, item)
            if span.key.interval_seconds == interval_seconds:
                yield span

    def newest_span(self, metric: str, end: int) -> SpanItem | None:
        """Return the newest span of a metric that begins before `end`."""
        request = {
            "TableName": self._table,
            "KeyConditionExpression": "metricName = :partition AND slotTime < :end",
            "ExpressionAttributeValues": {":partition": {"S": SPANS + metric}, ":end": {"S": _time(end)}},
            "ScanIndexForward": False,
            "Limit": 1,
            "ConsistentRead": True,
        }
        page = next(read_pages(self._time_left, "Query", request))
        return next((_read(_span_of, item) for item in page.get("Items", ())), None)

    def _span_statement(self, span: SpanItem, expires_at: int | None) -> Fields:
        values = {"d": _binary(span.data), "e": _number(span.decimals), "n": _number(span.version)}
        if expires_at is not None:
            values["expiresAt"] = _number(expires_at)
        key = _key(SPANS + span.key.metric, _sort_key(span.key))
        return self._insert(key, values) if span.version == 1 else self._update(key, values, span.version - 1)

    # Summaries

    def write_summary(
        self, key: SummaryKey, summary: BundleSummary, seen: int | None, expires_at: int | None = None
    ) -> bool:
        """Write the version after the one that was seen (None: there was none); False if another run has."""
        item = {
            **_key(SUMMARIES + key.bundle, _time(key.start)),
            "p": _binary(write_summary(summary)),
            "n": _number((seen or 0) + 1),
            **({} if expires_at is None else {"expiresAt": _number(expires_at)}),
        }
        request: Fields = {"TableName": self._table, "Item": item}
        if seen is None:
            request["ConditionExpression"] = "attribute_not_exists(metricName)"
        else:
            request["ConditionExpression"] = "n = :seen"
            request["ExpressionAttributeValues"] = {":seen": _number(seen)}
        return change_item(self._time_left, "PutItem", request)

    def change_summary(self, key: SummaryKey, summary: BundleSummary, seen: int) -> bool:
        """Write the version after the one that was seen, and nothing else; False if another run has written it."""
        request: Fields = {
            "TableName": self._table,
            "Key": _key(SUMMARIES + key.bundle, _time(key.start)),
            "UpdateExpression": "SET p = :p, n = :next",
            "ConditionExpression": "n = :seen",
            "ExpressionAttributeValues": {
                ":p": _binary(write_summary(summary)),
                ":next": _number(seen + 1),
                ":seen": _number(seen),
            },
        }
        return change_item(self._time_left, "UpdateItem", request)

    def summaries_at(
        self, keys: Iterable[SummaryKey], *, consistent: bool = True
    ) -> dict[SummaryKey, SummaryItem]:
        """Return the summaries of these keys that there are; 100 are one call."""
        wanted = [_key(SUMMARIES + key.bundle, _time(key.start)) for key in keys]
        items = get_items(self._time_left, self._table, wanted, consistent=consistent)
        return dict(_read(_summary_of, item) for item in items)

    def summaries(
        self, bundle: str, interval_seconds: int, first: int, end: int, *, consistent: bool = True
    ) -> Iterator[BundleSummary]:
        """Return the summaries of a bundle's spans that have a part in [first, end), oldest first."""
        start = span_start(first, span_seconds(interval_seconds))
        for item in self._between(SUMMARIES + bundle, start, end, consistent):
            yield _read(_summary_of, item)[1].summary

    # Figures of days

    def write_figures(self, figures: Iterable[FiguresOfSpan], expires_at: Mapping[SpanKey, int]) -> None:
        """Write the figures of spans where there are none, or those of a lower version."""
        parts = [part for each in figures for part in _parts_by_day(each)]
        updates = [self._figures_update(part, expires_at.get(part.day)) for part in parts]
        codes = self._execute(updates)
        # An update changes no item that is not there, so it failed for each day's first hour.
        left = [number for number, code in enumerate(codes) if code]
        inserts = [self._figures_insert(parts[number], expires_at.get(parts[number].day)) for number in left]
        codes = self._execute(inserts)
        self._execute([updates[number] for number, code in zip(left, codes, strict=True) if code])

    def days_at(self, keys: Iterable[SpanKey], *, consistent: bool = False) -> dict[SpanKey, list[HourFigures]]:
        """Return the figures of these days that there are, by hour; 100 are one call."""
        wanted = [_key(DAYS + key.metric, _sort_key(key)) for key in keys]
        items = get_items(self._time_left, self._table, wanted, consistent=consistent)
        return dict(_read(_day_of, item) for item in items)

    def days(
        self, metric: str, interval_seconds: int, first: int, end: int, *, consistent: bool = False
    ) -> Iterator[HourFigures]:
        """Return the figures of the hours of a metric and interval that begin in [first, end), oldest first."""
        for item in self._between(DAYS + metric, first - first % DAY, end, consistent):
            key, hours = _read(_day_of, item)
            if key.interval_seconds == interval_seconds:
                yield from (each for each in hours if first <= each.start < end)

    def _figures_update(self, part: _FiguresOfDay, expires_at: int | None) -> Fields:
        names, values = [part.attribute], [_binary(part.data)]
        if expires_at is not None:
            names, values = [*names, "expiresAt"], [*values, _number(expires_at)]
        changes = " ".join(f"SET {name} = ?" for name in names)
        condition = f"({part.attribute} IS MISSING OR {part.attribute} < ?)"
        statement = f'UPDATE "{self._table}" {changes} WHERE metricName = ? AND slotTime = ? AND {condition}'
        key = _key(DAYS + part.day.metric, _sort_key(part.day))
        return {"Statement": statement, "Parameters": [*values, *key.values(), _binary(part.version)]}

    def _figures_insert(self, part: _FiguresOfDay, expires_at: int | None) -> Fields:
        values = {part.attribute: _binary(part.data)}
        if expires_at is not None:
            values["expiresAt"] = _number(expires_at)
        return self._insert(_key(DAYS + part.day.metric, _sort_key(part.day)), values)

    # Parts

    def _insert(self, key: Fields, values: Fields) -> Fields:
        item = {**key, **values}
        names = ", ".join(f"'{name}': ?" for name in item)
        return {
            "Statement": f'INSERT INTO "{self._table}" VALUE {{{names}}}',
            "Parameters": list(item.values()),
        }

    def _update(self, key: Fields, values: Fields, seen: int) -> Fields:
        changes = " ".join(f"SET {name} = ?" for name in values)
        statement = f'UPDATE "{self._table}" {changes} WHERE metricName = ? AND slotTime = ? AND n = ?'
        return {"Statement": statement, "Parameters": [*values.values(), *key.values(), _number(seen)]}

    def _execute(self, statements: Sequence[Fields]) -> list[str]:
        codes = execute_statements(self._time_left, statements)
        for code in codes:
            if code not in _REFUSED:
                raise StoreError(f"BatchExecuteStatement: {code}")
        return codes

    def _between(self, partition: str, start: int, end: int, consistent: bool) -> Iterator[Fields]:
        """Return the items of a partition whose keys begin with a time in [start, end)."""
        if start >= end:
            return
        values = {":partition": partition, ":start": _time(start), ":end": _time(end - 1) + "~"}
        request = {
            "TableName": self._table,
            "KeyConditionExpression": "metricName = :partition AND slotTime BETWEEN :start AND :end",
            "ExpressionAttributeValues": {name: {"S": value} for name, value in values.items()},
            "ConsistentRead": consistent,
        }
        yield from read_items(self._time_left, request)


class _FiguresOfDay(NamedTuple):
    """The figures of a span's hours in one day, as they are kept."""

    day: SpanKey
    attribute: str
    version: bytes  # all figures that this version replaces sort before it
    data: bytes


def days_of(figures: FiguresOfSpan) -> list[SpanKey]:
    """Return the days in which the figures are kept."""
    return [part.day for part in _parts_by_day(figures)]


def _parts_by_day(figures: FiguresOfSpan) -> Iterator[_FiguresOfDay]:
    days: dict[int, list[HourFigures]] = {}
    for each in figures.hours:
        days.setdefault(each.start - each.start % DAY, []).append(each)
    for day, hours in days.items():
        start = max(day, figures.key.start)
        key = SpanKey(figures.key.metric, day, figures.key.interval_seconds)
        data = write_figures(figures.version, start, hours)
        yield _FiguresOfDay(key, f"h{(start - day) // HOUR:02}", version_bytes(figures.version), data)


def _span_of(item: Fields) -> SpanItem:
    key = _key_of(item, SPANS)
    return SpanItem(key, int(item["n"]["N"]), int(item["e"]["N"]), base64.b64decode(item["d"]["B"]))


def _summary_of(item: Fields) -> tuple[SummaryKey, SummaryItem]:
    key = SummaryKey(item["metricName"]["S"].removeprefix(SUMMARIES), _time_of(item["slotTime"]["S"]))
    return key, SummaryItem(int(item["n"]["N"]), read_summary(base64.b64decode(item["p"]["B"])))


def _day_of(item: Fields) -> tuple[SpanKey, list[HourFigures]]:
    key = _key_of(item, DAYS)
    hours = [
        each
        for name, value in sorted(item.items())
        if name[:1] == "h" and name[1:].isdigit()
        for each in read_figures(base64.b64decode(value["B"]), key.start + int(name[1:]) * HOUR)
    ]
    return key, hours


def _read(read: Callable[[Fields], Found], item: Fields) -> Found:
    """Return what an item says; StoreError if it cannot be read."""
    try:
        return read(item)
    except (KeyError, IndexError, ValueError, InvalidInput, zlib.error) as error:
        names = (item.get(name, {}).get("S") for name in ("metricName", "slotTime"))
        raise StoreError(f"the item {' '.join(map(str, names))} cannot be read: {error}") from None


def _key_of(item: Fields, prefix: str) -> SpanKey:
    start, _, interval = item["slotTime"]["S"].partition("/")
    return SpanKey(item["metricName"]["S"].removeprefix(prefix), _time_of(start), int(interval))


def _sort_key(key: SpanKey) -> str:
    return f"{_time(key.start)}/{key.interval_seconds}"


def _key(partition: str, sort: str) -> Fields:
    return {"metricName": {"S": partition}, "slotTime": {"S": sort}}


def _time(seconds: int) -> str:
    return format_instant(from_seconds(seconds))


def _time_of(text: str) -> int:
    return to_seconds(parse_instant(text, "slotTime"))


def _binary(data: bytes) -> Fields:
    return {"B": base64.b64encode(data).decode()}


def _number(number: int) -> Fields:
    return {"N": str(number)}
