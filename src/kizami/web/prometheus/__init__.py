"""The read subset of Prometheus' query language and API, so that Grafana can read the counts as they are.

GET /prometheus/… ─▶ routes ─▶ syntax (the text, by its tokens) ─▶ expressions (values), patterns in their matchers
    ─▶ evaluation ─▶ samples (of the port, within a budget), windows (functions over a range of them)
                  ─▶ matching (which series of two vectors meet), operators (what two numbers come to)
    ─▶ vectors (series with their values) ─▶ routes ─▶ JSON
GET /metrics ─▶ web/monitoring ─▶ exposition (OpenMetrics text)
"""
