"""Alerts: who is told what when something breaks, and when it is whole again (pure; the backends carry it out).

kizami.toml ─▶ rules/ (who, when, about what; maintenance)
a backend ─▶ looks (one look at it) ─▶ troubles (what is wrong), numbers (what the counts say) ─▶ findings ─▶ seen
a run of the reconciler on AWS ─▶ reconciled (the look that it makes) ─▶ seen
       ─▶ decision ─▶ incidents (begin, join, end) ─▶ notices (who is to be told what)
                   ─▶ messages (as values) ─▶ texts, by words (for people); webhook (for programs, signed)
keeping: documents (an incident as the JSON that both backends store)
"""
