"""A clock that was a day ahead: what was planned meanwhile is done soon after it is right, restarted or not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

import fakes.fault_server as faults
from fakes.fault_server import FaultServer
from kizami.aggregation.lock import lock_for
from kizami.aggregation.stores.sqlite import SqliteLockStore
from kizami.alerts.messages import Message
from kizami.alerts.notices import MessageState
from kizami.alerts.rules.settings import Rule
from kizami.core.blocking import Trouble
from kizami.core.epoch import to_ms, to_seconds
from kizami.core.targets.target import Target
from kizami.local.alerts import delivery
from kizami.local.alerts.delivery import AlertDelivery
from kizami.local.alerts.incident_rows import silence_incident
from kizami.local.alerts.outbox import next_message, note_refused, put_messages, undelivered
from kizami.local.store import statements
from kizami.local.store.blocks import blocked_metrics, hurry_blocks, save_block
from kizami.local.store.database import open_database
from kizami.local.store.metrics import known_metric, register_targets
from kizami.local.store.rows import FailedRow, SentRow
from kizami.local.store.schema import MOMENTS_OF_THE_PAST, MOMENTS_TO_ACT
from kizami.local.store.statements import BACKFILL
from programs.daemon import wait_for
from programs.engine_here import TurnableClock, running
from simulation.simulated_engine import SimulatedEngine, polled
from simulation.world.apis import Mood

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
AHEAD = NOW + timedelta(days=1)
DAY_SECONDS = 86_400
_MOMENT = re.compile(r".*(_ms|_at|_until|_from|_slot)|slot|start|newest|bucket|second")
_DURATIONS = {"slots.late_ms"}


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    with closing(open_database(tmp_path / "kizami.db", create=True)) as connection:
        register_targets(connection, [Target(name="calls", lag_seconds=5)], NOW - timedelta(days=1))
        yield connection


def test_every_column_that_holds_a_moment_is_one_to_act_at_or_one_of_the_past(connection: apsw.Connection) -> None:
    """A new one is to be declared in `schema.py`; one to act at needs what plans it again, and a test below."""
    columns = connection.execute(
        """SELECT t.name, c.name FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c
        WHERE t.type = 'table' AND c.type = 'INTEGER'"""
    )
    found = {f"{table}.{column}" for table, column in columns if _MOMENT.fullmatch(str(column))} - _DURATIONS
    assert found == MOMENTS_TO_ACT.keys() | MOMENTS_OF_THE_PAST
    assert not MOMENTS_TO_ACT.keys() & MOMENTS_OF_THE_PAST
    assert {name for name, correction in MOMENTS_TO_ACT.items() if correction} == CORRECTED


CORRECTED = {
    *("outbox.next_ms", "blocks.next_ms", "metrics.first_slot", "incidents.silenced_ms"),
    "companies.locked_at",
}


def set_right(connection: apsw.Connection) -> None:
    """As the daemon does when the clock jumps, and when it starts."""
    statements.release_all(connection, to_ms(NOW))
    statements.follow_clock(connection, to_ms(NOW))


@pytest.mark.parametrize("attempts", [0, 1, 5, 30])
def test_a_message_of_an_alert_goes_out(connection: apsw.Connection, attempts: int) -> None:
    put_messages(connection, [Message(1, 1, "on-call", MessageState.TEST, AHEAD, AHEAD)], "en")
    for _ in range(attempts):
        found = next_message(connection, "on-call")
        assert found
        note_refused(connection, found[0], "status 500", AHEAD)
    set_right(connection)
    found = next_message(connection, "on-call")
    assert found
    assert found[1] <= NOW


def test_a_message_that_was_refused_by_the_right_clock_keeps_its_wait(connection: apsw.Connection) -> None:
    put_messages(connection, [Message(1, 1, "on-call", MessageState.TEST, NOW, NOW)], "en")
    for attempts in range(1, 12):
        found = next_message(connection, "on-call")
        assert found
        note_refused(connection, found[0], "status 500", NOW)
        after = next_message(connection, "on-call")
        set_right(connection)
        assert next_message(connection, "on-call") == after, attempts


def test_a_message_of_a_clock_that_was_behind_is_tried_for_as_long_as_any(connection: apsw.Connection) -> None:
    behind = NOW - timedelta(days=365)
    put_messages(connection, [Message(1, 1, "on-call", MessageState.TEST, behind, behind)], "en")
    statements.shift_waiting(connection, to_ms(NOW), to_ms(NOW) - to_ms(behind))
    found = next_message(connection, "on-call")
    assert found
    assert note_refused(connection, found[0], "status 500", NOW), "it is tried again"


def test_a_blocked_target_is_to_be_probed(connection: apsw.Connection) -> None:
    metric = known_metric(connection, "calls")
    assert metric
    probe = AHEAD + timedelta(minutes=10)
    save_block(connection, metric.id, Trouble(AHEAD, "status 401", AHEAD, 2, 4, probe), to_seconds(AHEAD))
    set_right(connection)
    assert blocked_metrics(connection)[metric.id].next_probe == NOW
    save_block(connection, metric.id, Trouble(NOW, "status 401", NOW, 2, 4, probe), to_seconds(NOW))
    set_right(connection)
    assert blocked_metrics(connection)[metric.id].next_probe == probe


def test_a_blocked_target_that_is_to_be_probed_at_once_still_is(connection: apsw.Connection) -> None:
    metric = known_metric(connection, "calls")
    assert metric
    save_block(connection, metric.id, Trouble(AHEAD, "status 401", AHEAD, 2, 4, AHEAD), to_seconds(AHEAD))
    hurry_blocks(connection, ["calls"])
    before = connection.execute("SELECT next_ms, asked_ms FROM blocks").fetchall()
    set_right(connection)
    assert connection.execute("SELECT next_ms, asked_ms FROM blocks").fetchall() == before


def test_a_target_that_was_new_then_is_expected_from_now_on(connection: apsw.Connection) -> None:
    register_targets(connection, [Target(name="new", interval_seconds=60, lag_seconds=60)], AHEAD)
    before = known_metric(connection, "calls")
    set_right(connection)
    new = known_metric(connection, "new")
    assert new
    assert new.first_slot == NOW
    assert known_metric(connection, "calls") == before


def test_a_silence_lasts_as_long_as_was_ordered(connection: apsw.Connection) -> None:
    insert = "INSERT INTO incidents (number, kept_in_mind, family, topic, cause, since_ms, document) "
    connection.execute(
        insert + "VALUES (1, 1, 'f', 't', 'c', ?, '{\"members\": {}, \"notices\": {}}')", (to_ms(NOW),)
    )
    hour = timedelta(hours=1)
    silence_incident(connection, 1, AHEAD + hour, AHEAD)
    for _ in range(2):
        set_right(connection)
        until: object = connection.execute("SELECT silenced_ms FROM incidents").get
        assert until == to_ms(NOW + hour)


def test_a_lock_of_a_batch_expires_from_now_on(connection: apsw.Connection, tmp_path: Path) -> None:
    store = SqliteLockStore(connection, tmp_path / "kizami.db")
    store.acquire("acme", None, lock_for("m1", "r1", AHEAD))
    set_right(connection)
    lock = store.read("acme")
    assert lock
    assert lock.locked_at == NOW


def test_a_slot_that_waits_for_another_attempt_is_asked_for(connection: apsw.Connection) -> None:
    metric = known_metric(connection, "calls")
    assert metric
    slot = to_seconds(NOW) - 600
    statements.send(connection, [SentRow(slot, metric.id, 5, 1000 * slot)], BACKFILL, to_ms(AHEAD))
    statements.fail(connection, [FailedRow(slot, metric.id, to_ms(AHEAD) + 3_600_000, 1, "status 503")])
    set_right(connection)
    assert statements.ready_lines(connection, BACKFILL, to_ms(NOW)) == [metric.id]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("mood", [Mood.REFUSES, Mood.ERRORS, Mood.BUSY])
def test_the_engine_polls_probes_and_retries_soon_after_the_clock_was_set_right(
    mood: Mood, restarted: bool
) -> None:
    """While it runs, and where it was stopped in between; also of a blocked target, and of one that retries."""
    with SimulatedEngine(polled("failing", host="failing.example"), polled("well")) as engine:
        engine.clock.turn(DAY_SECONDS)
        engine.apis.set_mood("failing.example", mood, 0)
        engine.run(250)
        if restarted:
            engine.stop()
            engine.engine = None
        engine.clock.turn(-DAY_SECONDS)
        engine.apis.set_mood("failing.example", Mood.WELL, engine.timeline.now)
        engine.run(70)
        now = engine.now_ms // 1000
        for name in ("failing", "well"):
            sql = "SELECT max(slot) FROM slots JOIN metrics ON id = metric_id WHERE name = ? AND slot <= ?"
            ((newest,),) = engine.rows(sql, name, now)
            assert newest is not None, name
            assert newest >= now - 5, name
        (waiting,) = engine.rows(
            "SELECT count(*) FROM messages WHERE due_ms <= ?1 AND visible_ms > ?1 + 3600000", engine.now_ms
        )
        assert waiting == (0,)


def test_an_alert_that_was_refused_by_a_clock_ahead_is_delivered_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the engine and the delivery at work: the next attempt was to be tomorrow."""
    monkeypatch.setattr(delivery, "_LOOK_SECONDS", 0.05)
    path, clock = tmp_path / "kizami.db", TurnableClock()
    clock.turn(timedelta(days=1))
    with (
        FaultServer(faults.answer()) as api,
        FaultServer(faults.status(503), then=faults.raw(b"{}")) as receiver,
        running(path, Target(name="calls", url=api.url, interval_seconds=1, lag_seconds=1), clock=clock),
        closing(open_database(path)) as connection,
    ):
        alerts = AlertDelivery(path, clock)
        message = Message(1, 1, "ops", MessageState.TEST, clock.now(), clock.now())
        put_messages(connection, [message], "en")
        alerts.use([Rule("ops", receiver.url, ())])
        wait_for(lambda: undelivered(connection).get("ops", (0, None))[1], "the refusal")
        clock.turn(timedelta(days=-1))
        wait_for(lambda: not undelivered(connection), "the message")
        alerts.close()
    assert len(receiver.requests) == 2
