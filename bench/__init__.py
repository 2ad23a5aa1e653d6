"""What kizami costs beside its peers, on any machine: `make bench`, `make bench-lambda`, `make soak`.

run (`make bench`) ─▶ server (the polled side), name_server, where layout says that the targets live
    ─▶ contenders (kizami, naive, Prometheus, VictoriaMetrics), one after the other ─▶ ratios
lambda_bench (`make bench-lambda`) ─▶ canned_aws ─▶ invoke (one life of a function, ours or one of peers/)
functions_at_scale  the Sender and the reconciler with up to a thousand targets
soak (`make soak`)  an hour with a third of the hosts in trouble
"""
