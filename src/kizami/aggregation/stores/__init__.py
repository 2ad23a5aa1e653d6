"""Locks and points: sqlite on one machine, company_table and points_table on AWS, company_states for a page."""
