"""One module a verb, named like it, each with a `command`; main.VERBS lists them for `kizami --help`.

to run      up, mock, dashboard
to read     status, targets, query, chart, gaps, export, sql, cost
to repair   backfill, dead_letters, backup, restore
to be told  alerts
the batch   aggregate
to set up   init, recipes, doctor, try_, completion
"""
