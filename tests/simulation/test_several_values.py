"""Several values of one answer, on one machine: one request, rows of each metric together, one dead letter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import fakes.fault_server as faults
from fakes.fault_server import FaultServer
from kizami.backend.snapshot import target_statuses
from kizami.backend.targets import Polling
from kizami.backend.values import trouble_of
from kizami.core.answers.answer import Answer, parse_values
from kizami.core.blocking import Trouble
from kizami.core.config import Config
from kizami.core.coverage import Span
from kizami.core.errors import ConfigurationError
from kizami.core.sender import message_for_slot
from kizami.core.slots import floor_to_slot, shift
from kizami.core.targets.target import Target
from kizami.local.backend import LocalBackend
from kizami.local.engine.options import Options
from kizami.local.store.blocks import save_block
from kizami.local.store.database import open_database, transaction
from kizami.local.store.metrics import known_metric, register_targets
from kizami.platform.config_file import LoadedConfig
from programs.daemon import wait_for
from programs.engine_here import TurnableClock, asked, every_second, running

BODY = b'{"a": 3, "b": 0.25, "c": 9}'
EVER = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


def usage(server: FaultServer | str, **values: str) -> Target:
    given = values or {"requests": "/a", "cost": "/b"}
    return every_second(server, name="usage", answer=Answer(values=parse_values(given), decimals=2))


def backend_of(path: Path, target: Target) -> LocalBackend:
    return LocalBackend(path, lambda: LoadedConfig(Config((target,)), path))


def counts(backend: LocalBackend, metric: str) -> dict[datetime, float]:
    return {record.slot: record.count for record in backend.records(metric, *EVER)}


def test_one_request_gives_a_row_of_each_metric(tmp_path: Path) -> None:
    path = tmp_path / "kizami.db"
    with FaultServer(faults.raw(BODY)) as server:
        target = usage(server)
        with running(path, target) as shown:
            wait_for(lambda: len(shown) >= 6, "rows")
        backend = backend_of(path, target)
        requests, cost = counts(backend, "usage/requests"), counts(backend, "usage/cost")
        assert set(requests.values()) == {3}
        assert set(cost.values()) == {0.25}
        assert requests.keys() == cost.keys() == {slot for slot in asked(server) if slot in requests}
        assert max(asked(server).values()) == 1
    assert [each.name for each in backend.targets()] == ["usage/cost", "usage/requests"]
    assert {each.record.metric for each in shown} == {"usage/requests", "usage/cost"}
    first = min(requests)
    spans = {name: Span(first, max(requests), 1) for name in ("usage/cost", "usage/requests")}
    assert backend.missing(spans) == {}
    assert backend.queued(spans) == 0
    backend.close()


def test_an_answer_that_lacks_one_of_them_stores_none_and_is_one_dead_letter(tmp_path: Path) -> None:
    path, clock = tmp_path / "kizami.db", TurnableClock()
    with FaultServer(faults.raw(b'{"a": 3}', code=200), then=faults.status(500)) as server:
        target = usage(server)
        with running(path, target, clock=clock, options=Options(receive_limit=1)) as shown:
            backend = backend_of(path, target)
            wait_for(lambda: backend.dead_letters(), "a dead letter")
        (letter, *_) = backend.dead_letters()
        assert letter.metric == "usage"
        assert not shown
        span = {name: Span(letter.slot, shift(letter.slot, 1), 1) for name in ("usage/cost", "usage/requests")}
        assert [each.dead for each in backend.slot_counts(span).values()] == [1, 1]
        assert backend.missing(span) == {}
        details = backend.slot_details("usage/cost", letter.slot, shift(letter.slot, 1))
        assert [each.slot for each in details.dead] == [letter.slot]
        assert backend.dead_letters("usage/cost") == backend.dead_letters()
        assert backend.redrive(backend.dead_letters("usage/requests")[:1]) == 1
        backend.close()


def test_a_value_that_is_added_later_can_be_backfilled_and_changes_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "kizami.db"
    with FaultServer(faults.raw(BODY)) as server:
        with running(path, usage(server, requests="/a")) as shown:
            wait_for(lambda: len(shown) >= 2, "rows")
        more = usage(server, requests="/c", extra="/c")
        with running(path, more) as shown:
            backend = backend_of(path, more)
            wait_for(lambda: counts(backend, "usage/extra"), "rows of the new value")
            before = {slot: count for slot, count in counts(backend, "usage/requests").items() if count == 3}
            old = min(before)
            assert old not in counts(backend, "usage/extra")
            (extra,) = backend.targets(["usage/extra"])
            assert backend.backfill([message_for_slot(slot, extra) for slot in before]) == len(before)
            wait_for(lambda: before.keys() <= counts(backend, "usage/extra").keys(), "the holes to be filled")
            assert backend.backfill([message_for_slot(slot, extra) for slot in before]) == 0
        assert {
            slot: count for slot, count in counts(backend, "usage/requests").items() if slot in before
        } == before
        backend.close()


def test_what_was_missed_of_all_values_is_caught_up_with_once(tmp_path: Path) -> None:
    path, clock = tmp_path / "kizami.db", TurnableClock()
    with FaultServer(faults.raw(BODY)) as server:
        target = usage(server)
        with running(path, target, clock=clock) as shown:
            wait_for(lambda: len(shown) >= 2, "rows")
        first = shown[0].record.slot
        clock.turn(timedelta(seconds=60))
        backend = backend_of(path, target)
        with running(path, target, clock=clock):
            span = Span(first, shift(first, 60), 1)
            wait_for(lambda: backend.completeness({"usage/cost": span})["usage/cost"].stored == 60, "the minute")
        assert backend.completeness({"usage/requests": span})["usage/requests"].stored == 60
        assert max(asked(server).values()) == 1
        backend.close()


def test_a_pause_of_one_metric_is_that_of_its_target(tmp_path: Path) -> None:
    path = tmp_path / "kizami.db"
    target = usage("http://127.0.0.1:9")
    register(path, target)
    backend = backend_of(path, target)
    backend.pause("usage/cost")
    assert {each.polling for each in backend.targets()} == {Polling.PAUSED}
    backend.resume("usage/requests")
    assert {each.polling for each in backend.targets()} == {Polling.ON}
    backend.close()


def register(path: Path, target: Target) -> None:
    connection = open_database(path, create=True)
    try:
        with transaction(connection):
            register_targets(connection, [target], floor_to_slot(datetime.now(UTC), 1))
    finally:
        connection.close()


def test_a_value_that_is_taken_away_stays_with_its_records(tmp_path: Path) -> None:
    path = tmp_path / "kizami.db"
    register(path, usage("http://127.0.0.1:9"))
    fewer = usage("http://127.0.0.1:9", requests="/a")
    register(path, fewer)
    backend = backend_of(path, fewer)
    polling = {each.name: each.polling for each in backend.targets()}
    assert polling == {"usage/cost": Polling.REMOVED, "usage/requests": Polling.ON}
    backend.close()


def test_a_name_that_has_records_of_one_value_cannot_stand_for_several(tmp_path: Path) -> None:
    path = tmp_path / "kizami.db"
    with FaultServer(faults.answer()) as server, running(path, every_second(server, name="usage")) as shown:
        wait_for(lambda: shown, "a row")
    with pytest.raises(ConfigurationError, match=r"^usage: values: its records are of one value"):
        register(path, usage("http://127.0.0.1:9"))


def test_a_target_that_is_blocked_is_so_for_each_of_its_metrics_and_a_backfill_does_not_wait_for_it(
    tmp_path: Path,
) -> None:
    path, now = tmp_path / "kizami.db", datetime.now(UTC).replace(microsecond=0)
    target = usage("http://127.0.0.1:9")
    register(path, target)
    trouble = Trouble(shift(now, -300), "status 401, expected 200", now, 2, 1, shift(now, 600))
    block(path, trouble)
    backend = backend_of(path, target)
    metrics = {"usage/cost", "usage/requests"}
    assert backend.troubles() == dict.fromkeys(metrics, trouble_of(trouble))
    assert {name for name, each in target_statuses(backend, now).items() if each.trouble} == metrics
    slot = shift(now, -120)
    assert backend.backfill([message_for_slot(slot, each) for each in target.of_each_metric()])
    spans = {name: Span(slot, shift(slot, 1), 1) for name in metrics}
    assert backend.queued(spans)
    block(path, trouble)  # that had it probed, and the probe has failed
    with backend.worker(metrics) as worker:
        assert worker.left(spans) == 0
    backend.close()


def block(path: Path, trouble: Trouble) -> None:
    connection = open_database(path)
    with transaction(connection):
        asking = known_metric(connection, "usage")
        assert asking
        save_block(connection, asking.id, trouble, 0)
    connection.close()


def test_a_blocked_target_of_several_values_is_probed_after_a_restart_and_heals(tmp_path: Path) -> None:
    path, now = tmp_path / "kizami.db", datetime.now(UTC).replace(microsecond=0)
    with FaultServer(faults.raw(BODY)) as server:
        target = usage(server)
        register(path, target)
        block(path, Trouble(shift(now, -300), "status 401", shift(now, -120), 2, 1, shift(now, 600)))
        with running(path, target) as shown:
            wait_for(lambda: len(shown) >= 2, "rows after the probe")
    backend = backend_of(path, target)
    assert backend.troubles() == {}
    backend.close()
