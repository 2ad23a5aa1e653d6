"""Which slots are missing: whole buckets of the store by their tallies, and only the rest slot by slot."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from kizami.core.coverage import Gap, Span
from kizami.core.epoch import from_seconds, to_seconds
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
SELECT DISTINCT name, slot - slot % {TALLY_SECONDS}
FROM {_UNSTORED} JOIN metrics ON id = metric_id WHERE slot >= ? AND slot < ?
"""

# The grids of many metrics at once; ?1 is a JSON array of [metric name, start, end, interval].
_MISSING = """
WITH RECURSIVE grid (metric_id, name, slot, end, step) AS (
    SELECT metrics.id, name, value ->> 1, value ->> 2, value ->> 3
    FROM json_each(?1) JOIN metrics ON name = value ->> 0 WHERE value ->> 1 < value ->> 2
    UNION ALL SELECT metric_id, name, slot + step, end, step FROM grid WHERE slot + step < end
)
SELECT name, slot FROM grid AS g
WHERE NOT EXISTS (SELECT 1 FROM slots AS s WHERE s.slot = g.slot AND s.metric_id = g.metric_id)
  AND NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.slot = g.slot AND m.metric_id = g.metric_id)
  AND NOT EXISTS (SELECT 1 FROM dead_letters AS d WHERE d.slot = g.slot AND d.metric_id = g.metric_id)
"""

# ?1 is a JSON array of [metric name, start, end].
_COUNT_IN_SPANS = """
WITH span AS MATERIALIZED (
    SELECT metrics.id AS of, name, value ->> 1 AS start, value ->> 2 AS end
    FROM json_each(?1) JOIN metrics ON name = value ->> 0
)
SELECT name, count(*) FROM {rows} JOIN span ON of = metric_id AND slot >= start AND slot < end GROUP BY name
"""


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
    bounds = [(name, to_seconds(span.start), to_seconds(span.end)) for name, span in spans.items()]
    return dict(reader.rows(_COUNT_IN_SPANS.format(rows=rows), (json.dumps(bounds),)))


def _missing_within(reader: Reader, spans: Mapping[str, Span], first: int, end: int) -> Iterator[tuple[str, Run]]:
    stored, unstored = (
        _stored_by_bucket(reader, spans, first, end),
        set(reader.rows(_UNSTORED_BUCKETS, (first, end))),
    )
    parts = []
    for name, bucket, run in _cut_to_buckets(spans, first, end):
        interval, count = spans[name].interval_seconds, stored.get((name, bucket), 0)
        if not count and (name, bucket) not in unstored:
            yield name, run
        # A part of a bucket says nothing by its tally, which may count rows outside of the span.
        elif run != (bucket, bucket + TALLY_SECONDS) or count * interval != TALLY_SECONDS:
            parts.append((name, *run, interval))
    for name, slot in reader.rows(_MISSING, (json.dumps(parts),)):
        yield name, (slot, slot + spans[name].interval_seconds)


def _stored_by_bucket(reader: Reader, names: Iterable[str], first: int, end: int) -> dict[tuple[str, int], int]:
    rows = reader.rows(_TALLIES, (first, end, json.dumps(list(names))))
    return {(name, bucket): stored for name, bucket, stored in rows}


def _cut_to_buckets(spans: Mapping[str, Span], first: int, end: int) -> Iterator[tuple[str, int, Run]]:
    for name, span in spans.items():
        if not span.expected:
            continue
        span_start, span_end = to_seconds(span.start), to_seconds(span.end)
        if span_start == span_end:
            continue  # its bucket is not empty: what is stored or planned there would pass for a part of the span
        for bucket in range(max(first, _bucket_of(span_start)), min(end, span_end), TALLY_SECONDS):
            yield name, bucket, (max(bucket, span_start), min(bucket + TALLY_SECONDS, span_end))


def _joined(found: list[Run], interval_seconds: int) -> list[Gap]:
    """Runs that touch are one gap."""
    runs: list[Run] = []
    for start, end in sorted(found):
        if runs and runs[-1][1] == start:
            start, _ = runs.pop()
        runs.append((start, end))
    return [Gap(from_seconds(start), from_seconds(end), (end - start) // interval_seconds) for start, end in runs]


def _days(spans: Iterable[Span]) -> Iterator[Run]:
    edges = [(to_seconds(span.start), to_seconds(span.end)) for span in spans if span.expected]
    if edges:
        end = max(end for _, end in edges)
        for first in range(_bucket_of(min(edges)[0]), end, _PIECE_SECONDS):
            yield first, first + _PIECE_SECONDS


def _bucket_of(second: int) -> int:
    return second - second % TALLY_SECONDS
