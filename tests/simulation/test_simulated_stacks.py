"""The functions on AWS in a world that the simulator owns: seeds of faults, each watched by an oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pytest

from kizami.alerts.rules.settings import Rule
from kizami.aws.alert_delivery import _post
from kizami.aws.incidents import OutboxItem
from kizami.aws.store.sqs_queue import QueueEntry, SqsQueue, _body
from kizami.aws.store.tick_ledger import TickLedger
from kizami.backend.values import SlotCounts, bucket_of
from kizami.core.messages import MetricRecord
from kizami.core.ports import FailedSend, PutOutcome
from kizami.core.sender import Planned
from simulation.aws_world.oracle import StackOracle
from simulation.aws_world.plan import Fault
from simulation.aws_world.simulation import StackSimulation, run_seed, shrink
from simulation.elsewhere import runs_elsewhere
from simulation.world.oracle import Violation
from simulation.world.simulation import Length
from simulation.world.timeline import Timeline

SHORT = Length(days=0.007, faults_a_day=3500, quiet_seconds=1500)
SEEDS = range(12)
# What must come up in them, or they would try less than they say.
HAPPENS = (
    "log:slot.stored",
    "log:slot.duplicate",
    "log:slot.returned",
    "log:slot.dead",
    "log:target.blocked",
    "log:target.unblocked",
    "log:send.retried",
    "log:alert.delivered",
    "log:aggregation.already_granted",
    "killed",
    "throttled",
    "raised",
)
UNWANTED = (
    *("killed", "throttled", "raised", "missing"),
    *("log:slot.failed", "log:slot.dead", "log:slot.returned", "log:target.blocked", "log:alerts.blind"),
)


@pytest.mark.timeout(900)
def test_the_seeds_break_no_promise() -> None:
    reports = [run_seed(seed, SHORT) for seed in SEEDS]
    assert len({report.digest for report in reports}) == len(SEEDS)
    happened = sum((report.kinds for report in reports), Counter())
    assert [event for event in HAPPENS if not happened[event]] == []
    befell = sum((report.faults for report in reports), Counter())
    assert [fault for fault in Fault if not befell[fault.value]] == []


def test_the_same_seed_gives_the_same_trace() -> None:
    """In another process, whatever order Python's sets have there."""
    seeds, length = range(1000, 1010), Length(0.004, 10_000, 0)
    assert runs_elsewhere("aws", seeds, length) == [f"{run_seed(seed, length)}" for seed in seeds]


def test_where_nothing_befalls_a_stack_nothing_goes_wrong() -> None:
    for seed in range(3):
        happened = run_seed(seed, Length(0.005, 1, 300), frozenset()).kinds
        assert [event for event in UNWANTED if happened[event]] == []


