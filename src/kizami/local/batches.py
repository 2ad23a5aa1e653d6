"""Every change of queue and store, a batch at a time (SQL only; who calls them holds the transaction).

A batch is one JSON parameter and one statement: SQLite works through it without the interpreter's lock, so that
the writer's thread leaves the loop alone, and a batch of hundreds costs one crossing into SQLite.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import apsw

LIVE, RETRY, BACKFILL = 0, 1, 2

Rows = list[list[Any]]
PlanKey = tuple[int, int, int]  # a metric, its interval, and how many ms after its start a slot is asked for


class Taken(NamedTuple):
    """A message handed out, in the database's units; `receives` counts this time too."""

    slot: int
    metric_id: int
    seconds: int
    priority: int
    due_ms: int
    receives: int

    @property
    def plan_key(self) -> PlanKey:
        """What it has in common with all live messages of its target."""
        return self.metric_id, self.seconds, self.due_ms - 1000 * self.slot


# In the statements below ?1 is a JSON array of [slot, metric_id, …].
_THESE = "(slot, metric_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))"

_STORE = """
INSERT INTO slots
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6
FROM json_each(?1) WHERE true
ON CONFLICT DO NOTHING
"""

_SEND = """
WITH entry AS MATERIALIZED (
    SELECT value ->> 0 AS slot, value ->> 1 AS metric_id, value ->> 2 AS seconds,
           value ->> 3 AS due_ms, value ->> 4 AS visible_ms
    FROM json_each(?1)
)
INSERT INTO messages (slot, metric_id, seconds, priority, due_ms, visible_ms, sent_ms)
SELECT slot, metric_id, seconds, ?2, due_ms, visible_ms, ?3 FROM entry
WHERE NOT EXISTS (SELECT 1 FROM slots AS s WHERE s.slot = entry.slot AND s.metric_id = entry.metric_id)
  AND NOT EXISTS (SELECT 1 FROM dead_letters AS d WHERE d.slot = entry.slot AND d.metric_id = entry.metric_id)
ON CONFLICT DO NOTHING
"""

_IN_TURN = """
SELECT json_group_array(json_array(slot, metric_id, seconds, priority, due_ms, receives + 1)) FROM (
    SELECT * FROM messages WHERE priority = ?1 AND visible_ms <= ?2 ORDER BY visible_ms LIMIT ?3
)
"""

_HAND_OUT = f"UPDATE messages SET receives = receives + 1, held = 1, visible_ms = ?2 WHERE {_THESE}"
_REMOVE = f"DELETE FROM messages WHERE {_THESE}"

_FAIL = f"""
UPDATE messages SET held = 0, priority = max(priority, {RETRY}), visible_ms = entry.visible_ms,
                    receives = max(receives, entry.count), last_error = entry.error
FROM (SELECT value ->> 0 AS of_slot, value ->> 1 AS of_metric, value ->> 2 AS visible_ms,
             value ->> 3 AS count, value ->> 4 AS error FROM json_each(?1)) AS entry
WHERE slot = of_slot AND metric_id = of_metric
"""

_GIVE_BACK = """
UPDATE messages SET held = 0, visible_ms = entry.visible_ms, receives = receives - ?2
FROM (SELECT value ->> 0 AS of_slot, value ->> 1 AS of_metric, value ->> 2 AS visible_ms
      FROM json_each(?1)) AS entry
WHERE slot = of_slot AND metric_id = of_metric AND held
"""

_BURY = f"""
INSERT INTO dead_letters (slot, metric_id, seconds, priority, due_ms, sent_ms, died_ms, receives, reason)
SELECT slot, metric_id, seconds, priority, due_ms, sent_ms, ?2, receives,
       ifnull(last_error, 'handed out ' || receives || ' times and never settled')
FROM messages WHERE {_THESE}
"""

# ?1 is a JSON array of plan keys.
_DROP_UNPLANNED = f"""
DELETE FROM messages WHERE NOT iif(
    priority = {LIVE},
    (metric_id, seconds, due_ms - 1000 * slot)
        IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1)),
    (metric_id, seconds) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
)
"""


def _keys(rows: Sequence[Sequence[Any]]) -> str:
    return json.dumps([row[:2] for row in rows])


def store(connection: apsw.Connection, rows: Rows) -> None:
    """Store [slot, metric_id, count, collected_ms, late_ms, receives, backfilled] and acknowledge the messages."""
    stored = (json.dumps(rows),)
    connection.execute(_STORE, stored)
    connection.execute(_REMOVE, stored)


