"""The backend on one machine: one process, one SQLite file.

`kizami up` ─▶ daemon_lock (one daemon a file) ─▶ engine/ (plans, asks, judges, writes)
                                                    ├─▶ http/ (its requests, on one thread)
                                                    └─▶ store/ (the file: queue, records, dead letters)
                └─▶ copies/ (backups, on schedule; `kizami backup` and `restore` too)
`kizami up` ─▶ alerts/ (looks for what is wrong, keeps it, has it delivered)
daemon_lock (its file) ─▶ running_config: what the daemon polls, compared with the file that a verb or page reads
cli/, web/ ─▶ backend (the port kizami/backend/port.py over the file) ─▶ known_targets (what is polled), store/
              backend ─▶ slot_answers (the one question about slots)
`kizami backfill` ─▶ queue_worker: who collects, the daemon that runs or engine/drain in this process
"""
