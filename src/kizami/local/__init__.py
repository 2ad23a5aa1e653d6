"""The home on one machine: one process, one SQLite file.

engine/  the daemon: it plans, asks and writes          http/   its requests, on one thread
store/   the SQLite file: queue, records, dead letters   home.py the port over it
queue_worker.py and daemon_lock.py: who collects
"""
