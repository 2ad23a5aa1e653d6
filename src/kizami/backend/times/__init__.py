"""Times as people write and read them, one copy for verbs, page and API.

`1h30m` ─▶ durations ─▶ seconds
`Asia/Tokyo` ─▶ zones ─▶ a zone: what its clocks show, and when they show it
`yesterday`, `-2h`, `2025-12-02 10:00` ─▶ asked (in the zone that was asked for) ─▶ instants and ranges
"""
