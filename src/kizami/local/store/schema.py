"""What the one SQLite file holds: its tables (SQL only).

Every due slot is in exactly one of three tables, or in none of them:

    messages       pending: waiting, handed out or backing off
    slots          stored: the record, until it is sealed
    dead_letters   dead: given up, with the reason
    (none)         missing: nobody tried

All three are clustered by (slot, metric), so that what is written together in time lies together in the
file, and a metric's id also orders its polls within the interval (`metrics.metric_id`): a group commit of a
hundred polls touches a handful of pages instead of hundreds (measured in docs/decisions.md).
"""

from __future__ import annotations

VERSION = 10  # user_version of the files with these tables: a change of them takes the next number
TALLY_SECONDS = 600


def _tally_bucket(slot: str) -> str:
    """SQL for the start of the bucket of `slot`; its remainder of a time before 1970 is negative."""
    return f"({slot} - ({slot} % {TALLY_SECONDS} + {TALLY_SECONDS}) % {TALLY_SECONDS})"


_RECORDS = f"""
CREATE TABLE metrics (
    id               INTEGER PRIMARY KEY,
    name             TEXT    NOT NULL UNIQUE,
    interval_seconds INTEGER NOT NULL,
    lag_seconds      INTEGER NOT NULL,
    step_seconds     INTEGER NOT NULL,          -- all slots of the metric are multiples of it
    first_slot       INTEGER NOT NULL,          -- from here on the slots of this interval are expected
    decimals         INTEGER NOT NULL DEFAULT 0,  -- of the counts, which are whole numbers
    source_id        INTEGER,                   -- whose messages ask for it, if not its own
    keep_seconds     INTEGER,                   -- for ever, if nothing is said
    keep_totals_seconds INTEGER,
    expired_until    INTEGER                    -- no slot before this one is kept
) STRICT;
CREATE INDEX metrics_of_sources ON metrics (source_id) WHERE source_id IS NOT NULL;

CREATE TABLE slots (
    slot         INTEGER NOT NULL,              -- seconds since 1970
    metric_id    INTEGER NOT NULL,
    count        INTEGER NOT NULL,
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

-- Live messages wait by their moment; retried and backfilled ones in lines, one for each metric, so that the line
-- of one that is not served is in nobody's way.
CREATE INDEX live_messages ON messages (visible_ms) WHERE priority = 0;
CREATE INDEX lines_of_messages ON messages (priority, metric_id, visible_ms) WHERE priority > 0;

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

CREATE TABLE blocks (
    metric_id INTEGER PRIMARY KEY,              -- its target fails in a way that does not heal by waiting
    since_ms  INTEGER NOT NULL,
    reason    TEXT    NOT NULL,
    asked_ms  INTEGER NOT NULL,                 -- when it failed last
    failures  INTEGER NOT NULL,
    probes    INTEGER NOT NULL,                 -- that failed since it is blocked
    next_ms   INTEGER,                          -- the next probe; none: it answers, kept slots are being queued
    kept_from INTEGER NOT NULL                  -- no slot before this one was kept
) STRICT;
"""

_POINTS = """
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

# Slots older than a while are sealed, a span of them in one row: see `history`. Its figures stand apart from the
# slots themselves, so that what is read of months is small, and can stay when the slots are given up.
_HISTORY = """
CREATE TABLE sealed_spans (
    metric_id INTEGER NOT NULL,
    start     INTEGER NOT NULL,                 -- the span is [start, start + seconds)
    seconds   INTEGER NOT NULL,
    stored    INTEGER NOT NULL,
    newest    INTEGER NOT NULL,
    lowest    INTEGER NOT NULL,
    highest   INTEGER NOT NULL,
    total     ANY     NOT NULL,                 -- text where it does not fit 64 bits
    slots_id  INTEGER NOT NULL,
    checksum  INTEGER NOT NULL,                 -- of all of these
    PRIMARY KEY (metric_id, start)
) STRICT, WITHOUT ROWID;

CREATE TABLE sealed_slots (
    id     INTEGER PRIMARY KEY,
    packed BLOB    NOT NULL                     -- see core/sealed_spans.py; its last four bytes are a checksum
) STRICT;

CREATE TABLE sealed_until (
    id   INTEGER PRIMARY KEY CHECK (id = 0),
    slot INTEGER NOT NULL                       -- no slot from here on is sealed
) STRICT;
INSERT INTO sealed_until VALUES (0, -1000000000000);

CREATE TRIGGER sealed_until_is_kept AFTER INSERT ON sealed_spans BEGIN
    UPDATE sealed_until SET slot = new.start + new.seconds WHERE slot < new.start + new.seconds;
END;

CREATE TRIGGER sealed_spans_never_change BEFORE UPDATE ON sealed_spans BEGIN
    SELECT raise(ABORT, 'a sealed span never changes');
END;

CREATE TRIGGER sealed_slots_never_change BEFORE UPDATE ON sealed_slots BEGIN
    SELECT raise(ABORT, 'a sealed slot never changes');
