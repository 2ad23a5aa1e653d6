"""What the one SQLite file holds: its tables, a script a version (SQL only).

Every due slot is in exactly one of three tables, or in none of them:

    messages       pending: waiting, handed out or backing off
    slots          stored: the record, for ever
    dead_letters   dead: given up, with the reason
    (none)         missing: nobody tried

All three are clustered by (slot, metric), so that what is written together in time lies together in the
file, and a metric's id also orders its polls within the interval (`metrics.metric_id`): a group commit of a
hundred polls touches a handful of pages instead of hundreds (measured in docs/decisions.md).
"""

from __future__ import annotations

TALLY_SECONDS = 600


def _tally_bucket(slot: str) -> str:
    """SQL for the start of the bucket of `slot`; its remainder of a time before 1970 is negative."""
    return f"({slot} - ({slot} % {TALLY_SECONDS} + {TALLY_SECONDS}) % {TALLY_SECONDS})"


_SCHEMA_1 = f"""
CREATE TABLE metrics (
    id               INTEGER PRIMARY KEY,
    name             TEXT    NOT NULL UNIQUE,
    interval_seconds INTEGER NOT NULL,
    lag_seconds      INTEGER NOT NULL,
    step_seconds     INTEGER NOT NULL,          -- all slots of the metric are multiples of it
    first_slot       INTEGER NOT NULL           -- from here on the slots of this interval are expected
) STRICT;

CREATE TABLE slots (
    slot         INTEGER NOT NULL,              -- seconds since 1970
    metric_id    INTEGER NOT NULL,
    count        INTEGER NOT NULL CHECK (count >= 0),
    collected_ms INTEGER NOT NULL,              -- when the answer was there
    late_ms      INTEGER NOT NULL,              -- from the planned moment to the request that was answered
    receives     INTEGER NOT NULL,              -- more than one: it was retried
    backfilled   INTEGER NOT NULL,
    PRIMARY KEY (slot, metric_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE tallies (
    bucket    INTEGER NOT NULL,                 -- {TALLY_SECONDS} s of slots
    metric_id INTEGER NOT NULL,
    stored    INTEGER NOT NULL,
    newest    INTEGER NOT NULL,
    lowest    INTEGER NOT NULL,                 -- of the counts, so that a chart of a month reads 4,320 rows
    highest   INTEGER NOT NULL,
    total     INTEGER NOT NULL,                 -- 600 counts of 2^53 still fit
    PRIMARY KEY (bucket, metric_id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER slots_are_tallied AFTER INSERT ON slots BEGIN
    INSERT INTO tallies
    VALUES ({_tally_bucket("new.slot")}, new.metric_id, 1, new.slot, new.count, new.count, new.count)
    ON CONFLICT DO UPDATE SET stored = stored + 1, newest = max(newest, new.slot),
        lowest = min(lowest, new.count), highest = max(highest, new.count), total = total + new.count;
END;

CREATE TRIGGER slots_never_change BEFORE UPDATE ON slots BEGIN
    SELECT raise(ABORT, 'a stored slot never changes');
END;

CREATE TABLE messages (
    slot       INTEGER NOT NULL,
    metric_id  INTEGER NOT NULL,
    seconds    INTEGER NOT NULL,                -- the window is [slot, slot + seconds)
    priority   INTEGER NOT NULL,                -- 0 live, 1 live and retried, 2 backfill
    due_ms     INTEGER NOT NULL,                -- the planned moment
    visible_ms INTEGER NOT NULL,                -- handed out from here on
    sent_ms    INTEGER NOT NULL,
    receives   INTEGER NOT NULL DEFAULT 0,      -- requests that were sent for it
    held       INTEGER NOT NULL DEFAULT 0,      -- 1 while it is handed out
    last_error TEXT,
    PRIMARY KEY (slot, metric_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX messages_in_turn ON messages (priority, visible_ms);

CREATE TABLE dead_letters (
    slot      INTEGER NOT NULL,
    metric_id INTEGER NOT NULL,
    seconds   INTEGER NOT NULL,
    priority  INTEGER NOT NULL,
    due_ms    INTEGER NOT NULL,
    sent_ms   INTEGER NOT NULL,
    died_ms   INTEGER NOT NULL,
    receives  INTEGER NOT NULL,
    reason    TEXT    NOT NULL,
    PRIMARY KEY (slot, metric_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE pauses (
    metric_id INTEGER PRIMARY KEY,              -- not polled until it is resumed, also after a restart
    since_ms  INTEGER NOT NULL
) STRICT;
"""

_SCHEMA_2 = """
CREATE TABLE companies (
    company_id TEXT NOT NULL PRIMARY KEY,
    locked_at  INTEGER NOT NULL,                -- seconds since 1970; a company without a lock has no row
    owner      TEXT,                            -- the message that holds it
    run        TEXT                             -- the one of its deliveries that may release it
) STRICT, WITHOUT ROWID;

CREATE TABLE points (
    company_id  TEXT    NOT NULL,
    month       TEXT    NOT NULL,               -- yyyymm
    user_number TEXT    NOT NULL,
    points      INTEGER NOT NULL CHECK (points > 0),
    updated_at  INTEGER NOT NULL,               -- when the last one was granted, seconds since 1970
    PRIMARY KEY (company_id, month, user_number)
) STRICT, WITHOUT ROWID;
"""

# Live messages wait by their moment; retried and backfilled ones in lines, one for each metric, so that the line
# of one that is not served is in nobody's way.
_SCHEMA_3 = """
DROP INDEX messages_in_turn;
CREATE INDEX live_messages ON messages (visible_ms) WHERE priority = 0;
CREATE INDEX lines_of_messages ON messages (priority, metric_id, visible_ms) WHERE priority > 0;
"""

# One script a version: user_version says how many of them the file has. Later parts add theirs at the end.
MIGRATIONS: tuple[str, ...] = (_SCHEMA_1, _SCHEMA_2, _SCHEMA_3)
