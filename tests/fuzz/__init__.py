"""Texts of any kind for every parser: a value or the project's own error in one line, and soon.

    corpus/*.txt (what is kept) ─▶ mutation (new texts from old) ─▶ parsers (each, and what it promises)
                    ▲                                                  │
                    └──────────── run (for hours; a text that breaks a promise is added) ◀──┘

A few seconds of it are in `make test`, with a fixed seed; `make campaign` goes on for longer with others.
"""
