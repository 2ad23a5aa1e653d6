"""Which plan sends a minute, and where the periods of plans end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from aws_here.memory_aws import MemoryAws, led_to, memory_aws
from kizami.aws.client.json_client import Fields
from kizami.aws.dynamodb import put_items
from kizami.aws.plans import Plans
from kizami.core.bundles import BundlePlan, Period, make_plan
from kizami.core.errors import StoreError
from kizami.core.slots import shift
from kizami.core.targets.target import Target

TABLE = "Metrics"
MINUTE = datetime(2025, 12, 2, 10, 23, tzinfo=UTC)


@pytest.fixture
def aws() -> Iterator[MemoryAws]:
    found = memory_aws()
    with led_to(found):
        yield found


def plan_of(*names: str) -> BundlePlan:
    return make_plan(Target(name=name, lag_seconds=5) for name in names)


def test_a_period_ends_where_the_next_one_begins_though_a_write_about_it_arrives_late(
    aws: MemoryAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Sender of a new plan dies before its first minute, and what it wrote arrives after the next one's."""
    plans, written = Plans(TABLE), list[list[Fields]]()

    def put_and_remember(left: object, table: str, items: list[Fields]) -> None:
        written.append(items)

    assert plans.claim(plan_of("a"), MINUTE)
    with monkeypatch.context() as patched:
        patched.setattr("kizami.aws.plans.put_items", put_and_remember)
        aws.fault = lambda operation: "before" if operation == "PutItem" else None
        with pytest.raises(StoreError):
            plans.claim(plan_of("a", "b"), shift(MINUTE, 60))
        aws.fault = lambda operation: None
    assert plans.claim(plan_of("a", "b"), shift(MINUTE, 120))
    for items in written:
        put_items(lambda: 9.0, TABLE, items)
    second = shift(MINUTE, 120)
    assert plans.periods() == [
        Period(plan_of("a").name, MINUTE, second),
        Period(plan_of("a", "b").name, second),
    ], "the minute between them is in a period, so that the reconciler asks for it"


def test_a_plan_that_died_before_its_first_minute_has_no_period(aws: MemoryAws) -> None:
    plans = Plans(TABLE)
    assert plans.claim(plan_of("a"), MINUTE)
    aws.fault = lambda operation: "before" if operation == "PutItem" else None
    with pytest.raises(StoreError):
        plans.claim(plan_of("a", "b"), shift(MINUTE, 60))
    aws.fault = lambda operation: None
    assert plans.periods() == [Period(plan_of("a").name, MINUTE)]
    assert plans.claim(plan_of("a"), shift(MINUTE, 120))
    assert plans.periods() == [Period(plan_of("a").name, MINUTE)]
