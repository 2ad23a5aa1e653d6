"""Which slots are missing: whole spans and buckets by their figures, and only the rest slot by slot."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kizami.core.coverage import Gap, Span
from kizami.core.epoch import from_seconds, to_seconds
from kizami.local.store.history.sealed import SealedSpan
from kizami.local.store.metrics import KnownMetric
from kizami.local.store.reader import Reader
from kizami.local.store.schema import TALLY_SECONDS

_PIECE_SECONDS = 144 * TALLY_SECONDS  # a day at once, so that weeks of a thousand metrics fit into memory

Run = tuple[int, int]  # [start, end) in seconds

# ?3 is a JSON array of metric names.
_TALLIES = """
SELECT name, bucket, stored FROM tallies JOIN metrics ON id = metric_id
WHERE bucket >= ?1 AND bucket < ?2 AND name IN (SELECT value FROM json_each(?3))
"""

# Where a slot is accounted for though it is not stored: on the queue, or dead.
_UNSTORED = "(SELECT slot, metric_id FROM messages UNION ALL SELECT slot, metric_id FROM dead_letters)"
_UNSTORED_BUCKETS = f"""
SELECT name, slot - slot % {TALLY_SECONDS}
FROM {_UNSTORED} JOIN metrics ON id = metric_id WHERE slot >= ?1 AND slot < ?2
UNION SELECT name, slot - slot % {TALLY_SECONDS}
FROM {_UNSTORED} JOIN metrics ON source_id = metric_id WHERE slot >= ?1 AND slot < ?2
"""

# The grids of many metrics at once; ?1 is a JSON array of [metric name, start, end, interval].
_MISSING = """
WITH RECURSIVE grid (metric_id, asked_id, name, slot, end, step) AS (
    SELECT metrics.id, ifnull(source_id, metrics.id), name, value ->> 1, value ->> 2, value ->> 3
    FROM json_each(?1) JOIN metrics ON name = value ->> 0 WHERE value ->> 1 < value ->> 2
    UNION ALL SELECT metric_id, asked_id, name, slot + step, end, step FROM grid WHERE slot + step < end
)
SELECT name, slot, metric_id FROM grid AS g
WHERE NOT EXISTS (SELECT 1 FROM slots AS s WHERE s.slot = g.slot AND s.metric_id = g.metric_id)
  AND NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.slot = g.slot AND m.metric_id = g.asked_id)
  AND NOT EXISTS (SELECT 1 FROM dead_letters AS d WHERE d.slot = g.slot AND d.metric_id = g.asked_id)
"""

# What is not stored of [?1, ?2), though it is asked for or dead; ?3 is a JSON array of ids. Metrics with the same
# bounds are counted together: the rows are read once, however many metrics there are. Of several values one may be
# stored while another is asked for.
_COUNT_WITHIN = """
SELECT metric_id, count(*) FROM {rows} AS row
WHERE slot >= ?1 AND slot < ?2 AND metric_id IN (SELECT value FROM json_each(?3))
AND NOT EXISTS (SELECT 1 FROM slots AS s WHERE s.slot = row.slot AND s.metric_id = row.metric_id)
GROUP BY metric_id
"""
_VALUES_WITHIN = """
SELECT name, row.slot, of.id FROM {rows} AS row CROSS JOIN metrics AS of ON of.source_id = row.metric_id
WHERE row.slot >= ?1 AND row.slot < ?2 AND of.id IN (SELECT value FROM json_each(?3))
AND NOT EXISTS (SELECT 1 FROM slots AS s WHERE s.slot = row.slot AND s.metric_id = of.id)
"""
_ASKED_IN = "SELECT DISTINCT metric_id FROM {rows} WHERE slot >= ? AND slot < ?"


def find_missing(reader: Reader, spans: Mapping[str, Span]) -> dict[str, list[Gap]]:
    """The runs of slots that are neither stored nor pending nor dead, for each metric that has any."""
    runs: dict[str, list[Run]] = {name: [] for name in spans}
    for first, end in _days(spans.values()):
        for name, run in _missing_within(reader, spans, first, end):
            runs[name].append(run)
    return {name: _joined(found, spans[name].interval_seconds) for name, found in runs.items() if found}


def count_pending(reader: Reader, spans: Mapping[str, Span]) -> dict[str, int]:
    """How many slots of each metric's span are on the queue; metrics with none are left out."""
    return _counts_in(reader, "messages", spans)


