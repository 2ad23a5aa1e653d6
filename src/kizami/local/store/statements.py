"""Every change of queue and store, a batch at a time (SQL only; who calls them holds the transaction).

A batch is one JSON parameter and one statement: SQLite works through it without the interpreter's lock, so that
the writer's thread leaves the loop alone, and a batch of hundreds costs one crossing into SQLite.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import apsw

from kizami.local.store.history.sealed import sealed_keys, sealed_until
from kizami.local.store.rows import (
    FailedRow,
    OfSlot,
    PlanKey,
    RequestRow,
    ReturnedRow,
    SentRow,
    SlotKey,
    StoredRow,
    TakenMessage,
)
from kizami.local.store.schema import MOMENTS_TO_ACT

LIVE, RETRY, BACKFILL = 0, 1, 2
LONGEST_WAIT_MS = 3_600_000  # between two attempts: as long as `Retry-After` may ask for

# In the statements below ?1 is a JSON array of [slot, metric_id, …].
_THESE = "(slot, metric_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))"

# A slot is stored if it is in `slots`, or among the sealed ones of those that the statement is about.
_STORE = """
INSERT INTO slots
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6
FROM json_each(?1) WHERE true
ON CONFLICT DO NOTHING
"""

_SEND = """
WITH entry AS MATERIALIZED (
    SELECT value ->> 0 AS slot, value ->> 1 AS metric_id, value ->> 2 AS seconds, value ->> 3 AS due_ms
    FROM json_each(?1)
), sealed (slot, metric_id) AS (SELECT value ->> 0, value ->> 1 FROM json_each(?4))
INSERT INTO messages (slot, metric_id, seconds, priority, due_ms, visible_ms, sent_ms)
SELECT slot, metric_id, seconds, ?2, due_ms, due_ms, ?3 FROM entry
WHERE NOT EXISTS (SELECT 1 FROM slots AS s WHERE s.slot = entry.slot AND s.metric_id = entry.metric_id)
  AND (slot, metric_id) NOT IN sealed
  -- One that asks for several values has none itself: it is stored when all of them are.
  AND (
    NOT EXISTS (SELECT 1 FROM metrics AS v WHERE v.source_id = entry.metric_id)
    OR EXISTS (
        SELECT 1 FROM metrics AS v WHERE v.source_id = entry.metric_id
        AND NOT EXISTS (SELECT 1 FROM slots AS s WHERE s.slot = entry.slot AND s.metric_id = v.id)
        AND (entry.slot, v.id) NOT IN sealed
    )
  )
  AND NOT EXISTS (SELECT 1 FROM dead_letters AS d WHERE d.slot = entry.slot AND d.metric_id = entry.metric_id)
ON CONFLICT DO UPDATE SET priority = excluded.priority, due_ms = excluded.due_ms, visible_ms = excluded.visible_ms
WHERE excluded.priority < priority AND visible_ms > excluded.sent_ms AND receives = 0 AND NOT held
"""

# The slots of the values that some slots ask for.
_VALUES = """
SELECT value ->> 0, metrics.id FROM json_each(?1) CROSS JOIN metrics ON source_id = value ->> 1
WHERE source_id IS NOT NULL
"""

_TAKEN = "json_group_array(json_array(slot, metric_id, seconds, priority, due_ms, receives))"

_HAS_MESSAGES = f"""
SELECT EXISTS (SELECT 1 FROM messages WHERE priority = {LIVE} AND visible_ms <= ?1),
       EXISTS (SELECT 1 FROM messages WHERE priority > {LIVE})
