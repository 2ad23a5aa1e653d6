"""The aggregation batch: one point a day for each user who was detected.

    messages (a company and its key) ─▶ batch ─▶ lock (may this run?) ─▶ users_api, signed by signing
        ─▶ points (who counts today, and for which day) ─▶ stores/ (locks and points, written once)
    log_codes: every line that a run writes

It is run by

    `kizami up` ─▶ schedule (the [aggregation] table) ─▶ scheduled_runs ─▶ local_runner ─▶ batch
    `kizami aggregate run` ─▶ local_runner ─▶ batch
    SQS ─▶ kizami/aws/aggregation.py ─▶ batch
"""
