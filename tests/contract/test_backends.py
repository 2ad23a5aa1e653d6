"""Both backends give the same answers about the same records; where AWS cannot, it says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from aws_here.deployed import Deployment, GivenPlaces
from aws_here.local_aws import (
    create_company_table,
    create_metrics_table,
    create_points_table,
    create_queue,
    dynamodb_at,
    lead_to,
)
from kizami.aggregation.lock import Lock
from kizami.aggregation.points import point_day
from kizami.aggregation.stores.company_states import CompanyTables
from kizami.aggregation.stores.company_table import DynamoDbLockStore
from kizami.aggregation.stores.points_table import DynamoDbPointStore
from kizami.aws.backend import AwsBackend
from kizami.aws.store.block_items import BlockItem, BlockItems
from kizami.backend.grid import CellState, cells_between
from kizami.backend.port import Backend
from kizami.backend.snapshot import find_gaps_in, take_snapshot
from kizami.backend.values import Bucket, CompanyState, DaemonState, SlotCounts, TargetTrouble, trouble_of
from kizami.core.answers.answer import Answer, parse_values
from kizami.core.blocking import Trouble
from kizami.core.coverage import Completeness, Gap, Span
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.errors import InvalidInput
from kizami.core.messages import MetricRecord, ScheduleMessage, write_message
from kizami.core.sender import message_for_slot
from kizami.core.slots import Window, floor_to_second
from kizami.core.targets.target import Target
from kizami.local.backend import LocalBackend
from programs.command import Command
from samples.database import at, bury_slots, make_database
from samples.page_database import FixedClock

SLOTS = 240
GONE = {99, *range(200, 210)}
KEPT = [number for number in range(SLOTS) if number not in GONE]
CALLS = Target(name="calls", lag_seconds=5)
CLOCK = FixedClock(at(SLOTS) + timedelta(hours=1))
GRACE_SECONDS = 960
SPAN = {"calls": Span(at(0), at(SLOTS), 5)}


def record(number: int) -> MetricRecord:
    return MetricRecord("calls", at(number), number % 11, at(number + 1))


def messages(*numbers: int) -> list[ScheduleMessage]:
    return [message_for_slot(at(number), CALLS) for number in numbers]


@dataclass(frozen=True, slots=True)
class Setting:
    """A backend with twenty minutes of `calls` an hour ago, without slots 99 and 200 to 209."""

    backend: Backend
    bury: Callable[[Sequence[int]], None]
    is_aws: bool = True
    remembers: bool = True


@pytest.fixture
def aws(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    lead_to(moto_endpoint, monkeypatch)
    deployment = Deployment(moto_endpoint)
    deployment.store(map(record, KEPT))
    return deployment


@pytest.fixture
def page(aws: Deployment) -> AwsBackend:
    return AwsBackend(aws.places, [CALLS], CLOCK, GRACE_SECONDS)


@pytest.fixture(params=["local", "aws-verb", "aws-page"])
def setting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Setting]:
    if request.param == "local":
        path = make_database(tmp_path / "kizami.db", {"calls": KEPT})
        backend = LocalBackend(path)
        yield Setting(
            backend, lambda numbers: bury_slots(path, "calls", numbers, "status 500", CLOCK.now()), False
        )
        backend.close()
    else:
        aws, keeps = request.getfixturevalue("aws"), request.param == "aws-page"
        on_aws = AwsBackend(aws.places, [CALLS], CLOCK, GRACE_SECONDS, keeps=keeps)
        yield Setting(on_aws, lambda numbers: aws.bury(messages(*numbers)), remembers=keeps)


@pytest.fixture
def backend(setting: Setting) -> Backend:
    return setting.backend


def figures_of(start: datetime, counts: Sequence[int]) -> Bucket:
    return Bucket(start, len(counts), min(counts, default=0), max(counts, default=0), sum(counts))


class TestReading:
    def test_the_target_is_known_from_its_first_slot_on(self, backend: Backend) -> None:
        assert list(backend.names()) == ["calls"]
        (target,) = backend.targets()
        assert (target.name, target.interval_seconds, target.lag_seconds) == ("calls", 5, 5)
        assert (target.first_slot, target.is_on, target.expected_until) == (at(0), True, None)
        assert backend.targets(["calls"]) == [target]
        assert backend.targets(["nobody"]) == []

    def test_records_come_in_columns_too(self, backend: Backend, setting: Setting) -> None:
        records = list(backend.records("calls", at(90), at(110)))
        for details in (False, True):
            pieces = list(backend.record_columns("calls", at(90), at(110), details=details))
            slots = [from_seconds(slot) for piece in pieces for slot in piece.slots]
            counts = [units for piece in pieces for units in piece.units]
            assert list(zip(slots, counts, strict=True)) == [(each.slot, each.count) for each in records]
            seconds = [ms // 1000 for piece in pieces for ms in piece.collected_ms]
            assert seconds == [to_seconds(each.collected_at) for each in records]
            backfilled = [flag for piece in pieces for flag in piece.backfilled]
            assert backfilled == ([False] * len(records) if details else [])
            attempts = {number for piece in pieces for number in piece.receives}
            assert attempts == ({None if setting.is_aws else 1} if details else set())
        assert list(backend.record_columns("nobody", at(0), at(9), details=True)) == []

    def test_how_much_is_stored_and_what_is_missing(self, backend: Backend) -> None:
        assert backend.newest_slots() == {"calls": at(SLOTS - 1)}
        assert backend.completeness(SPAN) == {"calls": Completeness(229, SLOTS)}
        gaps = [Gap(at(99), at(100), 1), Gap(at(200), at(210), 10)]
        assert backend.missing(SPAN) == {"calls": gaps}
        assert backend.missing({"calls": Span(at(0), at(99), 5)}) == {}
        found = find_gaps_in(backend, backend.targets(), Window(at(0), at(SLOTS)), CLOCK.now())
        assert [entry.gap for entry in found] == gaps[::-1]

    def test_records_and_counts(self, backend: Backend) -> None:
        assert list(backend.records("calls", at(95), at(105))) == [record(n) for n in range(95, 105) if n != 99]
        assert backend.counts_at("calls", [at(98), at(99), at(100), at(5000)]) == [10, None, 1, None]
        assert backend.slot_counts({"calls": Span(at(90), at(102), 5)}) == {"calls": SlotCounts(stored=11)}

    @pytest.mark.parametrize("seconds", [5, 60, 600, 7200])
    def test_buckets_are_whole_stretches(self, backend: Backend, seconds: int) -> None:
        def stretch(number: int) -> datetime:
            second = int(at(number).timestamp())
            return datetime.fromtimestamp(second - second % seconds, UTC)

        counts: dict[datetime, list[int]] = {}
        for number in KEPT:
            if stretch(7) <= stretch(number) <= stretch(229):
                counts.setdefault(stretch(number), []).append(number % 11)
        assert backend.buckets("calls", at(7), at(230), seconds) == [
            Bucket(start, len(each), min(each), max(each), sum(each)) for start, each in counts.items()
        ]

    @pytest.mark.parametrize("fraction", [0, 1, 4.001, 4.999])
    def test_the_stretch_in_which_a_range_begins_is_whole_between_two_seconds_too(
        self, backend: Backend, fraction: float
    ) -> None:
        found = backend.buckets("calls", at(7) + timedelta(seconds=fraction), at(9), 5)
        assert [bucket.start for bucket in found] == [at(7), at(8)]

    @pytest.mark.parametrize(
        "numbers",
        [(0, 240), (0, 12, 24, 240), (7, 8, 12, 131, 132, 240), (60, 180), (200, 205, 300), (-9, 3.5, 9.1)],
    )
    def test_figures_are_those_of_the_records_between_each_two_edges(
        self, backend: Backend, numbers: tuple[float, ...]
    ) -> None:
        edges = [at(0) + timedelta(seconds=5 * number) for number in numbers]
        assert backend.figures("calls", edges) == [
            figures_of(start, [number % 11 for number in KEPT if start <= at(number) < end])
            for start, end in pairwise(edges)
        ]

    def test_of_an_unknown_metric_there_is_nothing(self, backend: Backend) -> None:
        assert list(backend.records("nobody", at(0), at(9))) == []
        assert (backend.buckets("nobody", at(0), at(9), 5), backend.counts_at("nobody", [at(0)])) == ([], [None])
        assert backend.figures("nobody", [at(0), at(9)]) == [figures_of(at(0), [])]

    def test_lateness_is_that_of_the_polls_of_a_range(self, backend: Backend) -> None:
        assert backend.lateness(at(0), at(10)).polls == 10
        assert backend.lateness(at(200), at(205)).polls == 0

    def test_a_daemon_is_told_of_where_there_is_one(self, setting: Setting) -> None:
        assert setting.backend.daemon() == (None if setting.is_aws else DaemonState(pid=None))


class TestRepairing:
    def test_dead_letters_come_newest_first_and_are_no_gaps(self, setting: Setting) -> None:
        setting.bury([200, 201])
        backend = setting.backend
        newest, older = backend.dead_letters()
        assert [(letter.metric, letter.slot) for letter in (newest, older)] == [
            ("calls", at(201)),
            ("calls", at(200)),
        ]
        assert backend.dead_letters("calls", 1) == [newest]
        assert backend.dead_letters("calls", before=newest.key) == [older]
        assert backend.dead_letters("nobody") == []
        assert backend.queue_depth(CLOCK.now()).dead == 2
        assert backend.slot_counts({"calls": Span(at(198), at(203), 5)})["calls"] == SlotCounts(2, 0, 2)
        assert backend.missing(SPAN)["calls"][1] == Gap(at(202), at(210), 8)

    def test_a_dead_letter_is_forgotten_and_its_slot_missing(self, setting: Setting) -> None:
        setting.bury([200, 201])
        backend = setting.backend
        (letter,) = backend.dead_letters(limit=1)
        assert backend.purge([letter]) == 1
        assert backend.purge([letter]) == 0
        assert [each.slot for each in backend.dead_letters()] == [at(200)]
        assert backend.missing(SPAN)["calls"][1] == Gap(at(201), at(210), 9)

    def test_a_dead_letter_goes_back_and_is_pending(self, setting: Setting) -> None:
        setting.bury([200, 201])
        backend = setting.backend
        (letter,) = backend.dead_letters(limit=1)
        assert backend.redrive([letter]) == 1
        assert [each.slot for each in backend.dead_letters()] == [at(200)]
        assert backend.slot_counts({"calls": Span(at(201), at(202), 5)})["calls"] == SlotCounts(pending=1)

    def test_slots_are_asked_for_again(self, setting: Setting) -> None:
        backend = setting.backend
        assert backend.backfill(messages(200, 201)) == 2
        assert backend.queue_depth(CLOCK.now()).waiting == 2
        assert backend.queued(SPAN) == (0 if setting.is_aws else 2)  # SQS does not tell which they are
        if setting.remembers:
            assert backend.missing(SPAN)["calls"][1] == Gap(at(202), at(210), 8)

    def test_a_past_that_was_asked_for_is_expected_where_the_backend_remembers_that(
        self, setting: Setting
    ) -> None:
        setting.backend.expect_from("calls", at(-12))
        (target,) = setting.backend.targets()
        assert target.first_slot == (at(0) if setting.is_aws else at(-12))

    def test_a_pause_is_kept_or_refused_with_the_remedy(self, setting: Setting) -> None:
        backend = setting.backend
        if backend.can_pause:
            backend.pause("calls")
            assert not backend.targets()[0].is_on
            backend.resume("calls")
            assert backend.targets()[0].is_on
        else:
            for order in (backend.pause, backend.resume):
                with pytest.raises(InvalidInput, match=r"deployed kizami\.toml and deploy it again"):
                    order("calls")


def state_at(backend: Backend, slot: datetime) -> CellState:
    (target,) = backend.targets()
    details = backend.slot_details("calls", slot, slot + timedelta(seconds=5))
    (cell,) = cells_between(target, slot, slot + timedelta(seconds=5), details, CLOCK.now())
    return cell.state


def test_each_slot_has_one_state_as_far_as_aws_can_tell(aws: Deployment, page: AwsBackend) -> None:
    aws.bury(messages(200))
    now = CLOCK.now()
    young, old = now - timedelta(seconds=900), now - timedelta(seconds=1200)
    assert state_at(page, at(0)) is CellState.STORED
    assert state_at(page, at(99)) is CellState.MISSING
    assert state_at(page, at(200)) is CellState.DEAD
    assert state_at(page, young) is CellState.PENDING
    assert state_at(page, old) is CellState.MISSING
    assert page.slot_counts({"calls": Span(at(198), at(203), 5)})["calls"] == SlotCounts(2, 0, 1)
    gaps = page.missing({"calls": Span(at(0), at(SLOTS), 5)})["calls"]
    assert [(gap.start, gap.slots) for gap in gaps] == [(at(99), 1), (at(201), 9)]


def test_lateness_is_that_of_the_live_records(aws: Deployment, page: AwsBackend) -> None:
    later = {200: at(202), 201: at(SLOTS), 202: CLOCK.now()}
    aws.store(MetricRecord("calls", at(number), 1, moment) for number, moment in later.items())
    found = page.lateness(at(190), at(210))
    # One came five seconds late and one 190; the third was asked for again an hour later.
    assert (found.polls, found.p50_ms, found.p99_ms) == (12, 0, 190_000)


def test_slots_that_were_asked_for_from_here_are_pending_and_no_gap(aws: Deployment, page: AwsBackend) -> None:
    wanted = messages(200, 201)
    assert page.backfill(wanted) == 2
    assert state_at(page, at(200)) is CellState.PENDING
    gaps = page.missing({"calls": Span(at(0), at(SLOTS), 5)})["calls"]
    assert [(gap.start, gap.slots) for gap in gaps] == [(at(99), 1), (at(202), 8)]
    assert sorted(aws.bodies(aws.backfill)) == sorted(map(write_message, wanted))


def test_dead_letters_stay_for_others_to_see_until_they_are_redriven(aws: Deployment, page: AwsBackend) -> None:
    aws.bury(messages(200, 201))
    newest, _ = page.dead_letters("calls", 10)
    assert take_snapshot(page, CLOCK.now()).overview.queue.dead == 2
    assert len(page.dead_letters("calls", 10, before=newest.key)) == 1
    assert page.redrive([newest]) == 1
    (body,) = aws.bodies(aws.backfill)
    assert body == write_message(newest.message)
    assert state_at(page, newest.slot) is CellState.PENDING
    assert len(aws.bodies(aws.dead)) == 1


USAGE = Target(name="usage", lag_seconds=5, answer=Answer(values=parse_values({"requests": "/a", "cost": "/b"})))


@pytest.mark.parametrize("keeps", [True, False])
def test_several_values_on_aws_are_metrics_that_one_message_asks_for(aws: Deployment, keeps: bool) -> None:
    backend = AwsBackend(aws.places, [USAGE], CLOCK, GRACE_SECONDS, keeps=keeps)
    names = ("usage/cost", "usage/requests")
    aws.store(MetricRecord(name, at(number), 1, at(number + 1)) for name in names for number in (0, 1, 4))
    aws.bury([message_for_slot(at(2), USAGE)])
    targets = backend.targets()
    assert [target.name for target in targets] == list(names)
    span = {name: Span(at(0), at(5), 5) for name in names}
    assert set(backend.slot_counts(span).values()) == {SlotCounts(3, 0, 1)}
    assert backend.missing(span) == {name: [Gap(at(3), at(4), 1)] for name in names}
    (letter,) = backend.slot_details("usage/cost", at(0), at(5)).dead
    assert [letter] == backend.dead_letters("usage/requests") == backend.dead_letters()
    backend.backfill([message_for_slot(at(3), target) for target in targets])
    assert backend.redrive([letter]) == 1
    wanted = {write_message(message_for_slot(at(number), USAGE)) for number in (2, 3)}
    assert set(aws.bodies(aws.backfill)) == wanted


def test_a_deployment_that_never_worked_does_not_look_complete(
    moto_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead_to(moto_endpoint, monkeypatch)
    queues = [create_queue(moto_endpoint) for _ in range(2)]
    backend = AwsBackend(GivenPlaces(create_metrics_table(moto_endpoint), *queues), [CALLS], CLOCK, GRACE_SECONDS)
    overview = take_snapshot(backend, CLOCK.now()).overview
    assert (overview.newest_slot, overview.day.stored, overview.day.expected) == (None, 0, 17_280)
    assert (overview.gaps, overview.queue.dead) == (1, 0)


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


def test_a_blocked_target_is_in_trouble_and_a_backfill_probes_it_at_once(
    aws: Deployment, page: AwsBackend
) -> None:
    items, now = BlockItems(aws.table), CLOCK.now()
    items.save("calls", BlockItem(Trouble(at(0), "status 401", now, 2, 5, at(10_000_000)), at(0)))
    items.save("orders", BlockItem(Trouble(at(0), "in doubt", now)))
    assert page.troubles() == {"calls": TargetTrouble("status 401", at(0), at(10_000_000))}
    page.backfill(messages(200))
    assert page.troubles()["calls"].next_probe == floor_to_second(CLOCK.now())


@pytest.mark.parametrize("keeps", [True, False])
def test_of_several_values_on_aws_each_is_in_trouble_and_a_backfill_has_their_target_probed(
    aws: Deployment, keeps: bool
) -> None:
    backend = AwsBackend(aws.places, [USAGE], CLOCK, GRACE_SECONDS, keeps=keeps)
    trouble = Trouble(at(0), "status 401", CLOCK.now(), 2, 5, at(10_000_000))
    BlockItems(aws.table).save("usage", BlockItem(trouble, at(0)))
    assert backend.troubles() == dict.fromkeys(("usage/requests", "usage/cost"), trouble_of(trouble))
    backend.backfill([message_for_slot(at(3), each) for each in USAGE.of_each_metric()])
    assert backend.troubles()["usage/cost"].next_probe == floor_to_second(CLOCK.now())
