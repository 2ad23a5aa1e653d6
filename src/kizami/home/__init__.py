"""A home of the data, whichever it is: the port, its values, and what is made of them for people and programs.

port (with values, targets) ─▶ snapshot (one look at everything) ─▶ health (numbers, verdict) ─▶ wire (JSON)
  │       grid (the state of each slot), chart (buckets to draw)
  └─▶ repair: what a backfill would do, and doing it
Implemented by local/home.py and aws/home.py; used by cli/ and web/. Alerts and incidents stand on it too.
"""
