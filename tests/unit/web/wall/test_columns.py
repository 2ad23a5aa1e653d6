"""What a page was told and what it is told then come to the same as all of it."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kizami.web.wall.columns import CHANGING, Columns, changes_of, in_language

WHOLE = Columns(["a", "b", "c", "d", "e"], [5] * 5, [7] * 5, [1] * 5, [10_000] * 5, [None] * 5, [None] * 5)


def heard(told: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """As the page's script puts together what it hears."""
    known = {name: list(column) for name, column in told.items()}
    for name, change in changes.items():
        if isinstance(change, dict):
            for place, value in change.items():
                known[name][int(place)] = value
        else:
            known[name] = list(change)
    return known


@given(st.data())
def test_what_has_changed_is_enough_to_know_everything(data: st.DataObject) -> None:
    now = WHOLE
    for name in CHANGING:
        column = data.draw(st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=5, max_size=5))
        now = replace(now, **{name: column})  # type: ignore[arg-type]
    everything = {field.name: list(getattr(now, field.name)) for field in fields(Columns)}
    assert heard({}, changes_of(now, None)) == everything
    assert heard(asdict(WHOLE), changes_of(now, WHOLE)) == everything


def test_little_news_is_told_in_little_and_none_not_at_all() -> None:
    assert changes_of(WHOLE, WHOLE) == {}
    assert changes_of(replace(WHOLE, counts=[1, 1, 9, 1, 1]), WHOLE) == {"counts": {"2": 9}}
    assert changes_of(replace(WHOLE, counts=[9, 9, 9, 1, 1]), WHOLE) == {"counts": [9, 9, 9, 1, 1]}


def test_causes_are_in_the_language_of_the_page() -> None:
    refused = "connection refused by 127.0.0.1:9"
    failing = replace(WHOLE, errors=[refused, None, "status 500", None, None])
    every, some = changes_of(failing, None), changes_of(replace(WHOLE, errors=[refused, *[None] * 4]), WHOLE)
    assert in_language(every, "en") == every
    (japanese,) = in_language(some, "ja")["errors"].values()
    assert japanese not in (None, refused)
    assert in_language(every, "ja") == every | {"errors": [japanese, None, "status 500", None, None]}
    assert in_language({"counts": [1]}, "ja") == {"counts": [1]}
