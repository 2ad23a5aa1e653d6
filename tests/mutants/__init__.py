"""Faults that the tests must notice: each mutant is a small change of the source that breaks a promise.

    *.toml (the list) ─▶ mutant (one, and its place) ─▶ run (`make mutants`: each in a copy, with its tests)

A test beside them sees to it that each still has its place, so that the list does not rot.
"""
