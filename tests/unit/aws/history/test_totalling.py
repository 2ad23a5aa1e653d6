"""Records that do not stay for ever: the Collector says when they go, the reconciler keeps their totals."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aws_here.bundled import Bundled, deploy_bundles
from aws_here.lambda_events import LambdaContext
from aws_here.local_aws import dynamodb_at
from fakes.polled_api import PolledApi, serving
from kizami.aws.history import totalling
from kizami.aws.history.hour_totals import HourTotals
from kizami.aws.history.keeping import expiring, hour_of
from kizami.aws.reconciler import handler
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.backend.values import Bucket
from kizami.core.messages import BundleMessage, MetricRecord
from kizami.core.slots import Window, slots_between
from kizami.core.targets.target import Target

DAY = 86_400
HOUR = timedelta(hours=1)
CONFIG = """
keep = "2d"

[[targets]]
name = "a"
url = "{url}/a"
path = "/response_count?from={{from}}&to={{to}}"
interval = "60s"

[[targets]]
name = "b"
url = "{url}/b"
path = "/response_count?from={{from}}&to={{to}}"
interval = "60s"
keep = "3d"
keep_totals = "3d"

[[targets]]
name = "off"
url = "{url}/off"
path = "/response_count?from={{from}}&to={{to}}"
interval = "60s"
enabled = false
"""
A, OFF = (Target(name=name, interval_seconds=60, keep_seconds=2 * DAY) for name in ("a", "off"))
B = Target(name="b", interval_seconds=60, keep_seconds=3 * DAY)


@pytest.fixture
def aws(
    dynamodb_local_endpoint: str, moto_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bundled:
    config = CONFIG.format(url="http://127.0.0.1:9")
    return deploy(config, dynamodb_local_endpoint, moto_endpoint, tmp_path, monkeypatch)


def deploy(config: str, tables: str, queues: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Bundled:
    deployed = deploy_bundles(config, folder, tables, queues, monkeypatch)
    monkeypatch.setenv("QUEUE_URL", deployed.queue)
    monkeypatch.setenv("KIZAMI_RECONCILE_HOURS", "1")
    monkeypatch.setenv("KIZAMI_RECONCILE_LIMIT", "0")  # nothing is asked for here
    return deployed


def hours_ago(hours: int) -> datetime:
    return hour_of(datetime.now(UTC)) - hours * HOUR


def store(aws: Bundled, target: Target, hour: datetime, counts: Iterable[int]) -> list[int]:
    numbers = list(counts)
    slots = slots_between(hour, hour + HOUR, target.interval_seconds)
    records = [MetricRecord(target.name, slot, count, slot) for slot, count in zip(slots, numbers, strict=False)]
    aws.store(expiring(records, target))
    return numbers


def totals(aws: Bundled, name: str) -> list[Bucket]:
    return HourTotals(aws.table).between(name, hours_ago(500), hours_ago(0), datetime.now(UTC))


def figures(hour: datetime, counts: list[int]) -> Bucket:
    return Bucket(hour, len(counts), min(counts), max(counts), sum(counts))


def run() -> None:
    handler({}, LambdaContext(120))


def test_hours_have_totals_once_they_are_closed_of_disabled_targets_too(aws: Bundled) -> None:
    closed, kept = hours_ago(51), hours_ago(48)
    counts = store(aws, A, closed, range(60))
    others = store(aws, OFF, closed, [7] * 12)
    store(aws, A, kept, range(60))
    run()
    assert totals(aws, "a") == [figures(closed, counts)]
    assert totals(aws, "off") == [figures(closed, others)]


def test_a_target_whose_totals_go_with_its_records_has_none(aws: Bundled) -> None:
    store(aws, B, hours_ago(75), range(60))
    run()
    assert totals(aws, "b") == []


def test_what_is_there_when_its_hour_is_closed_is_in_its_totals_however_late_it_came(aws: Bundled) -> None:
    early = hours_ago(52)
    counts = store(aws, A, early, range(30))
    record = MetricRecord("a", early + timedelta(minutes=59), 1000, datetime.now(UTC))
    aws.store(expiring([record], A))
    run()
    assert totals(aws, "a") == [figures(early, [*counts, 1000])]


def test_a_bundle_is_looked_at_once_an_hour(aws: Bundled, monkeypatch: pytest.MonkeyPatch) -> None:
    store(aws, A, hours_ago(52), range(60))
    run()

    def never(*_: object) -> None:
        raise AssertionError("looked at again")

    monkeypatch.setattr(DynamoDbMetricStore, "first_kept", never)
    run()


def test_a_run_makes_so_many_and_the_next_one_goes_on(aws: Bundled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totalling, "hours_a_run", lambda metrics: 2)
    for hours in (55, 54, 53, 52, 51):
        store(aws, A, hours_ago(hours), range(60))
    found = []
    for _ in range(4):
        run()
        found.append(len(totals(aws, "a")))
    assert found == [2, 4, 5, 5]


def test_hours_of_which_records_may_be_gone_have_no_totals(aws: Bundled) -> None:
    store(aws, A, hours_ago(2 * 24 + 3 * 24 + 2), range(9))
    counts = store(aws, A, hours_ago(60), range(60))
    run()
    assert totals(aws, "a") == [figures(hours_ago(60), counts)]


def test_records_say_how_long_their_own_target_keeps_them_and_closed_hours_take_none(
    dynamodb_local_endpoint: str, moto_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(PolledApi()) as api:
        config = CONFIG.format(url=api.url)
        aws = deploy(config, dynamodb_local_endpoint, moto_endpoint, tmp_path, monkeypatch)
        recent, closed = hours_ago(2), hours_ago(53)
        for slot in (recent, closed):
            aws.collect(BundleMessage(Window(slot, slot + timedelta(minutes=1)), ("a", "b")))
    items = dynamodb_at(dynamodb_local_endpoint).scan(TableName=aws.table)["Items"]
    expiry = {
        (item["metricName"]["S"], item["slotTime"]["S"][11:13]): int(item["expiresAt"]["N"]) for item in items
    }

    def gone(slot: datetime, days: int) -> int:
        return int((slot + HOUR + timedelta(days=days + 3)).timestamp())

    assert expiry == {
        ("a", f"{recent:%H}"): gone(recent, 2),
        ("b", f"{recent:%H}"): gone(recent, 3),
        ("b", f"{closed:%H}"): gone(closed, 3),
    }
