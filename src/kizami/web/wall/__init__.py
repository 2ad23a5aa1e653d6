"""What open pages share, however many targets and pages there are: figures that are kept, and told in small.

backend/port ─▶ watch (one look for all pages, its figures kept by kept) ─▶ a Snapshot
    ─▶ columns (every target in a few columns: all of them once, then what has changed)
backend/port ─▶ trends (the hour and the day of the rows that somebody sees)
backend/port ─▶ calendars (days and hours of all targets together)
backend/port ─▶ orders (how far the backfills that were ordered on a page have come)
backend/port ─▶ incidents (what is open and was, what happened; alerts/ has the words)
"""