END;
"""

# What went wrong, who is to be told, and what happened; `document` has an incident's members and who was told.
_ALERTS = """
CREATE TABLE incidents (
    number          INTEGER PRIMARY KEY,
    kept_in_mind    INTEGER NOT NULL,           -- 1 while it is open, or somebody is still to be told of its end
    family          TEXT    NOT NULL,           -- of one family a target is in one open incident at a time
    topic           TEXT    NOT NULL,
    cause           TEXT    NOT NULL,
    since_ms        INTEGER NOT NULL,
    over_ms         INTEGER,
    acknowledged_ms INTEGER,
    acknowledged_by TEXT,
    silenced_ms     INTEGER,                    -- until when
    silenced_at_ms  INTEGER,                    -- when that was ordered
    document        TEXT    NOT NULL
) STRICT;
CREATE INDEX incidents_in_mind ON incidents (number) WHERE kept_in_mind;
CREATE TABLE outbox (
    number       INTEGER PRIMARY KEY,
    receiver     TEXT    NOT NULL,
    message      TEXT    NOT NULL,              -- one state of one incident
    document     TEXT    NOT NULL,
    created_ms   INTEGER NOT NULL,
    next_ms      INTEGER NOT NULL,              -- the next attempt
    attempts     INTEGER NOT NULL DEFAULT 0,
    settled_ms   INTEGER,                       -- the receiver has answered, or nobody tries any more
    last_error   TEXT,
    UNIQUE (receiver, message)
) STRICT;
CREATE INDEX messages_to_deliver ON outbox (receiver, number) WHERE settled_ms IS NULL;
CREATE TABLE events (
    number  INTEGER PRIMARY KEY,
    at_ms   INTEGER NOT NULL,
    event   TEXT    NOT NULL,
    actor   TEXT    NOT NULL,
    details TEXT    NOT NULL                    -- a JSON object
) STRICT;
CREATE TABLE incident_targets (
    metric   TEXT    NOT NULL,                  -- '' for the backend itself
    incident INTEGER NOT NULL,
    PRIMARY KEY (metric, incident)
) STRICT, WITHOUT ROWID;
CREATE TABLE event_targets (
    metric TEXT    NOT NULL,                    -- '' for an event that is about no target
    event  INTEGER NOT NULL,
    PRIMARY KEY (metric, event)
) STRICT, WITHOUT ROWID;
"""

# Of a span longer than an hour whose slots are given up, the figures of its hours stay.
_HOURS = """
CREATE TABLE sealed_hours (
    id     INTEGER PRIMARY KEY,                 -- as it was in sealed_slots
    packed BLOB    NOT NULL                     -- see history/expiry.py; its last four bytes are a checksum
) STRICT;
CREATE TRIGGER sealed_hours_never_change BEFORE UPDATE ON sealed_hours BEGIN
    SELECT raise(ABORT, 'a sealed hour never changes');
END;
"""

# Who reads thousands of metrics again and again learns from one number that they are still the same.
_CHANGES = """
CREATE TABLE metric_changes (
    id      INTEGER PRIMARY KEY CHECK (id = 0),
    changes INTEGER NOT NULL                    -- of the table metrics, so far
) STRICT;
INSERT INTO metric_changes VALUES (0, 0);
CREATE TRIGGER new_metrics_are_changes AFTER INSERT ON metrics BEGIN
    UPDATE metric_changes SET changes = changes + 1;
END;
CREATE TRIGGER changed_metrics_are_changes AFTER UPDATE ON metrics BEGIN
    UPDATE metric_changes SET changes = changes + 1;
END;
CREATE TRIGGER deleted_metrics_are_changes AFTER DELETE ON metrics BEGIN
    UPDATE metric_changes SET changes = changes + 1;
END;
"""

# How many requests a host has had lately: a restart does not allow it more than its limit.
_REQUESTS = """
CREATE TABLE requests (
    second   INTEGER NOT NULL,                  -- in which they left
    host     TEXT    NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (second, host)
) STRICT, WITHOUT ROWID;
"""

# Every column that holds a moment. Those to act at must follow a correction of the clock: what was planned while
# it was ahead would otherwise wait for as long as it was. Each has the statement that plans it again at :now (in
# milliseconds) where it lies further ahead than it can have been planned, or "" and the place that does so.
MOMENTS_TO_ACT: dict[str, str] = {
    "messages.due_ms": "",  # of its window, which a correction does not change
    "messages.visible_ms": "",  # statements.release_all and shift_waiting
    "outbox.next_ms": """
        UPDATE outbox SET next_ms = :now WHERE settled_ms IS NULL AND next_ms > :now + iif(
            attempts = 0, 0, min(5000 * (1 << min(attempts - 1, 20)), 900000)
        )""",  # as outbox.wait_seconds
    "blocks.next_ms": """
        UPDATE blocks SET next_ms = :now, asked_ms = :now WHERE next_ms > 0 AND asked_ms > :now""",
    "metrics.first_slot": """
        UPDATE metrics SET first_slot = :now / 1000 / interval_seconds * interval_seconds
        WHERE first_slot > :now / 1000 + interval_seconds""",
    "incidents.silenced_ms": """
        UPDATE incidents SET silenced_ms = silenced_ms - silenced_at_ms + :now, silenced_at_ms = :now
        WHERE silenced_at_ms > :now""",  # it lasts as long as was ordered
    "companies.locked_at": """
        UPDATE companies SET locked_at = :now / 1000 WHERE locked_at > :now / 1000""",  # from where it expires
}
MOMENTS_OF_THE_PAST = frozenset(
    {
        *("slots.slot", "slots.collected_ms", "messages.slot", "messages.sent_ms"),
        *("dead_letters.slot", "dead_letters.due_ms", "dead_letters.sent_ms", "dead_letters.died_ms"),
        *("tallies.bucket", "tallies.newest", "sealed_spans.start", "sealed_spans.newest", "sealed_until.slot"),
        "requests.second",  # one ahead of now counts as of now
        *("metrics.expired_until", "pauses.since_ms", "points.updated_at", "events.at_ms"),
        *("blocks.since_ms", "blocks.asked_ms", "blocks.kept_from", "outbox.created_ms", "outbox.settled_ms"),
        *("incidents.since_ms", "incidents.over_ms", "incidents.acknowledged_ms", "incidents.silenced_at_ms"),
    }
)

SCHEMA = _RECORDS + _POINTS + _HISTORY + _ALERTS + _HOURS + _CHANGES + _REQUESTS