"""

# SQLite plans by the value of a LIMIT that is a parameter alone, and so prepares the statement anew at each use.
_LIVE_BY = f"""
SELECT {_TAKEN} FROM (
    SELECT * FROM messages WHERE priority = {LIVE} AND visible_ms <= ?1 ORDER BY visible_ms LIMIT ?2 + 0
)
"""

# Retried and backfilled messages wait in lines, one for each metric and priority; SQLite takes their index only
# for a statement that has the index's own words.
_IN_LINE = f"priority > {LIVE} AND priority = {{priority}}"

# The metrics whose line of one priority has somebody who may go, found by hopping from one line to the next.
_ALL_LINES = f"""
WITH RECURSIVE line (metric_id) AS (
    SELECT min(metric_id) FROM messages WHERE {_IN_LINE}
    UNION ALL
    SELECT (SELECT min(metric_id) FROM messages WHERE {_IN_LINE} AND metric_id > line.metric_id)
    FROM line WHERE metric_id IS NOT NULL
)
SELECT metric_id FROM line WHERE metric_id IS NOT NULL
AND (SELECT min(visible_ms) FROM messages AS m WHERE {_IN_LINE} AND m.metric_id = line.metric_id) <= ?
"""
_LINES = {priority: _ALL_LINES.format(priority=priority) for priority in (RETRY, BACKFILL)}

_OF_LINE = f"""
SELECT {_TAKEN} FROM (
    SELECT * FROM messages WHERE {_IN_LINE} AND metric_id = ?1 AND visible_ms <= ?2
    ORDER BY visible_ms LIMIT ?3 + 0
)
"""

_PROBE = f"""
SELECT {_TAKEN} FROM (
    SELECT * FROM messages WHERE priority > {LIVE} AND priority IN ({RETRY}, {BACKFILL}) AND metric_id = ?1
    AND NOT held AND due_ms <= ?2 ORDER BY {{order}} LIMIT 1
)
"""

_HAND_OUT = f"UPDATE messages SET held = 1, visible_ms = ?2 WHERE {_THESE}"
_REMOVE = f"DELETE FROM messages WHERE {_THESE}"

_FAIL = f"""
UPDATE messages SET held = 0, priority = max(priority, {RETRY}), visible_ms = entry.visible_ms,
                    receives = max(receives, entry.count), last_error = entry.error
FROM (SELECT value ->> 0 AS of_slot, value ->> 1 AS of_metric, value ->> 2 AS visible_ms,
             value ->> 3 AS count, value ->> 4 AS error FROM json_each(?1)) AS entry
WHERE slot = of_slot AND metric_id = of_metric
"""

_GIVE_BACK = """
UPDATE messages SET held = 0, visible_ms = entry.visible_ms, receives = receives + ?2
FROM (SELECT value ->> 0 AS of_slot, value ->> 1 AS of_metric, value ->> 2 AS visible_ms
      FROM json_each(?1)) AS entry
