"""The home on AWS. The functions: sender, collector, reconciler, mock_api, aggregation, aggregation_dispatcher.

an event ─▶ settings, deliveries, invocation ─▶ the core decides ─▶ store/ (table, queues) over client/
home.py is the port over a deployed stack (places says where it is, slot_states what became of each slot,
queue_worker who collects), for the command line and the page; costs: what a month comes to.
"""
