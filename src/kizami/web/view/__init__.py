"""How the page looks.

the URL's query ─▶ address (a View) ─▶ screen (what it shows of a snapshot, and panel_links)
    ─▶ render (templates/: the whole page, or the parts that have changed) ─▶ HTML
            └─▶ phrasing (the verdict and tiles as sentences) ─▶ words/ (English and Japanese)
panel_links: each panel as JSON, as CSV and on the command line
"""
