"""What kizami costs beside its peers, on any machine: `make bench`, `make bench-history`, `make soak` ….

run (`make bench`) ─▶ server (the polled side), name_server, where layout says that the targets live
    ─▶ contenders (kizami, naive, Prometheus, VictoriaMetrics), one after the other ─▶ ratios
sealing (`make bench`, its last part)  what sealing old slots costs a daemon that polls
lambda_bench (`make bench-lambda`) ─▶ canned_aws ─▶ invoke (one life of a function, ours or one of peers/)
at_scale/  the functions, the healing of a missed minute and alerts, with up to a hundred thousand targets
at_scale/hanging (`make bench-at-scale`)  hosts that hang or fail, simulated: live ticks of others, and the bill
export_bench  `kizami export` over the records of a file, beside SQLite's shell and Python's csv.writer
history (`make bench-history`)  a week of history, as rows and sealed, beside VictoriaMetrics
page/ (`make bench-page`)  the page of thousands of targets, in a real browser
soak (`make soak`)  an hour with a third of the hosts in trouble
"""
