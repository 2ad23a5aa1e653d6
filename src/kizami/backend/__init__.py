"""A backend of the data, whichever it is: the port, its values, and what is made of them for people and programs.

local/backend.py, aws/backend.py ─▶ port (a Backend: its questions and repairs, in terms of values and targets)
slots (one question about slots, asked in views) ─▶ old_questions (the port's questions about counts and records)
port ─▶ snapshot (one look at everything) ─▶ health (numbers, verdict)
snapshot ─▶ causes (what is lacking, by cause and time)
port ─▶ columns (records by the million)
port ─▶ grid (the state of every slot)
port ─▶ calendar (how complete each day and hour is)
port ─▶ chart (buckets few enough to draw)
port ─▶ figures/ (sums, means, extremes and completeness by the hour or day of a zone)
times/: times, durations and zones as people write them; name_patterns: names with stars
port ─▶ repair (what a backfill would do, and doing it)
port ─▶ alerts/ (what is wrong, who is told) ─▶ incidents (as they are kept), the log of events
all of these ─▶ wire (as JSON and CSV), web/view/ (as HTML), cli/ (as text)
"""