class TestTheOracle:
    """It would notice: each of these is a function, or a service, that breaks a promise."""

    def test_an_acknowledgement_before_the_record_is_written(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def forget(self: object, records: Iterable[MetricRecord]) -> list[PutOutcome]:
            return [PutOutcome.STORED for _ in records]

        monkeypatch.setattr("kizami.aws.store.metric_table.DynamoDbMetricStore.put_all_if_absent", forget)
        monkeypatch.setattr("kizami.aws.store.record_batches.RecordBatches.put", forget)
        assert_noticed("is nowhere")

    def test_a_record_that_is_written_over(self, monkeypatch: pytest.MonkeyPatch) -> None:
        condition = "attribute_exists(slotTime) OR attribute_not_exists(slotTime)"
        monkeypatch.setattr("kizami.aws.store.metric_table.SLOT_IS_FREE", condition)
        assert_noticed(" was ")

    def test_a_ledger_that_says_whole_too_early(self, monkeypatch: pytest.MonkeyPatch) -> None:
        note = TickLedger.note

        def note_all(
            self: TickLedger, bundle: str, members: int, slot: datetime, stored: Any, now: datetime
        ) -> None:
            note(self, bundle, members, slot, range(members), now)

        monkeypatch.setattr("kizami.aws.store.tick_ledger.TickLedger.note", note_all)
        assert_noticed("the ledger says", first=7)

    def test_a_window_asked_for_before_its_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.aws.sender.SqsQueue.send", _send_at_once)
        monkeypatch.setattr("kizami.aws.collector.seconds_to_wait", lambda *_: 0.0)
        monkeypatch.setattr("kizami.aws.bundles.asking.seconds_to_wait", lambda *_: 0.0)
        assert_noticed("before its end")

    def test_a_slot_that_is_tried_for_ever(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.aws.bundles.returning._is_dead", lambda *_: False)
        assert_noticed("attempts", first=7)

    def test_a_reconciler_that_asks_for_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.aws.reconciler.plan_run", lambda *_: [])
        monkeypatch.setattr("kizami.aws.bundles.reconciling.plan_bundle", lambda *_: [])
        assert_noticed("still lacks", first=43)

    def test_a_second_point_on_one_day(self, monkeypatch: pytest.MonkeyPatch) -> None:
        condition = "attribute_exists(Points) OR attribute_not_exists(Points) OR Points < :day_start"
        monkeypatch.setattr("kizami.aggregation.stores.points_table.NOT_GRANTED_TODAY", condition)
        monkeypatch.setattr(
            "kizami.aggregation.stores.points_table.DynamoDbPointStore._find_granted", lambda *_: set()
        )
        assert_noticed("second point")

    def test_a_lock_that_everybody_gets(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            "kizami.aggregation.stores.company_table._still", lambda seen: ("attribute_not_exists(Nothing)", {})
        )
        monkeypatch.setattr("kizami.aggregation.batch.decide", lambda *_: None)
        connect = StackSimulation._connect

        def connect_with_doubles(simulation: StackSimulation) -> None:
            connect(simulation)
            simulation._rules["dispatcher"].doubled = 1.0

        monkeypatch.setattr(StackSimulation, "_connect", connect_with_doubles)
        assert_noticed("has the lock")

    def test_a_status_that_tells_of_records_that_are_not_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            "kizami.aws.store.slot_states.SlotStates.counts",
            lambda self, metric, span, dead, now: SlotCounts(stored=span.expected),
        )
        assert_noticed("are told", first=1)

    def test_totals_of_some_of_an_hours_records(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            "kizami.aws.history.totalling.bucket_of", lambda hour, counts: bucket_of(hour, counts[1:])
        )
        assert_noticed("the totals of", first=3)

    def test_totals_of_an_hour_that_is_not_closed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.aws.history.totalling.closes_at", lambda *_: 0.0)
        assert_noticed("before it is closed", first=3)

    def test_a_reconciler_that_makes_no_totals(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.aws.history.totalling.Totalling._make", lambda *_: None)
        assert_noticed("no totals after", first=4)

    def test_a_receiver_that_is_not_told_of_the_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def post_the_rest(rule: Rule, item: OutboxItem) -> None:
            if item.document["state"] != "recovered":
                _post(rule, item)

        monkeypatch.setattr("kizami.aws.alert_delivery._post", post_the_rest)
        assert_noticed("was last told", first=29)

    def test_a_secret_in_the_log(self) -> None:
        timeline = Timeline(0, None)  # type: ignore[arg-type]
        oracle = StackOracle(timeline, {}, lambda: 0)
        oracle.secrets.add("s1mulated")
        oracle.logged("the key is s1mulated")
        with pytest.raises(Violation, match="secret"):
            timeline.run(1)


def _send_at_once(queue: SqsQueue, entries: Iterable[Planned]) -> list[FailedSend]:
    queue.send_entries([QueueEntry(_body(entry)) for entry in entries])
    return []


def assert_noticed(words: str, first: int = 0) -> None:
    """One of a few seeds must fail, and say so; the first is one that does so soon."""
    for seed in dict.fromkeys((first, 0, 2, 3, 7)):
        try:
            run_seed(seed, SHORT)
        except Violation as error:
            assert f"make simulate WHERE=aws SEED={seed}" in str(error)  # noqa: PT017
            assert words in str(error).partition("\n")[0]  # noqa: PT017
            return
    pytest.fail("no seed has noticed it")


def test_a_failing_seed_is_shrunk_to_the_faults_that_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody notices a put without its condition as long as no message comes twice."""
    condition = "attribute_exists(slotTime) OR attribute_not_exists(slotTime)"
    monkeypatch.setattr("kizami.aws.store.metric_table.SLOT_IS_FREE", condition)
    brief = Length(0.003, 4000, 0)
    seed = next(seed for seed in range(100, 120) if not _passes(seed, brief))
    assert 1 <= len(shrink(seed, brief)) <= 3


def _passes(seed: int, length: Length) -> bool:
    try:
        run_seed(seed, length)
    except Violation:
        return False
    return True
