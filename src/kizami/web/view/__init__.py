"""A page: address (the view in the URL) ─▶ screen (what it shows) ─▶ phrasing, words ─▶ render (templates).

panel_links: the same as JSON, as CSV and on the command line.
"""
