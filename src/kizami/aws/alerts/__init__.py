"""Alerts on AWS: a run of the reconciler is the look.

Collector, Aggregation ─▶ failure_notes (why requests fail, and what has died)
reconciler ─▶ one_target, or bundles/telling ─▶ noted (a target with its note)
       ─▶ alerting ─▶ watched (counts that conditions ask for; packaged: which) ─▶ kizami/alerts/ decides
       ─▶ aws/incidents (kept in a partition of the metric table, with the outbox)
       ─▶ aws/alert_delivery (webhooks, the topic that the stack's alarms go to, the heartbeat)
"""
