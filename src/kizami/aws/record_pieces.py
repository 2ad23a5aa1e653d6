"""Records: the stored slots of metrics in columns, piece by piece, while hours may be sealed meanwhile.

The ticks of a bundle are read once, before the sealed spans of the first of its metrics, and held as long as any
of its metrics are to come. A value that leaves its tick after that is in a span that is read later. Spans of a few
metrics are read ahead; those of a long range page by page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice

from kizami.aws.looks import Share, SlotLook, SlotQuestion, Wanted, Wants, want_spans
from kizami.aws.reading import SlotReader, read_columns, side_by_side
from kizami.aws.sealed import SpanItem
from kizami.aws.slot_sources import pieces_of
from kizami.backend.columns import RecordColumns
from kizami.core.errors import InvalidInput, StoreError
from kizami.core.merging import MetricSlots
from kizami.core.sealed_spans import span_seconds, span_start
from kizami.core.tick_columns import TickColumns

MOST_OPEN_BUNDLES = 256  # whose open hours are held in memory
METRICS_AHEAD = 32
SPANS_AHEAD = 1600
ROWS_A_PIECE = 1000


class RecordReading:
    """Reads records. InvalidInput if they lie in the open hours of too many bundles."""

    def __init__(self, reader: SlotReader, question: SlotQuestion, details: bool, now: Callable[[], int]) -> None:
        self._reader = reader
        self._question = question
        self._details = details
        self._now = now  # pieces may be taken for hours
        self._ticks: dict[str, TickColumns] = {}
        self._to_come: Counter[str] = Counter()  # shares of each bundle
        _require_few_open(reader.foresee(question.ranges(), question.kept, question.now))

    def pieces(self) -> Iterator[RecordColumns]:
        """Return the columns, metrics as asked; nothing is read before the first piece is asked for."""
        look = self._reader.look(self._question.ranges(), self._question.kept, self._question.now)
        _require_few_open(look)
        asked = [look.shares[name] for name in self._question.edges if name in look.shares]
        self._to_come.update(share.bundle.name for shares in asked for share in shares)
        for group in _groups(asked, look):
            self._read_ticks(group, look)
            look = replace(look, now=self._now())  # spans that were sealed before their ticks were read
            for share, spans in self._spans_of(group, look):
                for piece in self._pieces_of(share, spans):
                    yield self._columns(share, piece)
                self._to_come[share.bundle.name] -= 1
                if not self._to_come[share.bundle.name]:
                    self._ticks.pop(share.bundle.name, None)

    def _read_ticks(self, group: Iterable[Sequence[Share]], look: SlotLook) -> None:
        bundles = {share.bundle.name for shares in group for share in shares if not share.bundle.is_rows}
        wanted = [
            each
            for name in sorted(bundles - self._ticks.keys())
            for each in look.parts[name].tick_ranges(values=True)
        ]
        self._ticks |= self._reader.ticks(wanted, consistent=True)

    def _spans_of(
        self, group: Sequence[Sequence[Share]], look: SlotLook
    ) -> Iterator[tuple[Share, Iterable[SpanItem]]]:
        """Return the shares of a group with their spans: few of them together, many as they are asked for."""
        shares = [(share, _wanted(share, look)) for several in group for share in several]
        few = [wanted for _, wanted in shares if wanted and not wanted.is_range(look.oldest)]
        many = [share for share, wanted in shares if wanted and wanted.is_range(look.oldest)]
        sealed = self._reader.sealed(Wants(spans=few), look).spans
        spans: dict[tuple[str, int], list[SpanItem]] = {}
        for key in sorted(sealed):
            spans.setdefault((key.metric, key.interval_seconds), []).append(sealed[key])
        begun = side_by_side([partial(_begun, self._reader.spans(share)) for share in many])
        pages = dict(zip(many, begun, strict=True))
        for share, _ in shares:
            found = pages.get(share)
            yield share, spans.get((share.metric, share.bundle.interval_seconds), ()) if found is None else found

    def _pieces_of(self, share: Share, spans: Iterable[SpanItem]) -> Iterator[MetricSlots]:
        if share.bundle.is_rows:
            rows = self._reader.rows(share)
            while some := list(islice(rows, ROWS_A_PIECE)):
                if found := read_columns(share.bundle, some).of(share.place, share.number):
                    yield found
            return
        name = share.bundle.name
        try:
            slots = self._ticks[name].of(share.place, share.number) if name in self._ticks else None
        except (IndexError, ValueError) as error:
            raise StoreError(f"the ticks of bundle {name} cannot be read: {error}") from None
        yield from pieces_of((share.start, share.end), slots, spans)

    def _columns(self, share: Share, piece: MetricSlots) -> RecordColumns:
        slots, units, collected, late_ms, receives, backfilled = piece.columns
        found = RecordColumns(share.metric, piece.decimals, slots, units, collected)
        if not self._details:
            return found
        if share.bundle.is_rows:
            unknown = [None] * len(slots)
            return replace(found, late_ms=unknown, receives=unknown, backfilled=unknown)
        return replace(found, late_ms=late_ms, receives=receives, backfilled=backfilled)


def _require_few_open(look: SlotLook) -> None:
    opened = sum(bool(part.tick_ranges(values=True)) for part in look.parts.values() if not part.bundle.is_rows)
    if opened > MOST_OPEN_BUNDLES:
        problem = f"records of the open hours of {opened:,} bundles are more than memory holds at once"
        raise InvalidInput("edges", f"{problem}; end the range three hours ago, or ask about fewer metrics")


def _groups(asked: Iterable[Sequence[Share]], look: SlotLook) -> Iterator[list[Sequence[Share]]]:
    """Put metrics together whose spans are read ahead."""
    group: list[Sequence[Share]] = []
    spans = 0
    for shares in asked:
        count = sum(len(each.starts) for share in shares if (each := _wanted(share, look)) is not None)
        if group and (len(group) == METRICS_AHEAD or spans + count > SPANS_AHEAD):
            yield group
            group, spans = [], 0
        group.append(shares)
        spans += count
    if group:
        yield group


def _wanted(share: Share, look: SlotLook) -> Wanted | None:
    """Return the spans of a share that may be sealed by now; of rows there are none."""
    if share.bundle.is_rows:
        return None
    length = span_seconds(share.bundle.interval_seconds)
    until = look.parts[share.bundle.name].sealable_until(look.now)
    starts = range(span_start(share.start, length), min(share.end, until), length)
    return want_spans(share.metric, share.bundle.interval_seconds, starts) if starts else None


def _begun(spans: Iterator[SpanItem]) -> Iterable[SpanItem]:
    """Read the first page."""
    first = next(spans, None)
    return () if first is None else chain((first,), spans)
