"""An outage is told by its cause and time, however many targets and slots it has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kizami.backend import causes
from kizami.backend.causes import FoundGap, episodes_of, is_about
from kizami.backend.values import DeadLetter
from kizami.core.coverage import Gap

NOW = datetime(2025, 12, 2, 10, 0, tzinfo=UTC)


def letter(metric: str, second: int, reason: str = "status 503") -> DeadLetter:
    slot = NOW + timedelta(seconds=second)
    return DeadLetter(slot, metric, 5, 5, slot, slot, reason, False)


def gap(metric: str, second: int, slots: int) -> FoundGap:
    start = NOW + timedelta(seconds=second)
    return FoundGap(metric, 5, Gap(start, start + timedelta(seconds=5 * slots), slots))


def test_twelve_slots_of_one_cause_are_one_line() -> None:
    (found,) = episodes_of([], [letter("calls", 5 * number) for number in range(12)])
    assert (found.slots, found.cause, found.metrics) == (12, "status 503", ("calls",))
    assert (found.start, found.end) == (NOW, NOW + timedelta(minutes=1))


def test_targets_that_fail_together_are_one_line_and_those_that_do_not_are_others() -> None:
    together = [gap(f"target_{number:03}", number % 7 * 5, 24) for number in range(300)]
    apart = gap("target_000", 3600, 2)
    (later, outage) = episodes_of([*together, apart], [letter("target_000", 0)])[0:2]
    assert (later.metrics, later.slots) == (("target_000",), 2)
    assert (len(outage.metrics), outage.slots, outage.cause) == (300, 300 * 24, None)


def test_what_is_long_over_is_not_compared_with_what_came_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute in ten of a whole day, of twenty targets: each run is compared with its own time's alone."""
    compared: list[causes.Episode] = []
    is_near = causes._is_near

    def compare(one: causes.Episode, other: causes.Episode) -> bool:
        compared.append(one)
        return is_near(one, other)

    monkeypatch.setattr(causes, "_is_near", compare)
    runs = [gap(f"target_{number:02}", 600 * minute, 12) for number in range(20) for minute in range(144)]
    found = episodes_of(runs, [])
    assert [(len(each.metrics), each.slots) for each in found] == [(20, 20 * 12)] * 144
    assert len(compared) < 2 * len(runs)


def test_another_cause_is_another_line() -> None:
    found = episodes_of([gap("calls", 0, 3)], [letter("calls", 15), letter("calls", 20, "timeout")])
    assert [each.cause for each in found] == ["timeout", "status 503", None]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2000), st.sampled_from(["x", "y"])), unique=True))
def test_no_slot_is_lost_or_told_twice(dead: list[tuple[str, int, str]]) -> None:
    letters = [letter(metric, 5 * second, reason) for metric, second, reason in dead]
    found = episodes_of([], letters)
    assert sum(each.slots for each in found) == len(letters)
    for each in letters:
        assert any(
            each.metric in one.metrics and each.reason == one.cause and one.start <= each.slot < one.end
            for one in found
        )


def test_a_dead_letter_is_about_each_of_the_values_that_it_asked_for() -> None:
    assert is_about("api", "api/errors")
    assert is_about("api", "api")
    assert not is_about("api", "apis")
