"""How the file gets smaller again when much of it is free: its last pages move to the front, some at a time."""

from __future__ import annotations

from collections.abc import Iterator

import apsw

_PAGES_AT_ONCE = 500
# What sealing frees is used again by the next hour's rows, so a part of the file may well be free.
_MOST_FREE, _LEFT_FREE = 0.25, 0.1
_LEAST_PAGES = 1000


def give_back(connection: apsw.Connection) -> Iterator[int]:
    """Give the file system back what is free, if that is much; each step tells of how many pages."""
    free, pages = _free(connection)
    if free < _LEAST_PAGES or free < _MOST_FREE * pages:
        return
    while free > _LEFT_FREE * pages:
        connection.execute(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})").fetchall()
        before, (free, pages) = free, _free(connection)
        if free >= before:
            return  # who writes at the same time needs more than there is to give
        yield before - free


def _free(connection: apsw.Connection) -> tuple[int, int]:
    return int(connection.execute("PRAGMA freelist_count").get), int(connection.execute("PRAGMA page_count").get)
