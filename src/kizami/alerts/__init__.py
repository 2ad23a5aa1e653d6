"""Alerts: incidents, and messages when they begin and are over (pure; the backends save and deliver them).

kizami.toml ─▶ rules/ (receivers, conditions, targets; maintenance)
a backend ─▶ watch (one look at it, and the decision; the daemon and the reconciler on AWS call it)
       ─▶ troubles (what is wrong), numbers (what the counts say) ─▶ findings ─▶ seen
          reconciled (the look of a run on AWS that judges by what it has read itself)
       ─▶ decision ─▶ incidents (begin, join, end) ─▶ notices (which messages are due)
                   ─▶ messages (as values) ─▶ texts, by words (for people); webhook (for programs, signed)
keeping: documents (an incident as the JSON that both backends store)
"""
