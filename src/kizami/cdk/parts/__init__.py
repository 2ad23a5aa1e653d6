"""How the things that several layers consist of are made.

a layer ─▶ functions (role, log group, JSON lines) ─▶ package (the zip) ─▶ modules (which files handlers need),
           certificates (which files targets need), configuration (the targets of each bundle)
           functions are told their targets by environment, and may read what secrets grants
a layer ─▶ queues (encrypted, with dead letters), tables (kept and restorable)
a layer ─▶ alarms ◀── field_metrics (what log lines say, as a metric)
foundation ─▶ network (of the production profile)
foundation ─▶ alerting (what of [[alerts]] cannot be obeyed on AWS is refused)
findings: where a finding of cdk-nag is accepted, with its reason
"""
