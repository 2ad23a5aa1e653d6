"""Pages of records, which are written without a look at each."""

from __future__ import annotations

import json

import pytest

from kizami.backend.columns import RecordColumns
from kizami.core.sealed_spans import MomentsAfter
from kizami.web.paging import Page, RecordItems

SLOT = 1_764_671_400  # 2025-12-02T10:30:00Z


def _piece(first: int, count: int) -> RecordColumns:
    slots = range(first, first + 5 * count, 5)
    return RecordColumns("chat", 0, slots, [*range(count)], MomentsAfter(slots, [5100] * count))


@pytest.mark.parametrize("sizes", [(), (0,), (3,), (2, 3), (2, 0), (0, 2)])
def test_a_page_of_pieces_is_one_document(sizes: tuple[int, ...]) -> None:
    """Also where a piece ends with the page, so that nothing of the next one is in it."""
    items = RecordItems([_piece(SLOT + 100 * number, size) for number, size in enumerate(sizes)])
    page = json.loads(Page(items, [7]).json_body())
    assert [item["count"] for item in page["items"]] == [count for size in sizes for count in range(size)]
    assert page["items"] == [*items]
    assert page["next"]
