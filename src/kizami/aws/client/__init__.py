"""Calls out of a function.

account, signature ─▶ json_client ─▶ http_client ◀─ polled_api (a target). secrets, stack_outputs (for verbs)
"""
