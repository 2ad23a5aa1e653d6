"""As few of a failing seed's faults as still make it fail."""

from __future__ import annotations

from collections.abc import Callable


def fewest(faults: int, fails: Callable[[frozenset[int]], bool]) -> frozenset[int]:
    """Leave out ever smaller pieces, as long as it still fails without them."""
    kept = list(range(faults))
    size = max(1, len(kept) // 2)
    while size:
        for start in range(0, len(kept), size):
            fewer = kept[:start] + kept[start + size :]
            if fails(frozenset(fewer)):
                kept = fewer
                break
        else:
            size //= 2
    return frozenset(kept)
