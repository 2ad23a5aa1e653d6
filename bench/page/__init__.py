"""The page in a real browser: `make bench-page`.

backend (a database of thousands of targets with days of history), aws (a stack of a thousand, made up)
    ─▶ __main__ (serves it, looks, prints) ─▶ measures (what is measured of the browser and of the server),
                                              polls (how late `kizami up` polls while pages are open)
"""
