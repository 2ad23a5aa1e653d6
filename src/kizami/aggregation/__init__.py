"""The aggregation batch: one point a day for each user who was detected.

messages ─▶ batch ─▶ lock ─▶ users_api (signing) ─▶ points ─▶ stores/        log_codes: every line it writes
local_runner and scheduled_runs (by schedule) run it here, aws/aggregation.py on Lambda.
"""
