"""The read subset of Prometheus' query language and API, so that Grafana can read the counts as they are.

GET /prometheus/… ─▶ routes ─▶ syntax (the text) ─▶ expressions (values), with patterns in their matchers
    ─▶ samples (of the port, within a budget) ─▶ evaluation ─▶ routes ─▶ JSON
GET /metrics ─▶ web/monitoring ─▶ exposition (OpenMetrics text)
"""
