"""The agenda gives every live message back at its moment, the earliest first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kizami.local.engine.agenda import Agenda
from kizami.local.store.rows import TakenMessage
from kizami.local.store.statements import LIVE


def taken(due_ms: int, metric_id: int = 0) -> TakenMessage:
    return TakenMessage(
        slot=due_ms // 1000, metric_id=metric_id, seconds=5, priority=LIVE, due_ms=due_ms, attempts=0
    )


def test_nothing_is_due_before_its_moment() -> None:
    agenda = Agenda()
    assert agenda.next_ms is None
    agenda.add(taken(2000))
    agenda.add(taken(1000))
    assert agenda.next_ms == 1000
    assert list(agenda.due(999.9)) == []
    assert list(agenda.due(1000)) == [taken(1000)]
    assert agenda.next_ms == 2000


def test_cleared_it_gives_everything_back_and_is_empty() -> None:
    agenda = Agenda()
    agenda.add(taken(5))
    agenda.add(taken(10**15))
    assert list(agenda.clear()) == [taken(5), taken(10**15)]
    assert agenda.next_ms is None


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3))), st.lists(st.integers(0, 40), max_size=5))
def test_each_message_is_given_once_in_the_order_of_its_moment(
    added: list[tuple[int, int]], looks: list[int]
) -> None:
    agenda = Agenda()
    for due_ms, metric_id in added:
        agenda.add(taken(due_ms, metric_id))
    given_back = []
    for now_ms in sorted(looks):
        now_due = list(agenda.due(now_ms))
        assert all(each.due_ms <= now_ms for each in now_due)
        assert agenda.next_ms is None or agenda.next_ms > now_ms
        given_back += now_due
    given_back += agenda.clear()
    assert [each.due_ms for each in given_back] == sorted(each.due_ms for each in given_back)
    assert sorted(given_back) == sorted(taken(*each) for each in added)
