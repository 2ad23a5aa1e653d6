"""A run of the reconciler over bundles: from the ledger to messages on the backfill queue, and its metrics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from aws_here.bundled import Bundled, deploy_bundles
from aws_here.lambda_events import LambdaContext, log_lines
from kizami.aws.reconciler import handler
from kizami.aws.store.block_items import BlockItem, BlockItems
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.tick_ledger import TickLedger
from kizami.core.blocking import Trouble
from kizami.core.errors import StoreError
from kizami.core.messages import MetricRecord, read_bundle
from kizami.core.slots import floor_to_slot, slots_between

NAMES = ("a", "b", "c")
GRACE_SECONDS = 60
BEGAN = datetime.now(UTC)


@pytest.fixture
def aws(
    dynamodb_local_endpoint: str, moto_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bundled:
    """Half an hour is looked at, each run asks for everything."""
    return deployed_with("", dynamodb_local_endpoint, moto_endpoint, tmp_path, monkeypatch)


@pytest.fixture
def aws_of_now(
    dynamodb_local_endpoint: str, moto_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bundled:
    """The same, of APIs that can only say "now"."""
    return deployed_with("backfill = false\n", dynamodb_local_endpoint, moto_endpoint, tmp_path, monkeypatch)


def deployed_with(
    setting: str, tables_at: str, queues_at: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Bundled:
    text = "".join(f'[[targets]]\nname = "{name}"\nurl = "https://{name}.example"\n{setting}' for name in NAMES)
    deployed = deploy_bundles(text, folder, tables_at, queues_at, monkeypatch)
    monkeypatch.setenv("QUEUE_URL", deployed.backfill)
    settings = {"HOURS": "0.5", "MINUTES": "5", "LIMIT": "100"}
    for name, value in settings.items():
        monkeypatch.setenv(f"KIZAMI_RECONCILE_{name}", value)
    monkeypatch.setenv("KIZAMI_GRACE_SECONDS", str(GRACE_SECONDS))
    return deployed


@pytest.fixture(autouse=True)
def began(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute may end while a test goes on: all of it happens when it began."""
    global BEGAN
    BEGAN = datetime.now(UTC)
    monkeypatch.setattr("kizami.aws.client.machine.now", lambda: BEGAN)


def minutes_ago(minutes: float) -> datetime:
    return floor_to_slot(BEGAN - timedelta(minutes=minutes), 60)


def note(aws: Bundled, start: datetime, stored: tuple[str, ...] = NAMES, end: datetime | None = None) -> None:
    """The ledger as the Collector would have kept it."""
    aws.note(slots_between(start, end or datetime.now(UTC), 5), stored)


def store_without_noting(aws: Bundled) -> None:
    """One tick is stored and has no item, all others are noted as whole."""
    unnoted = minutes_ago(20)
    note(aws, minutes_ago(40), end=unnoted)
    note(aws, unnoted + timedelta(seconds=5))
    aws.store([MetricRecord(name, unnoted, 7, unnoted) for name in NAMES])


def asked(aws: Bundled) -> set[tuple[datetime, str]]:
    messages = [read_bundle(each["body"]) for each in aws.messages(aws.backfill)]
    return {(message.window.start, name) for message in messages for name in message.metrics}


def slots(start: datetime, minutes: int = 1, names: tuple[str, ...] = NAMES) -> set[tuple[datetime, str]]:
    return {(slot, name) for slot in slots_between(start, start + timedelta(minutes=minutes), 5) for name in names}


