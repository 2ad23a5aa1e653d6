"""The real command as a process, and what it needs of this machine.

command (a verb, run to its end), daemon (`kizami up`, stopped in every way) ─▶ local_processes
mock_elsewhere  the command with the mock API at a free port
seen_locks      the locks on a database as another process sees them
once_a_run      what is dear to make, made once for all test processes
fetched_tools   programs that no package index has, fetched into .tools
"""
