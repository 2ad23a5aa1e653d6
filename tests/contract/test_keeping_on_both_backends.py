"""Keeping for as long as one says, in both backends: records go, totals stay, and nothing of it is missing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from aws_here.deployed import GivenPlaces, store_records
from aws_here.local_aws import create_metrics_table, create_queue, dynamodb_at, lead_to
from kizami.aws.backend import AwsBackend
from kizami.aws.history.keeping import expiring, kept_metrics
from kizami.aws.history.totalling import Totalling
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.backend.port import Backend
from kizami.backend.snapshot import find_gaps_in
from kizami.backend.values import Bucket
from kizami.core.coverage import Completeness, Gap, Span
from kizami.core.epoch import to_seconds
from kizami.core.errors import InvalidInput
from kizami.core.messages import MetricRecord
from kizami.core.slots import Window
from kizami.core.targets.target import Target
from kizami.local.backend import LocalBackend
from kizami.local.store import statements
from kizami.local.store.database import open_database, transaction
from kizami.local.store.history.expiry import expire
from kizami.local.store.history.sealing import seal_closed
from kizami.local.store.metrics import register_targets
from kizami.local.store.rows import StoredRow
from samples.page_database import FixedClock

DAY, INTERVAL = 86_400, 1200
T0 = datetime(2025, 12, 1, tzinfo=UTC)
DAYS = 6
NOW = T0 + timedelta(days=DAYS)
KEPT = NOW - timedelta(days=1)
TARGETS = [
    Target(name="brief", interval_seconds=INTERVAL, keep_seconds=DAY, keep_totals_seconds=5 * DAY),
    Target(name="slow", interval_seconds=INTERVAL, keep_seconds=DAY),
    Target(name="ever", interval_seconds=INTERVAL),
]
SLOTS = range(to_seconds(T0), to_seconds(NOW), INTERVAL)
HOLES = {SLOTS[7], *SLOTS[60:63], SLOTS[-30]}  # one, an hour, and one that is kept


def records(target: Target) -> list[MetricRecord]:
    slots = (datetime.fromtimestamp(slot, UTC) for slot in SLOTS if slot not in HOLES)
    return [MetricRecord(target.name, slot, int(slot.timestamp()) // INTERVAL % 97, slot) for slot in slots]


def one_machine(path: Path) -> LocalBackend:
    """Six days, sealed and then expired as each target says."""
    connection = open_database(path, create=True)
    connection.execute("PRAGMA synchronous = OFF")
    with transaction(connection):
        known = register_targets(connection, TARGETS, T0)
        for target in TARGETS:
            rows = [(to_seconds(each.slot), int(each.count)) for each in records(target)]
            numbers = [
                StoredRow(slot, known[target.name].id, count, slot * 1000, 0, 1, False) for slot, count in rows
            ]
            statements.store(connection, numbers)
    for _ in seal_closed(connection, to_seconds(NOW), 0):
        pass
    for _ in expire(connection, to_seconds(NOW)):
        pass
    connection.close()
    return LocalBackend(path)


@cache
def table_on_aws(endpoint: str) -> str:
    """Six days of which totals were made each day; of what has expired DynamoDB has removed a part."""
    table = create_metrics_table(endpoint)
    store_records(endpoint, table, (each for target in TARGETS for each in expiring(records(target), target)))
    for day in range(1, DAYS + 1):
        store, now = DynamoDbMetricStore(table), T0 + timedelta(days=day, hours=1)
        Totalling(store, table, lambda: 60.0).of_metrics(list(kept_metrics(TARGETS)), now)
    remove_expired(endpoint, table)
    return table


def remove_expired(endpoint: str, table: str) -> None:
    """Every second record that has expired."""
    client = dynamodb_at(endpoint)
    condition: Any = {
        "FilterExpression": "expiresAt <= :now",
        "ExpressionAttributeValues": {":now": {"N": str(to_seconds(NOW))}},
    }
    pages = client.get_paginator("scan").paginate(TableName=table, **condition)
    expired = [item for page in pages for item in page["Items"] if not item["metricName"]["S"].startswith("#")]
    assert expired
    keys = [{name: item[name] for name in ("metricName", "slotTime")} for item in expired[::2]]
    for start in range(0, len(keys), 25):
        deletions: Any = [{"DeleteRequest": {"Key": key}} for key in keys[start : start + 25]]
        client.batch_write_item(RequestItems={table: deletions})


@pytest.fixture(params=["local", "aws-verb", "aws-page"], scope="module")
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    if request.param == "local":
        local = one_machine(tmp_path_factory.mktemp("keeping") / "kizami.db")
        yield local
        local.close()
    else:
        # DynamoDB Local: moto takes minutes for so many questions.
        tables, queues = map(request.getfixturevalue, ("dynamodb_local_endpoint", "moto_endpoint"))
        with pytest.MonkeyPatch.context() as patch:
            lead_to(queues, patch)
            patch.setenv("AWS_ENDPOINT_URL_DYNAMODB", tables)
            queue = create_queue(queues)
            places = GivenPlaces(table_on_aws(tables), queue, queue)
            yield AwsBackend(places, TARGETS, FixedClock(NOW), 960, keeps=request.param == "aws-page")


def hours(backend: Backend, metric: str, start: datetime, end: datetime) -> list[Bucket]:
    return backend.buckets(metric, start, end, 3600)


def test_of_what_is_given_up_the_totals_of_hours_stay_as_they_were(backend: Backend) -> None:
    assert hours(backend, "slow", T0, NOW) == hours(backend, "ever", T0, NOW)
    assert len(hours(backend, "slow", T0, NOW)) == 24 * DAYS - 1  # of one hour there is nothing
    edges = [T0 + timedelta(days=day) for day in range(DAYS + 1)]
    assert backend.figures("slow", edges) == backend.figures("ever", edges)
    assert backend.buckets("slow", T0, NOW, 2 * DAY) == backend.buckets("ever", T0, NOW, 2 * DAY)
    totals = backend.totals({name: Span(T0, NOW, INTERVAL) for name in ("slow", "ever")})
    assert totals["slow"] == totals["ever"]


def test_what_is_finer_than_an_hour_or_cuts_one_is_not_known_of_it(backend: Backend) -> None:
    given_up = T0, NOW - timedelta(days=4)
    assert backend.buckets("slow", *given_up, INTERVAL) == []
    halves = [T0 + timedelta(days=1, minutes=30 * number) for number in range(9)]
    assert {each.stored for each in backend.figures("slow", halves)} == {0}
    across = [T0 + timedelta(days=1, minutes=30), T0 + timedelta(days=1, hours=3, minutes=30)]
    assert [each.stored for each in backend.figures("slow", across)] == [6]


def test_totals_are_kept_for_as_long_as_their_target_says(backend: Backend) -> None:
    kept = NOW - timedelta(days=5)
    found = hours(backend, "brief", T0, NOW)
    assert [hour for hour in found if hour.start >= kept] == hours(backend, "ever", kept, NOW)
    if isinstance(backend, AwsBackend):  # on one machine they go with what was sealed together, up to a week
        assert found[0].start == kept


def test_nothing_that_was_given_up_is_missing(backend: Backend) -> None:
    whole = Span(T0, NOW, INTERVAL)
    hole = datetime.fromtimestamp(SLOTS[-30], UTC)
    assert backend.missing({"slow": whole}) == {"slow": [Gap(hole, hole + timedelta(seconds=INTERVAL), 1)]}
    assert len(backend.missing({"ever": whole})["ever"]) == 3


# One machine's targets go by its own clock; tests/contract/local_store/test_expiry.py has them.
@pytest.mark.parametrize("backend", ["aws-verb", "aws-page"], indirect=True)
def test_targets_are_expected_from_what_is_kept_on(backend: Backend) -> None:
    found = {target.name: target for target in backend.targets()}
    assert {name: target.first_slot for name, target in found.items()} == {"brief": KEPT, "slow": KEPT, "ever": T0}
    assert {name: target.kept_from for name, target in found.items()} == {
        "brief": KEPT,
        "slow": KEPT,
        "ever": None,
    }
    with pytest.raises(InvalidInput, match="keeps nothing from so long ago"):
        found["slow"].require_kept(T0, "--from")
    spans = {name: target.within(T0, NOW, NOW) for name, target in found.items() if name != "ever"}
    expected = spans["slow"].expected
    assert backend.completeness(spans) == dict.fromkeys(spans, Completeness(expected - 1, expected))
    gaps = find_gaps_in(backend, list(found.values()), Window(T0, NOW), NOW)
    assert sorted(entry.metric for entry in gaps) == ["brief", "ever", "ever", "ever", "slow"]
