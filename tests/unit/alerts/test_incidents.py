"""What an incident keeps of its members: the first slot that lacks, and when it answered again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kizami.alerts.findings import AlertFinding, collect
from kizami.alerts.incidents import recovered_at, track
from kizami.backend.incidents import Incident, Kind

NOW = datetime(2025, 12, 2, 10, tzinfo=UTC)


def test_the_first_slot_that_lacks_stays_the_first() -> None:
    kinds = frozenset(list(Kind)[:1])
    first, later = NOW - timedelta(minutes=5), NOW - timedelta(minutes=1)
    incidents = track([], collect([AlertFinding("trouble", "t", "calls", kinds, first_slot=first)]), NOW, 1)
    for slot in (later, None):
        found = collect([AlertFinding("trouble", "t", "calls", kinds, first_slot=slot)])
        incidents = track(incidents, found, NOW + timedelta(seconds=10), 2)
    (incident,) = incidents
    assert incident.members["calls"].first_slot == first


def seen(incidents: list[Incident], minutes: int, *kinds: Kind) -> list[Incident]:
    found = [AlertFinding("trouble", "t", "calls", frozenset(kinds), first_slot=NOW)] if kinds else []
    return track(incidents, collect(found), NOW + timedelta(minutes=minutes), 1)


def test_a_target_has_recovered_when_it_answers_though_its_dead_slots_are_news_for_longer() -> None:
    incidents = seen([], 0, Kind.FAILS)
    for minutes in (2, 3, 4):
        incidents = seen(incidents, minutes, Kind.DEAD)
    (incident,) = incidents
    assert incident.members["calls"].clear_since is None, "it goes on while that is news"
    (incident,) = seen(incidents, 6)
    assert recovered_at(incident.members.values()) == NOW + timedelta(minutes=2)
    assert incident.members["calls"].clear_since == NOW + timedelta(minutes=6)


def test_one_that_fails_again_has_not_recovered() -> None:
    incidents = seen(seen([], 0, Kind.FAILS), 2, Kind.DEAD)
    (incident,) = seen(seen(incidents, 3, Kind.DEAD, Kind.FAILS), 5)
    assert recovered_at(incident.members.values()) == NOW + timedelta(minutes=5)
