"""Incidents of any size in the table: at every moment as they were or as they become, and nothing is left over."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aws_here.local_aws import create_metrics_table, lead_to
from kizami.alerts.decision import AlertState, Decision
from kizami.aws import incidents
from kizami.aws.dynamodb import call_dynamodb, change_item
from kizami.aws.incidents import ALERTS_PARTITION, IncidentItems, KeptState, PackedDocuments
from kizami.backend.incidents import Incident, Kind, Member
from kizami.core.errors import StoreError

T0 = datetime(2025, 12, 2, 8, 34, tzinfo=UTC)
MANY = 100_000
COMMIT = "TransactWriteItems"


@pytest.fixture
def table(transacting_endpoint: str) -> str:
    return create_metrics_table(transacting_endpoint)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incidents, "PART_BYTES", 60)


def random_names(number: int) -> list[str]:
    chance = random.Random(7)
    return ["".join(chance.choices(string.ascii_letters + string.digits, k=20)) for _ in range(number)]


def incident_of(names: list[str]) -> Incident:
    members = {name: Member(name, frozenset({Kind.FAILS, Kind.SILENT}), T0, first_slot=T0) for name in names}
    return Incident(1, "trouble", "status 503", "status 503, expected 200", T0, members)


def healed(incident: Incident) -> Incident:
    over = T0 + timedelta(minutes=10)
    members = {name: replace(member, clear_since=over) for name, member in incident.members.items()}
    return replace(incident, members=members, over_since=over)


def save(table: str, incident: Incident) -> bool:
    items = IncidentItems(table)
    return items.save(Decision(AlertState((incident,), 2), (incident,)), {}, items.read())


def keys(table: str) -> list[str]:
    documents = PackedDocuments(table, ALERTS_PARTITION)
    return [item["slotTime"]["S"] for item in documents.query("slotTime >= :key", {":key": {"S": "!"}})]


def parts(table: str) -> list[str]:
    return [key for key in keys(table) if key.startswith("part/")]


def versions(table: str) -> set[str]:
    """Those that have parts."""
    return {key.rsplit("/", 2)[1] for key in parts(table)}


def test_an_incident_of_a_hundred_thousand_targets_of_any_name_is_kept(
    dynamodb_local_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead_to(dynamodb_local_endpoint, monkeypatch)
    table = create_metrics_table(dynamodb_local_endpoint)
    incident = incident_of(random_names(MANY))
    assert save(table, incident)
    assert IncidentItems(table).read().state.incidents == (incident,)
    assert len(parts(table)) > 2
    assert save(table, healed(incident))
    assert list(IncidentItems(table).newest()) == [healed(incident)]
    assert len(versions(table)) == 1, "what the parts were before is removed"


def test_when_each_receiver_was_told_of_thousands_of_topics_is_kept(table: str) -> None:
    told = {("ops", "trouble", topic): T0 for topic in random_names(30_000)}
    items = IncidentItems(table)
    assert items.save(Decision(AlertState((), 7, told)), {}, KeptState(AlertState()))
    kept = items.read()
    assert kept.state == AlertState((), 7, told)
    assert items.save(Decision(AlertState((), 8)), {}, kept)
    assert keys(table) == ["state"]


def die_after(changes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function is ended before it changes anything more."""
    left = iter(range(changes))

    def change(time_left: Any, operation: str, parameters: Any) -> bool:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return change_item(time_left, operation, parameters)

    def call(time_left: Any, operation: str, parameters: Any) -> Any:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return call_dynamodb(time_left, operation, parameters)

    monkeypatch.setattr(incidents, "change_item", change)
    monkeypatch.setattr(incidents, "call_dynamodb", call)


def live_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incidents, "change_item", change_item)
    monkeypatch.setattr(incidents, "call_dynamodb", call_dynamodb)


@pytest.mark.usefixtures("small_parts")
def test_a_run_that_dies_between_its_writes_leaves_the_incident_whole_and_the_next_one_tidies_up(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = incident_of(random_names(3))
    after = incident_of([*before.members, *random_names(5)])
    for changes in range(100):
        assert save(table, before)
        assert len(versions(table)) == 1
        die_after(changes, monkeypatch)
        try:
            assert save(table, after)
        except KeyboardInterrupt:
            assert IncidentItems(table).incident(1) in (before, after), f"after {changes} changes"
        else:
            break
        finally:
            live_on(monkeypatch)
    assert changes > 5, "it has died at each of its writes"
    assert IncidentItems(table).incident(1) == after
    assert len(versions(table)) == 1


@pytest.mark.usefixtures("small_parts")
def test_a_run_that_died_with_its_first_parts_leaves_nothing_behind_where_the_incident_stays_small(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    die_after(3, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        save(table, incident_of(random_names(9)))
    assert len(parts(table)) == 3
    assert IncidentItems(table).incident(1) is None
    live_on(monkeypatch)
    monkeypatch.setattr(incidents, "PART_BYTES", 300_000)
    assert save(table, incident_of(["a"]))
    assert keys(table) == ["incident/000000000001", "state"]


def at_head(step: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Something happens just before the next heads are written."""
    steps = iter([step])

    def call(time_left: Any, operation: str, parameters: Any) -> Any:
        if operation == COMMIT and (found := next(steps, None)) is not None:
            found()
        return call_dynamodb(time_left, operation, parameters)

    monkeypatch.setattr(incidents, "call_dynamodb", call)


@pytest.mark.usefixtures("small_parts")
def test_of_two_runs_that_write_an_incident_at_once_one_wins_and_the_parts_of_the_other_go(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, slow = incident_of(random_names(5)), incident_of(random_names(9))
    at_head(lambda: save(table, quick), monkeypatch)
    assert not save(table, slow)
    assert IncidentItems(table).incident(1) == quick
    assert len(versions(table)) == 1


@pytest.mark.usefixtures("small_parts")
def test_a_write_whose_answer_got_lost_is_not_taken_for_anothers(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(time_left: Any, operation: str, parameters: Any) -> Any:
        if operation == COMMIT:
            call_dynamodb(time_left, operation, parameters)
        return call_dynamodb(time_left, operation, parameters)

    monkeypatch.setattr(incidents, "call_dynamodb", call)
    incident = incident_of(random_names(9))
    assert save(table, incident)
    assert IncidentItems(table).read().state.incidents == (incident,)


@pytest.mark.usefixtures("small_parts")
def test_whoever_reads_while_an_incident_is_written_anew_finds_it_as_it_is_then(table: str) -> None:
    before, after = incident_of(random_names(5)), incident_of(random_names(9))
    save(table, before)
    newest = IncidentItems(table).newest()
    documents = PackedDocuments(table, ALERTS_PARTITION)
    head = documents.head("incident/000000000001")
    assert head is not None
    save(table, healed(after))
    found = documents.read(head)
    assert found is not None
    assert "over" in found[0], "attributes and document are of one version"
    assert list(newest) == [healed(after)]


@pytest.mark.usefixtures("small_parts")
def test_a_document_that_somebody_has_taken_parts_of_is_an_error_with_its_name(table: str) -> None:
    save(table, incident_of(random_names(5)))
    key = {"metricName": {"S": ALERTS_PARTITION}, "slotTime": {"S": parts(table)[0]}}
    change_item(lambda: 8, "DeleteItem", {"TableName": table, "Key": key})
    with pytest.raises(StoreError, match="incident/000000000001 lacks parts"):
        IncidentItems(table).incident(1)
