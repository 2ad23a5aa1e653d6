"""Stand-ins: the ports in memory, APIs that answer or fail on order."""
