"""Alerts on AWS: a run of the reconciler is the look.

Collector, Aggregation ─▶ failure_notes (why requests fail, and what has died)
reconciler ─▶ one_target, or bundles/telling ─▶ noted (a target with its note)
       ─▶ alerting ─▶ watched (counts that conditions ask for; packaged: which) ─▶ kizami/alerts/ decides
       ─▶ incident_items (kept in a partition of the metric table) ─▶ the outbox there
       ─▶ packed_documents (an incident of any size: an item, or many)
       ─▶ heartbeat (asked by each run while all is well)
       ─▶ delivery ─▶ topic (SNS, where the stack's alarms go as well), or a webhook
          both webhooks and heartbeat ─▶ receiver_http (one request, taken or not)
aws/backend.py ─▶ incident_log (the port's: it lists, acknowledges, silences) ─▶ incident_items
"""
