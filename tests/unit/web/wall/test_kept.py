"""Who asks waits for a figure only if it is read in no time, is old, or was changed by somebody."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kizami.web.wall import kept
from kizami.web.wall.kept import OVERDUE_SECONDS, REST_FOR_WORK, Kept


class Clock:
    """Time that passes while somebody reads."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def reading(self, figure: str, takes: float) -> Callable[[], str]:
        def read() -> str:
            self.seconds += takes
            return figure

        return read


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(kept, "monotonic", lambda: made.seconds)
    return made


def never() -> str:
    raise AssertionError("it was read")


def test_what_takes_no_time_is_found_anew_when_it_is_due(clock: Clock) -> None:
    figure = Kept[str]()
    assert figure.get(clock.reading("old", takes=0.01)) == "old"
    assert figure.get(never) == "old"
    clock.seconds += REST_FOR_WORK * 0.01
    assert figure.get(clock.reading("new", takes=0.01)) == "new"


def test_what_takes_long_is_told_as_it_was_until_somebody_renews_it(clock: Clock) -> None:
    figure = Kept[str]()
    assert figure.get(clock.reading("old", takes=1.0)) == "old"
    figure.renew(never)
    clock.seconds += REST_FOR_WORK
    assert figure.get(never) == "old"
    figure.renew(clock.reading("new", takes=1.0))
    assert figure.get(never) == "new"


def test_nobody_is_told_an_old_figure(clock: Clock) -> None:
    figure = Kept[str]()
    figure.get(clock.reading("old", takes=1.0))
    clock.seconds += REST_FOR_WORK + OVERDUE_SECONDS
    assert figure.get(clock.reading("new", takes=1.0)) == "new"


def test_what_was_read_while_somebody_changed_it_is_read_again(clock: Clock) -> None:
    figure = Kept[str]()
    figure.get(clock.reading("before", takes=1.0))
    clock.seconds += REST_FOR_WORK

    def overtaken() -> str:
        figure.forget()
        return "before, still"

    figure.renew(overtaken)
    assert figure.get(clock.reading("after", takes=1.0)) == "after"