def send(connection: apsw.Connection, rows: Rows, priority: int, sent_ms: int) -> int:
    """Put [slot, metric_id, seconds, due_ms, visible_ms] on the queue; how many of them were missing until now."""
    connection.execute(_SEND, (json.dumps(rows), priority, sent_ms))
    return connection.changes()


def in_turn(connection: apsw.Connection, priority: int, due_by_ms: int, limit: int) -> list[Taken]:
    """The messages that are due by then, longest due first."""
    found = connection.execute(_IN_TURN, (priority, due_by_ms, limit)).get
    return [Taken(*row) for row in json.loads(str(found))]


def hand_out(connection: apsw.Connection, messages: list[Taken], hidden_until_ms: int) -> None:
    """Count a receive of each, and hide it until then."""
    connection.execute(_HAND_OUT, (_keys(messages), hidden_until_ms))


def take(
    connection: apsw.Connection,
    messages: list[Taken],
    hidden_until_ms: int,
    receive_limit: int,
    now_ms: int,
    *,
    sole: bool = False,
) -> list[Taken]:
    """Hand these out, but bury those that were handed out as often as allowed; the ones handed out.

    For the `sole` taker a held message is in its own hands still, and its answer may yet come: it is not buried.
    """
    exhausted = [message for message in messages if message.receives > receive_limit]
    if exhausted and sole:
        held = _held(connection, exhausted)
        exhausted = [message for message in exhausted if message[:2] not in held]
    if exhausted:
        bury(connection, exhausted, now_ms)
        messages = [message for message in messages if message not in exhausted]
    if messages:
        hand_out(connection, messages, hidden_until_ms)
    return messages


def _held(connection: apsw.Connection, rows: Sequence[Sequence[Any]]) -> set[tuple[int, int]]:
    return set(connection.execute(f"SELECT slot, metric_id FROM messages WHERE held AND {_THESE}", (_keys(rows),)))


def remove(connection: apsw.Connection, rows: Sequence[Sequence[Any]]) -> None:
    """Take these off the queue for good."""
    connection.execute(_REMOVE, (_keys(rows),))


def fail(connection: apsw.Connection, rows: Rows) -> None:
    """Hand [slot, metric_id, visible_ms, receives, error] out again from `visible_ms` on."""
    connection.execute(_FAIL, (json.dumps(rows),))


def give_back(connection: apsw.Connection, rows: Rows, *, counted: bool) -> None:
    """Put [slot, metric_id, visible_ms] back unsettled; with `counted` False as if it was never handed out."""
    connection.execute(_GIVE_BACK, (json.dumps(rows), 0 if counted else 1))


def bury(connection: apsw.Connection, rows: Sequence[Sequence[Any]], now_ms: int) -> None:
    """Make these dead letters, with their last error as the reason."""
    keys = _keys(rows)
    connection.execute(_BURY, (keys, now_ms))
    connection.execute(_REMOVE, (keys,))


def release_all(connection: apsw.Connection, now_ms: int) -> None:
    """Make visible what a daemon held that is no more; what it cannot have asked for yet was not received."""
    connection.execute(
        """UPDATE messages SET held = 0, receives = receives - (due_ms > ?1),
           visible_ms = iif(due_ms > ?1, due_ms, ?1) WHERE held""",
        (now_ms,),
    )


def demote_late(connection: apsw.Connection, before_ms: int) -> None:
    """Live messages that nobody asked for before then are backfill: they must not hold up those due now."""
    connection.execute(
        f"UPDATE messages SET priority = {BACKFILL} WHERE priority = {LIVE} AND visible_ms < ?", (before_ms,)
    )


def shift_waiting(connection: apsw.Connection, by_ms: int) -> None:
    """Keep the waits of retried and backfilled messages as long as they were when the clock has jumped."""
    connection.execute(f"UPDATE messages SET visible_ms = visible_ms + ? WHERE priority > {LIVE}", (by_ms,))


def drop_unplanned(connection: apsw.Connection, plan: Collection[PlanKey]) -> None:
    """Take off the queue what is not part of the plan (any more): its slots are missing from then on.

    A retried or backfilled message need only be of the plan's metrics and intervals. One in somebody's hands
    goes too: its answer can still be stored.
    """
    connection.execute(_DROP_UNPLANNED, (json.dumps(list(plan)),))