WHERE slot = of_slot AND metric_id = of_metric AND held
"""

_BURY = """
INSERT INTO dead_letters (slot, metric_id, seconds, priority, due_ms, sent_ms, died_ms, receives, reason)
SELECT slot, metric_id, seconds, priority, due_ms, sent_ms, ?2, receives, ifnull(last_error, 'never asked for')
FROM messages WHERE {which}
"""

# ?1 is a JSON array of plan keys.
_UNPLANNED = f"""NOT iif(
    priority = {LIVE},
    (metric_id, seconds, due_ms - 1000 * slot)
        IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1)),
    (metric_id, seconds) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
)"""
_REDRIVEN = "receives = 0 AND last_error IS NOT NULL"

# ?1 is a JSON array of metric ids.
_OLDEST_RETRIED = f"""
SELECT slot, metric_id, receives, last_error FROM messages
WHERE {_IN_LINE.format(priority=RETRY)} AND NOT held AND metric_id IN (SELECT value FROM json_each(?1))
ORDER BY slot LIMIT ?2
"""


# Waiting messages of slots that are over; ?1 is a JSON array of [metric id, seconds after the slot's start].
_OVER = f"""
SELECT slot, metric_id FROM json_each(?1) CROSS JOIN messages
ON priority > {LIVE} AND priority IN ({RETRY}, {BACKFILL}) AND metric_id = value ->> 0
WHERE NOT held AND 1000 * (slot + (value ->> 1)) <= ?2
"""


_NOTE_REQUESTS = """
INSERT INTO requests SELECT value ->> 0, value ->> 1, count(*) FROM json_each(?1) WHERE true GROUP BY 1, 2
ON CONFLICT DO UPDATE SET requests = requests + excluded.requests
"""


def _keys(rows: Sequence[OfSlot]) -> str:
    return json.dumps([(row.slot, row.metric_id) for row in rows])


def store(connection: apsw.Connection, rows: Sequence[StoredRow]) -> None:
    """Store these unless their slots have a record, and acknowledge the messages."""
    these = json.dumps(rows)
    sealed = sealed_keys(connection, rows)
    new = json.dumps([row for row in rows if (row.slot, row.metric_id) not in sealed]) if sealed else these
    connection.execute(_STORE, (new,))
    connection.execute(_REMOVE, (these,))


def acknowledge(connection: apsw.Connection, rows: Sequence[OfSlot]) -> None:
    """Take these off the queue: what they asked for is stored."""
    connection.execute(_REMOVE, (_keys(rows),))


def send(connection: apsw.Connection, rows: Sequence[SentRow], priority: int, sent_ms: int) -> int:
    """Put these on the queue; how many of them were missing until now.

    One that is there already stays as it is, but backfill that a clock which was ahead has asked for is live when
    its moment is planned.
    """
    sealed = _sealed_values(connection, rows)
    connection.execute(_SEND, (json.dumps(rows), priority, sent_ms, json.dumps(list(sealed))))
    return connection.changes()


def _sealed_values(connection: apsw.Connection, rows: Sequence[SentRow]) -> set[SlotKey]:
    """What is sealed of the slots that these ask for: their own, or those of several values."""
    until = sealed_until(connection)
    old = [SlotKey(row.slot, row.metric_id) for row in rows if row.slot < until]
    if not old:
        return set()
    return sealed_keys(
        connection, old + [SlotKey(*row) for row in connection.execute(_VALUES, (json.dumps(old),))]
    )


def note_requests(connection: apsw.Connection, rows: Sequence[RequestRow], now: int, longest: int) -> None:
    """Note requests to hosts that have a limit, and forget those further from `now` than the longest period.

    Those ahead of it were noted while the clock was ahead.
    """
    connection.execute(_NOTE_REQUESTS, (json.dumps(rows),))
    connection.execute("DELETE FROM requests WHERE second NOT BETWEEN ? AND ?", (now - longest, now + longest))


def requests_since(connection: apsw.Connection, since: int) -> list[tuple[int, str, int]]:
    """The second, the host and the number of requests noted from that second on, in their order."""
    return list(connection.execute("SELECT * FROM requests WHERE second >= ? ORDER BY second", (since,)))


def has_messages(connection: apsw.Connection, due_by_ms: int) -> tuple[bool, bool]:
    """Whether there are live messages that are due by then, and whether there are any others."""
    live, others = connection.execute(_HAS_MESSAGES, (due_by_ms,)).get
    return bool(live), bool(others)


def live_by(connection: apsw.Connection, due_by_ms: int, limit: int) -> list[TakenMessage]:
    """The live messages that are due by then, longest due first."""
    return _taken(connection.execute(_LIVE_BY, (due_by_ms, limit)).get)


def ready_lines(connection: apsw.Connection, priority: int, now_ms: int) -> list[int]:
    """The metrics that have a message of that priority, not LIVE, which may be handed out now."""
    return [metric_id for (metric_id,) in connection.execute(_LINES[priority], (now_ms,))]


def of_line(
    connection: apsw.Connection, priority: int, metric_id: int, now_ms: int, limit: int
) -> list[TakenMessage]:
    """The first messages of one metric's line that may be handed out now."""
    sql = _OF_LINE.format(priority=priority)
    return _taken(connection.execute(sql, (metric_id, now_ms, limit)).get)


def probe_of(connection: apsw.Connection, metric_id: int, now_ms: int, *, newest: bool) -> list[TakenMessage]:
    """One message of a metric whose line waits: that of the newest slot, or one that has failed before.

    One whose moment is to come, planned while the clock was ahead, could not be asked for now.
    """
    order = "slot DESC" if newest else "last_error IS NULL, slot"
    return _taken(connection.execute(_PROBE.format(order=order), (metric_id, now_ms)).get)


def _taken(found: Any) -> list[TakenMessage]:
    return [TakenMessage(*row) for row in json.loads(str(found))]


def hand_out(connection: apsw.Connection, messages: Sequence[TakenMessage], hidden_until_ms: int) -> None:
    """Hide these until then; only a request that is sent counts as an attempt, not this."""
    if messages:
        connection.execute(_HAND_OUT, (_keys(messages), hidden_until_ms))


def drop(connection: apsw.Connection, rows: Sequence[OfSlot], now_ms: int) -> None:
    """Take these off the queue: nobody expects them (any more). What was redriven is a dead letter again."""
    _drop(connection, _THESE, _keys(rows), now_ms)


def drop_over(connection: apsw.Connection, over_after: Mapping[int, int], now_ms: int) -> int:
    """Take off the queue what waits and is over, so many seconds after its slot began; how many there were."""
    found = connection.execute(_OVER, (json.dumps(list(over_after.items())), now_ms))
    rows = [SlotKey(*row) for row in found]
    if rows:
        drop(connection, rows, now_ms)
    return len(rows)


