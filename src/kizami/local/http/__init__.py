"""Requests at scale on one thread, by libcurl.

engine/collector ─▶ requester (the secrets of now: files that were read again, tokens)
    ─▶ fetcher ─▶ handle (one request) ─▶ host_names (its address, looked up in a thread of its own)
    ─▶ connections (is this host's connection kept?) ─▶ connection_pools (libcurl's multi handles)
    ─▶ socket_poller (which sockets are ready) ─▶ fetcher ─▶ answers, back in engine/loop
request_window  how many requests a host with a limit may still have
wakeup      ends the wait: used by the writer's thread and by signal handlers
target_access   how each target is asked: secrets (references become values), tls_files (certificates)
traced_request  one request with all that went over the wire
interrupts  Ctrl-C while libcurl is at work
"""
