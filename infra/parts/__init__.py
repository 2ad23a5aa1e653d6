"""How the things that several layers consist of are made.

a layer ─▶ functions (role, log group, JSON lines) ─▶ package (the zip) ─▶ modules (which files handlers need)
           functions are told their targets by environment, and may read what secrets grants
a layer ─▶ queues (encrypted, with dead letters), tables (kept and restorable)
foundation ─▶ network (of the production profile)
findings: where a finding of cdk-nag is accepted, with its reason
"""
