"""The daemon, turn by turn:

sender (the minute's plan) ─▶ write_batch ─▶ writer ─▶ the queue in store/ ─▶ writer ─▶ agenda (at its moment)
    ─▶ collector ─▶ host_limits ─▶ http/fetcher ─▶ an answer ─▶ collector ─▶ write_batch ─▶ writer ─▶ a record
loop owns the turn; active_targets, options: what it works on; backoff, failure_log, catch_up: when it goes wrong;
drain: the same engine for `kizami backfill` without a daemon.
"""
