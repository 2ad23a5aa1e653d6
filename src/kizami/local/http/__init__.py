"""Requests at scale on one thread: a URL comes in at fetcher, its answer or failure goes out there.

fetcher ─▶ connections (is one kept for the host?) ─▶ connection_pools (libcurl) ─▶ socket_poller (waits for all)
host_names: a name becomes addresses on threads of its own; wakeup: another thread ends the wait.
secrets become headers here; interrupts: Ctrl-C while libcurl works.
"""
