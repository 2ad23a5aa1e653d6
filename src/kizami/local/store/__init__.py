"""One SQLite file: the queue, the records, the dead letters.

opening   database (open, refuse) ─▶ schema (the tables of a new file)
writing   engine/writer ─▶ rows (what is written, what is handed out)
                        ─▶ statements (every change, a batch at a time)
looking after it   write_ahead_log (how large the log is, and whose read keeps it so)
from outside the daemon   backfill_queue (past slots onto the queue), dead_letters (listed, redriven, purged),
                          pauses (obeyed by the engine), blocks (made by the engine, hurried from outside)
reading   metrics (which the file knows) ─▶ reader (records, coverage, lateness, the queue's depth),
          missing (gaps), buckets (for the chart)
history/  slots of long ago, sealed a span at a time, and read like the others
"""
