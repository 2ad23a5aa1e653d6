"""What pages are told each second: a part that says nothing new is the same text, and is not sent again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from kizami.local.backend import LocalBackend
from kizami.web.view.address import View
from kizami.web.view.render import Parts, render_parts, zoned
from kizami.web.view.screen import look
from kizami.web.view.words import words_in
from kizami.web.wall.watch import Watch
from samples.database import FixedClock, at, bury_slots, make_database

SLOTS = 240
NOW = at(SLOTS) + timedelta(seconds=8)


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[LocalBackend]:
    """One that is well, one that has been silent for minutes, and one that lacks some slots of before."""
    stored = {"well": range(SLOTS), "silent": range(SLOTS - 60), "torn": {*range(SLOTS)} - {*range(9, 19)}}
    backend = LocalBackend(make_database(tmp_path / "kizami.db", stored), clock=FixedClock(NOW))
    yield backend
    backend.close()


def parts_at(backend: LocalBackend, now: datetime, view: View | None = None, language: str = "en") -> Parts:
    watch = Watch()
    snapshot, orders = watch.look(backend, now), watch.orders.look(backend, now)
    screen = look(backend, view or View(), snapshot, orders, watch.incidents.look(backend, now))
    return render_parts(screen, words_in(language))


def test_a_cause_is_in_the_language_of_the_page_and_its_button_has_the_reason_as_it_is(
    backend: LocalBackend, tmp_path: Path
) -> None:
    reason = "connection refused by 127.0.0.1:9"
    bury_slots(tmp_path / "kizami.db", "torn", range(9, 12), reason, NOW)
    for language, words in (("en", reason), ("ja", "127.0.0.1:9 が接続を拒否")):
        page = "".join(parts_at(backend, NOW, language=language).parts.values())
        assert f">{words}</th>" in page
        assert f'data-reason="{reason}"' in page


def test_a_second_in_which_nothing_happens_is_told_by_nothing_but_the_age(backend: LocalBackend) -> None:
    for view in (View(), View(metric="silent")):
        first, second = (parts_at(backend, NOW + timedelta(seconds=more), view).parts for more in (0, 1))
        assert {name for name, html in first.items() if second[name] != html} <= {"tile-age"}


def test_an_outage_leads_to_the_grid_as_it_is_and_an_older_hole_to_its_moment(backend: LocalBackend) -> None:
    wall = parts_at(backend, NOW).parts["episodes"]
    assert 'href="/targets/silent#slots"' in wall
    assert 'href="/targets/torn?until=2025-12-02T09%3A14%3A45Z#slots"' in wall


def test_what_looks_like_a_moment_and_is_none_stays_as_it_is() -> None:
    text = "until 2026-02-30T00:00:00Z <b> 0000-00-00T00:00:00Z, not 2026-02-03T04:05:06Z"
    shown = zoned(text)
    assert shown.startswith("until 2026-02-30T00:00:00Z &lt;b&gt; 0000-00-00T00:00:00Z, not <time ")
    assert shown.count("<time ") == 1