def count_dead(reader: Reader, spans: Mapping[str, Span]) -> dict[str, int]:
    """How many slots of each metric's span are dead letters; metrics with none are left out."""
    return _counts_in(reader, "dead_letters", spans)


def _counts_in(reader: Reader, rows: str, spans: Mapping[str, Span]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for bounds, metrics in _with_rows(reader, rows, spans).items():
        names = {metric.id: metric.name for metric in metrics if metric.source_id is None}
        if names:
            found = reader.rows(_COUNT_WITHIN.format(rows=rows), (*bounds, json.dumps(list(names))))
            counts.update({names[number]: count for number, count in found})
        if values := [metric.id for metric in metrics if metric.source_id is not None]:
            of_values = reader.rows(_VALUES_WITHIN.format(rows=rows), (*bounds, json.dumps(values)))
            counts.update(name for name, *_ in reader.without_sealed(of_values))
    return dict(counts)


def _with_rows(reader: Reader, rows: str, spans: Mapping[str, Span]) -> dict[Run, list[KnownMetric]]:
    """The metrics that can have such rows, by the bounds of their spans: of thousands hardly any can."""
    bounds = {name: (to_seconds(span.start), to_seconds(span.end)) for name, span in spans.items()}
    edges = [edge for run in bounds.values() for edge in run] or [0]
    asked = {number for (number,) in reader.rows(_ASKED_IN.format(rows=rows), (min(edges), max(edges)))}
    known = reader.metrics() if asked else {}
    found: dict[Run, list[KnownMetric]] = {}
    for name, run in bounds.items():
        if name in known and known[name].asked_id in asked:
            found.setdefault(run, []).append(known[name])
    return found


def _missing_within(reader: Reader, spans: Mapping[str, Span], first: int, end: int) -> Iterator[tuple[str, Run]]:
    with reader.snapshot():
        yield from list(_found_missing(reader, spans, first, end))


def _found_missing(reader: Reader, spans: Mapping[str, Span], first: int, end: int) -> Iterator[tuple[str, Run]]:
    stored, unstored = (
        _stored_by_bucket(reader, spans, first, end),
        set(reader.rows(_UNSTORED_BUCKETS, (first, end))),
    )
    parts = list(_without_buckets(spans, first, end))
    sealed = _sealed_runs(reader, spans, first, end)
    for name, bucket, run in _cut_to_buckets(spans, sealed, first, end):
        interval, count = spans[name].interval_seconds, stored.get((name, bucket), 0)
        if not count and (name, bucket) not in unstored:
            yield name, run
        # A part of a bucket says nothing by its tally, which may count rows outside of the span.
        elif run != (bucket, bucket + TALLY_SECONDS) or count * interval != TALLY_SECONDS:
            parts.append((name, *run, interval))
    holes = list(_sealed_holes(reader, spans, sealed, first, end))
    found = reader.without_sealed(reader.rows(_MISSING, (json.dumps(parts),)))
    for name, slot, _ in (*found, *reader.rows(_MISSING, (json.dumps(holes),))):
        yield name, (slot, slot + spans[name].interval_seconds)


def _stored_by_bucket(reader: Reader, names: Iterable[str], first: int, end: int) -> dict[tuple[str, int], int]:
    rows = reader.rows(_TALLIES, (first, end, json.dumps(list(names))))
    return {(name, bucket): stored for name, bucket, stored in rows}


class _SealedRun(NamedTuple):
    """A sealed span, from where on slots of it can be missing, and whether none can."""

    span: SealedSpan
    kept_from: int
    is_full: bool

    @property
    def start(self) -> int:
        return self.span.start

    @property
    def end(self) -> int:
        return self.span.end


def _sealed_runs(reader: Reader, spans: Mapping[str, Span], first: int, end: int) -> dict[str, list[_SealedRun]]:
    """The sealed spans of each metric whose buckets say something; there all slots are multiples of its step."""
    found: dict[str, list[_SealedRun]] = {}
    for metric, span in reader.sealed_spans(spans, first, end):
        has_no_other = metric.step_seconds == spans[metric.name].interval_seconds
        is_full = has_no_other and span.stored * metric.step_seconds == span.seconds
        kept_from = span.start if metric.expired_until is None else max(span.start, metric.expired_until)
        run = _SealedRun(span, kept_from, is_full or kept_from >= span.end)
        found.setdefault(metric.name, []).append(run)
    return found


def _sealed_holes(
    reader: Reader, spans: Mapping[str, Span], sealed: Mapping[str, list[_SealedRun]], first: int, end: int
) -> Iterator[tuple[str, int, int, int]]:
    """The parts of the metrics' spans that are not among the slots of the sealed ones they lie in."""
    for name, runs in sealed.items():
        span, interval = spans[name], spans[name].interval_seconds
        if not span.expected or not _tiles_bucket(span):
            continue
        for run in runs:
            start = max(run.kept_from, first, to_seconds(span.start))
            stop = min(run.end, end, to_seconds(span.end))
            if not run.is_full and start < stop:
                slots = range(-(-start // interval) * interval, stop, interval)
                stored = set(reader.sealed_slots(run.span))
                lacking = [(slot, slot + interval) for slot in slots if slot not in stored]
                yield from ((name, *hole, interval) for hole in _join(lacking))


def _tiles_bucket(span: Span) -> bool:
    return TALLY_SECONDS % span.interval_seconds == 0


def _without_buckets(spans: Mapping[str, Span], first: int, end: int) -> Iterator[tuple[str, int, int, int]]:
    """The spans of intervals that do not tile a bucket, whose tallies say nothing; such have few slots."""
    for name, span in spans.items():
        if span.expected and not _tiles_bucket(span):
            interval = span.interval_seconds
            start = -(-max(first, to_seconds(span.start)) // interval) * interval
            yield name, start, min(end, to_seconds(span.end)), interval


def _cut_to_buckets(
    spans: Mapping[str, Span], sealed: Mapping[str, list[_SealedRun]], first: int, end: int
) -> Iterator[tuple[str, int, Run]]:
    """The buckets of the metrics' spans that are not within a sealed one."""
    for name, span in spans.items():
        if not span.expected or not _tiles_bucket(span):
            continue
        span_start, span_end = to_seconds(span.start), to_seconds(span.end)
        if span_start == span_end:
            continue  # its bucket is not empty: what is stored or planned there would pass for a part of the span
        for start, stop in _unsealed(sealed.get(name, ()), max(first, span_start), min(end, span_end)):
            for bucket in range(_bucket_of(start), stop, TALLY_SECONDS):
                yield name, bucket, (max(bucket, span_start), min(bucket + TALLY_SECONDS, span_end))


def _unsealed(sealed: Iterable[_SealedRun], start: int, end: int) -> Iterator[Run]:
    """What is left of [start, end) between sealed spans, which ascend."""
    for run in sealed:
        if start < run.start:
            yield start, min(run.start, end)
        start = max(start, run.end)
    if start < end:
        yield start, end


def _joined(found: list[Run], interval_seconds: int) -> list[Gap]:
    """Runs that touch are one gap."""
    runs = _join(sorted(found))
    return [Gap(from_seconds(start), from_seconds(end), (end - start) // interval_seconds) for start, end in runs]


def _join(found: Iterable[Run]) -> list[Run]:
    """Runs, which ascend, with those that touch made one."""
    runs: list[Run] = []
    for start, end in found:
        if runs and runs[-1][1] == start:
            start, _ = runs.pop()
        runs.append((start, end))
    return runs


def _days(spans: Iterable[Span]) -> Iterator[Run]:
    edges = [(to_seconds(span.start), to_seconds(span.end)) for span in spans if span.expected]
    if edges:
        end = max(end for _, end in edges)
        for first in range(_bucket_of(min(edges)[0]), end, _PIECE_SECONDS):
            yield first, first + _PIECE_SECONDS


def _bucket_of(second: int) -> int:
    return second - second % TALLY_SECONDS
