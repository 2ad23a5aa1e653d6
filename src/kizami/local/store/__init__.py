"""One SQLite file: schema ─▶ database (opening) ─▶ statements (every change, a batch of rows at a time).

rows: what is written each turn, by its names. From outside the daemon: backfill_queue.
Reading: reader, missing, buckets, metrics, pauses, dead_letters. write_ahead_log: who keeps it from being emptied.
Sealed history comes here.
"""
