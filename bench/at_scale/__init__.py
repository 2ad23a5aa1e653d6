"""Parts of kizami with up to a hundred thousand targets, each a program: `python -m bench.at_scale.functions`.

functions  the Sender, the Collector and the reconciler, with what they are given and their deadlines
healing    how a minute that so many targets missed is filled in, slot by slot
totals     the totals of hours whose records are to go
alerts     a look of alerts, when thousands of targets are well, fail and recover
hanging    (`make bench-at-scale`) what hosts that hang or fail do to live ticks of others and to the bill
    ─▶ deliveries (the policy of the functions on simulated time) ─▶ queues (SQS and its event source mappings)
"""
