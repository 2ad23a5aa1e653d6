"""How the page looks.

the URL's query ─▶ address (a View) ─▶ screen (what it shows of a snapshot, and panel_links)
    ─▶ render (templates/: the whole page, or the parts that have changed) ─▶ HTML
            └─▶ phrasing (the verdict and tiles as sentences) ─▶ words/ (English and Japanese)
incident_lists: what is open, what was, what happened
wall: all targets in their groups, the worst first
assets: the addresses of static/, which a browser keeps
panel_links: each panel as JSON, as CSV and on the command line
"""