def published(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    (line,) = [line for line in log_lines(capsys) if line["event"] == "coverage.published"]
    return line


def test_a_whole_ledger_is_complete_and_no_record_is_read(
    aws: Bundled, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    note(aws, minutes_ago(40))

    def never(*_: object) -> None:
        raise AssertionError("a record was read")

    monkeypatch.setattr("kizami.aws.store.metric_table.DynamoDbMetricStore.count", never)
    assert handler({}, LambdaContext(120)) == {"missing": 0, "sent": 0, "failed": 0}
    line = published(capsys)
    assert (line["Coverage"], line["LowestCoverage"], line["targets"]) == (100.0, 100.0, 3)


def test_a_minute_that_nobody_sent_is_asked_for_whole_and_in_few_messages(aws: Bundled) -> None:
    note(aws, minutes_ago(40), end=minutes_ago(9))
    note(aws, minutes_ago(8))
    assert handler({}, LambdaContext(120)) == {"missing": 36, "sent": 36, "failed": 0}
    messages = aws.messages(aws.backfill)
    assert len(messages) == 12, "one a tick, for all its targets"
    found = {
        (read_bundle(each["body"]).window.start, name)
        for each in messages
        for name in read_bundle(each["body"]).metrics
    }
    assert found == slots(minutes_ago(9))


def test_of_a_short_tick_only_who_is_lacking_is_asked_for(aws: Bundled) -> None:
    note(aws, minutes_ago(40), end=minutes_ago(9))
    note(aws, minutes_ago(9), ("a", "c"), end=minutes_ago(8))
    note(aws, minutes_ago(8))
    assert handler({}, LambdaContext(120))["missing"] == 12
    assert asked(aws) == slots(minutes_ago(9), names=("b",))


@pytest.mark.parametrize(("age", "is_kept"), [(10, True), (61, False)])
def test_who_was_only_ever_doubted_is_looked_for_in_the_ledger_and_the_doubt_does_not_last(
    aws: Bundled, age: int, is_kept: bool
) -> None:
    """What is stored of him and was not noted would be told as missing for as long as the doubt is kept."""
    note(aws, minutes_ago(40), end=minutes_ago(9))
    note(aws, minutes_ago(9), ("a", "c"), end=minutes_ago(8))
    note(aws, minutes_ago(8))
    aws.store([MetricRecord("b", slot, 7, slot) for slot in slots_between(minutes_ago(40), BEGAN, 5)])
    items = BlockItems(aws.table)
    items.save("b", BlockItem(Trouble(minutes_ago(age), "in doubt", minutes_ago(age))))
    assert handler({}, LambdaContext(120))["sent"] == 12
    assert asked(aws) == slots(minutes_ago(9), names=("b",))
    assert ("b" in items.all()) is is_kept


def test_a_target_that_is_down_is_asked_for_one_slot(aws: Bundled) -> None:
    note(aws, minutes_ago(40), end=minutes_ago(15))
    note(aws, minutes_ago(15), ("a", "c"))
    assert handler({}, LambdaContext(120))["sent"] == 1
    ((_, name),) = asked(aws)
    assert name == "b"


def test_before_a_bundles_first_tick_records_are_compared_until_they_are_complete(
    aws: Bundled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deployment has changed who is in which bundle: the ledger knows nothing of what was before."""
    records = [
        MetricRecord(name, slot, 1, slot)
        for name in NAMES
        for slot in slots_between(minutes_ago(32), minutes_ago(9), 5)
        if (name, slot) != ("b", minutes_ago(20))
    ]
    aws.store(records)
    note(aws, minutes_ago(9))
    assert handler({}, LambdaContext(120))["missing"] == 1
    assert asked(aws) == {(minutes_ago(20), "b")}
    aws.store([MetricRecord("b", minutes_ago(20), 1, minutes_ago(20))])
    assert handler({}, LambdaContext(120))["missing"] == 0
    monkeypatch.setattr("kizami.aws.store.metric_table.DynamoDbMetricStore.count", lambda *_: 1 / 0)
    assert handler({}, LambdaContext(120))["missing"] == 0, "nobody looks a second time"


def test_what_is_too_young_to_be_looked_at_before_a_bundles_first_tick_is_looked_at_later(aws: Bundled) -> None:
    """A bundle's first tick is within the grace: what came right before it may still be missing."""
    aws.store(
        MetricRecord(name, slot, 1, slot)
        for name in NAMES
        for slot in slots_between(minutes_ago(32), minutes_ago(0), 5)
    )
    note(aws, minutes_ago(0))
    assert handler({}, LambdaContext(120))["missing"] == 0
    assert not aws.ledger.is_checked(aws.the_bundle.name)


def test_new_targets_lack_nothing_from_before_their_first_record(aws: Bundled) -> None:
    note(aws, minutes_ago(9))
    aws.store([MetricRecord(name, minutes_ago(9), 1, minutes_ago(9)) for name in NAMES])
    assert handler({}, LambdaContext(120))["missing"] == 0


def test_a_run_leaves_no_more_on_the_queue_than_its_limit(aws: Bundled, monkeypatch: pytest.MonkeyPatch) -> None:
    note(aws, minutes_ago(40), end=minutes_ago(9))
    note(aws, minutes_ago(8))
    monkeypatch.setenv("KIZAMI_RECONCILE_LIMIT", "5")
    assert handler({}, LambdaContext(120)) == {"missing": 36, "sent": 15, "failed": 0}
    assert len(aws.messages(aws.backfill)) == 5


def test_bundles_that_there_is_no_time_for_are_left_to_the_next_run(
    aws: Bundled, capsys: pytest.CaptureFixture[str]
) -> None:
    from kizami.core.errors import StoreError

    with pytest.raises(StoreError, match="not one bundle"):
        handler({}, LambdaContext(5))


def test_a_ledger_that_cannot_be_read_is_told_and_left_to_the_next_run(
    aws: Bundled, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kizami.core.errors import StoreError

    def refuse(self: TickLedger, *_: object) -> int:
        raise StoreError("throttled")

    monkeypatch.setattr(TickLedger, "count_whole", refuse)
    with pytest.raises(StoreError):
        handler({}, LambdaContext(120))
    assert "bundle.unread" in {line["event"] for line in log_lines(capsys)}


def test_what_is_stored_and_not_noted_is_noted_where_nobody_asks_for_it_again(aws_of_now: Bundled) -> None:
    """A Collector has died between the two: of an API that can only say "now" no second request finds it out."""
    aws, fresh, old = aws_of_now, minutes_ago(4), minutes_ago(20)
    note(aws, minutes_ago(40), end=old)
    for slot, after in ((old, fresh), (fresh, None)):
        note(aws, slot, ("a", "c"), slot + timedelta(seconds=5))
        note(aws, slot + timedelta(seconds=5), end=after)
        aws.store([MetricRecord("b", slot, 7, slot)])
    note(aws, fresh + timedelta(seconds=10), ("a",), fresh + timedelta(seconds=15))  # was whole, and stays so
    assert handler({}, LambdaContext(120)) == {"missing": 0, "sent": 0, "failed": 0}
    for slot in (fresh, old):
        places = aws.ledger.lacking(aws.the_bundle.name, slot, slot + timedelta(minutes=1))
        assert set(places.values()) == {0}


@pytest.mark.parametrize("fails", ["compared_until", "note", "note_compared"])
def test_runs_that_failed_leave_to_a_later_one_what_is_stored_and_not_noted(
    aws_of_now: Bundled, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """As when DynamoDB fails for both, the Collector and the reconciler, however long."""
    store_without_noting(aws_of_now)

    def fail(*_: object) -> None:
        raise StoreError("simulated")

    with monkeypatch.context() as broken:
        broken.setattr(TickLedger, fails, fail)
        with pytest.raises(StoreError, match="not one bundle"):
            handler({}, LambdaContext(120))
    assert handler({}, LambdaContext(120))["missing"] == 0


def test_a_run_without_time_leaves_to_a_later_one_what_is_stored_and_not_noted(
    aws_of_now: Bundled, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_without_noting(aws_of_now)
    seconds_left = 120.0
    read = DynamoDbMetricStore.query

    def read_slowly(*args: Any) -> Any:
        nonlocal seconds_left
        seconds_left = 1
        return read(*args)

    with monkeypatch.context() as slow:
        slow.setattr(DynamoDbMetricStore, "query", read_slowly)
        run = aws_of_now.reconcile(BEGAN, lambda: seconds_left)
    assert run["missing"] == 2, "one was found"
    assert handler({}, LambdaContext(120))["missing"] == 0


def test_what_was_not_noted_of_one_that_is_then_blocked_is_noted_all_the_same(aws_of_now: Bundled) -> None:
    """When he answers again his ticks are looked at in the ledger, and by then they are old."""
    aws, unnoted = aws_of_now, minutes_ago(20)
    note(aws, minutes_ago(40), end=unnoted)
    note(aws, unnoted, ("a", "c"), unnoted + timedelta(seconds=5))
    note(aws, unnoted + timedelta(seconds=5))
    aws.store([MetricRecord("b", slot, 7, slot) for slot in slots_between(minutes_ago(40), BEGAN, 5)])
    items = BlockItems(aws.table)
    began = minutes_ago(10)
    items.save("b", BlockItem(Trouble(began, "401", began, next_probe=BEGAN + timedelta(hours=1)), began))
    assert items.all()["b"].is_blocked
    handler({}, LambdaContext(120))
    places = aws.ledger.lacking(aws.the_bundle.name, unnoted, unnoted + timedelta(seconds=5))
    assert set(places.values()) == {0}


def test_what_was_looked_up_once_is_lacked_by_the_ledger_alone(
    aws_of_now: Bundled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A target that is down for hours costs no more than that of it which is new."""
    aws = aws_of_now
    note(aws, minutes_ago(40), end=minutes_ago(10))
    note(aws, minutes_ago(10), ("a", "c"), end=minutes_ago(0) + timedelta(minutes=10))
    looked_up = list[tuple[datetime, datetime]]()
    read = DynamoDbMetricStore.query

    def watch(store: DynamoDbMetricStore, metric: str, start: datetime, end: datetime, **options: Any) -> Any:
        assert metric == "b"
        looked_up.append((start, end))
        return read(store, metric, start, end, **options)

    monkeypatch.setattr(DynamoDbMetricStore, "query", watch)
    missing = handler({}, LambdaContext(120))["missing"]
    ((first, until),) = looked_up
    assert (first, missing) == (minutes_ago(10), (until - first).total_seconds() // 5)
    assert handler({}, LambdaContext(120))["missing"] == missing
    assert len(looked_up) == 1
    later = BEGAN + timedelta(minutes=5)
    monkeypatch.setattr("kizami.aws.client.machine.now", lambda: later)
    assert handler({}, LambdaContext(120))["missing"] == missing + 60
    assert looked_up[1:] == [(until, until + timedelta(minutes=5))]


def test_what_is_not_stored_is_lacked_where_nobody_asks_for_it_again(aws_of_now: Bundled) -> None:
    """Whatever is stored before and after it."""
    aws, fresh = aws_of_now, minutes_ago(4)
    first, between, last, after = (fresh + timedelta(seconds=5 * place) for place in range(4))
    note(aws, minutes_ago(40), end=first)
    for slot, end in ((first, between), (last, after)):
        note(aws, slot, ("a", "c"), end)
    note(aws, between, end=last)
    note(aws, after)
    aws.store([MetricRecord("b", slot, 7, slot) for slot in (between, after)])
    assert handler({}, LambdaContext(120)) == {"missing": 2, "sent": 0, "failed": 0}
    places = aws.ledger.lacking(aws.the_bundle.name, first, after)
    b = 1 << aws.the_bundle.members.index("b")
    assert list(places.values()) == [b, 0, b]
