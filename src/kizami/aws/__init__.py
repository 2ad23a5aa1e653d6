"""The home on AWS. The functions: sender, collector, reconciler, mock_api, aggregation, aggregation_dispatcher.

an event ─▶ settings, deliveries, invocation ─▶ the core decides ─▶ store/ (table, queues) over client/
home.py is the port over a deployed stack, for the command line and the page; costs: what a month comes to.
"""
