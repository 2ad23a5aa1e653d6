"""Failures that do not heal by waiting, on the running engine: slow probes, and in the end every slot."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fakes.fault_server as faults
from fakes.fault_server import Behaviour, Exchange, FaultServer
from kizami.core.config import Config
from kizami.core.coverage import Span, find_gaps
from kizami.core.slots import floor_to_slot
from kizami.local.store.database import open_database
from kizami.local.store.dead_letters import DeadLetters
from kizami.local.store.reader import Reader
from kizami.platform.clock import SystemClock
from programs.daemon import Daemon, toml, wait_for, write_whole
from programs.engine_here import TurnableClock, asked, blocks, complete, every_second, running

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


class ChangingApi(FaultServer):
    """An API that behaves as it is told at the moment; it is wrong about the slots in `odd` for ever."""

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__(self._behave)
        self.behaviour = behaviour
        self.odd: Callable[[datetime], bool] = lambda slot: False

    def __enter__(self) -> ChangingApi:
        super().__enter__()
        return self

    def _behave(self, exchange: Exchange) -> None:
        slot = datetime.fromisoformat(exchange.request.query["from"][0])
        (faults.html if self.odd(slot) else self.behaviour)(exchange)


def kept(path: Path) -> int:
    """How many slots of the metric were due, and are missing now."""
    with Reader.opened(path) as reader:
        metric = reader.metrics()["calls"]
        end = floor_to_slot(datetime.now(UTC), 1)
        pending = {each.slot for each in reader.pending("calls", metric.first_slot, end)}
        stored = {each.slot for each in reader.records("calls", metric.first_slot, end)}
        span = Span(metric.first_slot, max(metric.first_slot, end), 1)
        return sum(gap.slots for gap in find_gaps(span, sorted(pending | stored)))


def rows(path: Path, table: str) -> int:
    connection = open_database(path)
    try:
        return int(connection.execute(f"SELECT count(*) FROM {table}").get)
    finally:
        connection.close()


def test_a_refused_key_costs_two_requests_and_one_probe_a_time_and_mending_it_heals_all(tmp_path: Path) -> None:
    path, clock = tmp_path / "kizami.db", TurnableClock()
    with ChangingApi(faults.status(401)) as server, running(path, every_second(server), clock=clock) as shown:
        wait_for(lambda: blocks(path), "the block")
        wait_for(lambda: kept(path) >= 3, "slots that are kept")
        before = len(server.requests)
        assert before <= 4  # two, and what was on its way by then
        clock.turn(MINUTE)
        wait_for(lambda: blocks(path)["calls"].probes == 1, "the first probe")
        assert len(server.requests) == before + 1
        clock.turn(2 * MINUTE)
        wait_for(lambda: blocks(path)["calls"].probes == 2, "the second probe")
        assert len(server.requests) == before + 2
        server.behaviour = faults.answer()
        clock.turn(4 * MINUTE)
        begin = min(asked(server))
        end = floor_to_slot(clock.now(), 1)
        wait_for(lambda: not blocks(path), "the first answer")
        wait_for(lambda: complete(path, begin, end), "every slot")
        wait_for(lambda: not rows(path, "blocks"), "the end of it")
    assert rows(path, "dead_letters") == 0
    assert max(asked(server)[each.record.slot] for each in shown) <= 4


def test_what_was_kept_is_asked_for_however_long_it_took(tmp_path: Path) -> None:
    """Also with catch_up off: a stop is not what has happened."""
    path, clock = tmp_path / "kizami.db", TurnableClock()
    with ChangingApi(faults.another_window) as server:
        target = every_second(server, interval_seconds=60, lag_seconds=60, catch_up_seconds=0)
        clock.turn((58 - clock.now().second) * SECOND)
        with running(path, target, clock=clock):
            wait_for(lambda: server.requests, "the first request")
            clock.turn(2 * MINUTE)
            wait_for(lambda: blocks(path), "the block")
            clock.turn(timedelta(days=3))
            server.behaviour = faults.answer()
            begin = min(asked(server))
            end = floor_to_slot(clock.now(), 60) - MINUTE
            wait_for(lambda: complete(path, begin, end, 60), "three days of slots")


def test_one_window_that_an_api_is_wrong_about_is_a_dead_letter_and_blocks_nobody(tmp_path: Path) -> None:
    path = tmp_path / "kizami.db"
    with ChangingApi(faults.answer()) as server:
        server.odd = lambda slot: slot.second % 5 == 0
        with running(path, every_second(server)) as shown:
            letters = DeadLetters(path, SystemClock())
            dead = wait_for(letters.newest, "a dead letter")
            wait_for(lambda: len(shown) >= 4, "the others")
            letters.close()
    assert not blocks(path)
    assert {letter.slot.second % 5 for letter in dead} == {0}
    assert {letter.receives for letter in dead} == {2}
    assert all("not JSON" in letter.reason for letter in dead)


def test_an_api_that_has_no_answer_yet_unblocks_by_the_slot_that_failed(tmp_path: Path) -> None:
    path, clock = tmp_path / "kizami.db", TurnableClock()

    def not_yet(exchange: Exchange) -> None:
        slot = datetime.fromisoformat(exchange.request.query["from"][0])
        (faults.answer() if clock.now() > slot + timedelta(seconds=5) else faults.status(404))(exchange)

    with ChangingApi(not_yet) as server, running(path, every_second(server), clock=clock) as shown:
        wait_for(lambda: blocks(path), "the block")
        first = min(asked(server))
        clock.turn(MINUTE)
        wait_for(lambda: complete(path, first, first + 50 * SECOND), "what could not be had at once")
    assert shown


def test_a_changed_target_is_probed_at_once(tmp_path: Path) -> None:
    path, news = tmp_path / "kizami.db", list[Config]()

    def new_config() -> Config | None:
        return news.pop() if news else None

    with (
        ChangingApi(faults.status(404)) as server,
        running(path, every_second(server), new_config=new_config) as shown,
    ):
        wait_for(lambda: blocks(path), "the block")
        server.behaviour = faults.answer()
        news.append(Config((every_second(server, timeout_seconds=59.0),)))
        wait_for(lambda: shown, "rows")
        wait_for(lambda: not rows(path, "blocks"), "the end of it")


def test_a_thousand_targets_of_one_host_are_probed_one_after_another(tmp_path: Path) -> None:
    """Well, twelve: one probe in five seconds, and when the key is mended all of them soon."""
    path, clock = tmp_path / "kizami.db", TurnableClock()
    with ChangingApi(faults.status(401)) as server:
        targets = [every_second(server, f"calls{number}") for number in range(12)]
        with running(path, *targets, clock=clock) as shown:
            wait_for(lambda: len(blocks(path)) == 12, "the blocks")
            before = len(server.requests)
            clock.turn(MINUTE)
            wait_for(lambda: any(each.probes for each in blocks(path).values()), "a probe")
            assert len(server.requests) <= before + 2
            server.behaviour = faults.answer()
            wait_for(lambda: len({each.record.metric for each in shown}) == 12, "all of them")


def test_killed_while_blocked_it_asks_nothing_at_its_start_and_a_new_key_heals_the_day(tmp_path: Path) -> None:
    """A real daemon, `kill -9`, and a key in a file that somebody mends."""
    key = tmp_path / "key"
    key.write_text("wrong")
    with ChangingApi(lambda exchange: _check_key(exchange)) as server:
        target = {"name": "calls", "url": server.url, "interval": 1, "headers": {"x-api-key": f"file:{key}"}}
        write_whole(tmp_path / "kizami.toml", _toml(target))
        with Daemon(tmp_path) as daemon:
            told = daemon.wait_for_event("target.blocked")
            assert (
                told["reason"]
                == f"status 403, expected 200; the key is refused: check headers.x-api-key (file:{key})"
            )
            wait_for(lambda: blocks(daemon.database), "the block on the disk")
            daemon.process.kill()
            daemon.wait()
        asked_before = len(server.requests)
        with Daemon(tmp_path) as daemon:
            wait_for(lambda: kept(daemon.database) >= 3, "slots that are kept")
            assert len(server.requests) == asked_before
            key.write_text("right")
            os.kill(daemon.process.pid, signal.SIGHUP)
            daemon.wait_for_event("target.unblocked")
            end = floor_to_slot(datetime.now(UTC), 1)
            wait_for(lambda: complete(daemon.database, min(asked(server)), end), "every slot")
            assert daemon.stop() == 0
    assert rows(daemon.database, "dead_letters") == 0


def _check_key(exchange: Exchange) -> None:
    is_right = exchange.request.headers["x-api-key"] == "right"
    (faults.answer() if is_right else faults.status(403))(exchange)


def _toml(target: dict[str, object]) -> str:
    headers = target.pop("headers")
    assert isinstance(headers, dict)
    lines = ", ".join(f'"{name}" = "{value}"' for name, value in headers.items())
    return toml([target]) + f"headers = {{ {lines} }}\n"
