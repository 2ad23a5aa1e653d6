"""Records of long ago on AWS: DynamoDB removes them by itself, and totals of their hours remain.

collector, bundles/ ─▶ keeping (what is stored says when it may go; what is kept no more is not asked for)
reconciler, bundles/reconciling ─▶ totalling (hours that are closed) ─▶ hour_totals (an item a metric and hour)
aws/backend.py ─▶ figures (of the records that are there and, before them, of totals) ─▶ hour_totals
"""
