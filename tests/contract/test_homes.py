"""The dashboard's two sources answer alike about the same records; where AWS cannot tell, it says so."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import boto3
import pytest

from aws_here.local_aws import (
    ACCESS_KEY,
    REGION,
    SECRET_KEY,
    create_company_table,
    create_metrics_table,
    create_points_table,
    create_queue,
    dynamodb_at,
    lead_to,
    sqs_at,
)
from kizami.aggregation.lock import Lock
from kizami.aggregation.points import point_day
from kizami.aggregation.stores.company_states import CompanyTables
from kizami.aggregation.stores.company_table import DynamoDbLockStore
from kizami.aggregation.stores.points_table import DynamoDbPointStore
from kizami.aws.home import AwsHome
from kizami.aws.places import GivenPlaces
from kizami.core.coverage import Span
from kizami.core.errors import InvalidInput
from kizami.core.messages import MetricRecord, write_message, write_record
from kizami.core.sender import message_for_slot
from kizami.core.slots import Window
from kizami.core.targets.target import Target
from kizami.home.grid import CellState, cells_between
from kizami.home.port import Home
from kizami.home.snapshot import find_gaps_in, take_snapshot
from kizami.home.values import CompanyState, SlotCounts
from kizami.local.home import LocalHome
from programs.command import Command
from samples.database import at, make_database
from samples.page_database import FixedClock

SLOTS = 240
GONE = {99, *range(200, 210)}
CALLS = Target(name="calls", lag_seconds=5)
CLOCK = FixedClock(at(SLOTS) + timedelta(hours=1))
DAY = Window(CLOCK.now() - timedelta(days=1), CLOCK.now())


class Aws:
    """A table with the records, the queues, and the source over them."""

    def __init__(self, endpoint: str) -> None:
        self.table = create_metrics_table(endpoint)
        self.queue, self.backfill, self.dead = (create_queue(endpoint) for _ in range(3))
        self.sqs = sqs_at(endpoint)
        resource = boto3.resource(
            "dynamodb",
            endpoint_url=endpoint,
            region_name=REGION,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        )
        self._table = resource.Table(self.table)
        numbers = (number for number in range(SLOTS) if number not in GONE)
        self.store(*(MetricRecord("calls", at(number), number % 11, at(number + 1)) for number in numbers))
        home = GivenPlaces(self.table, self.queue, self.backfill, self.dead)
        self.source = AwsHome(home, [CALLS], CLOCK, grace_seconds=960)

    def store(self, *records: MetricRecord) -> None:
        with self._table.batch_writer() as batch:
            for record in records:
                batch.put_item(Item=write_record(record))

    def bury(self, number: int) -> None:
        body = write_message(message_for_slot(at(number), CALLS))
        self.sqs.send_message(QueueUrl=self.dead, MessageBody=body)

    def waiting(self, url: str) -> list[str]:
        messages = self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        return [message["Body"] for message in messages]


@pytest.fixture
def aws(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Aws:
    lead_to(moto_endpoint, monkeypatch)
    return Aws(moto_endpoint)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalHome]:
    make_database(tmp_path / "kizami.db", {"calls": [number for number in range(SLOTS) if number not in GONE]})
    source = LocalHome(tmp_path / "kizami.db")
    yield source
    source.close()


def answers(source: Home) -> dict[str, object]:
    """What both can tell about twenty minutes, an hour ago."""
    span, now = {"calls": Span(at(0), at(SLOTS), 5)}, CLOCK.now()
    return {
        "newest": source.newest_slots(),
        "completeness": source.completeness(span),
        "missing": source.missing(span),
        "counts": source.slot_counts({"calls": Span(at(90), at(102), 5)}),
        "records": list(source.records("calls", at(10), at(20))),
        "buckets": [source.buckets("calls", at(7), at(230), seconds) for seconds in (5, 60, 600, 7200)],
        "at": source.counts_at("calls", [at(98), at(99), at(100), at(5000)]),
        "unknown": (source.buckets("nobody", at(0), at(9), 5), source.counts_at("nobody", [at(0)])),
        "letters": source.dead_letters(None, 10),
        "gaps": find_gaps_in(source, source.targets(), Window(at(0), at(SLOTS)), now),
    }


def test_both_sources_answer_alike(aws: Aws, local: LocalHome) -> None:
    here, there = answers(local), answers(aws.source)
    for question, answer in here.items():
        assert there[question] == answer, question


def test_the_stretch_in_which_a_range_begins_is_whole_between_two_seconds_too(aws: Aws, local: LocalHome) -> None:
    for source in (aws.source, local):
        for fraction in (0, 1, 4.001, 4.999):
            start = at(7) + timedelta(seconds=fraction)
            found = source.buckets("calls", start, at(9), 5)
            assert [bucket.start for bucket in found] == [at(7), at(8)], fraction


def state_at(source: Home, slot: datetime) -> CellState:
    (target,) = source.targets()
    details = source.slot_details("calls", slot, slot + timedelta(seconds=5))
    (cell,) = cells_between(target, slot, slot + timedelta(seconds=5), details, CLOCK.now())
    return cell.state


def test_each_slot_has_one_state_as_far_as_aws_can_tell(aws: Aws) -> None:
    aws.bury(200)
    now = CLOCK.now()
    young, old = now - timedelta(seconds=900), now - timedelta(seconds=1200)
    assert state_at(aws.source, at(0)) is CellState.STORED
    assert state_at(aws.source, at(99)) is CellState.MISSING
    assert state_at(aws.source, at(200)) is CellState.DEAD
    assert state_at(aws.source, young) is CellState.PENDING
    assert state_at(aws.source, old) is CellState.MISSING
    assert aws.source.slot_counts({"calls": Span(at(198), at(203), 5)})["calls"] == SlotCounts(2, 0, 1)
    gaps = aws.source.missing({"calls": Span(at(0), at(SLOTS), 5)})["calls"]
    assert [(gap.start, gap.slots) for gap in gaps] == [(at(99), 1), (at(201), 9)]


def test_lateness_is_that_of_the_live_records(aws: Aws) -> None:
    aws.store(MetricRecord("calls", at(200), 1, at(202)), MetricRecord("calls", at(201), 1, at(SLOTS)))
    aws.store(MetricRecord("calls", at(202), 1, CLOCK.now()))
    found = aws.source.lateness(at(190), at(210))
    # One came five seconds late and one 190; the third was asked for again an hour later.
    assert (found.polls, found.p50_ms, found.p99_ms) == (12, 0, 190_000)


def test_slots_that_were_asked_for_from_here_are_pending_and_no_gap(aws: Aws) -> None:
    wanted = [message_for_slot(at(number), CALLS) for number in (200, 201)]
    assert aws.source.backfill(wanted) == 2
    assert state_at(aws.source, at(200)) is CellState.PENDING
    gaps = aws.source.missing({"calls": Span(at(0), at(SLOTS), 5)})["calls"]
    assert [(gap.start, gap.slots) for gap in gaps] == [(at(99), 1), (at(202), 8)]
    assert sorted(aws.waiting(aws.backfill)) == sorted(map(write_message, wanted))


def test_dead_letters_stay_for_others_to_see_until_they_are_redriven(aws: Aws) -> None:
    aws.bury(200)
    aws.bury(201)
    newest, _ = aws.source.dead_letters("calls", 10)
    assert take_snapshot(aws.source, CLOCK.now()).overview.queue.dead == 2
    assert len(aws.source.dead_letters("calls", 10, before=newest.key)) == 1
    assert aws.source.redrive([newest]) == 1
    (body,) = aws.waiting(aws.backfill)
    assert body == write_message(newest.message)
    assert state_at(aws.source, newest.slot) is CellState.PENDING
    assert len(aws.waiting(aws.dead)) == 1


def test_a_deployment_that_never_worked_does_not_look_complete(
    moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead_to(moto_endpoint, monkeypatch)
    queues = [create_queue(moto_endpoint) for _ in range(2)]
    source = AwsHome(GivenPlaces(create_metrics_table(moto_endpoint), *queues), [CALLS], CLOCK, grace_seconds=960)
    overview = take_snapshot(source, CLOCK.now()).overview
    assert (overview.newest_slot, overview.day.stored, overview.day.expected) == (None, 0, 17_280)
    assert (overview.gaps, overview.queue.dead) == (1, 0)


def test_a_pause_is_refused_with_the_remedy(aws: Aws) -> None:
    for order in (aws.source.pause, aws.source.resume):
        with pytest.raises(InvalidInput, match=r"deployed kizami\.toml and deploy it again"):
            order("calls")


def test_companies_have_their_lock_and_points_on_the_page_and_on_the_command_line(
    moto_endpoint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lead_to(moto_endpoint, monkeypatch)
    tables = create_company_table(moto_endpoint), create_points_table(moto_endpoint)
    for company in ("globex", "acme"):
        item = {"CompanyId": {"S": company}, "ApiKeyRef": {"S": "secretsmanager:key"}}
        dynamodb_at(moto_endpoint).put_item(TableName=tables[0], Item=item)
    now, zone = datetime(2025, 12, 2, 3, tzinfo=UTC), ZoneInfo("Asia/Tokyo")
    DynamoDbLockStore(tables[0]).acquire("acme", None, Lock(now, "m1", "r1"))
    DynamoDbPointStore(tables[1]).grant("acme", ["u1", "u2"], point_day(now, zone))
    states = CompanyTables(*tables, zone).states(now)
    assert states == [CompanyState("acme", now, "2025-12", 2, 2), CompanyState("globex", None, "2025-12", 0, 0)]
    monkeypatch.setenv("COMPANY_TABLE_NAME", tables[0])
    monkeypatch.setenv("POINTS_TABLE_NAME", tables[1])
    monkeypatch.chdir(tmp_path)
    arguments = ["aggregate", "points", "--company-id", "acme", "--month", "2025-12", "--backend", "aws", "--json"]
    found = Command(capsys)(*arguments).json
    assert (found["total"], [user["userNumber"] for user in found["users"]]) == (2, ["u1", "u2"])
