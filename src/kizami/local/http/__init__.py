"""Requests at scale on one thread: fetcher (libcurl) over socket_poller, woken by wakeup.

secrets become headers here; interrupts: Ctrl-C while libcurl works.
"""
