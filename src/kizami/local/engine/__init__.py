"""The daemon, turn by turn; `loop` owns the turn and calls the others:

sender (the minute's plan) ─▶ write_batch ─▶ writer ─▶ the queue in store/
    ─▶ writer (what is due soon; of retries and backfill what waiting_lines choose) ─▶ agenda (at its moment)
    ─▶ collector ─▶ host_limits ─▶ http/fetcher ─▶ an answer ─▶ collector ─▶ write_batch ─▶ writer ─▶ a record
active_targets, options: what it works on; backoff, failure_log, catch_up: when it goes wrong;
drain: the same engine for `kizami backfill` without a daemon.
"""
