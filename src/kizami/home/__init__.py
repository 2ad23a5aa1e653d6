"""A home of the data, whichever it is: the port, its values, and what is made of them for people and programs.

    local/home.py, aws/home.py ─▶ port (a Home: its questions and repairs, in terms of values and targets)
    port ─▶ snapshot (one look at everything) ─▶ health (numbers, verdict)
    port ─▶ grid (the state of every slot)
    port ─▶ chart (buckets few enough to draw)
    port ─▶ repair (what a backfill would do, and doing it)
    all of these ─▶ wire (as JSON and CSV), web/view/ (as HTML), cli/ (as text)

Alerts and incidents will stand on the port too, in a room beside this one.
"""
