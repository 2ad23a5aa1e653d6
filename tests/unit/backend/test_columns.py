"""Records in columns: as lines and JSON, all at once."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from kizami.backend.columns import RecordColumns, after_slots, whole_seconds
from kizami.core.epoch import InstantTexts
from kizami.core.sealed_spans import MomentsAfter

SLOT = 1_764_671_400  # 2025-12-02T10:30:00Z
_PARTS = ("", "  ", "  ", "\n")


def test_a_line_a_record_whose_counts_stand_below_each_other() -> None:
    records = RecordColumns(
        "chat", 0, range(SLOT, SLOT + 10, 5), [7, 12_345], [SLOT * 1000 + 5999, SLOT * 1000 + 10_000]
    )
    assert records.lines(_PARTS, InstantTexts(), 6).decode().splitlines() == [
        "2025-12-02T10:30:00Z       7  2025-12-02T10:30:05Z",
        "2025-12-02T10:30:05Z   12345  2025-12-02T10:30:10Z",
    ]


def test_counts_with_decimal_places_are_written_in_plain_digits() -> None:
    records = RecordColumns("chat", 2, [SLOT, SLOT + 60], [705, -10], [SLOT * 1000, SLOT * 1000 + 60_000])
    assert records.lines(_PARTS, InstantTexts(), 6).decode().splitlines() == [
        "2025-12-02T10:30:00Z    7.05  2025-12-02T10:30:00Z",
        "2025-12-02T10:31:00Z    -0.1  2025-12-02T10:31:00Z",
    ]


def test_a_percent_sign_or_a_quote_in_a_name_is_kept() -> None:
    records = RecordColumns('50% "応答"', 0, [SLOT], [1], [SLOT * 1000])
    assert json.loads(records.json_objects("", InstantTexts())) == {
        "metricName": '50% "応答"',
        "slotTime": "2025-12-02T10:30:00Z",
        "count": 1,
        "collectedAt": "2025-12-02T10:30:00Z",
    }


@given(st.integers(1, 90), st.lists(st.integers(-2000, 9000), min_size=1, max_size=50), st.data())
def test_moments_after_slots_are_those_added_up(step: int, after: list[int], data: st.DataObject) -> None:
    slots = range(SLOT, SLOT + step * len(after), step)
    added = [1000 * slot + each for slot, each in zip(slots, after, strict=True)]
    for some in (slots, [*slots]):
        moments = MomentsAfter(some, after)
        assert [*moments] == added
        assert [moments[place] for place in range(len(moments))] == added
        assert [*whole_seconds(moments)] == [*whole_seconds(added)] == [each // 1000 for each in added]
        begin = data.draw(st.integers(0, len(after)))
        assert [*moments[begin:]] == added[begin:]
        for told in (moments, added):
            assert [*after_slots(told, some)] == after
            assert [*after_slots(told, [SLOT] * len(after))] == [each - 1000 * SLOT for each in added]


def test_moments_in_the_same_second_after_each_slot_are_a_range() -> None:
    assert MomentsAfter(range(0, 15, 5), [5000, 5999, 5001]).seconds() == range(5, 20, 5)
    assert MomentsAfter(range(0, 15, 5), [5000, 6000, 5001]).seconds() == [5, 11, 15]
