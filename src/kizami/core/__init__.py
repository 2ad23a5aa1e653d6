"""What is decided, without doing anything: no I/O, no clock, no environment, no chance; `now` is a parameter.

errors ◀─ slots, epoch ◀─ targets/ ◀─ messages ◀─ sender (a minute's plan)
                             ▲            ▲──── collector (a request, and what its answer means)
                           config         └──── coverage (what is due, gaps) ◀─ backfill ◀─ reconcile
ports: what a runtime must be able to do.    logs: how a line looks.
"""
