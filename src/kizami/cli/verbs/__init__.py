"""One module a verb, named like it, each with a `command`; main.VERBS lists them for `kizami --help`.

to run      up, mock, dashboard
to read     status, targets, query, chart, gaps, export, cost
to repair   backfill, dead_letters
the batch   aggregate
to set up   init, doctor, completion
"""
