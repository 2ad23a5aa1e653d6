"""The read subset of Prometheus' query language and API, so that Grafana can read the counts as they are."""
