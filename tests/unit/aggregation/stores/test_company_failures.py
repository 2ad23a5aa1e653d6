"""Failed runs on AWS: noted until a run of the company completes, and never in the way of the run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from aws_here.memory_aws import MemoryAws, led_to, memory_aws
from kizami.aggregation.batch import Ending, RunOutcome, UserCounts
from kizami.aggregation.log_codes import LogCode
from kizami.aggregation.stores.company_failures import KEPT_SECONDS, CompanyFailures
from kizami.aws.aggregation import note_outcome

NOW = datetime(2025, 12, 2, 10, 0, 30, tzinfo=UTC)
FAILED = RunOutcome(Ending.FAILED, LogCode.UNKNOWN, UserCounts())
LOCKED = RunOutcome(Ending.LOCKED, LogCode.END, UserCounts())
COMPLETED = RunOutcome(Ending.COMPLETED, LogCode.END, UserCounts())


@pytest.fixture
def aws() -> Iterator[MemoryAws]:
    there = memory_aws()
    with led_to(there):
        yield there


def test_a_failure_is_noted_until_a_run_completes(aws: MemoryAws) -> None:
    failures = CompanyFailures("Metrics")
    note_outcome(failures, "acme", FAILED)
    note_outcome(failures, "shop", FAILED)
    reason = f"{LogCode.UNKNOWN.code}: the run is failed"
    assert failures.all() == {"acme": reason, "shop": reason}
    note_outcome(failures, "acme", LOCKED)
    assert failures.all().keys() == {"acme", "shop"}, "another run is at work: nothing is known yet"
    note_outcome(failures, "acme", COMPLETED)
    assert failures.all() == {"shop": reason}


def test_a_note_expires_if_the_company_has_no_more_runs(aws: MemoryAws) -> None:
    CompanyFailures("Metrics").note("acme", "004: the run is failed", NOW)
    (item,) = aws.dynamodb.tables["Metrics"].items.values()
    assert item["expiresAt"] == {"N": str(int(NOW.timestamp()) + KEPT_SECONDS)}


def test_a_table_that_cannot_be_written_is_a_log_line_and_no_failure_of_the_run(
    aws: MemoryAws, caplog: pytest.LogCaptureFixture
) -> None:
    aws.fault = lambda operation: "before"
    note_outcome(CompanyFailures("Metrics"), "acme", FAILED)
    assert [getattr(record, "event", "") for record in caplog.records] == ["failure.unnoted"]
