"""One SQLite file: schema ─▶ database (opening) ─▶ statements (every change, a batch at a time).

Reading: reader, missing, buckets, metrics, pauses, dead_letters. From outside the daemon:
backfill_queue. Sealed history comes here.
"""
