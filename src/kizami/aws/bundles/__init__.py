"""Bundles: one message for up to a hundred targets.

infra ─▶ files (the configuration in pieces, written at synth and found again by the functions)
sender (a minute's messages) ─▶ SQS ─▶ collector ─▶ collecting (all slots of a delivery side by side)
    collecting ─▶ asking (one slot: may it be asked, the request, the answer) ─▶ client/side_by_side
        ─▶ writing (records that arrive together, 25 a call) ─▶ store/record_batches; store/tick_ledger
        ─▶ returning (what failed goes back alone or becomes a dead letter, with its reason) ─▶ SQS
reconciler ─▶ reconciling (what was due less the ledger) ─▶ short_ticks (whose turn it is) ─▶ backfill (the queue)
    ─▶ telling (who is to be told) ◀─ recent_ticks (who lacks slots lately, by the ledger) ─▶ aws/alerts/
"""
