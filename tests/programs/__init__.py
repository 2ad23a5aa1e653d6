"""The real command as a process, and what it needs of this machine.

command (a verb, run to its end), daemon (`kizami up`, stopped in every way) ─▶ local_processes
engine_here     the daemon's engine in this process, with a clock that can be turned
quick_alerts    the command with alerts that look four times a second
mock_elsewhere  the command with the mock API at a free port
hanging_mount   a mount that hangs, as one does whose server is gone
seen_locks      the locks on a database as another process sees them
once_a_run      what is dear to make, made once for all test processes
prometheus_here a real Prometheus with samples of ours
chromium        the installed browser, for the tests, the pictures and the benchmark of the page
fetched_tools   programs that no package index has, fetched into .tools
reports         what a campaign has found, between the marks of a document
both_clients    one request by the client of each backend
"""