def _drop(connection: apsw.Connection, which: str, these: str, now_ms: int) -> None:
    connection.execute(_BURY.format(which=f"{which} AND {_REDRIVEN}"), (these, now_ms))
    connection.execute(f"DELETE FROM messages WHERE {which}", (these,))


def fail(connection: apsw.Connection, rows: Sequence[FailedRow]) -> None:
    """Note the failures; the messages may be handed out again from their `visible_ms` on."""
    connection.execute(_FAIL, (json.dumps(rows),))


def give_back(connection: apsw.Connection, rows: Sequence[ReturnedRow], *, asked: bool) -> None:
    """Put these back unsettled; with `asked` a request was sent, which counts."""
    connection.execute(_GIVE_BACK, (json.dumps(rows), int(asked)))


def bury(connection: apsw.Connection, rows: Sequence[OfSlot], now_ms: int) -> None:
    """Make these dead letters, with their last error as the reason."""
    keys = _keys(rows)
    connection.execute(_BURY.format(which=_THESE), (keys, now_ms))
    connection.execute(_REMOVE, (keys,))


def retried_by_metric(connection: apsw.Connection) -> dict[int, int]:
    """How many retried messages of each metric wait; metrics with none are left out."""
    sql = f"SELECT metric_id, count(*) FROM messages WHERE {_IN_LINE.format(priority=RETRY)} GROUP BY metric_id"
    return dict(connection.execute(sql))


def bury_oldest_retried(
    connection: apsw.Connection, metric_ids: Collection[int], count: int, reason: str, now_ms: int
) -> int:
    """Make the oldest retried messages of these metrics dead letters, for `reason`; how many there were."""
    found: list[Any] = connection.execute(_OLDEST_RETRIED, (json.dumps(list(metric_ids)), count)).fetchall()
    rows = [
        FailedRow(slot, metric_id, 0, attempts, f"{reason}; its last error: {error}" if error else reason)
        for slot, metric_id, attempts, error in found
    ]
    fail(connection, rows)
    bury(connection, rows, now_ms)
    return len(rows)


def release_all(connection: apsw.Connection, now_ms: int) -> None:
    """Make visible what a daemon held that is no more, and end the waits of a clock that was ahead."""
    connection.execute(
        "UPDATE messages SET held = 0, visible_ms = iif(due_ms > ?1, due_ms, ?1) WHERE held", (now_ms,)
    )
    connection.execute(
        f"""UPDATE messages SET visible_ms = max(due_ms, ?1)
        WHERE priority > {LIVE} AND visible_ms > max(due_ms, ?1) + {LONGEST_WAIT_MS}""",
        (now_ms,),
    )


def follow_clock(connection: apsw.Connection, now_ms: int) -> None:
    """Plan again whatever was planned while the clock was ahead, so that nothing waits for as long as it was."""
    for correction in filter(None, MOMENTS_TO_ACT.values()):
        connection.execute(correction, {"now": now_ms})


def demote_late(connection: apsw.Connection, before_ms: int) -> None:
    """Live messages that nobody asked for before then are backfill: they must not hold up those due now."""
    connection.execute(
        f"UPDATE messages SET priority = {BACKFILL} WHERE priority = {LIVE} AND visible_ms < ?", (before_ms,)
    )


def shift_waiting(connection: apsw.Connection, now_ms: int, by_ms: int) -> None:
    """Keep the waits of retried and backfilled messages as long as they were when the clock was set back.

    What may be handed out already is left alone: it may have come onto the queue after the jump. What is for a
    moment to come waits for that. A clock that has jumped forward ends the waits, as a sleep of the machine does,
    which looks the same; but it takes nothing from the days for which a message of an alert is tried.
    """
    if by_ms > 0:
        connection.execute("UPDATE outbox SET created_ms = created_ms + ? WHERE settled_ms IS NULL", (by_ms,))
    else:
        connection.execute(
            f"""UPDATE messages SET visible_ms = max(?1, visible_ms + ?2, due_ms)
            WHERE priority > {LIVE} AND visible_ms > ?1""",
            (now_ms, by_ms),
        )


def drop_unplanned(connection: apsw.Connection, plan: Collection[PlanKey], now_ms: int) -> None:
    """Take off the queue what is not part of the plan (any more): its slots are missing from then on.

    A retried or backfilled message need only be of the plan's metrics and intervals. One that is handed out
    goes too: its answer can still be stored. What was redriven is a dead letter again, with its reason.
    """
    _drop(connection, _UNPLANNED, json.dumps(list(plan)), now_ms)
