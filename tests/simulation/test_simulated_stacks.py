"""The functions on AWS in a world that the simulator owns: seeds of faults, each watched by an oracle."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from kizami.aws.reading import Sealed
from kizami.aws.sealed import SealedItems
from kizami.aws.store.sqs_queue import QueueEntry, SqsQueue, _body
from kizami.aws.ticks import TickFacts, _update
from kizami.backend.values import SlotCounts
from kizami.core.merging import HourFigures, MetricSlots, figures_by_hour
from kizami.core.messages import MetricRecord
from kizami.core.ports import FailedSend, PutOutcome
from kizami.core.retries import Retry
from kizami.core.rounds import RecoveryPlan
from kizami.core.sender import Planned
from simulation.aws_world.oracle import StackOracle
from simulation.aws_world.plan import Fault
from simulation.aws_world.simulation import StackSimulation, run_seed, shrink
from simulation.elsewhere import runs_elsewhere
from simulation.world.oracle import Violation
from simulation.world.simulation import Length
from simulation.world.timeline import Timeline

SHORT = Length(days=0.007, faults_a_day=3500, quiet_seconds=1500)
SEEDS = (*range(12), 65)  # the last one writes a tick again that was sealed and deleted
# What must come up in them, or they would try less than they say.
HAPPENS = (
    "log:slot.stored",
    "log:slot.duplicate",
    "log:bundle.collected",
    "log:slot.returned",
    "log:slot.dead",
    "log:slots.missing",
    "log:target.blocked",
    "log:target.unblocked",
    "log:target.slow",
    "log:send.retried",
    "log:aggregation.already_granted",
    "sent:retry:retry",
    "sent:retry:probe",
    "sent:backfill:backfill",
    "span:sealed",
    "span:merged",
    "tick:held",
    "tick:deleted",
    "tick:again",
    "mark:mixed",
    "killed",
    "throttled",
    "raised",
)
UNWANTED = (
    *("killed", "throttled", "raised", "missing", "sent:retry:retry", "sent:backfill:backfill", "tick:again"),
    *("log:slot.failed", "log:bundle.failed", "log:slot.dead", "log:slot.returned", "log:target.blocked"),
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
        assert_noticed("is nowhere")

    def test_a_record_that_is_written_over(self, monkeypatch: pytest.MonkeyPatch) -> None:
        condition = "attribute_exists(slotTime) OR attribute_not_exists(slotTime)"
        monkeypatch.setattr("kizami.aws.store.metric_table.SLOT_IS_FREE", condition)
        assert_noticed(" was ")

    def test_a_window_asked_for_before_its_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.aws.sender.SqsQueue.send", _send_at_once)
        monkeypatch.setattr("kizami.aws.collector.seconds_to_wait", lambda *_: 0.0)
        monkeypatch.setattr("kizami.aws.collect.seconds_to_wait", lambda *_: 0.0)
        assert_noticed("before its end")

    def test_a_reconciler_that_asks_for_no_row(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.aws.reconciler.plan_run", lambda *_: [])
        assert_noticed("still lacks", first=41)

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

    def test_a_secret_in_the_log(self) -> None:
        timeline = Timeline(0, None)  # type: ignore[arg-type]
        oracle = StackOracle(timeline, {}, lambda: 0)
        oracle.secrets.add("s1mulated")
        oracle.logged("the key is s1mulated")
        with pytest.raises(Violation, match="secret"):
            timeline.run(1)


class TestTheOracleOfTicks:
    """It would notice when the pipeline of a plan breaks a promise."""

    def test_an_acknowledgement_before_the_tick_is_written(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.aws.ticks.Ticks.record", lambda *_: None)
        assert_noticed("are nowhere", first=2)

    def test_a_tick_that_is_written_over(self, monkeypatch: pytest.MonkeyPatch) -> None:
        condition = "attribute_exists(metricName) OR attribute_not_exists(metricName)"
        monkeypatch.setattr("kizami.aws.ticks._IS_NEW", condition)
        assert_noticed(" was Answered", first=3)

    def test_a_later_answer_that_is_written_over(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def update_all(facts: TickFacts) -> Any:
            request = _update(facts)
            text = re.sub(r"if_not_exists\(v\.#\d+, (:\d+)\)", r"\1", (request or {}).get("UpdateExpression", ""))
            return request and {**request, "UpdateExpression": text}

        monkeypatch.setattr("kizami.aws.ticks._update", update_all)
        monkeypatch.setattr("kizami.aws.ticks.without_values", lambda facts, tick: facts)
        assert_noticed(" was Answered", first=19)

    def test_a_slot_asked_for_though_it_is_stored(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.aws.collect.DeliveryCollector._read_ticks", lambda *_: {})
        assert_noticed("is asked for again", first=3)

    def test_retries_on_the_live_queue(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.aws.returns.Returns._url_of", lambda returns, lane: returns._urls.live)
        assert_noticed("and on the queue live", first=3)

    def test_a_slot_that_is_tried_for_ever(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def go_on(error: Exception, attempts: int, *_: object) -> Retry:
            return Retry(attempts, 5)

        monkeypatch.setattr("kizami.aws.collect.plan_retry", go_on)
        assert_noticed("attempts", first=3)

    def test_a_slot_given_up_without_a_dead_letter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.aws.returns.Returns.bury", lambda *_: None)
        assert_noticed("without a dead letter", first=3)

    def test_a_reconciler_that_asks_for_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.aws.reconcile.plan_recovery", lambda *_: RecoveryPlan())
        assert_noticed("still lacks", first=3)

    def test_a_mark_that_passes_an_open_tick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.aws.reconcile.find_runs", lambda *_: [])
        assert_noticed("the mark of", first=3)

    def test_ticks_that_are_deleted_before_they_are_sealed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.aws.sealing.SpanSealer._seal_values", lambda *_: {})
        assert_noticed("as stored, which are not sealed", first=3)

    def test_ticks_that_are_deleted_before_they_are_settled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.aws.sealing.is_settled", lambda tick, mark: True)
        assert_noticed("is outstanding", first=3)

    def test_a_span_that_is_written_whatever_version_there_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        update = SealedItems._update

        def without_version(sealed: SealedItems, key: Any, values: Any, seen: int) -> Any:
            statement = update(sealed, key, values, seen)
            text = statement["Statement"].removesuffix(" AND n = ?")
            return {"Statement": text, "Parameters": statement["Parameters"][:-1]}

        monkeypatch.setattr("kizami.aws.sealed.SealedItems._update", without_version)
        monkeypatch.setattr("kizami.aws.sealing.merge", lambda sealed, found: found)
        assert_noticed("has lost", first=3)

    def test_figures_of_some_of_an_hours_values(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def some(slots: MetricSlots) -> list[HourFigures]:
            return [each._replace(stored=each.stored - 1) for each in figures_by_hour(slots)]

        monkeypatch.setattr("kizami.aws.sealing.figures_by_hour", some)
        assert_noticed("the figures of", first=3)

    def test_a_late_day_that_is_over_too_early(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.aws.marks.Marks.note_if_late", lambda *_, **__: None)
        assert_noticed("told otherwise", first=82)

    def test_views_that_leave_out_what_is_sealed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kizami.aws.reading.SlotReader.sealed", lambda *_: Sealed())
        assert_noticed("told otherwise", first=3)


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
    condition = "attribute_exists(metricName) OR attribute_not_exists(metricName)"
    monkeypatch.setattr("kizami.aws.ticks._IS_NEW", condition)
    brief = Length(0.003, 4000, 0)
    seed = next(seed for seed in range(100, 120) if not _passes(seed, brief))
    assert 1 <= len(shrink(seed, brief)) <= 3


def _passes(seed: int, length: Length) -> bool:
    try:
        run_seed(seed, length)
    except Violation:
        return False
    return True
