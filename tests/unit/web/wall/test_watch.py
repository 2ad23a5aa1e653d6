"""A look waits for nothing that takes long: that is renewed beside it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kizami.local.backend import LocalBackend
from kizami.web.wall import kept
from kizami.web.wall.watch import Watch
from samples.page_database import build_backend

NOW = datetime(2025, 12, 2, 10, 0, tzinfo=UTC)


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalBackend:
    monkeypatch.setattr(kept, "SOON_SECONDS", -1.0)  # everything takes long
    monkeypatch.setattr(kept, "REST_FOR_WORK", 0)  # and is due
    build_backend(tmp_path / "kizami.db", NOW)
    return LocalBackend(tmp_path / "kizami.db")


def test_a_look_tells_the_gaps_that_were_found_and_a_renewal_finds_them(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, asked = Watch(), list[str]()
    watch.renew(backend, NOW)  # nobody has looked: there is nothing to renew
    first = watch.look(backend, NOW)
    assert first.gaps

    def noting(name: str, question: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*details: Any) -> Any:
            asked.append(name)
            return question(*details)

        return ask

    for name in ("missing", "completeness", "lateness", "dead_letters"):
        monkeypatch.setattr(backend, name, noting(name, getattr(backend, name)))
    second = watch.look(backend, NOW)
    assert (second.gaps, second.episodes, asked) == (first.gaps, first.episodes, [])
    watch.renew(backend, NOW)
    assert {*asked} == {"missing", "completeness", "lateness", "dead_letters"}


def test_after_an_action_a_look_reads_for_itself(backend: LocalBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch()
    assert watch.look(backend, NOW).episodes
    monkeypatch.setattr(backend, "missing", lambda spans: {})
    monkeypatch.setattr(backend, "dead_letters", lambda *_: [])
    watch.forget()
    snapshot = watch.look(backend, NOW)
    assert (snapshot.gaps, snapshot.episodes) == ([], [])


def test_gaps_of_a_target_that_is_gone_since_they_were_found_are_told_no_more(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch()
    gone = watch.look(backend, NOW).gaps[0].metric
    known = backend.targets
    monkeypatch.setattr(backend, "targets", lambda **how: [each for each in known(**how) if each.name != gone])
    snapshot = watch.look(backend, NOW)
    assert gone not in {each.metric for each in snapshot.gaps}
    unasked = [each for each in snapshot.episodes if each.cause is None]
    assert {name for each in unasked for name in each.metrics} <= snapshot.targets.keys()
